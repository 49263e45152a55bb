"""Schedule throughput tests for the next hour; database constraints prevent overlaps on hosts and uplinks."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q

from monitor.mesh.document.entries import WITH_SLOTS
from monitor.mesh.kinds import slot_s
from monitor.mesh.kinds.aggregate import KIND as AGGREGATE_KIND
from monitor.mesh.models import MeasurementPeriod, Path, Site, Slot, SlotHost, SlotUplink
from monitor.mesh.schedule import lock
from monitor.mesh.schedule.horizon import HORIZON_S
from monitor.mesh.schedule.spending import Spending
from monitor.mesh.schedule.timetable import Arrangement, ExistingSlot, Job, Placement, Timetable, arrange
from probes.contract import Outcome

log = logging.getLogger(__name__)

# Minimum lead time of a slot: both agents must have fetched their plans by then.
LEAD_S = 30

# Slots this close stay when their measurement is removed: agents have queued them.
IN_HAND_S = 75

# New measurements wait this long for agents, since tests would be refused; later tests show their absence.
AGENTS_AWAITED_FOR = timedelta(hours=1)

NO_ROOM = "no free time on both hosts in this period; test less often, shorter, or fewer pairs"
TOO_LATE = "no free time on both hosts within its slip_s; let it slip further, or test fewer pairs"

AGGREGATE = AGGREGATE_KIND.kind.name

# Periods that lost their slot: measurement and number of the period.
Owed = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Result of a planning run. Collisions with another planner are retried in the next run."""

    slots: int = 0
    no_room: int = 0
    over_budget: int = 0
    moved: int = 0
    collisions: int = 0


def plan_slots(now: datetime, *, waits_for_agents: bool = False) -> SlotPlan:
    """Create the slots of the next `HORIZON_S` seconds; higher priorities may postpone existing slots.

    Tests without room get an ended slot `busy`, over budget `not_permitted`. With `waits_for_agents`, new measurements
    wait for both agents.
    """
    with transaction.atomic():
        lock.hold_until_commit()
        awaited = _sites_awaited() if waits_for_agents else frozenset()
        return plan_locked(now, awaited=awaited)


def plan_locked(now: datetime, owed: Owed = frozenset(), awaited: Collection[int] = frozenset()) -> SlotPlan:
    """As `plan_slots`, with the lock held; `owed` periods lost their slots, agents of `awaited` sites have never
    reported."""
    arrangement = arrangement_at(now, owed, awaited)
    if not arrangement.placements and not arrangement.moved:
        return SlotPlan()
    Slot.objects.filter(pk__in=[placement.slot_id for placement in arrangement.moved]).delete()
    fitting = [placement for placement in arrangement.placements if placement.fits]
    no_room = [placement for placement in arrangement.placements if not placement.fits]
    refusals = Spending.between(now, now + timedelta(seconds=HORIZON_S)).refusals(fitting)
    planned = _insert([placement for placement in fitting if placement not in refusals])
    _create(
        [
            _slots(placement, Outcome.BUSY, NO_ROOM if placement.job.slip_s is None else TOO_LATE)
            for placement in no_room
        ]
        + [_slots(placement, Outcome.NOT_PERMITTED, rule) for placement, rule in refusals.items()]
    )
    if no_room:
        log.warning("%d throughput tests found %s (measurements %s)", len(no_room), NO_ROOM, _listed(no_room))
    collisions = len(fitting) - len(refusals) - planned
    return SlotPlan(planned, len(no_room), len(refusals), len(arrangement.moved), collisions)


def arrangement_at(now: datetime, owed: Owed = frozenset(), awaited: Collection[int] = frozenset()) -> Arrangement:
    """Slots that `plan_locked` would create and postpone; nothing is stored."""
    jobs = _jobs(now, owed, awaited)
    if not jobs:
        return Arrangement()
    timetable, standing = taken(now, {pk: job.priority for job in jobs for pk in job.measurement_ids})
    return arrange(jobs, timetable, seconds(now) + LEAD_S, seconds(now) + HORIZON_S, standing)


def _listed(placements: Sequence[Placement]) -> str:
    numbers = [str(placement.job.measurement_id) for placement in placements]
    return ", ".join(numbers[:10]) + (", …" if len(numbers) > 10 else "")


def seconds(at: datetime) -> int:
    """Whole seconds since the epoch, rounded up."""
    return -int(-at.timestamp() // 1)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _sites_awaited() -> frozenset[int]:
    """Sites with an agent that has never reported."""
    came = Q(agent_tokens__held_since__isnull=False)
    return frozenset(Site.objects.in_use().filter(has_agent=True).exclude(came).values_list("pk", flat=True))


def _is_awaited(period: MeasurementPeriod, awaited: Collection[int], now: datetime) -> bool:
    path = period.measurement.path
    is_new = period.started_at > now - AGENTS_AWAITED_FOR
    return is_new and (path.source.site_id in awaited or path.destination.site_id in awaited)


def _jobs(now: datetime, owed: Owed, awaited: Collection[int]) -> list[Job]:
    slots_since = Slot.objects.filter(measurement=OuterRef("measurement"), starts_at__gte=OuterRef("started_at"))
    periods = list(
        MeasurementPeriod.objects.filter(ended_at=None, measurement__test__kind__in=WITH_SLOTS)
        .annotate(has_slots=Exists(slots_since))
        .select_related("measurement__test", "measurement__path__source", "measurement__path__destination")
        .order_by("measurement_id")
    )
    planned = _planned(periods, now)
    owed_of: dict[int, set[int]] = defaultdict(set)
    for measurement_id, period_number in owed:
        owed_of[measurement_id].add(period_number)
    return [
        _job(together, planned, owed_of)
        for together in _together(periods)
        if not any(_is_awaited(period, awaited, now) for period in together)
    ]


def _together(periods: Iterable[MeasurementPeriod]) -> list[list[MeasurementPeriod]]:
    jobs: dict[tuple[str, int], list[MeasurementPeriod]] = defaultdict(list)
    for period in periods:
        test = period.measurement.test
        jobs[("test", test.pk) if test.kind == AGGREGATE else ("measurement", period.measurement_id)].append(period)
    return list(jobs.values())


def _job(
    together: Sequence[MeasurementPeriod], planned: Mapping[int, list[int]], owed_of: Mapping[int, set[int]]
) -> Job:
    first, paths = together[0], [period.measurement.path for period in together]
    ids = tuple(period.measurement_id for period in together)
    hosts = dict.fromkeys(host_id for path in paths for host_id in (path.source_id, path.destination_id))
    return Job(
        measurement_id=first.measurement_id,
        source_id=paths[0].source_id,
        destination_id=paths[0].destination_id,
        every_s=first.every_s,
        length_s=slot_s(first.measurement.test.kind, first.measurement.test.parameters),
        planned=frozenset(start_s // first.every_s for pk in ids for start_s in planned[pk]),
        is_new=not any(period.has_slots for period in together),  # type: ignore[attr-defined]
        uplink_ids=tuple(dict.fromkeys(uplink for path in paths for uplink in uplinks_of(path))),
        priority=first.measurement.test.priority,
        slip_s=first.measurement.test.slip_s,
        owed=frozenset(number for pk in ids for number in owed_of.get(pk, ())),
        other_host_ids=tuple(hosts)[2:],
        member_ids=ids if len(ids) > 1 else (),
    )


def _planned(periods: Sequence[MeasurementPeriod], now: datetime) -> dict[int, list[int]]:
    longest_s = max((period.every_s for period in periods), default=0)
    starts: dict[int, list[int]] = defaultdict(list)
    rows = Slot.objects.filter(
        starts_at__gt=now - timedelta(seconds=longest_s),
        measurement__in=[period.measurement_id for period in periods],
    )
    for measurement_id, starts_at in rows.values_list("measurement_id", "starts_at"):
        starts[measurement_id].append(int(starts_at.timestamp()))
    return starts


def uplinks_of(path: Path) -> tuple[int, ...]:
    ids = (path.source.uplink_id, path.destination.uplink_id)
    return tuple(dict.fromkeys(uplink for uplink in ids if uplink is not None))


def taken(now: datetime, priorities: Mapping[int, int]) -> tuple[Timetable, list[ExistingSlot]]:
    """Timetable of fixed slots (on demand, or fetched), and slots that a higher priority can postpone."""
    columns = ("slot_id", "slot__measurement_id", "slot__request", "starts_at", "ends_at")
    rows = [
        *SlotHost.objects.filter(ends_at__gt=now).values_list(*columns, "host_id"),
        *(
            (*row[:-1], -row[-1])
            for row in SlotUplink.objects.filter(ends_at__gt=now).values_list(*columns, "uplink_id")
        ),
    ]
    timetable, movable = Timetable(), defaultdict(list)
    for slot_id, measurement_id, request, starts_at, ends_at, resource in rows:
        if request is None and starts_at > now + timedelta(seconds=IN_HAND_S):
            movable[slot_id, measurement_id, starts_at, ends_at].append(resource)
        else:
            timetable.take([resource], int(starts_at.timestamp()), seconds(ends_at))
    return timetable, [
        ExistingSlot(
            slot_id, measurement_id, tuple(takes), int(starts_at.timestamp()), seconds(ends_at),
            priorities.get(measurement_id, 0),
        )
        for (slot_id, measurement_id, starts_at, ends_at), takes in movable.items()
    ]  # fmt: skip


def _slots(placement: Placement, outcome: Outcome | None = None, detail: str = "") -> list[Slot]:
    return [
        Slot(
            measurement_id=measurement_id,
            starts_at=_time(placement.start_s),
            ends_at=_time(placement.end_s),
            outcome=None if outcome is None else outcome.value,
            detail=detail,
        )
        for measurement_id in placement.job.measurement_ids
    ]


def _create(placed: Collection[Sequence[Slot]]) -> None:
    Slot.objects.bulk_create([slots[0] for slots in placed], batch_size=2000)
    for lead, *others in placed:
        for slot in others:
            slot.lead = lead
    Slot.objects.bulk_create([slot for slots in placed for slot in slots[1:]], batch_size=2000)


def _insert(placements: Sequence[Placement]) -> int:
    """Store slots, skipping collisions; return their number."""
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
        log.info("measurement %d: its hosts were reserved meanwhile; will retry", placement.job.measurement_id)
        return False
    return True


def _insert_all(placements: Iterable[Placement]) -> None:
    placed = [(_slots(placement), placement.job) for placement in placements]
    _create([slots for slots, _ in placed])
    take([(slots[0], job.hosts, job.uplink_ids) for slots, job in placed])


def take(slots: Collection[tuple[Slot, Iterable[int], Iterable[int]]]) -> None:
    """Reserve hosts and uplinks. Raises `IntegrityError` for overlaps."""
    SlotHost.objects.bulk_create(
        [
            SlotHost(slot=slot, host_id=host_id, starts_at=slot.starts_at, ends_at=slot.ends_at)
            for slot, host_ids, _ in slots
            for host_id in host_ids
        ],
        batch_size=2000,
    )
    SlotUplink.objects.bulk_create(
        [
            SlotUplink(slot=slot, uplink_id=uplink_id, starts_at=slot.starts_at, ends_at=slot.ends_at)
            for slot, _, uplink_ids in slots
            for uplink_id in uplink_ids
        ],
        batch_size=2000,
    )
