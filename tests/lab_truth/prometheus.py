"""Scores the gauges for Prometheus: a path's loss and condition, against the truth, the grid and the titles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.lab_truth.loss_figures import loss_mark
from tests.lab_truth.marks import Mark, Marked, worst
from tests.lab_truth.statements import Interval, Kind, read_clause
from tests.lab_truth.truth import TROUBLE, Pair, Phase, Truth

KEPT_S = 6.0
"""An answer is kept for 5 s: `monitor.api.prometheus.views`."""
SHARE = 0.5
"""How far a loss without its packets may be from the truth, as a share of it."""


def prometheus_marks(
    poll: Mapping[str, Any], pair_of: Mapping[int, Pair], sizes: Sequence[int], truth: Truth
) -> Iterator[Marked]:
    """The marks of all gauges. They are compared with other surfaces where no evaluation came between."""
    at, gauges = float(poll["at"]), poll["prometheus"]
    losses = {row["path_id"]: row for row in gauges["loss"] if row["path_id"] in pair_of}
    for path_id, row in losses.items():
        yield _loss_mark(row, pair_of[path_id], sizes, truth, at)
    for row in gauges["condition"]:
        if row["path_id"] in pair_of:
            yield _condition_mark(row["value"], pair_of[row["path_id"]], truth, at)
    if poll["evaluated"] is None or poll["evaluated"] != poll["evaluated_after"] or at - poll["evaluated"] < KEPT_S:
        return
    of_grid = {cell["path_id"]: cell["condition"] for cell in poll["loss"]["cells"]}
    for row in gauges["condition"]:
        if row["path_id"] in of_grid and row["value"] != of_grid[row["path_id"]]:
            told = f"condition {row['value']}, grid {of_grid[row['path_id']]}"
            yield Marked(Mark.UNCLEAR, f"{' → '.join(pair_of[row['path_id']])}: {told}")
    yield from _title_marks(poll, losses, {site for pair in truth.pairs for site in pair})


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["value"] * (1.0 - SHARE), min(1.0, row["value"] * (1.0 + SHARE)))


def _loss_mark(row: Mapping[str, Any], pair: Pair, sizes: Sequence[int], truth: Truth, at: float) -> Marked:
    """A loss of no size is that of any."""
    told = f"{' → '.join(pair)}: loss {row['value']:.2g}"
    of = sizes if row["packet_bytes"] is None else (row["packet_bytes"],)
    marks = [loss_mark(told, _interval(row), pair, size, truth, at) for size in of]
    return next((mark for mark in marks if mark.mark is Mark.TRUE), worst(marks))


def _condition_mark(condition: str, pair: Pair, truth: Truth, at: float) -> Marked:
    phase, told = truth.phase(pair, at), f"{' → '.join(pair)}: condition {condition}"
    if condition in TROUBLE:
        # A stray loss is suspect.
        of_clean = Mark.UNCLEAR if condition == "suspect" else Mark.FALSE
        mark = {Phase.CLEAN: of_clean, Phase.ENDED: Mark.LATE}.get(phase, Mark.TRUE)
        return Marked(mark, "" if mark is Mark.TRUE else told)
    if condition != "normal" or not truth.is_impaired(pair, at):
        return Marked(Mark.TRUE)
    return Marked(Mark.FALSE if phase is Phase.PROVED else Mark.SILENT, told)


def _title_marks(poll: Mapping[str, Any], losses: Mapping[int, Mapping[str, Any]], sites: set[str]) -> Iterator[Marked]:
    for incident in poll["incidents"]:
        title = read_clause(incident["title"], float(poll["at"]), sites)
        for path_id in incident["path_ids"]:
            if title.kind is not Kind.LOSS or title.figure is None or path_id not in losses:
                continue
            ratio = losses[path_id]["value"]
            if not title.figure.meets(ratio, ratio):
                yield Marked(Mark.UNCLEAR, f"loss {ratio:.2g}, title {incident['title']}")
