"""The direction of an incident's loss or delay by STAMP tests, in words.

In: the facts of the incident. Out: a `CountedDirection`, and a likely cause with the direction of its delay. A
direction is named only where the counters tell (`monitor.analysis.directions`); nothing here needs a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from monitor.alerts.evidence.facts import Facts, OneWayFacts
from monitor.alerts.evidence.stated import BY_STAMP, Fault, LikelyCause
from monitor.analysis import figures as shown
from monitor.analysis.directions import (
    DirectionLosses,
    LostDirection,
    OneWayLosses,
    SteppedDirection,
    lost_direction,
)

DELAYED = (Fault.ROUTE, Fault.QUEUE)
"""Faults that change a delay."""

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CountedDirection:
    """The direction of a loss by counters. `figures` are those of both directions in words, `place` names the direction
    or both; `toward` is set where a single one loses, a site's other end being empty."""

    direction: LostDirection
    place: str
    figures: str
    toward: Ends | None = None


@dataclass(frozen=True, slots=True)
class _Way:
    """Packets one way of all paths of an incident, before and since its beginning."""

    name: str
    place: str
    ends: Ends
    before: OneWayLosses
    after: OneWayLosses

    @property
    def text(self) -> str:
        lost, sent = self.after.lost, self.after.sent
        return f"{shown.percent(lost / sent)} of {sent:,}" if lost else f"0 of {sent:,}"


def counted_direction(facts: Facts) -> CountedDirection | None:
    """The direction of the loss since the beginning; None without counters."""
    ways = _ways(facts)
    if ways is None or not ways[0].after.sent or not ways[1].after.sent:
        return None
    there, back = ways
    direction = lost_direction(there.after, back.after, there.before, back.before)
    if direction in (LostDirection.FORWARD, LostDirection.REVERSE):
        lossy, other = (there, back) if direction is LostDirection.FORWARD else (back, there)
        figures = f"{lossy.text} packets {lossy.name}, {other.text} {other.name}"
        return CountedDirection(direction, lossy.place, figures, lossy.ends)
    figures = f"{there.name} {there.text}, {back.name} {back.text}"
    return CountedDirection(direction, "", figures)


def with_delay_direction(cause: LikelyCause, facts: Facts) -> LikelyCause:
    """The cause of a delay with the direction in which it rose, if STAMP tests tell."""
    steps = [one_way for one_way in facts.one_way if one_way.step is not SteppedDirection.UNKNOWN]
    if cause.fault not in DELAYED or not steps:
        return cause
    stepped = {_stepped_ends(one_way) for one_way in steps}
    first = steps[0]
    if len(stepped) != 1 or first.step_ms is None or first.step is SteppedDirection.CLOCK:
        return cause
    ends = stepped.pop()
    if ends is None:
        return replace(cause, sentence=f"{cause.sentence} The delay rose in both directions ({BY_STAMP}).")
    is_between = all(frozenset(path.name.split(" → ")) == frozenset(ends) for path in facts.paths)
    return replace(
        cause,
        sentence=(
            f"{cause.sentence} One-way delay {ends[0]} → {ends[1]} {first.step_ms:+.1f} ms; reverse unchanged "
            f"({BY_STAMP})."
        ),
        toward=ends if is_between else cause.toward,
        toward_by=BY_STAMP if is_between else cause.toward_by,
    )


def _stepped_ends(one_way: OneWayFacts) -> Ends | None:
    """The ends of the direction that stepped; None for both."""
    if one_way.step is SteppedDirection.FORWARD:
        return one_way.source, one_way.destination
    return (one_way.destination, one_way.source) if one_way.step is SteppedDirection.REVERSE else None


def counts_texts(facts: Sequence[OneWayFacts]) -> list[str]:
    """A line for each path with counters, for tickets."""
    return [
        f"{one_way.source} → {one_way.destination}: forward {_lost_text(one_way.after.forward)}, "
        f"reverse {_lost_text(one_way.after.reverse)} since the onset"
        + (
            ""
            if one_way.before is None
            else f"; before {_lost_text(one_way.before.forward)} and {_lost_text(one_way.before.reverse)}"
        )
        for one_way in facts
        if one_way.after is not None
    ]


def _lost_text(losses: OneWayLosses) -> str:
    return f"{losses.lost:,} of {losses.sent:,} lost"


def _ways(facts: Facts) -> tuple[_Way, _Way] | None:
    """Both ways of the incident: between two hosts, or out of and into the site or host that all paths share."""
    counted = {one_way.path_id for one_way in facts.one_way if one_way.after is not None}
    hosts = {(one_way.source, one_way.destination) for one_way in facts.one_way if one_way.after is not None}
    sides = ([side.path_id for side in (path.there, path.back) if side is not None] for path in facts.paths)
    if not hosts or not all(counted.intersection(path_ids) for path_ids in sides):
        return None
    if len({frozenset(ends) for ends in hosts}) == 1:
        path = facts.paths[0].name.split(" → ")
        source, destination = (path[0], path[1]) if len(path) == 2 else min(hosts)
        return (
            _way(facts, f"{source} → {destination}", f"from {source} to {destination}", (source, destination),
                 lambda one_way: (one_way.source, one_way.destination) == (source, destination)),
            _way(facts, f"{destination} → {source}", f"from {destination} to {source}", (destination, source),
                 lambda one_way: (one_way.source, one_way.destination) == (destination, source)),
        )  # fmt: skip
    sites = {frozenset((one_way.source_site, one_way.destination_site)) for one_way in facts.one_way}
    shared = frozenset.intersection(*(frozenset(ends) for ends in hosts)) or frozenset.intersection(*sites)
    if len(shared) != 1:
        return None
    (name,) = shared
    return (
        _way(facts, f"from {name}", f"out of {name}", (name, ""),
             lambda one_way: name in (one_way.source, one_way.source_site)),
        _way(facts, f"to {name}", f"into {name}", ("", name),
             lambda one_way: name in (one_way.destination, one_way.destination_site)),
    )  # fmt: skip


def _way(facts: Facts, name: str, place: str, ends: Ends, holds: Callable[[OneWayFacts], bool]) -> _Way:
    """The packets of all paths one way: forward on those that hold, reverse on the others."""

    def pooled(counts: Sequence[tuple[OneWayFacts, DirectionLosses | None]]) -> OneWayLosses:
        one_way = (losses.forward if holds(path) else losses.reverse for path, losses in counts if losses is not None)
        return reduce(OneWayLosses.plus, one_way, OneWayLosses(0, 0, 0, 0))

    return _Way(
        name,
        place,
        ends,
        pooled([(path, path.before) for path in facts.one_way]),
        pooled([(path, path.after) for path in facts.one_way]),
    )
