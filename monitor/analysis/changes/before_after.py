"""Compare RTT, loss and throughput before and after a moment, with 99% intervals. Hours are compared at the same time
of day; dependence (`analysis.routes.medians`) reduces their number. A proven change may have another cause at that
time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from monitor.analysis import figures
from monitor.analysis.routes.medians import effective_count, median_interval, proportion_difference
from monitor.arrays import Floats

DAY_HOURS = 24
HOUR_S = 3600.0
DAYS_BEFORE, DAYS_AFTER = 7, 7
LEAST_HOURS = 6
LEAST_TESTS = 6
# Hourly medians come from sketches, which are within 1%.
LEAST_RTT_MS, LEAST_RTT_RATIO = 0.1, 0.02
LEAST_LOSS_RATIO = 0.0002
LEAST_RATE_RATIO = 0.1
CONFIDENCE = 0.99


class Proof(StrEnum):
    PROVEN = "proven"
    NOT_PROVEN = "not proven"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class HourCounts:
    at_s: Floats  # beginning
    rtts_ms: Floats  # median; NaN without replies
    sent: Floats
    lost: Floats


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure before and after, with the interval of the difference; all None where unknown."""

    figure: str
    proof: Proof
    before: float | None
    after: float | None
    low: float | None  # of the difference, in the unit of the figure
    high: float | None
    words: str  # the statement, or the reason of None


def compare(
    hours: HourCounts, tests: Sequence[tuple[float, float]], at_s: float, now_s: float, *, of_paths: int = 1
) -> list[Comparison]:
    """Compare the three figures around `at_s`; `tests` are times in seconds and rates in bit/s. Intervals hold at 99%
    for all `of_paths` together."""
    before, after = _matched(hours, at_s, now_s)
    # Bonferroni: hundreds of comparisons at 99% each would prove several changes that did not happen.
    z = NormalDist().inv_cdf(1.0 - (1.0 - CONFIDENCE) / (2.0 * of_paths))
    return [_rtt(hours, before, after, z), _loss(hours, before, after, z), _throughput(tests, at_s, z)]


def _matched(hours: HourCounts, at_s: float, now_s: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    first_after = math.floor(at_s / HOUR_S) + 1
    last_before = math.ceil(at_s / HOUR_S) - 1
    number = np.round(hours.at_s / HOUR_S)
    whole_after = math.floor(now_s / HOUR_S) - first_after
    days = min(whole_after // DAY_HOURS, DAYS_AFTER)
    length = days * DAY_HOURS or max(whole_after, 0)
    after = (number >= first_after) & (number < first_after + length)
    before = (number < last_before) & (number >= last_before - DAYS_BEFORE * DAY_HOURS)
    # Less than a day is compared with the same hours of the days before, because of the daily pattern.
    if not days:
        times_of_day = {(first_after + hour) % DAY_HOURS for hour in range(length)}
        before &= np.isin(number % DAY_HOURS, list(times_of_day))
    return before, after


def _rtt(hours: HourCounts, before: NDArray[np.bool_], after: NDArray[np.bool_], z: float) -> Comparison:
    old, new = (_without_daily_cycle(hours, before, part) for part in (before, after))
    return _medians("RTT", (old, new), z, LEAST_HOURS, "hours with replies", figures.milliseconds, _least_rtt_ms)


def _without_daily_cycle(hours: HourCounts, before: NDArray[np.bool_], part: NDArray[np.bool_]) -> Floats:
    """RTTs less the excess of their time of day in the hours before."""
    times_of_day = (np.round(hours.at_s / HOUR_S) % DAY_HOURS).astype(np.int64)
    has_rtt = ~np.isnan(hours.rtts_ms)
    past = hours.rtts_ms[before & has_rtt]
    usual = np.full(DAY_HOURS, np.nan)
    for time_of_day in range(DAY_HOURS):
        same = hours.rtts_ms[before & has_rtt & (times_of_day == time_of_day)]
        if len(same):
            usual[time_of_day] = np.median(same) - np.median(past)
    values: Floats = (hours.rtts_ms - usual[times_of_day])[part & has_rtt]
    return values[~np.isnan(values)]


def _least_rtt_ms(before_ms: float) -> float:
    return max(LEAST_RTT_MS, LEAST_RTT_RATIO * before_ms)


def _throughput(tests: Sequence[tuple[float, float]], at_s: float, z: float) -> Comparison:
    span_s = DAYS_BEFORE * DAY_HOURS * HOUR_S
    old = np.array([bps for test_s, bps in tests if at_s - span_s <= test_s < at_s])
    new = np.array([bps for test_s, bps in tests if at_s <= test_s < at_s + span_s])
    return _medians(
        "throughput", (old, new), z, LEAST_TESTS, "tests", figures.bit_rate, lambda old_bps: LEAST_RATE_RATIO * old_bps
    )


def _medians(
    name: str,
    samples: tuple[Floats, Floats],
    z: float,
    least: int,
    unit: str,
    shown: Callable[[float], str],
    least_change: Callable[[float], float],
) -> Comparison:
    old, new = samples
    if min(len(old), len(new)) < least:
        words = f"{name}: cannot tell, {len(old)} {unit} before and {len(new)} after, {least} needed"
        return Comparison(name, Proof.CANNOT_TELL, None, None, None, None, words)
    first, second = (median_interval(values, z, effective_count(values)) for values in (old, new))
    assert first is not None
    assert second is not None
    low, high = second.low - first.high, second.high - first.low
    change = second.median - first.median
    is_proven = not low <= 0.0 <= high and abs(change) >= least_change(first.median)
    return _comparison(name, is_proven, first.median, second.median, low, high, shown)


def _loss(hours: HourCounts, before: NDArray[np.bool_], after: NDArray[np.bool_], z: float) -> Comparison:
    parts = [part & (hours.sent > 0) for part in (before, after)]
    if min(int(part.sum()) for part in parts) < LEAST_HOURS:
        counts = [int(part.sum()) for part in parts]
        words = f"loss: cannot tell, {counts[0]} hours before and {counts[1]} after, {LEAST_HOURS} needed"
        return Comparison("loss", Proof.CANNOT_TELL, None, None, None, None, words)
    counted = [(float(hours.lost[part].sum()), float(hours.sent[part].sum())) for part in parts]
    together = max(_together(hours.sent[part], hours.lost[part]) for part in parts)
    scaled = [(lost / together, sent / together) for lost, sent in counted]
    low, high = proportion_difference(scaled[0], scaled[1], z)
    old, new = (lost / sent for lost, sent in counted)
    is_proven = not low <= 0.0 <= high and abs(new - old) >= LEAST_LOSS_RATIO
    return _comparison("loss", is_proven, old, new, low, high, figures.percent)


def _together(sent: Floats, lost: Floats) -> float:
    """Dispersion of the hours times their dependence, at least 1."""
    total, ratio = sent.sum(), lost.sum() / sent.sum()
    if not 0.0 < ratio < 1.0:
        return 1.0
    residuals = (lost - ratio * sent) ** 2 / (sent * ratio * (1.0 - ratio))
    dispersion = max(float(residuals.sum()) / max(len(sent) - 1, 1), 1.0)
    dependence = len(sent) / effective_count(lost / sent)
    return min(dispersion * dependence, float(total))


def _comparison(
    name: str, is_proven: bool, before: float, after: float, low: float, high: float, shown: Callable[[float], str]
) -> Comparison:
    proof = Proof.PROVEN if is_proven else Proof.NOT_PROVEN
    direction = "higher" if after > before else "lower" if after < before else "unchanged"
    verdict = f"{direction}, proven" if is_proven else "no proven change"
    words = f"{name}: {shown(before)} before, {shown(after)} after: {verdict}"
    return Comparison(name, proof, before, after, low, high, words)
