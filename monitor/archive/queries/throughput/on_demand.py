"""State and result of on-demand tests (`monitor.mesh.schedule.on_demand`): planned, running, awaited, ended.

In: the id of a slot. Out: an `OnDemand` with its outcome and, where measured, its figures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from monitor.archive.models import ThroughputTest, UndiagnosedTest
from monitor.mesh.models import KindName, Slot
from probes.contract import Deadline

CLOCKS_APART = timedelta(hours=1)
"""Maximum difference between a slot and the start of its test, by the agent's clock."""


class TestState(StrEnum):
    """State of an on-demand test. An awaited test has run but is not completely reported."""

    PLANNED = "planned"
    RUNNING = "running"
    AWAITED = "awaited"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class OnDemand:
    """An on-demand test. `outcome` and the fields after it are None until reported, figures unless it was measured;
    `measured_at` is the key of its result, as for `monitor.archive.queries.throughput.transfers.transfer_of`."""

    id: int
    path_id: int
    asked_at: datetime
    asked_by: str
    starts_at: datetime
    ends_at: datetime
    parameters: dict[str, Any]
    state: TestState
    outcome: str | None
    detail: str | None
    measured_at: datetime | None
    throughput_bps: float | None
    average_bps: float | None
    verdict: str | None
    sentence: str | None


def on_demand(slot_id: int, now: datetime) -> OnDemand | None:
    """Load an on-demand test; None where this slot has none."""
    slot = _slots().filter(pk=slot_id).first()
    return None if slot is None else _on_demand(slot, now)


def latest(path_id: int, now: datetime, since: datetime) -> OnDemand | None:
    """Newest on-demand test of a path requested since then."""
    slots = _slots().filter(measurement__path=path_id, request__asked_at__gte=since)
    slot = slots.order_by("request__asked_at", "pk").last()
    return None if slot is None else _on_demand(slot, now)


def _slots() -> QuerySet[Slot]:
    slots = Slot.objects.select_related("request", "measurement").exclude(request=None)
    return slots.filter(measurement__test__kind=KindName.THROUGHPUT)


def wait(slot_id: int, deadline: Deadline, *, every_s: float = 0.5) -> OnDemand:
    """Wait until the test ends or the deadline passes, and return it. Raises `LookupError` where it does not exist, as
    when its path was removed from mesh.toml meanwhile."""
    while True:
        test = on_demand(slot_id, timezone.now())
        if test is None:
            raise LookupError(f"on-demand test {slot_id} not found; was its path removed from mesh.toml?")
        if test.state is TestState.ENDED or deadline.passed:
            return test
        time.sleep(min(every_s, deadline.remaining_s))


def _on_demand(slot: Slot, now: datetime) -> OnDemand:
    path_id = slot.measurement.path_id
    test = _test(slot)
    return OnDemand(
        id=slot.pk,
        path_id=path_id,
        asked_at=slot.request.asked_at,
        asked_by=slot.request.asked_by,
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        parameters=slot.parameters,
        state=_state(slot, test, now),
        outcome=slot.outcome,
        detail=slot.detail or None,
        measured_at=None if test is None else test.measured_at,
        throughput_bps=None if test is None else test.throughput_bps,
        average_bps=None if test is None else test.average_bps,
        verdict=None if test is None else test.verdict,
        sentence=None if test is None else test.sentence,
    )


def _test(slot: Slot) -> ThroughputTest | None:
    if slot.outcome is None:
        return None
    rows = ThroughputTest.objects.filter(
        path_id=slot.measurement.path_id,
        measured_at__gte=slot.starts_at - CLOCKS_APART,
        measured_at__lt=slot.ends_at + CLOCKS_APART,
        slot_id=slot.pk,
    )
    return rows.defer("transfer", "diagnosis").first()


def _state(slot: Slot, test: ThroughputTest | None, now: datetime) -> TestState:
    if slot.outcome is None:
        if now < slot.starts_at:
            return TestState.PLANNED
        return TestState.RUNNING if now < slot.ends_at else TestState.AWAITED
    if test is not None and UndiagnosedTest.objects.filter(pk=(test.path_id, test.measured_at)).exists():
        return TestState.AWAITED
    return TestState.ENDED
