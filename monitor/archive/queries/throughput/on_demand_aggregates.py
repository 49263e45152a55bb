"""State and result of on-demand aggregate tests (`monitor.mesh.schedule.on_demand_aggregates`).

In: the id of the first member's slot, or a time. Out: an `OnDemandAggregate` with the outcome of each member as far as
reported and, once computed, the result of the run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from monitor.archive.queries.throughput.aggregates import AggregateResult, aggregate_result
from monitor.archive.queries.throughput.on_demand import TestState
from monitor.mesh.document.entries import ON_DEMAND_AGGREGATE
from monitor.mesh.kinds.aggregate import pairs_of, place_of
from monitor.mesh.models import Slot
from probes.contract import Deadline


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member; `outcome` is None until it is reported, `detail` without a reason."""

    path_id: int
    source: str
    destination: str
    outcome: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class OnDemandAggregate:
    """An on-demand aggregate test. It has ended when every member is reported, or counts as missed, and its result says
    so; the packets of other paths are added until the result is final."""

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
        """Members with an outcome."""
        return sum(member.outcome is not None for member in self.members)

    @property
    def is_over(self) -> bool:
        return self.state is TestState.ENDED


def on_demand_aggregate(slot_id: int, now: datetime) -> OnDemandAggregate | None:
    """Load a test; None where this slot is not the first of a test whose members may all be read."""
    return next(iter(_load(list(_leads().filter(pk=slot_id)), now)), None)


def on_demand_aggregates(since: datetime, now: datetime) -> list[OnDemandAggregate]:
    """Tests requested since then, newest first."""
    return _load(list(_leads().filter(request__asked_at__gte=since).order_by("-pk")), now)


def wait(slot_id: int, deadline: Deadline, *, every_s: float = 1.0) -> OnDemandAggregate:
    """Wait until the test ends or the deadline passes, and return it. Raises `LookupError` where it does not exist, as
    when a path of it was removed from mesh.toml meanwhile."""
    while True:
        test = on_demand_aggregate(slot_id, timezone.now())
        if test is None:
            raise LookupError(f"on-demand aggregate test {slot_id} not found; was a path removed from mesh.toml?")
        if test.is_over or deadline.passed:
            return test
        time.sleep(min(every_s, deadline.remaining_s))


def _leads() -> QuerySet[Slot]:
    return (
        Slot.objects.filter(measurement__test__name=ON_DEMAND_AGGREGATE, lead=None)
        .exclude(request=None)
        .select_related("request")
    )


def _load(leads: Sequence[Slot], now: datetime) -> list[OnDemandAggregate]:
    ids = [lead.pk for lead in leads]
    members: dict[int, list[Slot]] = {pk: [] for pk in ids}
    rows = Slot.objects.filter(Q(pk__in=ids) | Q(lead__in=ids)) if ids else Slot.objects.none()
    for slot in rows.select_related("measurement__path__source", "measurement__path__destination").order_by("pk"):
        members[slot.lead_id or slot.pk].append(slot)
    return [_test(lead, members[lead.pk], now) for lead in leads if len(members[lead.pk]) == _count(lead)]


def _count(lead: Slot) -> int:
    """Members of a test; a reader with limits may see fewer slots."""
    parameters = lead.request.parameters
    return sum(1 for _ in pairs_of(parameters["shape"], parameters["senders"], parameters["receivers"]))


def _test(lead: Slot, slots: Sequence[Slot], now: datetime) -> OnDemandAggregate:
    result = None if all(slot.outcome is None for slot in slots) else aggregate_result(lead.pk)
    parameters = lead.request.parameters
    members = [
        MemberState(path.pk, path.source.name, path.destination.name, slot.outcome, slot.detail or None)
        for slot in slots
        for path in [slot.measurement.path]
    ]
    members.sort(key=lambda member: place_of(parameters, member.source, member.destination) or 0)
    return OnDemandAggregate(
        id=lead.pk,
        asked_at=lead.request.asked_at,
        asked_by=lead.request.asked_by,
        starts_at=lead.starts_at,
        ends_at=lead.ends_at,
        parameters=parameters,
        state=_state(lead, slots, result, now),
        members=tuple(members),
        result=result,
    )


def _state(lead: Slot, slots: Sequence[Slot], result: AggregateResult | None, now: datetime) -> TestState:
    if now < lead.starts_at:
        return TestState.PLANNED
    if now < lead.ends_at:
        return TestState.RUNNING
    reported = result is not None and all(member.outcome is not None for member in result.members)
    return TestState.ENDED if reported and all(slot.outcome is not None for slot in slots) else TestState.AWAITED
