"""The direction of an incident's loss or delay by STAMP tests, in words, without clocks
(`monitor.analysis.directions`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.alerts.detect.rules.finding import AlertRule, BurstLevel
from monitor.alerts.evidence.facts import Facts, OneWayFacts
from monitor.alerts.evidence.one_way.ways import Ends, PathLosses, both_ways
from monitor.alerts.evidence.stated import BY_STAMP, Fault, LikelyCause
from monitor.analysis.directions import (
    DirectionLosses,
    LostDirection,
    OneWayLosses,
    SteppedDirection,
    lost_direction,
)

# Faults that change a delay.
DELAYED = (Fault.ROUTE, Fault.QUEUE)


@dataclass(frozen=True, slots=True)
class CountedDirection:
    direction: LostDirection
    place: str  # name of the direction, or of both
    figures: str  # of both directions in words
    toward: Ends | None = None  # if a single direction loses; a site's other end is empty


def counted_direction(facts: Facts) -> CountedDirection | None:
    """Direction of the loss since the beginning; None without counters."""
    ways = both_ways(facts, lambda path: (_of_path(path.before), _of_path(path.after)))
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
    """Add the direction in which a delay rose, if STAMP tests tell it."""
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


def delayed_one_way(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A change of the delay seen by STAMP tests but not by ping RTTs."""
    steps = [one_way for one_way in facts.one_way if one_way.step is not SteppedDirection.UNKNOWN]
    stepped = {_stepped_ends(one_way) for one_way in steps}
    is_of_delay = isinstance(rule.began_by, BurstLevel)
    if not is_of_delay or len(stepped) != 1 or steps[0].step is SteppedDirection.CLOCK or not steps[0].step_ms:
        return None
    ends = stepped.pop()
    if ends is None or any(frozenset(path.name.split(" → ")) != frozenset(ends) for path in facts.paths):
        return None
    return LikelyCause(
        Fault.UNKNOWN,
        f"The delay from {ends[0]} to {ends[1]} changed by {steps[0].step_ms:+.1f} ms, reverse unchanged ({BY_STAMP}). "
        "Cannot tell whether it is a longer route or a queue: the RTTs of the pings do not show it.",
        f"Trace the route from {ends[0]} and compare it with an earlier one; ask the provider of that direction.",
        ends,
        BY_STAMP,
    )


def _stepped_ends(one_way: OneWayFacts) -> Ends | None:
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


def _of_path(losses: DirectionLosses | None) -> PathLosses | None:
    return None if losses is None else (losses.forward, losses.reverse)
