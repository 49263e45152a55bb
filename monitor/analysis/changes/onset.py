"""Beginning of a change: the most likely boundary in a series in which a rule detected a change, with its interval.

In: a series with a change, in order of time. Out: an `Onset`, in numbers of samples. Detection is not here (`detector`,
`monitor.analysis.alarms`).

Method: maximum likelihood of a boundary between two stretches (Hinkley 1970), and as the interval all boundaries
whose log-likelihood is within LIKELY_NATS of the best: the likelihood-ratio confidence set of D. Siegmund, "Confidence
sets in change-point problems" (International Statistical Review 56, 1988). Away from the true boundary the log-
likelihood ratio is a random walk with negative drift on either side; for its maximum M, P(M <= x) is at least (1 -
exp(-x))**2, which is 0.95 at 3.7 nats. The levels are estimated too, which costs some of that:
tests/unit/analysis/test_changes_onset.py counts how often the interval holds the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LIKELY_NATS = 3.7
LEAST_BEFORE, LEAST_AFTER = 3, 1
"""Minimum number of samples on either side of a boundary."""

_LEAST_DEVIATION_MS = 0.05
"""Minimum deviation of a stretch: RTTs equal to their last digit are not infinitely certain."""


@dataclass(frozen=True, slots=True)
class Onset:
    """The first sample of the new stretch: the most likely, and the ends of its 95% interval."""

    at: int
    earliest: int
    latest: int


def onset_of_values(values: ArrayLike) -> Onset | None:
    """Where the level has changed, up or down; `values` has no NaN, shape (samples,).

    A stretch is taken as Laplace-distributed around its median, so that spikes count little. None where there are too
    few samples.
    """
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
