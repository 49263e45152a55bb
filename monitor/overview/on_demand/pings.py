"""Ask for on-demand pings of a path: within the rate limit of the user, with an audit record.

In: a path and the user, who may operate. Out: the `PingRequest`, whose state is in `monitor.mesh.schedule.ping_runs`.
Used by the path page and by the API.
"""

from __future__ import annotations

import math
from datetime import datetime

from django.db import transaction

from monitor.accounts import rate_limits
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Path, PingRequest
from monitor.mesh.schedule import on_demand_pings
from monitor.mesh.schedule.on_demand_pings import PingsRefused


class PingsTooOften(PingsRefused):
    """The user is above the rate limit; `wait_s` is the time until the next request."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = math.ceil(wait_s)
        super().__init__(f"too many on-demand pings; wait {self.wait_s} s")


def ask(path: Path, who: str, now: datetime) -> PingRequest:
    """Ping a path in both directions. Raises `PingsRefused`: `PingsTooOften`, or `PingsRunning` if it runs already."""
    wait_s = rate_limits.wait_s(f"on-demand-pings:{who}", rate_limits.ON_DEMAND_PINGS)
    if wait_s > 0:
        raise PingsTooOften(wait_s)
    with transaction.atomic():
        request = on_demand_pings.ask(path, by=who, now=now)
        AuditRecord.objects.create(at=now, who=who, what=f"pinged {path} on demand")
    return request
