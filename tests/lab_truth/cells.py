"""Scores a cell of the grid against the planted truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.lab_truth.marks import Mark, Marked
from tests.lab_truth.statements import LEAST_MS, SHARE_OF_POINT, Interval, Kind
from tests.lab_truth.truth import DELAYS, Phase, Range, Signal, Truth

Z = 3.29
"""Half-width of the interval of a count: 99.9%, since each poll has twenty cells."""
SILENT_S = 90.0
"""A total loss is of the newest cycles, known after their delivery and an evaluation."""
SIGNALS = {"loss": frozenset({Signal.LOSS}), "rtt": DELAYS}


def cell_mark(cell: Mapping[str, Any], grid: Mapping[str, Any], metric: str, truth: Truth, at: float) -> Marked:
    """The mark of a cell of the grid of this metric."""
    pair, name = (cell["source"], cell["destination"]), f"{cell['source']} → {cell['destination']} {metric}"
    if pair not in truth.pairs:
        return Marked(Mark.TRUE)
    phase, is_open = truth.phase(pair, at, SIGNALS[metric]), cell["incident_id"] is not None
    if is_open and truth.phase(pair, at) is Phase.CLEAN:
        return Marked(Mark.FALSE, f"cell {name}: incident on a path that is not affected")
    interval = _interval(cell, metric)
    if interval is None:
        return Marked(Mark.TRUE)
    if cell["state"] == "total_loss":
        return _total_loss_mark(name, cell, grid, truth, at)
    low, high = _truth_of(cell, grid, metric, truth, at)
    if phase is Phase.PROVED and cell["value"] == 0.0 and low > 0.0 and truth.is_impaired(pair, at):
        return Marked(Mark.FALSE, f"cell {name}: no loss")
    if interval.meets(low, high):
        return Marked(Mark.TRUE)
    usual_low, usual_high = truth.loss_range(pair, -1.0, -1.0) if metric == "loss" else truth.rtt_range(pair, -1, -1)
    is_usual, is_level = interval.meets(usual_low, usual_high), cell["value_measured"] is not None
    told = f"cell {name}: {_figure(cell, metric)}, true {low:.4g} to {high:.4g}"
    if phase is Phase.PROVED and is_usual and not is_open:
        return Marked(Mark.FALSE, told)
    if phase is Phase.ENDED and not is_usual and (is_open or is_level):
        return Marked(Mark.LATE, told)
    return Marked(Mark.UNCLEAR, told)


def _total_loss_mark(name: str, cell: Mapping[str, Any], grid: Mapping[str, Any], truth: Truth, at: float) -> Marked:
    """All lost now: its newest cycles, or all of the time shown."""
    pair = cell["source"], cell["destination"]
    if truth.loss_range(pair, at - SILENT_S, at, grid["packet_bytes"])[1] > 0.999:
        is_late = truth.phase(pair, at) is Phase.ENDED
        return Marked(Mark.LATE if is_late else Mark.TRUE, f"cell {name}: all lost" if is_late else "")
    is_late = truth.phase(pair, at) is Phase.ENDED
    return Marked(Mark.LATE if is_late else Mark.FALSE, f"cell {name}: all lost")


def _truth_of(cell: Mapping[str, Any], grid: Mapping[str, Any], metric: str, truth: Truth, at: float) -> Range:
    """The true figures of the time that the cell shows: the window of the grid, since the end of an incident, or of a
    level."""
    pair = cell["source"], cell["destination"]
    since, until = float(grid["since"]), float(grid["until"])
    if cell["is_since_end"] and cell["ended"] is not None:
        since = max(since, float(cell["ended"]))
    if cell["value_measured"] is not None:
        since = max(since, truth.level_since(pair, at, SIGNALS[metric]))
    if metric == "loss":
        return truth.loss_range(pair, since, until, grid["packet_bytes"])
    low, high = truth.rtt_range(pair, since, until)
    return low, high


def _interval(cell: Mapping[str, Any], metric: str) -> Interval | None:
    """The figure of a cell with the interval of its counts; None without a figure."""
    if cell["state"] == "total_loss":
        return Interval(1.0, 1.0)
    value = cell["value"]
    if cell["state"] not in ("value", "none_lost") or value is None:
        return None
    if metric == "rtt":
        within = max(LEAST_MS, SHARE_OF_POINT[Kind.RTT] * value)
        return Interval(value - within, value + within)
    sent = cell["value_sent"] if cell["value_sent"] is not None else cell["sent"]
    if not sent:
        return Interval(value * 0.5, min(1.0, value * 1.5))
    return wilson(value, sent)


def wilson(ratio: float, sent: int) -> Interval:
    """Wilson's interval of a ratio (1927)."""
    square = Z * Z / sent
    middle = (ratio + square / 2) / (1 + square)
    within = Z / (1 + square) * math.sqrt(ratio * (1 - ratio) / sent + square / (4 * sent))
    # Rounded, so that no loss holds a truth of exactly none.
    return Interval(round(middle - within, 9), round(middle + within, 9))


def _figure(cell: Mapping[str, Any], metric: str) -> str:
    return f"{cell['value']:.2%}" if metric == "loss" else f"{cell['value']:.1f} ms"
