"""Maximum-likelihood boundary of a detected change in a series, with its interval (Hinkley 1970).

The interval has all boundaries within LIKELY_NATS of the best (D. Siegmund, "Confidence sets in change-point problems",
1988); tests/unit/analysis/test_changes_onset.py counts its coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats

LIKELY_NATS = 3.7
# Minimum number of samples on either side of a boundary.
LEAST_BEFORE, LEAST_AFTER = 3, 1

# Minimum deviation of a stretch: RTTs equal to their last digit are not infinitely certain.
_LEAST_DEVIATION_MS = 0.05


@dataclass(frozen=True, slots=True)
class Onset:
    """The first sample of the new stretch."""

    at: int  # most likely
    earliest: int  # of the 95% interval
    latest: int


def onset_of_values(values: ArrayLike) -> Onset | None:
    """Where the level has changed; `values` without NaN, shape (samples,). None with too few. Stretches are
    Laplace-distributed, so that spikes count little."""
    series = np.asarray(values, dtype=np.float64)
    if len(series) < LEAST_BEFORE + LEAST_AFTER:
        return None
    # The boundaries to try, by the first sample after each.
    splits = np.arange(LEAST_BEFORE, len(series) - LEAST_AFTER + 1)
    likelihood = np.array([-_misfit(series[:split]) - _misfit(series[split:]) for split in splits.tolist()])
    likely = splits[likelihood >= likelihood.max() - LIKELY_NATS]
    return Onset(int(splits[likelihood == likelihood.max()][-1]), int(likely[0]), int(likely[-1]))


def _misfit(stretch: Floats) -> float:
    deviation = float(np.abs(stretch - np.median(stretch)).mean())
    return len(stretch) * float(np.log(max(deviation, _LEAST_DEVIATION_MS)))
