"""Scores stored polls of a planted fault, surface by surface, against the planted truth.

In: a `Truth` and polls as `tests.lab_truth.polling` stores them. Out: a `PollScore` for each poll. Pure; the words are
read by `tests.lab_truth.statements`; figures of the grid are scored by `tests.lab_truth.cells`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab_truth.cells import cell_mark
from tests.lab_truth.closed import closed_marks
from tests.lab_truth.hovers import hover_marks, text_marks
from tests.lab_truth.marks import Mark, Marked, worst
from tests.lab_truth.path_pages import path_page_marks
from tests.lab_truth.prometheus import prometheus_marks
from tests.lab_truth.statement_marks import calls_normal, calls_over, names, onset_mark, statement_mark
from tests.lab_truth.statements import BAD, Kind, Statement, read_clause, read_sentence
from tests.lab_truth.surfaces import contradictions
from tests.lab_truth.truth import ACTIVE, AFFECTED, Pair, Phase, Truth

LONG_BEFORE_S = 30.0
"""An evaluation is each 10 s, and a page may be as old again."""
TELLING = BAD | {Kind.PROBLEMS, Kind.CHECKED, Kind.OVER}


@dataclass(frozen=True, slots=True)
class Sighting:
    """The newest burst of a path and packet size, which began `measured_at`, as it was known at a time."""

    at: float
    path_id: int
    packet_bytes: int
    measured_at: float


@dataclass(frozen=True, slots=True)
class PollScore:
    """A poll by surface. `mark` is the worst of them."""

    at: float
    surfaces: Mapping[str, Marked]

    @property
    def mark(self) -> Mark:
        return worst(self.surfaces.values()).mark


def score_polls(polls: Sequence[Mapping[str, Any]], truth: Truth) -> list[PollScore]:
    """The scores of the polls of a run in their order."""
    scores, seen = [], list[Sighting]()
    for poll in polls:
        at = float(poll["at"])
        scores.append(score_poll(poll, truth, [sighting for sighting in seen if sighting.at <= at - LONG_BEFORE_S]))
        seen += [
            Sighting(at, row["path_id"], row["packet_bytes"], row["value"])
            for row in poll.get("prometheus", {}).get("measured", ())
        ]
    return scores


def score_poll(poll: Mapping[str, Any], truth: Truth, seen: Iterable[Sighting] = ()) -> PollScore:
    """The mark of each surface of a poll, if it has it; where surfaces contradict each other, the one beside the
    sentence is unclear. `seen` are bursts that had been delivered long before."""
    at, sites = float(poll["at"]), {site for pair in truth.pairs for site in pair}
    sentence = read_sentence(poll["state"]["sentence"], at, sites)
    status = read_sentence(poll["status"]["sentence"], at, sites)
    rows = [read_clause(f"{row['what']} {row['when']}", at, sites) for row in poll["status"]["open"]]
    pair_of = {cell["path_id"]: (cell["source"], cell["destination"]) for cell in poll["loss"]["cells"]}
    found: dict[str, list[Marked]] = {
        "sentence": sentence_marks(sentence, truth, at),
        "counts": [count_mark(poll["state"], truth, at)],
        "grid": [
            cell_mark(cell, poll[metric], metric, truth, at)
            for metric in ("loss", "rtt")
            for cell in poll[metric]["cells"]
        ],
        "incidents": [mark for row in poll["incidents"] for mark in incident_marks(row, pair_of, truth, at, sites)],
        "status": [*sentence_marks(status, truth, at), *(statement_mark(row, truth, at) for row in rows)],
    }
    found |= _of_pages(poll, pair_of, truth, {(each.path_id, each.packet_bytes): each.measured_at for each in seen})
    for surface, reason in contradictions(poll, sentence, status, pair_of, sites):
        found[surface].append(Marked(Mark.UNCLEAR, reason))
    return PollScore(at, {surface: worst(marks) for surface, marks in found.items()})


def _of_pages(
    poll: Mapping[str, Any], pair_of: Mapping[int, Pair], truth: Truth, delivered: Mapping[tuple[int, int], float]
) -> dict[str, list[Marked]]:
    """The marks of the surfaces that a poll may lack."""
    at = float(poll["at"])
    cells = [
        (cell, pair_of[cell["path_id"]], int(size))
        for size, row in poll.get("hovers", {}).items()
        for cell in row
        if cell["path_id"] in pair_of
    ]
    found = {}
    if cells:
        found["hovers"] = [
            mark
            for cell, pair, size in cells
            for mark in hover_marks(cell["said"], pair, size, truth, at, delivered.get((cell["path_id"], size)))
        ]
        found["cells"] = [mark for cell, pair, size in cells for mark in text_marks(cell, pair, size, truth, at)]
    page = poll.get("path_page")
    if page is not None and page["path_id"] in pair_of:
        found["path page"] = list(path_page_marks(page, pair_of[page["path_id"]], truth, at))
    if "prometheus" in poll:
        found["prometheus"] = list(prometheus_marks(poll, pair_of, [*map(int, poll["hovers"])], truth))
    if poll.get("closed"):
        found["closed"] = [mark for row in poll["closed"] for mark in closed_marks(row, pair_of, truth, at)]
    return found


def sentence_marks(statements: Sequence[Statement], truth: Truth, at: float) -> list[Marked]:
    """The marks of its statements, and of what it does not tell."""
    marks = [statement_mark(statement, truth, at) for statement in statements]
    if not any(statement.kind in TELLING for statement in statements):
        overdue = sum(statement.count or 1 for statement in statements if statement.kind is Kind.OVERDUE)
        says_normal = any(statement.kind is Kind.ALL_NORMAL for statement in statements)
        marks.append(_silence_mark(overdue, says_normal, truth, at))
    return marks


def _silence_mark(overdue: int, says_normal: bool, truth: Truth, at: float) -> Marked:
    """Of a surface that tells no fault. The impaired paths may be those without newer data that count."""
    active, proved = truth.in_phase(at, ACTIVE), truth.in_phase(at, {Phase.PROVED})
    if not active or (proved and overdue >= len(active)):
        return Marked(Mark.TRUE)
    after = Mark.FALSE if says_normal else Mark.MISSED
    return Marked(after if proved else Mark.SILENT, "the fault is not told")


def count_mark(state: Mapping[str, Any], truth: Truth, at: float) -> Marked:
    """The counts of paths by state."""
    proved = truth.in_phase(at, {Phase.PROVED})
    affected, ended = truth.in_phase(at, AFFECTED), truth.in_phase(at, {Phase.ENDED})
    going_on = state["with_problems"]
    if calls_over(state["back_to_normal"], truth, at):
        return Marked(Mark.FALSE, f"{state['back_to_normal']} paths back to normal, {len(proved)} are not")
    if calls_normal(state["normal"], truth, proved):
        return Marked(Mark.FALSE, f"{state['normal']} paths normal, {len(proved)} are not")
    if going_on > len(affected):
        is_late = going_on <= len(affected | ended)
        return Marked(Mark.LATE if is_late else Mark.FALSE, f"{going_on} paths with problems, {len(affected)} have")
    if going_on + state["back_to_normal"] + state["being_checked"]:
        return Marked(Mark.TRUE)
    return _silence_mark(state["overdue"], False, truth, at)


def incident_marks(
    incident: Mapping[str, Any], pair_of: Mapping[int, Pair], truth: Truth, at: float, sites: Iterable[str]
) -> list[Marked]:
    """The title of an open incident, its paths and its onset."""
    title = read_clause(incident["title"], at, frozenset(sites))
    paths = [pair_of[key] for key in incident["path_ids"] if key in pair_of]
    marks = [statement_mark(title, truth, at, paths)]
    wrong = [pair for pair in paths if truth.phase(pair, at) is Phase.CLEAN]
    if wrong:
        marks.append(Marked(Mark.FALSE, f"incident on {names(wrong)}, not affected"))
    if incident["began"] is not None:
        marks.append(onset_mark(title, paths, float(incident["began"]), 1.0, truth, at))
    return marks


def changes_a_minute(polls: Sequence[Mapping[str, Any]]) -> int:
    """The most changes of the sentence within 60 s."""
    said = [(float(poll["at"]), str(poll["state"]["sentence"])) for poll in polls]
    changes = [at for (_, before), (at, now) in itertools.pairwise(said) if now != before]
    return max((sum(begin <= at < begin + 60.0 for at in changes) for begin in changes), default=0)
