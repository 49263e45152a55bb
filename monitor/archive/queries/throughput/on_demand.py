"""State and result of on-demand tests (`monitor.mesh.schedule.on_demand`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from django.utils import timezone

from monitor.archive.models import ThroughputTest, UndiagnosedTest
from monitor.archive.queries.throughput.aggregates import AggregateResult, aggregate_result
from monitor.mesh.document.entries import ON_DEMAND_AGGREGATE
from monitor.mesh.kinds.aggregate import pairs_of, place_of
from monitor.mesh.models import KindName, Slot
from probes.contract import Deadline

# Maximum difference between a slot and the start of its test, by the agent's clock.
CLOCKS_APART = timedelta(hours=1)


class TestState(StrEnum):
    """State of an on-demand test; an awaited test has run, but reports are missing."""

    PLANNED = "planned"
    RUNNING = "running"
    AWAITED = "awaited"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class OnDemand:
    """On-demand test; outcome and figures are None until reported."""

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
    measured_at: datetime | None  # key of its result
    throughput_bps: float | None
    average_bps: float | None
    verdict: str | None
    sentence: str | None


@dataclass(frozen=True, slots=True)
class MemberState:
    """Member; `outcome` is None until reported."""

    path_id: int
    source: str
    destination: str
    outcome: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class OnDemandAggregate:
    """On-demand aggregate test; ended when every member is reported or missed, and the result is computed."""

    id: int
    asked_at: datetime
    asked_by: str
    starts_at: datetime
    ends_at: datetime
    parameters: dict[str, Any]
    state: TestState
    members: tuple[MemberState, ...]
    result: AggregateResult | None

    @property
    def shape(self) -> str:
        return str(self.parameters["shape"])

    @property
    def reported(self) -> int:
        return sum(member.outcome is not None for member in self.members)

    @property
    def is_over(self) -> bool:
        return self.state is TestState.ENDED


TestT = TypeVar("TestT", OnDemand, OnDemandAggregate)


def on_demand(slot_id: int, now: datetime) -> OnDemand | None:
    slot = _slots().filter(pk=slot_id).first()
    return None if slot is None else _on_demand(slot, now)


def latest(path_id: int, now: datetime, since: datetime) -> OnDemand | None:
    slots = _slots().filter(measurement__path=path_id, request__asked_at__gte=since)
    slot = slots.order_by("request__asked_at", "pk").last()
    return None if slot is None else _on_demand(slot, now)


def on_demand_aggregate(slot_id: int, now: datetime) -> OnDemandAggregate | None:
    """Load a test; None unless this slot is its first and all members may be read."""
    return next(iter(_aggregates(list(_leads().filter(pk=slot_id)), now)), None)


def on_demand_aggregates(since: datetime, now: datetime) -> list[OnDemandAggregate]:
    return _aggregates(list(_leads().filter(request__asked_at__gte=since).order_by("-pk")), now)


def wait(
    load: Callable[[int, datetime], TestT | None], slot_id: int, deadline: Deadline, *, every_s: float = 0.5
) -> TestT:
    """Poll until the test ends or the deadline passes. Raises `LookupError` where it does not exist."""
    while True:
        test = load(slot_id, timezone.now())
        if test is None:
            raise LookupError(f"on-demand test {slot_id} not found; was its path removed from mesh.toml?")
        if test.state is TestState.ENDED or deadline.passed:
            return test
        time.sleep(min(every_s, deadline.remaining_s))


def _slots() -> QuerySet[Slot]:
    slots = Slot.objects.select_related("request", "measurement").exclude(request=None)
    return slots.filter(measurement__test__kind=KindName.THROUGHPUT)


def _on_demand(slot: Slot, now: datetime) -> OnDemand:
    test = _test(slot)
    figures = ("measured_at", "throughput_bps", "average_bps", "verdict", "sentence")
    return OnDemand(
        id=slot.pk,
        path_id=slot.measurement.path_id,
        asked_at=slot.request.asked_at,
        asked_by=slot.request.asked_by,
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        parameters=slot.parameters,
        state=_state(slot, test, now),
        outcome=slot.outcome,
        detail=slot.detail or None,
        **{name: getattr(test, name, None) for name in figures},
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
        return _state_by_time(slot, now)
    if test is not None and UndiagnosedTest.objects.filter(pk=(test.path_id, test.measured_at)).exists():
        return TestState.AWAITED
    return TestState.ENDED


def _state_by_time(slot: Slot, now: datetime) -> TestState:
    if now < slot.starts_at:
        return TestState.PLANNED
    return TestState.RUNNING if now < slot.ends_at else TestState.AWAITED


def _leads() -> QuerySet[Slot]:
    slots = Slot.objects.select_related("request").exclude(request=None)
    return slots.filter(measurement__test__name=ON_DEMAND_AGGREGATE, lead=None)


def _aggregates(leads: Sequence[Slot], now: datetime) -> list[OnDemandAggregate]:
    ids = [lead.pk for lead in leads]
    members: dict[int, list[Slot]] = {pk: [] for pk in ids}
    rows = Slot.objects.filter(Q(pk__in=ids) | Q(lead__in=ids)) if ids else Slot.objects.none()
    for slot in rows.select_related("measurement__path__source", "measurement__path__destination").order_by("pk"):
        members[slot.lead_id or slot.pk].append(slot)
    tests = (_aggregate(lead, members[lead.pk], now) for lead in leads)
    return [test for test in tests if test is not None]


def _aggregate(lead: Slot, slots: Sequence[Slot], now: datetime) -> OnDemandAggregate | None:
    parameters = lead.request.parameters
    if len(slots) < len(list(pairs_of(parameters["shape"], parameters["senders"], parameters["receivers"]))):
        return None  # A reader with limits may see fewer slots.
    result = None if all(slot.outcome is None for slot in slots) else aggregate_result(lead.pk)
    members = [
        MemberState(path.pk, path.source.name, path.destination.name, slot.outcome, slot.detail or None)
        for slot in slots
        for path in [slot.measurement.path]
    ]
    state = _state_by_time(lead, now)
    outcomes = [slot.outcome for slot in slots] + [member.outcome for member in (result.members if result else ())]
    is_reported = result is not None and None not in outcomes
    members.sort(key=lambda member: place_of(parameters, member.source, member.destination) or 0)
    return OnDemandAggregate(
        id=lead.pk,
        asked_at=lead.request.asked_at,
        asked_by=lead.request.asked_by,
        starts_at=lead.starts_at,
        ends_at=lead.ends_at,
        parameters=parameters,
        state=TestState.ENDED if state is TestState.AWAITED and is_reported else state,
        members=tuple(members),
        result=result,
    )
