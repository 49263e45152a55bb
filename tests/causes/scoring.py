"""Score the stated causes of a planted fault. The truth is the fault as planted, never the code that states it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from monitor.alerts.evidence.stated import Fault
from tests.causes.faults import Expectation, PlantedFault
from tests.causes.network import Pair
from tests.causes.runs import StatedIncident


class Mark(StrEnum):
    """Quality of the statements about a planted fault, worst first."""

    WRONG = "wrong"
    MISSED = "missed"
    UNKNOWN = "cannot tell"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Score:
    """The mark of a fault, whether its incidents have the right paths, and the sentences."""

    fault: PlantedFault
    mark: Mark
    has_right_paths: bool
    has_direction: bool
    sentences: tuple[str, ...]
    wrong_before: tuple[str, ...]
    """Wrong sentences before the end."""


def score(fault: PlantedFault, stated_by_step: Sequence[Sequence[StatedIncident]]) -> Score:
    """Compare the incidents with the expectations; an incident without a fault is a wrong statement."""
    *before, stated = stated_by_step
    remaining, marks, paths, ways = list(stated), list[Mark](), list[bool](), list[bool]()
    for expectation in fault.expected:
        match = max(remaining, key=lambda incident: _overlap(incident, expectation), default=None)
        if match is None or not _overlap(match, expectation):
            marks.append(Mark.MISSED)
            paths.append(False)
            continue
        remaining.remove(match)
        marks.append(_mark(match, expectation))
        paths.append(match.paths == expectation.paths)
        if expectation.toward is not None:
            ways.append(match.evidence.cause.toward == expectation.toward)
    marks += [_mark_besides(incident, fault) for incident in remaining]
    order = list(Mark)
    wrong = [incident for step in before for incident in step if _is_wrong_so_far(incident, fault)]
    return Score(
        fault,
        min(marks, key=order.index, default=Mark.RIGHT),
        all(paths) and not remaining,
        all(ways),
        _sentences(stated),
        tuple(dict.fromkeys(_sentences(wrong))),
    )


def _sentences(stated: Iterable[StatedIncident]) -> tuple[str, ...]:
    return tuple(f"{incident.incident.cause}: {incident.evidence.likely}" for incident in stated)


def _is_wrong_so_far(stated: StatedIncident, fault: PlantedFault) -> bool:
    """Whether a statement before the end contradicts the fault. A part of its paths, and so a narrower place, does
    not."""
    cause = stated.evidence.cause
    if not cause.is_certain:
        return False
    of_paths = [expectation for expectation in fault.expected if stated.paths & expectation.paths]
    if not of_paths:
        return _mark_besides(stated, fault) is Mark.WRONG
    return not any(
        cause.fault in (*expectation.faults, *expectation.vaguer)
        and stated.paths <= expectation.paths
        and _is_within(cause.toward, expectation.toward)
        for expectation in of_paths
    )


def _is_within(toward: Pair | None, expected: Pair | None) -> bool:
    """Whether a direction is the expected one, or a part of it: of a site, the other end is empty."""
    if toward is None:
        return True
    return expected is not None and all(end in (part, "") for part, end in zip(toward, expected, strict=True))


def _mark(stated: StatedIncident, expectation: Expectation) -> Mark:
    cause = stated.evidence.cause
    if not cause.is_certain or cause.fault in expectation.vaguer:
        return Mark.UNKNOWN
    if cause.fault not in expectation.faults or not all(word in cause.sentence for word in expectation.place):
        return Mark.WRONG
    if cause.toward is not None and cause.toward != expectation.toward:
        return Mark.WRONG
    return Mark.RIGHT


def _mark_besides(stated: StatedIncident, fault: PlantedFault) -> Mark:
    """An incident that no planted fault explains is wrong, unless it reports slow transfers, and they are slow."""
    slow = {pair for pair in stated.paths if any(transfers.hits(*pair) for transfers in fault.transfers)}
    if stated.evidence.cause.fault is Fault.RATE and stated.paths == slow:
        return Mark.RIGHT
    return Mark.WRONG if stated.evidence.cause.is_certain else Mark.UNKNOWN


def _overlap(stated: StatedIncident, expectation: Expectation) -> float:
    """Similarity of the paths, with a small bonus for the right fault, which distinguishes incidents on the same
    paths."""
    both = len(stated.paths & expectation.paths) / len(stated.paths | expectation.paths)
    return both + 0.01 * (stated.evidence.cause.fault in expectation.faults) if both else 0.0


def totals(scores: Iterable[Score]) -> dict[Mark, int]:
    every = list(scores)
    return {mark: sum(score.mark is mark for score in every) for mark in Mark}
