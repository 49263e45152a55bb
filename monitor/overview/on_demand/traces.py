"""Ask for on-demand traces of a path: within the rate limit of the user, with an audit record.

In: a path and the user, who may operate. Out: the requests, one for each direction with an agent at its source; the
traces are results like those of scheduled ones, with the reason `on_demand`.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from monitor.accounts import rate_limits
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Path, TraceRequest
from monitor.mesh.schedule import on_demand_traces
from monitor.mesh.schedule.on_demand_traces import REPEAT_S
from monitor.overview.on_demand.too_often import TooOften
from probes.trace.spec import TraceReason


class TracesRefused(Exception):
    """On-demand traces that cannot be; the message has the reason and the fix."""


class TracesTooOften(TooOften, TracesRefused):
    """Also where the path was traced just before."""

    requests = "on-demand traces"


def ask(path: Path, who: str, now: datetime) -> list[TraceRequest]:
    """Trace a path in both directions. Raises `TracesRefused`: `TracesTooOften` if it was traced just before."""
    if path.retired_at is not None:
        raise TracesRefused(f"path {path} is retired; put it back into mesh.toml")
    if not path.source.site.has_agent:
        raise TracesRefused(f"site {path.source.site} has no agent to trace from")
    wait_s = rate_limits.wait_s(f"on-demand-traces:{who}", rate_limits.ON_DEMAND_PINGS)
    if wait_s > 0:
        raise TracesTooOften(wait_s)
    with transaction.atomic():
        requests = on_demand_traces.ask([path], TraceReason.ON_DEMAND, by=who, now=now)
        if not requests:
            raise TracesTooOften(REPEAT_S)
        AuditRecord.objects.create(at=now, who=who, what=f"traced {path} on demand")
    return requests
