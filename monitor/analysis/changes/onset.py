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
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LIKELY_NATS = 3.7
LEAST_BEFORE, LEAST_AFTER = 3, 1
"""Minimum number of samples on either side of a boundary."""

MOST_STEPS, CLOSE = 30, 1e-6
"""Of Newton's method for a rate, and the relative step at which it is near enough: four to twelve steps."""

_LEAST_DEVIATION_MS = 0.05
"""Minimum deviation of a stretch: RTTs equal to their last digit are not infinitely certain."""


@dataclass(frozen=True, slots=True)
class Onset:
    """The first sample of the new stretch: the most likely, and the ends of its 95% interval."""

    at: int
    earliest: int
    latest: int


def onset_of_events(hits: ArrayLike, packets: ArrayLike | None = None, series: ArrayLike | None = None) -> Onset | None:
    """Where events have become more frequent; `hits` is true or false for each sample, shape (samples,).

    `packets`, of the same shape, are those of each sample where any of them may be the event: n packets have one with
    the chance 1 - exp(-rate n), so that a sample of few packets tells less. None where all samples tell alike.
    `series`, of the same shape, numbers the series of each sample: several with one boundary, each with its own rates.
    None where no boundary makes events more frequent, or where there are too few samples.
    """
    events = np.asarray(hits, dtype=np.bool_)
    sizes = np.ones(len(events)) if packets is None else np.asarray(packets, dtype=np.float64)
    of = np.zeros(len(events)) if series is None else np.asarray(series)
    splits = _splits(len(events))
    if splits is None:
        return None
    likelihood = sum(
        (_event_likelihood(events, sizes, of == each, splits) for each in np.unique(of)), np.zeros(len(splits))
    )
    before, sent_before = events.cumsum()[splits - 1], sizes.cumsum()[splits - 1]
    rises = (events.sum() - before) * sent_before > before * (sizes.sum() - sent_before)
    return _likeliest(splits, np.where(rises, likelihood, -np.inf))


def onset_of_values(values: ArrayLike) -> Onset | None:
    """Where the level has changed, up or down; `values` has no NaN, shape (samples,).

    A stretch is taken as Laplace-distributed around its median, so that spikes count little. None where there are too
    few samples.
    """
    series = np.asarray(values, dtype=np.float64)
    splits = _splits(len(series))
    if splits is None:
        return None
    likelihood = np.array([-_misfit(series[:split]) - _misfit(series[split:]) for split in splits.tolist()])
    return _likeliest(splits, likelihood)


def _splits(samples: int) -> NDArray[np.int64] | None:
    """The boundaries to try, by the first sample after each."""
    if samples < LEAST_BEFORE + LEAST_AFTER:
        return None
    return np.arange(LEAST_BEFORE, samples - LEAST_AFTER + 1)


def _likeliest(splits: NDArray[np.int64], likelihood: Floats) -> Onset | None:
    best = likelihood.max()
    if not np.isfinite(best):
        return None
    likely = splits[likelihood >= best - LIKELY_NATS]
    at = splits[likelihood == best][-1]  # before it are samples that tell nothing, such as those of another series
    return Onset(int(at), int(likely[0]), int(likely[-1]))


def _event_likelihood(
    events: NDArray[np.bool_], sizes: Floats, is_own: NDArray[np.bool_], splits: NDArray[np.int64]
) -> Floats:
    """The maximum log-likelihood of the samples of a series, with a rate before and another after each boundary."""
    packets = np.unique(sizes[is_own & (sizes > 0.0)])
    of_size = is_own[:, np.newaxis] & (sizes[:, np.newaxis] == packets)
    counts = [(of_size & which[:, np.newaxis]).cumsum(axis=0) for which in (events, ~events)]
    before, after = ([of[splits - 1] for of in counts], [of[-1] - of[splits - 1] for of in counts])
    return sum((_rate_likelihood(hits, misses, packets) for hits, misses in (before, after)), np.zeros(len(splits)))


def _rate_likelihood(hits: NDArray[np.int64], misses: NDArray[np.int64], packets: Floats) -> Floats:
    """The maximum log-likelihood of so many samples with and without an event, shape (splits, sizes), of so many
    packets, shape (sizes,).

    The derivative by the rate is convex and falls; Newton's method from the left of its zero does not overshoot, and
    (e^x - 1)**-1 > 1/x - 1/2 gives such a start.
    """
    if len(packets) <= 1:
        return _bernoulli(hits.sum(axis=1), (hits + misses).sum(axis=1))
    missed = (misses * packets).sum(axis=1)
    is_inner = (missed > 0.0) & hits.any(axis=1)  # otherwise the rate is 0 or infinite, and the samples are certain
    hits, missed = hits[is_inner], missed[is_inner]
    rate = hits.sum(axis=1) / (missed + (hits * packets).sum(axis=1) / 2.0)
    for _ in range(MOST_STEPS):
        growth = np.expm1(rate[:, np.newaxis] * packets)
        slope = (hits * packets / growth).sum(axis=1) - missed
        bend = (hits * packets**2 * (growth + 1.0) / growth**2).sum(axis=1)
        step = slope / bend
        rate = rate + step
        if (np.abs(step) <= CLOSE * rate).all():
            break
    likelihood = np.zeros(len(is_inner))
    chances = -np.expm1(-rate[:, np.newaxis] * packets)
    likelihood[is_inner] = scipy.special.xlogy(hits, chances).sum(axis=1) - rate * missed
    return likelihood


def _bernoulli(hits: NDArray[np.int64], of: NDArray[np.int64]) -> Floats:
    """The maximum log-likelihood of so many events in so many samples; 0 of none."""
    ratio = hits / np.maximum(of, 1)
    return np.asarray(scipy.special.xlogy(hits, ratio) + scipy.special.xlogy(of - hits, 1.0 - ratio))


def _misfit(stretch: Floats) -> float:
    deviation = float(np.abs(stretch - np.median(stretch)).mean())
    return len(stretch) * float(np.log(max(deviation, _LEAST_DEVIATION_MS)))
