"""Finds a time for every throughput test so that no host has two at once. Pure: whole seconds in, whole seconds out.

Every job runs once in each period of `every_s` seconds since the epoch. Its preferred time within the period is spread
over all jobs of that period length; where a host is taken then, the job slips to the next free time of the period.
Rows, clocks and locks are in `slots`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A throughput measurement. `planned` are the numbers of the periods that have a slot already; `is_new` asks for
    a first slot as early as can be."""

    measurement_id: int
    source_id: int
    destination_id: int
    every_s: int
    length_s: int
    planned: frozenset[int] = frozenset()
    is_new: bool = False

    @property
    def hosts(self) -> tuple[int, int]:
        return self.source_id, self.destination_id


@dataclass(frozen=True, slots=True)
class Placement:
    """That a job runs from `start_s` to `end_s`; not `fits` means that its period has no free time, and when it was
    wanted."""

    job: Job
    start_s: int
    fits: bool = True

    @property
    def end_s(self) -> int:
        return self.start_s + self.job.length_s


class Timetable:
    """When each host is taken: for each, the starts and ends of intervals that do not overlap, in order."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)

    def take(self, hosts: Iterable[int], start_s: int, end_s: int) -> None:
        for host in hosts:
            insort(self._starts[host], start_s)
            insort(self._ends[host], end_s)

    def earliest(self, hosts: Collection[int], start_s: int, latest_s: int, length_s: int) -> int | None:
        """The first time from `start_s` to `latest_s` at which all hosts are free for `length_s`; None if never."""
        at = start_s
        while at <= latest_s:
            free = max(self._free_from(host, at, length_s) for host in hosts)
            if free == at:
                return at
            at = free
        return None

    def _free_from(self, host: int, at: int, length_s: int) -> int:
        """`at` where the host is free for `length_s`, else the end of the last interval in the way."""
        ends = self._ends[host]
        in_the_way = bisect_left(self._starts[host], at + length_s)
        if in_the_way > bisect_right(ends, at):
            return ends[in_the_way - 1]
        return at


def place(jobs: Collection[Job], timetable: Timetable, from_s: int, until_s: int) -> list[Placement]:
    """A placement for each job and each of its periods wanted between `from_s` and `until_s` that has none yet.

    Nothing starts before `from_s`. Takes the placed times in `timetable`.
    """
    ordered = _in_rotation(jobs)
    placements = []
    planned = {job.measurement_id: set(job.planned) for job in ordered}
    for job in ordered:
        first = _first(job, timetable, from_s) if job.is_new else None
        if first is not None:
            placements.append(first)
            planned[job.measurement_id].add(first.start_s // job.every_s)
    wishes = [
        (preferred_s, index)
        for index, offset_s in enumerate(_offsets(ordered))
        for preferred_s in _wanted(ordered[index], offset_s, from_s, until_s)
        if preferred_s // ordered[index].every_s not in planned[ordered[index].measurement_id]
    ]
    for preferred_s, index in sorted(wishes):
        placement = _in_period(ordered[index], timetable, preferred_s, from_s)
        if placement is not None:
            placements.append(placement)
    return placements


def _in_rotation(jobs: Collection[Job]) -> list[Job]:
    """Jobs in such an order that neighbours have different hosts where that can be: as in a round-robin tournament,
    by how far the destination stands from the source in a circle of all hosts."""
    hosts = sorted({host for job in jobs for host in job.hosts})
    seat = {host: index for index, host in enumerate(hosts)}

    def order(job: Job) -> tuple[int, int, int]:
        distance = (seat[job.destination_id] - seat[job.source_id]) % len(hosts)
        return distance, seat[job.source_id], job.measurement_id

    return sorted(jobs, key=order)


def _offsets(ordered: list[Job]) -> list[int]:
    """The preferred second within the period of each job: evenly over the period, apart for each period length."""
    totals: dict[int, int] = defaultdict(int)
    ranks = []
    for job in ordered:
        ranks.append(totals[job.every_s])
        totals[job.every_s] += 1
    return [
        rank * (job.every_s - job.length_s) // totals[job.every_s] for rank, job in zip(ranks, ordered, strict=True)
    ]


def _wanted(job: Job, offset_s: int, from_s: int, until_s: int) -> Iterator[int]:
    """The preferred times of the periods that `from_s` and later ones lie in, before `until_s`."""
    return iter(range(from_s // job.every_s * job.every_s + offset_s, until_s, job.every_s))


def _first(job: Job, timetable: Timetable, from_s: int) -> Placement | None:
    """The first slot of a new job: as early as can be, at most a period away."""
    start_s = timetable.earliest(job.hosts, from_s, from_s + job.every_s, job.length_s)
    if start_s is None:
        return None
    timetable.take(job.hosts, start_s, start_s + job.length_s)
    return Placement(job, start_s)


def _in_period(job: Job, timetable: Timetable, preferred_s: int, from_s: int) -> Placement | None:
    """The free time nearest after the preferred one, else the first of the period. A period that had begun before
    `from_s` and has no room left is passed over: None."""
    begin_s = preferred_s // job.every_s * job.every_s
    latest_s = begin_s + job.every_s - job.length_s
    start_s = timetable.earliest(job.hosts, max(preferred_s, from_s), latest_s, job.length_s)
    if start_s is None:
        start_s = timetable.earliest(job.hosts, max(begin_s, from_s), latest_s, job.length_s)
    if start_s is None:
        return Placement(job, preferred_s, fits=False) if begin_s >= from_s else None
    timetable.take(job.hosts, start_s, start_s + job.length_s)
    return Placement(job, start_s)
