"""Place throughput tests so that no host or uplink has two at once. Pure, in whole seconds.

Jobs run once in each period of `every_s` since the epoch; higher priorities move existing slots. Resources are host ids
and negative uplink ids.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Job:
    """Throughput measurement, or aggregate test with all its hosts."""

    measurement_id: int
    source_id: int
    destination_id: int
    every_s: int
    length_s: int
    planned: frozenset[int] = frozenset()  # numbers of periods with a slot
    is_new: bool = False  # first slot as early as possible
    uplink_ids: tuple[int, ...] = ()
    priority: int = 0  # the greater wins on a conflict
    slip_s: int | None = None  # maximum delay after the preferred time; None: anywhere in the period
    owed: frozenset[int] = frozenset()  # periods that lost their slot: placed again, or reported without room
    other_host_ids: tuple[int, ...] = ()  # hosts of an aggregate test's other members
    member_ids: tuple[int, ...] = ()  # measurements of all members, the job's first

    @property
    def hosts(self) -> tuple[int, ...]:
        return self.source_id, self.destination_id, *self.other_host_ids

    @property
    def measurement_ids(self) -> tuple[int, ...]:
        return self.member_ids or (self.measurement_id,)

    @property
    def takes(self) -> tuple[int, ...]:
        """Hosts and uplinks as `Timetable` numbers."""
        return *self.hosts, *(-uplink_id for uplink_id in self.uplink_ids)


@dataclass(frozen=True, slots=True)
class Placement:
    """Job with its start time."""

    job: Job
    start_s: int
    fits: bool = True  # False: no free time in the period; `start_s` is preferred

    @property
    def end_s(self) -> int:
        return self.start_s + self.job.length_s


@dataclass(frozen=True, slots=True)
class ExistingSlot:
    """Existing slot that a job of higher priority can postpone."""

    slot_id: int
    measurement_id: int
    takes: tuple[int, ...]
    start_s: int
    end_s: int
    priority: int = 0


@dataclass(slots=True)
class Arrangement:
    """New placements, and moved (postponed) slots."""

    placements: list[Placement] = field(default_factory=list)
    moved: list[ExistingSlot] = field(default_factory=list)


class Timetable:
    """Sorted disjoint busy intervals of each host and uplink."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)

    def take(self, takes: Iterable[int], start_s: int, end_s: int) -> None:
        for resource in takes:
            insort(self._starts[resource], start_s)
            insort(self._ends[resource], end_s)

    def earliest(self, takes: Collection[int], start_s: int, latest_s: int, length_s: int) -> int | None:
        """Earliest start when all are free for `length_s`, or None."""
        at = start_s
        while at <= latest_s:
            free = max(self._free_from(resource, at, length_s) for resource in takes)
            if free == at:
                return at
            at = free
        return None

    def is_free(self, takes: Collection[int], start_s: int, end_s: int) -> bool:
        return self.earliest(takes, start_s, start_s, end_s - start_s) is not None

    def _free_from(self, resource: int, at: int, length_s: int) -> int:
        """`at` if free, else the end of the last interval in the way."""
        ends = self._ends[resource]
        in_the_way = bisect_left(self._starts[resource], at + length_s)
        if in_the_way > bisect_right(ends, at):
            return ends[in_the_way - 1]
        return at


def place(jobs: Collection[Job], timetable: Timetable, from_s: int, until_s: int) -> list[Placement]:
    """Call `arrange` without postponable slots."""
    return arrange(jobs, timetable, from_s, until_s).placements


def arrange(
    jobs: Collection[Job], timetable: Timetable, from_s: int, until_s: int, standing: Collection[ExistingSlot] = ()
) -> Arrangement:
    """Place each job in its periods without a slot, not before `from_s`, adding to `timetable`, which has all fixed
    slots."""
    arrangement = Arrangement()
    ordered = _in_rotation(jobs)
    offsets_s = dict(zip((job.measurement_id for job in ordered), _offsets(ordered), strict=True))
    planned = {job.measurement_id: set(job.planned) for job in ordered}
    owed = {(job.measurement_id, period) for job in ordered for period in job.owed}
    every_s = {job.measurement_id: job.every_s for job in ordered}
    for priority in sorted({job.priority for job in jobs} | {slot.priority for slot in standing}, reverse=True):
        for slot in (slot for slot in standing if slot.priority == priority):
            if timetable.is_free(slot.takes, slot.start_s, slot.end_s):
                timetable.take(slot.takes, slot.start_s, slot.end_s)
                continue
            arrangement.moved.append(slot)
            if slot.measurement_id in planned:
                period = slot.start_s // every_s[slot.measurement_id]
                planned[slot.measurement_id].discard(period)
                owed.add((slot.measurement_id, period))
        level = [job for job in ordered if job.priority == priority]
        arrangement.placements += _place_level(level, timetable, from_s, until_s, offsets_s, planned, owed)
    return arrangement


def _place_level(
    jobs: list[Job],
    timetable: Timetable,
    from_s: int,
    until_s: int,
    offsets_s: dict[int, int],
    planned: dict[int, set[int]],
    owed: set[tuple[int, int]],
) -> list[Placement]:
    placements = []
    for job in jobs:
        first = _first(job, timetable, from_s) if job.is_new else None
        if first is not None:
            placements.append(first)
            planned[job.measurement_id].add(first.start_s // job.every_s)
    wishes = [
        (preferred_s, index)
        for index, job in enumerate(jobs)
        for preferred_s in _wanted(job, offsets_s[job.measurement_id], from_s, until_s)
        if preferred_s // job.every_s not in planned[job.measurement_id]
    ]
    for preferred_s, index in sorted(wishes):
        job = jobs[index]
        is_owed = (job.measurement_id, preferred_s // job.every_s) in owed
        placement = _in_period(job, timetable, preferred_s, from_s, is_owed=is_owed)
        if placement is not None:
            placements.append(placement)
    return placements


def _in_rotation(jobs: Collection[Job]) -> list[Job]:
    # Order jobs as in a round-robin tournament, so neighbours differ in hosts.
    hosts = sorted({host for job in jobs for host in job.hosts})
    seat = {host: index for index, host in enumerate(hosts)}

    def order(job: Job) -> tuple[int, int, int]:
        distance = (seat[job.destination_id] - seat[job.source_id]) % len(hosts)
        return distance, seat[job.source_id], job.measurement_id

    return sorted(jobs, key=order)


def _offsets(ordered: list[Job]) -> list[int]:
    totals: dict[int, int] = defaultdict(int)
    ranks = []
    for job in ordered:
        ranks.append(totals[job.every_s])
        totals[job.every_s] += 1
    return [
        rank * (job.every_s - job.length_s) // totals[job.every_s] for rank, job in zip(ranks, ordered, strict=True)
    ]


def _wanted(job: Job, offset_s: int, from_s: int, until_s: int) -> Iterator[int]:
    return iter(range(from_s // job.every_s * job.every_s + offset_s, until_s, job.every_s))


def _first(job: Job, timetable: Timetable, from_s: int) -> Placement | None:
    """First slot of a new job, at most a period away."""
    start_s = timetable.earliest(job.takes, from_s, from_s + job.every_s, job.length_s)
    if start_s is None:
        return None
    timetable.take(job.takes, start_s, start_s + job.length_s)
    return Placement(job, start_s)


def _in_period(
    job: Job, timetable: Timetable, preferred_s: int, from_s: int, *, is_owed: bool = False
) -> Placement | None:
    """Nearest free time after the preferred time, else in the period."""
    begin_s = preferred_s // job.every_s * job.every_s
    latest_s = begin_s + job.every_s - job.length_s
    wanted_s = max(preferred_s, from_s)
    if job.slip_s is None:
        start_s = timetable.earliest(job.takes, wanted_s, latest_s, job.length_s)
        if start_s is None:
            start_s = timetable.earliest(job.takes, max(begin_s, from_s), latest_s, job.length_s)
    else:
        start_s = timetable.earliest(job.takes, wanted_s, min(latest_s, preferred_s + job.slip_s), job.length_s)
    if start_s is not None:
        timetable.take(job.takes, start_s, start_s + job.length_s)
        return Placement(job, start_s)
    return Placement(job, wanted_s, fits=False) if begin_s >= from_s or is_owed else None
