"""Ask for pings, traces and aggregate tests, within the user's rate limit and with an audit record."""

from __future__ import annotations

import math
from datetime import datetime

from django.db import transaction

from monitor.accounts import rate_limits
from monitor.accounts.rate_limits import Rate
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Path, PingRequest, Slot, TraceRequest
from monitor.mesh.schedule import on_demand, requests
from monitor.mesh.schedule.on_demand import AggregateSettings, OnDemandError
from probes.trace.spec import TraceReason


class TooOften(OnDemandError):
    """`wait_s` is the time until the next request."""

    status = 429

    def __init__(self, asked: str, wait_s: float) -> None:
        self.wait_s = math.ceil(wait_s)
        super().__init__(f"too many on-demand {asked}; wait {self.wait_s} s")


def ask_pings(path: Path, who: str, now: datetime) -> PingRequest:
    """Ping both directions. Raises `TooOften`, `PingsRunning`, or another `OnDemandError`."""
    _limit("pings", "pings", rate_limits.ON_DEMAND_PINGS, who)
    with transaction.atomic():
        request = requests.ask_pings(path, by=who, now=now)
        _record(now, who, f"pinged {path} on demand")
    return request


def ask_traces(path: Path, who: str, now: datetime) -> list[TraceRequest]:
    """Trace both directions. Raises `OnDemandError`: `TooOften` also if just traced."""
    fault = requests.fault_at_source(path, "trace")
    if fault is not None:
        raise OnDemandError(fault)
    _limit("traces", "traces", rate_limits.ON_DEMAND_PINGS, who)
    with transaction.atomic():
        asked = requests.ask_traces([path], TraceReason.ON_DEMAND, by=who, now=now)
        if not asked:
            raise TooOften("traces", requests.REPEAT_S)
        _record(now, who, f"traced {path} on demand")
    return asked


def ask_aggregate(request: AggregateSettings, who: str, now: datetime) -> Slot:
    """Plan a test; return its first member's slot. Raises `TooOften`, `NoFreeSlot`, `UnknownPath`, or another
    `OnDemandError`."""
    _limit("aggregates", "aggregate tests", rate_limits.ON_DEMAND_AGGREGATES, who)
    with transaction.atomic():
        slot = on_demand.ask_aggregate(request, by=who, now=now)
        hosts = f"{', '.join(request.senders)} → {', '.join(request.receivers)}, {request.settings.duration_s} s"
        _record(now, who, f"ran aggregate test {slot.pk} on demand: {hosts}")
    return slot


def cancel_aggregate(slot_id: int, who: str, now: datetime) -> bool:
    with transaction.atomic():
        is_cancelled = on_demand.cancel(slot_id, now)
        if is_cancelled:
            _record(now, who, f"cancelled aggregate test {slot_id}")
    return is_cancelled


def _limit(key: str, asked: str, rate: Rate, who: str) -> None:
    wait_s = rate_limits.wait_s(f"on-demand-{key}:{who}", rate)
    if wait_s > 0:
        raise TooOften(asked, wait_s)


def _record(now: datetime, who: str, what: str) -> None:
    AuditRecord.objects.create(at=now, who=who, what=what)
