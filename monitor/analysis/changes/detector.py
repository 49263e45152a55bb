"""Find changes in a series of RTTs (ms, NaN where lost) from the past alone, without state.

Generalised likelihood-ratio test of two Laplace stretches against a single stretch, in the logarithm of the excess over
the floor (Basseville and Nikiforov 1993, section 2.4; docs/method/changes.md).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from monitor.arrays import Floats

BEFORE = 14  # received samples before the boundary that is judged
AFTER = 14  # received samples from the boundary on; the last of them raises the change
LEAST_EVIDENCE = 7.0  # nats
WARNING_SHIFT_MS = 6.0

_WINDOWS = ((8, 8), (10, 10), (14, 10), (10, 14))  # samples before and after the boundary
_RIVALS = 6  # a boundary must prove more than any other so many samples away
_FLOOR_QUANTILE = 0.1
_RESOLUTION_MS = 1.0  # differences above the floor that are smaller than this hardly count
_LEAST_DEVIATION = 0.3  # in logarithms: no stretch is taken as quieter, which also serves quantised round trips
_ROWS_AT_ONCE = 4096


class ChangeSeverity(enum.StrEnum):
    """How much a change matters to users of the path; `WARNING` is the least that should alert a person."""

    NOTICE = "notice"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class RttChange:
    """Position and size of a change. Indices count all samples, also lost packets."""

    at: int  # the first sample of the new stretch
    raised_at: int  # the sample that completed the proof
    evidence: float  # mean log-likelihood ratio, nats
    before_ms: float  # median of the BEFORE samples before
    after_ms: float  # median of the AFTER samples from the change on
    shift_ms: float  # how far both quartiles moved at least; negative for a fall, 0 where they moved apart

    @property
    def severity(self) -> ChangeSeverity:
        """A warning where the whole distribution rose by WARNING_SHIFT_MS or more, else a notice."""
        return ChangeSeverity.WARNING if self.shift_ms >= WARNING_SHIFT_MS else ChangeSeverity.NOTICE


def changes(rtts_ms: ArrayLike, least_evidence: float = LEAST_EVIDENCE) -> list[RttChange]:
    """All changes of a series of shape (samples,), as they would have been raised live."""
    rtts = np.asarray(rtts_ms, dtype=np.float64)
    if rtts.ndim != 1:
        raise ValueError(f"RTTs have {rtts.ndim} dimensions; give a single series, of shape (samples,)")
    received = np.flatnonzero(~np.isnan(rtts))
    if len(received) < BEFORE + AFTER:
        return []
    raised_by_row = raised(sliding_window_view(rtts[received], BEFORE + AFTER), least_evidence)
    return [
        replace(change, at=int(received[row + change.at]), raised_at=int(received[row + change.raised_at]))
        for row, change in raised_by_row.items()
    ]


def raised(windows: ArrayLike, least_evidence: float = LEAST_EVIDENCE) -> dict[int, RttChange]:
    """Changes proven by the newest sample of each path, by row of `windows`, with indices in it.

    `windows` (paths, BEFORE + AFTER) are the last received RTTs in ms, oldest first. Call once for every new sample.
    """
    rows = np.asarray(windows, dtype=np.float64)
    proven = evidence(rows)
    return {row: _change(rows[row], float(proven[row])) for row in np.flatnonzero(proven >= least_evidence).tolist()}


def evidence(windows: ArrayLike) -> Floats:
    """Evidence in nats for a change before sample BEFORE, shape (paths,); 0 where a nearby boundary explains more.
    `windows` as in `raised`."""
    rows = np.asarray(windows, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != BEFORE + AFTER:
        raise ValueError(f"windows have shape {rows.shape}; give (paths, {BEFORE + AFTER})")
    if np.isnan(rows).any():
        raise ValueError("a window has lost samples; give the last received ones")
    blocks = [_evidence(rows[first : first + _ROWS_AT_ONCE]) for first in range(0, len(rows), _ROWS_AT_ONCE)]
    return np.concatenate(blocks) if blocks else np.empty(0)


def apart(windows: ArrayLike, least_evidence: float = LEAST_EVIDENCE) -> dict[int, RttChange]:
    """As `raised` for windows with a gap at the boundary: no other boundary counts against it."""
    rows = np.asarray(windows, dtype=np.float64)
    if not len(rows):
        return {}
    proven = np.mean([_at_boundary(rows[:, BEFORE - b : BEFORE + a], b) for b, a in _WINDOWS], axis=0)
    return {row: _change(rows[row], float(proven[row])) for row in np.flatnonzero(proven >= least_evidence).tolist()}


def _at_boundary(rows: Floats, before: int) -> Floats:
    """Log-likelihood ratio of two stretches, split at `before`, to one."""
    floor = np.quantile(rows, _FLOOR_QUANTILE, axis=1, keepdims=True)
    excess = np.log(np.maximum(rows - floor, 0.0) + _RESOLUTION_MS)
    return _misfit(excess) - _misfit(excess[:, :before]) - _misfit(excess[:, before:])


def _evidence(rows: Floats) -> Floats:
    """Evidence averaged over the windows; 0 if not the greatest nearby."""
    by_split = np.mean([_by_split(rows[:, BEFORE - b : BEFORE + a], b) for b, a in _WINDOWS], axis=0)
    wins = by_split.argmax(axis=0) == _RIVALS
    return np.where(wins, by_split[_RIVALS], 0.0)


def _by_split(rows: Floats, before: int) -> Floats:
    """As `_at_boundary`, for each split up to _RIVALS from `before`."""
    floor = np.quantile(rows, _FLOOR_QUANTILE, axis=1, keepdims=True)
    excess = np.log(np.maximum(rows - floor, 0.0) + _RESOLUTION_MS)
    splits = range(before - _RIVALS, before + _RIVALS + 1)
    apart: Floats = np.array([_misfit(excess[:, :split]) + _misfit(excess[:, split:]) for split in splits])
    return _misfit(excess) - apart


def _misfit(stretch: Floats) -> Floats:
    """Negative maximum Laplace log-likelihood, up to a constant per sample."""
    samples = stretch.shape[1]
    ordered = np.sort(stretch, axis=1)  # several times as fast as np.median for the few rows of a small mesh
    middle = (ordered[:, (samples - 1) // 2] + ordered[:, samples // 2]) / 2.0
    deviation = np.abs(stretch - middle[:, np.newaxis]).sum(axis=1) / samples
    return np.asarray(samples * np.log(deviation + _LEAST_DEVIATION))


def _change(window: Floats, proven: float) -> RttChange:
    before, after = (np.quantile(part, (0.25, 0.5, 0.75)) for part in (window[:BEFORE], window[BEFORE:]))
    lower, _, upper = (after - before).tolist()
    return RttChange(
        at=BEFORE,
        raised_at=BEFORE + AFTER - 1,
        evidence=proven,
        before_ms=float(before[1]),
        after_ms=float(after[1]),
        shift_ms=math.copysign(min(abs(lower), abs(upper)), lower) if lower * upper > 0.0 else 0.0,
    )
