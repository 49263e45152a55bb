"""Compare reported changes with hand-labelled changes, by sample index.

Rule of the labels' authors (arXiv 1709.04819): pairs at most WINDOW samples apart, the maximum number of matches, then
the minimum total distance.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

WINDOW = 2  # samples
LATEST = 15  # samples from a change until it has to be raised
QUIET_MARGIN = 15  # samples from any marked change


@dataclass(frozen=True, slots=True)
class DetectionScore:
    """Counts of one or several traces."""

    matched: int = 0
    false: int = 0
    missed: int = 0
    delays: tuple[int, ...] = ()  # in samples, of each match

    def __add__(self, other: DetectionScore) -> DetectionScore:
        return DetectionScore(
            self.matched + other.matched,
            self.false + other.false,
            self.missed + other.missed,
            self.delays + other.delays,
        )

    @property
    def precision(self) -> float | None:
        """Matched over reported; None when nothing was reported."""
        return _ratio(self.matched, self.matched + self.false)

    @property
    def recall(self) -> float | None:
        """Matched over marked; None when nothing was marked."""
        return _ratio(self.matched, self.matched + self.missed)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None when nothing was reported and nothing marked."""
        return _ratio(2 * self.matched, 2 * self.matched + self.false + self.missed)

    @property
    def median_delay(self) -> float | None:
        return statistics.median(self.delays) if self.delays else None


def score(
    marked: ArrayLike,
    reported: ArrayLike,
    raised: ArrayLike | None = None,
    *,
    window: int = WINDOW,
    latest: int = LATEST,
) -> DetectionScore:
    """Score of a trace from marked and reported changes and the sample of each report.

    Reports more than `latest` samples after a change do not match; without `raised` there is no limit and no delay.
    """
    changes, reports = np.asarray(marked, dtype=np.int64), np.asarray(reported, dtype=np.int64)
    delays = None if raised is None else np.asarray(raised, dtype=np.int64)[None, :] - changes[:, None]
    pairs = match(changes, reports, window, None if delays is None else delays <= latest)
    return DetectionScore(
        matched=len(pairs),
        false=len(reports) - len(pairs),
        missed=len(changes) - len(pairs),
        delays=() if delays is None else tuple(int(delays[pair]) for pair in pairs),
    )


def match(
    changes: ArrayLike, reports: ArrayLike, window: int = WINDOW, allowed: NDArray[np.bool_] | None = None
) -> list[tuple[int, int]]:
    """Pairs of places in `changes` and `reports`; `allowed`, of shape (changes, reports), can rule pairs out."""
    distance = np.abs(np.asarray(changes)[:, None] - np.asarray(reports)[None, :])
    near = distance <= window if allowed is None else (distance <= window) & allowed
    one_match = (window + 1) * (min(distance.shape) + 1)  # more than all distances of any matching together
    rows, columns = linear_sum_assignment(np.where(near, distance - one_match, 0))
    return [(int(row), int(column)) for row, column in zip(rows, columns, strict=True) if near[row, column]]


def quiet(marked: Sequence[int] | NDArray[np.int64], samples: int, margin: int = QUIET_MARGIN) -> NDArray[np.bool_]:
    """For each sample of a trace whether it lies more than `margin` samples from every marked change."""
    still = np.ones(samples, dtype=bool)
    for change in marked:
        still[max(0, int(change) - margin) : int(change) + margin + 1] = False
    return still


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
