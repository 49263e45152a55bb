"""Ask for an on-demand aggregate test: within the rate limit of the user, with an audit record.

In: its settings and the user, who may operate. Out: the slot of its first member. Used by the page, the API and the
command.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from monitor.accounts import rate_limits
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Slot
from monitor.mesh.schedule import on_demand, on_demand_aggregates
from monitor.mesh.schedule.on_demand import OnDemandError
from monitor.mesh.schedule.on_demand_aggregates import AggregateSettings
from monitor.overview.on_demand.too_often import TooOften


class AggregatesTooOften(TooOften, OnDemandError):
    requests = "on-demand aggregate tests"


def ask(request: AggregateSettings, who: str, now: datetime) -> Slot:
    """Plan a test. Raises `OnDemandError`: `AggregatesTooOften`, `NoFreeSlot` or `UnknownPath` where these apply."""
    wait_s = rate_limits.wait_s(f"on-demand-aggregates:{who}", rate_limits.ON_DEMAND_AGGREGATES)
    if wait_s > 0:
        raise AggregatesTooOften(wait_s)
    with transaction.atomic():
        slot = on_demand_aggregates.ask(request, by=who, now=now)
        _record(now, who, f"ran aggregate test {slot.pk} on demand: {_hosts(request)}")
    return slot


def cancel(slot_id: int, who: str, now: datetime) -> bool:
    """Cancel a test that no agent has fetched yet; return whether it was cancelled."""
    with transaction.atomic():
        is_cancelled = on_demand.cancel(slot_id, now)
        if is_cancelled:
            _record(now, who, f"cancelled aggregate test {slot_id}")
    return is_cancelled


def _record(now: datetime, who: str, what: str) -> None:
    AuditRecord.objects.create(at=now, who=who, what=what)


def _hosts(request: AggregateSettings) -> str:
    return f"{', '.join(request.senders)} → {', '.join(request.receivers)}, {request.settings.duration_s} s"
