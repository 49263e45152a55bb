"""Schedule throughput tests so that no host and no uplink has two at once. Pure: whole seconds in and out.

Every job runs in each period of `every_s` seconds since the epoch. Preferred times are spread over all jobs of that
period length; where a host or uplink is busy, the job slips to the next free time, within the period or within
`slip_s`. Existing slots give way to jobs of higher priority and are placed again. Resources are numbers: a host's id,
and an uplink's negative id. `slots` has rows, clocks and locks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Job:
    """A throughput measurement. `planned` are the numbers of the periods that have a slot, `owed` those that lost it
    and must get another or be reported as without room; `is_new` requests a first slot as early as possible.

    An aggregate test is a job with all its hosts: those of its first member, and `other_host_ids`. `member_ids` are the
    measurements of all its members, that of the job first.

    `slip_s` is the maximum delay after its preferred time, None for anywhere in its period. On a conflict the greater
    `priority` wins.
    """

    measurement_id: int
    source_id: int
    destination_id: int
    every_s: int
    length_s: int
    planned: frozenset[int] = frozenset()
    is_new: bool = False
    uplink_ids: tuple[int, ...] = ()
    priority: int = 0
    slip_s: int | None = None
    owed: frozenset[int] = frozenset()
    other_host_ids: tuple[int, ...] = ()
    member_ids: tuple[int, ...] = ()

    @property
    def hosts(self) -> tuple[int, ...]:
        return self.source_id, self.destination_id, *self.other_host_ids

    @property
    def measurement_ids(self) -> tuple[int, ...]:
        """The measurements that get a slot."""
        return self.member_ids or (self.measurement_id,)

    @property
    def takes(self) -> tuple[int, ...]:
        """Hosts and uplinks of the job, as numbers of a `Timetable`."""
        return *self.hosts, *(-uplink_id for uplink_id in self.uplink_ids)


@dataclass(frozen=True, slots=True)
class Placement:
    """A job scheduled from `start_s` to `end_s`; without `fits`, its period has no free time, and `start_s` is the
    preferred time."""

    job: Job
    start_s: int
    fits: bool = True

    @property
    def end_s(self) -> int:
        return self.start_s + self.job.length_s


@dataclass(frozen=True, slots=True)
class ExistingSlot:
    """An existing slot that a job of higher priority can postpone."""

    slot_id: int
    measurement_id: int
    takes: tuple[int, ...]
    start_s: int
    end_s: int
    priority: int = 0


@dataclass(slots=True)
class Arrangement:
    """Result: `placements` are new, `moved` are the postponed slots."""

    placements: list[Placement] = field(default_factory=list)
    moved: list[ExistingSlot] = field(default_factory=list)


class Timetable:
    """Busy intervals of each host and uplink: sorted starts and ends of intervals that do not overlap."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)

    def take(self, takes: Iterable[int], start_s: int, end_s: int) -> None:
        for resource in takes:
            insort(self._starts[resource], start_s)
            insort(self._ends[resource], end_s)

    def earliest(self, takes: Collection[int], start_s: int, latest_s: int, length_s: int) -> int | None:
        """Earliest time from `start_s` to `latest_s` at which all are free for `length_s`; None if never."""
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
        """`at` where a host or uplink is free for `length_s`, else the end of the last interval in the way."""
        ends = self._ends[resource]
        in_the_way = bisect_left(self._starts[resource], at + length_s)
        if in_the_way > bisect_right(ends, at):
            return ends[in_the_way - 1]
        return at


def place(jobs: Collection[Job], timetable: Timetable, from_s: int, until_s: int) -> list[Placement]:
    """Placements of `arrange` without slots that could be postponed."""
    return arrange(jobs, timetable, from_s, until_s).placements


def arrange(
    jobs: Collection[Job], timetable: Timetable, from_s: int, until_s: int, standing: Collection[ExistingSlot] = ()
) -> Arrangement:
    """Place each job in each of its periods between `from_s` and `until_s` that has no slot.

    Nothing starts before `from_s`. Adds the placements to `timetable`, which has all fixed slots.
    """
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
    """Placements of the jobs of a priority: first slots of new jobs, then period by period."""
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
    """Order jobs so that neighbours have different hosts where possible: as in a round-robin tournament, by the
    distance from source to destination in a circle of all hosts."""
    hosts = sorted({host for job in jobs for host in job.hosts})
    seat = {host: index for index, host in enumerate(hosts)}

    def order(job: Job) -> tuple[int, int, int]:
        distance = (seat[job.destination_id] - seat[job.source_id]) % len(hosts)
        return distance, seat[job.source_id], job.measurement_id

    return sorted(jobs, key=order)


def _offsets(ordered: list[Job]) -> list[int]:
    """Preferred second of each job within its period: spread evenly, separately for each period length."""
    totals: dict[int, int] = defaultdict(int)
    ranks = []
    for job in ordered:
        ranks.append(totals[job.every_s])
        totals[job.every_s] += 1
    return [
        rank * (job.every_s - job.length_s) // totals[job.every_s] for rank, job in zip(ranks, ordered, strict=True)
    ]


def _wanted(job: Job, offset_s: int, from_s: int, until_s: int) -> Iterator[int]:
    """Preferred times of the periods from that of `from_s` on, before `until_s`."""
    return iter(range(from_s // job.every_s * job.every_s + offset_s, until_s, job.every_s))


def _first(job: Job, timetable: Timetable, from_s: int) -> Placement | None:
    """First slot of a new job: as early as possible, at most a period away."""
    start_s = timetable.earliest(job.takes, from_s, from_s + job.every_s, job.length_s)
    if start_s is None:
        return None
    timetable.take(job.takes, start_s, start_s + job.length_s)
    return Placement(job, start_s)


def _in_period(
    job: Job, timetable: Timetable, preferred_s: int, from_s: int, *, is_owed: bool = False
) -> Placement | None:
    """Free time nearest after the preferred time, else, if it may slip that far, the first of the period. None for a
    period begun before `from_s` without room left, unless it is owed a slot."""
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
