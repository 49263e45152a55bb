"""Effects of a route change on a path: a step of its RTT, or loss. Most changes have none (Shao et al., arXiv
1709.04819): a step is near the change and exceeds its interval and the usual shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis import binomial
from monitor.analysis.routes.medians import (
    CONFIDENCE_Z,
    effective_count,
    median_interval,
    proportion_difference,
)
from monitor.arrays import Floats

# Longer windows on each side of a change take slow drift for a step.
WINDOW_S = 1200.0
# A step begins this long before or after the traces that enclose the change.
SLACK_S = 180.0
LEAST_SAMPLES = 6
LEAST_SHIFT_MS = 1.0
# A step by less than this share of the RTT has no consequence.
LEAST_SHIFT_RATIO = 0.02
HISTORY_S = 10_800.0
LEAST_HISTORY = 30
# A step exceeds 2.4 times the 80th percentile of the usual shifts, as 0.2% of normal shifts do.
USUAL_QUANTILE, USUAL_FACTOR = 0.8, 2.4

LOSS_BEFORE_S = 3600.0
# Minutes, or bursts if closer together, around the change; their loss must match their side's, else it began otherwise.
LOSS_NEAR_S, LOSS_NEAR_BURSTS = 600.0, 10
# Loss while routing converges, and on the new route.
LOSS_CONVERGING_S, LOSS_AFTER_S = 300.0, 1800.0
LEAST_LOSS_RATIO = 0.005
# Consecutive unanswered bursts that are an outage; no noise makes it, so 95% confidence suffices.
OUTAGE_BURSTS = 2


@dataclass(frozen=True, slots=True)
class BurstSeries:
    """Bursts in order of time."""

    at_s: Floats
    rtts_ms: Floats  # NaN where all packets were lost
    sent: NDArray[np.int64]
    lost: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MedianStep:
    at_s: float  # the first sample after it
    before_ms: float
    after_ms: float
    low_ms: float  # of the 99% interval of the step
    high_ms: float

    @property
    def shift_ms(self) -> float:
        return self.after_ms - self.before_ms


@dataclass(frozen=True, slots=True)
class LossStep:
    lost_before: int
    sent_before: int
    lost_after: int
    sent_after: int
    low_ratio: float  # of the difference; 99.9% interval, 95% for an outage
    high_ratio: float
    together: float = 1.0  # lost packets that count as one

    @property
    def is_rise(self) -> bool:
        return self.low_ratio > 0.0


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """The effect of a route change; at least one part is not None."""

    rtt: MedianStep | None
    loss: LossStep | None


def effect_of(
    series: BurstSeries, earliest_s: float, latest_s: float, since_s: float | None = None
) -> ChangeEffect | None:
    """The effect of a change between two traces, against bursts since `since_s` (the change before); None without."""
    rtt, loss = rtt_step(series, earliest_s, latest_s, since_s), loss_step(series, earliest_s, latest_s, since_s)
    return None if rtt is None and loss is None else ChangeEffect(rtt, loss)


def rtt_step(
    series: BurstSeries, earliest_s: float, latest_s: float, since_s: float | None = None
) -> MedianStep | None:
    """The step of the RTT by a change between `earliest_s` and `latest_s`."""
    received = ~np.isnan(series.rtts_ms)
    at_s, rtts = series.at_s[received], series.rtts_ms[received]
    near = (at_s >= _first_s(earliest_s - WINDOW_S, since_s)) & (at_s < latest_s + WINDOW_S)
    times, values = at_s[near], rtts[near]
    split = _likeliest_split(values)
    if split is None or not _is_within(times, split, earliest_s - SLACK_S, latest_s + SLACK_S):
        return None
    before, after = values[:split], values[split:]
    intervals = [median_interval(side, CONFIDENCE_Z[0.99], effective_count(side)) for side in (before, after)]
    old, new = intervals
    if old is None or new is None:
        return None
    step = MedianStep(float(times[split]), old.median, new.median, new.low - old.high, new.high - old.low)
    least_ms = max(LEAST_SHIFT_MS, LEAST_SHIFT_RATIO * old.median, _usual_shift_ms(at_s, rtts, times[0], len(before)))
    excludes_zero = step.low_ms > 0.0 or step.high_ms < 0.0
    return step if excludes_zero and abs(step.shift_ms) >= least_ms else None


def _first_s(first_s: float, since_s: float | None) -> float:
    return first_s if since_s is None else max(first_s, since_s)


def _likeliest_split(values: Floats) -> int | None:
    """Samples before the split of least absolute deviation from both medians."""
    splits = range(LEAST_SAMPLES, len(values) - LEAST_SAMPLES + 1)
    if not splits:
        return None
    misfits = [
        np.abs(values[:split] - np.median(values[:split])).sum()
        + np.abs(values[split:] - np.median(values[split:])).sum()
        for split in splits
    ]
    return splits[int(np.argmin(misfits))]


def _is_within(times: Floats, split: int, first_s: float, last_s: float) -> bool:
    return bool(times[split] >= first_s and times[split - 1] <= last_s)


def _usual_shift_ms(at_s: Floats, rtts: Floats, until_s: float, samples: int) -> float:
    history = rtts[(at_s >= until_s - HISTORY_S) & (at_s < until_s)]
    if len(history) < max(LEAST_HISTORY, 2 * samples + 2):
        return 0.0
    medians = np.median(np.lib.stride_tricks.sliding_window_view(history, samples), axis=1)
    shifts = np.abs(medians[samples:] - medians[:-samples])
    return float(USUAL_FACTOR * np.quantile(shifts, USUAL_QUANTILE))


def loss_step(series: BurstSeries, earliest_s: float, latest_s: float, since_s: float | None = None) -> LossStep | None:
    """The change of loss between two traces, while routing converged or afterwards."""
    near_s = min(LOSS_NEAR_S, LOSS_NEAR_BURSTS * _spacing_s(series))
    hour = _between(series, _first_s(earliest_s - LOSS_BEFORE_S, since_s), earliest_s)
    last = _between(series, _first_s(earliest_s - near_s, since_s), earliest_s)
    first = _between(series, latest_s, latest_s + near_s)
    converging = _between(series, earliest_s, latest_s + LOSS_CONVERGING_S)
    began = _between(series, earliest_s, latest_s + min(LOSS_CONVERGING_S, near_s))
    after = _between(series, latest_s, latest_s + LOSS_AFTER_S)
    steps = [_compared(series, hour, last, *windows) for windows in ((converging, began), (after, first))]
    return max(
        (step for step in steps if step is not None),
        key=lambda step: step.lost_after / step.sent_after,
        default=None,
    )


def _spacing_s(series: BurstSeries) -> float:
    return float(np.median(np.diff(series.at_s))) if len(series.at_s) > 1 else math.inf


def _between(series: BurstSeries, first_s: float, last_s: float) -> NDArray[np.bool_]:
    return (series.at_s >= first_s) & (series.at_s < last_s)


def _compared(
    series: BurstSeries,
    before: NDArray[np.bool_],
    last_before: NDArray[np.bool_],
    after: NDArray[np.bool_],
    first_after: NDArray[np.bool_],
) -> LossStep | None:
    sent, lost = series.sent, series.lost
    both = before | after
    if not sent[before].sum() or not sent[after].sum() or not lost[both].sum():
        return None
    ratios = [float(lost[part].sum() / max(sent[part].sum(), 1)) for part in (before, after)]
    middle, is_rise = sum(ratios) / 2.0, ratios[1] > ratios[0]
    if abs(ratios[1] - ratios[0]) < LEAST_LOSS_RATIO:
        return None
    for part, is_high in ((last_before, not is_rise), (first_after, is_rise)):
        if not sent[part].sum() or bool(lost[part].sum() / sent[part].sum() > middle) is not is_high:
            return None
    # Loss comes in runs, which may be longer in either window: the longer count.
    together = max(
        float(binomial.clustering(part.sum(), (lost[part] > 0).sum(), sent[part].sum(), lost[part].sum()))
        for part in (before, after, both)
        if lost[part].sum()
    )
    scaled = [(float(lost[part].sum()) / together, float(sent[part].sum()) / together) for part in (before, after)]
    z = CONFIDENCE_Z[0.95 if _has_outage(lost[after] == sent[after]) else 0.999]
    low, high = proportion_difference(scaled[0], scaled[1], z)
    if low <= 0.0 <= high:
        return None
    (lost_before, sent_before), (lost_after, sent_after) = (
        (int(lost[part].sum()), int(sent[part].sum())) for part in (before, after)
    )
    return LossStep(lost_before, sent_before, lost_after, sent_after, low, high, together)


def _has_outage(unanswered: NDArray[np.bool_]) -> bool:
    longest = current = 0
    for is_unanswered in unanswered.tolist():
        current = current + 1 if is_unanswered else 0
        longest = max(longest, current)
    return longest >= OUTAGE_BURSTS
