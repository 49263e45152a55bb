"""Contradictions between the surfaces of a poll: in the set of paths, in counts and in figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tests.lab_truth.statements import BAD, Interval, Kind, Statement, read_clause
from tests.lab_truth.truth import Pair


def contradictions(
    poll: Mapping[str, Any],
    sentence: Sequence[Statement],
    status: Sequence[Statement],
    pair_of: Mapping[int, Pair],
    sites: Collection[str],
) -> Iterator[tuple[str, str]]:
    """The surfaces that contradict the sentence, each with the reason; none of a poll in which the sentence changed
    between its requests."""
    state, incidents = poll["state"], poll["incidents"]
    if poll["sentence_after"] != state["sentence"]:
        return
    in_incidents = state["with_problems"] + state["back_to_normal"]
    told, on_status = _count(sentence, Kind.PROBLEMS), _count(status, Kind.PROBLEMS)
    if told is not None and told not in (state["with_problems"], in_incidents):
        yield "counts", f"sentence has {told} paths with problems, state {state['with_problems']} of {in_incidents}"
    if on_status is not None and told is not None and on_status != told:
        yield "status", f"status has {on_status} paths with problems, sentence {told}"
    listed = _count(status, Kind.INCIDENTS)
    if listed is not None and listed != len(incidents):
        yield "status", f"status has {listed} open incidents, the list {len(incidents)}"
    flagged = {pair_of[cell["path_id"]] for cell in poll["loss"]["cells"] if cell["incident_id"] is not None}
    if len(flagged) != in_incidents:
        yield "grid", f"{len(flagged)} cells with an incident, {in_incidents} paths in incidents"
    yield from _titles(incidents, sentence, pair_of, float(poll["at"]), sites)


def _titles(
    incidents: Sequence[Mapping[str, Any]],
    sentence: Sequence[Statement],
    pair_of: Mapping[int, Pair],
    at: float,
    sites: Collection[str],
) -> Iterator[tuple[str, str]]:
    """A path that the sentence calls bad is in an incident, and a figure of both is the same."""
    named = [statement for statement in sentence if statement.kind in BAD and statement.pairs]
    all_paths = {pair_of[key] for row in incidents for key in row["path_ids"] if key in pair_of}
    for statement in named:
        # Of a loss one way an incident may have the reverse path, whose pings cross the same direction.
        if incidents and not (statement.pairs | {pair[::-1] for pair in statement.pairs}) & all_paths:
            yield "sentence", f"no incident has the paths of: {statement.text}"
        for row in incidents:
            title = read_clause(row["title"], at, sites)
            is_same = title.kind is statement.kind and bool(title.pairs & statement.pairs)
            figures = title.figure, statement.figure
            if is_same and not _meet(*figures):
                yield "incidents", f"title {row['title']}, sentence {statement.text}"


def _count(statements: Sequence[Statement], kind: Kind) -> int | None:
    return next((each.count for each in statements if each.kind is kind and each.count is not None), None)


def _meet(figure: Interval | None, other: Interval | None) -> bool:
    return figure is None or other is None or figure.meets(other.low, other.high)
