"""Slots: planned throughput tests, from planning to their outcome.

`plan_slots` gives every throughput measurement in use its slots of the next hour, `close_slot` notes how one ended,
`expire_slots` those that nobody reported. That no host has two slots at a time is a constraint of the database; which
times are tried is in `timetable`. Every change of an outcome is one conditional update.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q

from monitor.mesh import lock
from monitor.mesh.models import Kind, MeasurementPeriod, Slot, SlotHost
from monitor.mesh.rules import slot_length_s
from monitor.mesh.timetable import Job, Placement, Timetable, place
from probes.contract import Outcome

log = logging.getLogger(__name__)

HORIZON_S = 3600
"""How far ahead slots are planned: agents that cannot reach the centre have tests for as long."""

LEAD_S = 30
"""No slot is planned to start sooner than this: both agents must have fetched their plans by then."""

IN_HAND_S = 75
"""Slots that start sooner than this stay when their measurement goes: agents queue a slot a minute before it starts and
fetch their plan every few seconds, so it will run, and nothing else may be put beside it."""

GRACE_S = 600
"""How long after its end a slot may stay without a report before it counts as missed."""

NOT_REPORTED = "neither agent reported within 10 minutes of its end"
NO_ROOM = "no free time on both hosts in this period; test less often, shorter, or fewer pairs"


@dataclass(frozen=True, slots=True)
class Planned:
    """What one planning did: slots made, tests for which the period had no room, and collisions with another planner
    (those are tried again at the next planning)."""

    slots: int = 0
    no_room: int = 0
    collisions: int = 0


def plan_slots(now: datetime) -> Planned:
    """Make the slots of the next `HORIZON_S` seconds. Slots that exist stay as they are.

    A test that finds no room in its period gets a slot that has ended already, as `busy`.
    """
    from_s = _seconds(now) + LEAD_S
    until_s = _seconds(now) + HORIZON_S
    with transaction.atomic():
        lock.hold_until_commit()
        jobs = _jobs(now)
        placements = place(jobs, _timetable(now), from_s, until_s) if jobs else []
        planned = _insert([one for one in placements if one.fits])
        no_room = [one for one in placements if not one.fits]
        Slot.objects.bulk_create(_slot(one, outcome=Outcome.BUSY, detail=NO_ROOM) for one in no_room)
    if no_room:
        log.warning(
            "%d throughput tests found %s (measurements %s)",
            len(no_room),
            NO_ROOM,
            ", ".join(str(one.job.measurement_id) for one in no_room[:10]) + (", …" if len(no_room) > 10 else ""),
        )
    return Planned(planned, len(no_room), len(placements) - len(no_room) - planned)


def close_slot(slot_id: int, outcome: Outcome | str, detail: str | None = None) -> bool:
    """Note how a slot ended; false if that was known before or there is no such slot.

    The first report counts, with one exception: `missed` gives way to any other outcome, since an agent that was cut
    off delivers what it measured when it can.
    """
    outcome = Outcome(outcome)
    open_or_missed = Q(outcome=None)
    if outcome is not Outcome.MISSED:
        open_or_missed |= Q(outcome=Outcome.MISSED)
    changed = Slot.objects.filter(open_or_missed, pk=slot_id).update(outcome=outcome.value, detail=detail or "")
    return changed == 1


def expire_slots(now: datetime) -> int:
    """Close as `missed` the slots that ended more than `GRACE_S` seconds ago and nobody reported; returns how many."""
    return Slot.objects.filter(outcome=None, ends_at__lt=now - timedelta(seconds=GRACE_S)).update(
        outcome=Outcome.MISSED.value, detail=NOT_REPORTED
    )


def _seconds(at: datetime) -> int:
    """Whole seconds since the epoch, rounded up."""
    return -int(-at.timestamp() // 1)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _jobs(now: datetime) -> list[Job]:
    """All throughput measurements in use, with what is planned of them."""
    slots_since = Slot.objects.filter(measurement=OuterRef("measurement"), starts_at__gte=OuterRef("started_at"))
    periods = list(
        MeasurementPeriod.objects.filter(ended_at=None, measurement__test__kind=Kind.THROUGHPUT)
        .annotate(has_slots=Exists(slots_since))
        .select_related("measurement__test", "measurement__path")
        .order_by("measurement_id")
    )
    planned = _planned(periods, now)
    return [
        Job(
            measurement_id=period.measurement_id,
            source_id=period.measurement.path.source_id,
            destination_id=period.measurement.path.destination_id,
            every_s=period.every_s,
            length_s=slot_length_s(
                period.measurement.test.parameters["duration_s"], period.measurement.test.parameters["omit_s"]
            ),
            planned=frozenset(start_s // period.every_s for start_s in planned[period.measurement_id]),
            is_new=not period.has_slots,
        )
        for period in periods
    ]


def _planned(periods: Sequence[MeasurementPeriod], now: datetime) -> dict[int, list[int]]:
    """When the slots of the current and later periods start, by measurement."""
    longest_s = max((period.every_s for period in periods), default=0)
    starts: dict[int, list[int]] = defaultdict(list)
    rows = Slot.objects.filter(
        starts_at__gt=now - timedelta(seconds=longest_s),
        measurement__in=[period.measurement_id for period in periods],
    )
    for measurement_id, starts_at in rows.values_list("measurement_id", "starts_at"):
        starts[measurement_id].append(int(starts_at.timestamp()))
    return starts


def _timetable(now: datetime) -> Timetable:
    """When hosts are taken from now on."""
    timetable = Timetable()
    rows = SlotHost.objects.filter(ends_at__gt=now).values_list("host_id", "starts_at", "ends_at")
    for host_id, starts_at, ends_at in rows:
        timetable.take([host_id], int(starts_at.timestamp()), _seconds(ends_at))
    return timetable


def _slot(placement: Placement, outcome: Outcome | None = None, detail: str = "") -> Slot:
    return Slot(
        measurement_id=placement.job.measurement_id,
        starts_at=_time(placement.start_s),
        ends_at=_time(placement.end_s),
        outcome=None if outcome is None else outcome.value,
        detail=detail,
    )


def _insert(placements: Sequence[Placement]) -> int:
    """Store slots; returns how many. Where some collide with slots that appeared meanwhile, the others are stored."""
    try:
        with transaction.atomic():
            _insert_all(placements)
    except IntegrityError:
        return sum(_insert_one(placement) for placement in placements)
    return len(placements)


def _insert_one(placement: Placement) -> bool:
    try:
        with transaction.atomic():
            _insert_all([placement])
    except IntegrityError:
        log.info("measurement %d: its hosts were taken meanwhile; it is tried again", placement.job.measurement_id)
        return False
    return True


def _insert_all(placements: Iterable[Placement]) -> None:
    slots = [(placement, _slot(placement)) for placement in placements]
    Slot.objects.bulk_create([slot for _, slot in slots], batch_size=2000)
    SlotHost.objects.bulk_create(
        [
            SlotHost(slot=slot, host_id=host_id, starts_at=slot.starts_at, ends_at=slot.ends_at)
            for placement, slot in slots
            for host_id in placement.job.hosts
        ],
        batch_size=2000,
    )
