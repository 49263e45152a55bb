"""Scores a shown loss of a path and packet size against the planted truth."""

from __future__ import annotations

import re

from tests.lab_truth.cells import wilson
from tests.lab_truth.marks import Mark, Marked
from tests.lab_truth.statement_marks import CYCLE_S, LOSS
from tests.lab_truth.statements import PERCENT, Interval, read_percent
from tests.lab_truth.truth import Pair, Phase, Truth

STRAY_RATIO = 0.01
"""The lab's alert limit: a lower loss is a stray one where none is planted."""
NONE_OF = re.compile(r"\b0 of (?P<sent>[\d,]+)")


def read_loss(text: str) -> Interval | None:
    """The loss in a short text: `~15%`, `0 of 92`, `0`, `< 0.9%`, `up to 6%`, `all lost`; None without."""
    if re.search(r"\ball lost\b|\bno reply since\b", text):
        return Interval(1.0, 1.0)
    none = NONE_OF.search(text)
    if none is not None:
        return wilson(0.0, max(1, int(none["sent"].replace(",", ""))))
    if re.fullmatch(r"0%?", text):
        return Interval(0.0, STRAY_RATIO)
    found = PERCENT.search(text)
    if found is None:
        return None
    figure = read_percent(found)
    # It may be none, but does not say so: the lowest of no loss is 0.
    return Interval(-figure.high, figure.high) if "up to" in text else figure


def loss_mark(
    told: str, figure: Interval, pair: Pair, packet_bytes: int, truth: Truth, at: float, since: float | None = None
) -> Marked:
    """A loss that was shown at `at` for packets of this size, since a moment or the begin of its level."""
    phase, lasting = truth.phase(pair, at, LOSS), truth.level_since(pair, at, LOSS)
    begin = lasting if since is None or phase is Phase.ENDED else since
    low, high = truth.loss_range(pair, begin, at, packet_bytes)
    reason = f"{told}: true {low:.3g} to {high:.3g} of {packet_bytes} B"
    usual = truth.loss_range(pair, -1.0, -1.0, packet_bytes)[1]
    # Of a path that flaps the newest packets may be from before an outage.
    of_now = truth.loss_range(pair, at - 2.0 * CYCLE_S, at, packet_bytes)
    is_impaired = of_now[0] > usual and truth.is_impaired(pair, at)
    if phase is Phase.PROVED and is_impaired and figure.low == 0.0:
        return Marked(Mark.FALSE, reason)
    if phase is Phase.UNPROVED and is_impaired and figure.low == 0.0:
        return Marked(Mark.SILENT, reason)
    is_stray = phase in (Phase.CLEAN, Phase.ENDED) and figure.low < STRAY_RATIO
    if is_stray or figure.meets(low, high):
        return Marked(Mark.TRUE)
    return Marked(Mark.LATE if phase is Phase.ENDED and figure.low > 0.0 else Mark.UNCLEAR, reason)
