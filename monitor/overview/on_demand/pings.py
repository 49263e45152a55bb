"""Ask for on-demand pings of a path: within the rate limit of the user, with an audit record.

In: a path and the user, who may operate. Out: the `PingRequest`, whose state is in `monitor.mesh.schedule.ping_runs`.
Used by the path page and by the API.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from monitor.accounts import rate_limits
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Path, PingRequest
from monitor.mesh.schedule import on_demand_pings
from monitor.mesh.schedule.on_demand_pings import PingsRefused
from monitor.overview.on_demand.too_often import TooOften


class PingsTooOften(TooOften, PingsRefused):
    requests = "on-demand pings"


def ask(path: Path, who: str, now: datetime) -> PingRequest:
    """Ping a path in both directions. Raises `PingsRefused`: `PingsTooOften`, or `PingsRunning` if it runs already."""
    wait_s = rate_limits.wait_s(f"on-demand-pings:{who}", rate_limits.ON_DEMAND_PINGS)
    if wait_s > 0:
        raise PingsTooOften(wait_s)
    with transaction.atomic():
        request = on_demand_pings.ask(path, by=who, now=now)
        AuditRecord.objects.create(at=now, who=who, what=f"pinged {path} on demand")
    return request
