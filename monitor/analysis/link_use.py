"""Forecast when a link is full from weekly 95th percentiles of its five-minute use, with an 80% interval.

Theil-Sen line (H. Theil 1950, P. Sen 1968) since the last level step, residual bootstrap (autoregressive), Mann-Kendall
test of the trend; docs/method/link_use.md has its scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from monitor.analysis import figures
from monitor.arrays import Floats

# Header bytes missing from counters and gaps between frames keep five minutes below all of the capacity.
FULL_RATIO = 0.95
LEAST_WEEKS = 8
MOST_WEEKS = 52
YEAR_WEEKS = 52
QUARTER_WEEKS = 13
# Weeks that are simulated onward.
FURTHEST_WEEKS = 156
# 99%, one-sided.
TREND_Z = 2.326
DRAWS = 250
# Below this share of the other model's absolute residuals, growth by amount or by ratio is used alone.
MUCH_BETTER = 0.75
# Share of the capacity, so that an idle week has a logarithm.
LEAST_USE = 1e-6
# Weeks on each side of a step.
LEAST_SIDE = 4
STEP_SIGMAS = 3.0
LARGEST_DEPENDENCE = 0.8
MAD_SIGMA = 1.4826


class FullVerdict(StrEnum):
    FULL = "full"
    FULL_IN = "full in"
    NOT_WITHIN_YEAR = "not within a year"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class FullForecast:
    """When a link is full, in weeks from the last measured week."""

    verdict: FullVerdict
    reason: str
    capacity_bps: float | None
    weeks_used: int = 0  # to which the line was fitted
    level_bps: float | None = None  # of the line at the last week; None without a line
    slope_bps: float | None = None  # per week; None without a line
    weeks: int | None = None  # with FULL_IN only
    low_weeks: int | None = None
    high_weeks: int | None = None  # None beyond FURTHEST_WEEKS

    @property
    def words(self) -> str:
        if self.verdict is not FullVerdict.FULL_IN:
            return f"{self.verdict}{f': {self.reason}' if self.reason else ''}"
        high = f"more than {FURTHEST_WEEKS}" if self.high_weeks is None else str(self.high_weeks)
        unit = "week" if self.weeks == 1 else "weeks"
        return f"full in about {self.weeks} {unit} ({self.low_weeks} to {high})"

    @property
    def fills_within_quarter(self) -> bool:
        return self.verdict is FullVerdict.FULL or (
            self.verdict is FullVerdict.FULL_IN and self.weeks is not None and self.weeks <= QUARTER_WEEKS
        )


def forecast_full(weeks: Sequence[int], p95_bps: Sequence[float], capacity_bps: float | None) -> FullForecast:
    """Forecast from the weeks (ascending numbers, gaps allowed) and their 95th percentiles."""
    if capacity_bps is None or capacity_bps <= 0.0:
        return _unknown("the capacity is unknown", None)
    if len(weeks) < LEAST_WEEKS:
        return _unknown(f"{_weeks(len(weeks))} measured, {LEAST_WEEKS} needed", capacity_bps)
    at = np.asarray(weeks[-MOST_WEEKS:], dtype=np.float64)
    use = np.asarray(p95_bps[-MOST_WEEKS:], dtype=np.float64) / capacity_bps
    begin = _last_step(at, use)
    since_step = len(at) - begin
    newest = float(np.median(use[max(begin, len(use) - LEAST_SIDE) :]))
    if newest >= FULL_RATIO:
        return FullForecast(
            FullVerdict.FULL, f"{figures.percent(newest)} of the capacity in the last weeks", capacity_bps, since_step
        )
    if since_step < LEAST_WEEKS:
        reason = f"the level changed {_weeks(since_step)} ago, {LEAST_WEEKS} needed since"
        return _unknown(reason, capacity_bps, since_step)
    return _forecast(at[begin:] - at[-1], use[begin:], capacity_bps)


def _forecast(at: Floats, use: Floats, capacity_bps: float) -> FullForecast:
    slope, level = _line(at, use)
    fitted = replace(
        _unknown("no trend is proven", capacity_bps, len(at)),
        level_bps=level * capacity_bps,
        slope_bps=slope * capacity_bps,
    )
    early, middle, late = np.quantile(_first_full(at, use), (0.1, 0.5, 0.9), method="inverted_cdf")
    if early > YEAR_WEEKS:
        return replace(fitted, verdict=FullVerdict.NOT_WITHIN_YEAR, reason="")
    if not _is_rising(at, use):
        return fitted
    if middle > YEAR_WEEKS:
        return replace(fitted, reason=f"at the earliest in {_weeks(int(early))}, more likely in more than a year")
    return replace(
        fitted,
        verdict=FullVerdict.FULL_IN,
        reason="",
        weeks=int(middle),
        low_weeks=int(early),
        high_weeks=int(late) if math.isfinite(late) else None,
    )


def _unknown(reason: str, capacity_bps: float | None, weeks_used: int = 0) -> FullForecast:
    return FullForecast(FullVerdict.CANNOT_TELL, reason, capacity_bps, weeks_used)


def _weeks(count: int) -> str:
    return "1 week" if count == 1 else f"{count} weeks"


def _line(at: Floats, use: Floats) -> tuple[float, float]:
    """Slope and value at 0 of the Theil-Sen line."""
    slopes, levels = _lines(at, use[None, :])
    return float(slopes[0]), float(levels[0])


def _lines(at: Floats, rows: Floats) -> tuple[Floats, Floats]:
    first, second = np.triu_indices(len(at), 1)
    slopes: Floats = np.median((rows[:, second] - rows[:, first]) / (at[second] - at[first]), axis=1)
    levels: Floats = np.median(rows - slopes[:, None] * at, axis=1)
    return slopes, levels


def _last_step(at: Floats, use: Floats) -> int:
    """Place after the last level step; 0 without any."""
    begin = 0
    while len(use) - begin >= 2 * LEAST_SIDE:
        part, times = use[begin:], at[begin:]
        slope, level = _line(times, part)
        line_cost = float(np.abs(part - level - slope * times).sum())
        costs = [
            (float(_deviations(part[:place]).sum() + _deviations(part[place:]).sum()), place)
            for place in range(LEAST_SIDE, len(part) - LEAST_SIDE + 1)
        ]
        cost, place = min(costs)
        before, after = part[:place], part[place:]
        scatter = MAD_SIGMA * float(np.median(np.concatenate([_deviations(before), _deviations(after)])))
        rise = abs(float(np.median(after) - np.median(before)))
        if cost >= line_cost or rise <= STEP_SIGMAS * scatter:
            return begin
        begin += place
    return begin


def _deviations(values: Floats) -> Floats:
    deviations: Floats = np.abs(values - np.median(values))
    return deviations


def _dependence(residuals: Floats) -> float:
    """Correlation of neighbouring weeks, corrected for its bias in short series (M. Kendall 1954)."""
    square = float((residuals**2).sum())
    if square == 0.0:
        return 0.0
    correlation = float((residuals[1:] * residuals[:-1]).sum()) / square
    corrected = correlation + (1.0 + 3.0 * correlation) / len(residuals)
    return min(max(corrected, 0.0), LARGEST_DEPENDENCE)


def _residuals(at: Floats, use: Floats) -> Floats:
    slope, level = _line(at, use)
    residuals: Floats = use - level - slope * at
    return residuals


def _is_rising(at: Floats, use: Floats) -> bool:
    """Whether the signs of all pairs of weeks prove a rise."""
    count = len(use)
    signs = np.sign(use[None, :] - use[:, None])
    score = float(signs[np.triu_indices(count, 1)].sum())
    dependence = _dependence(_residuals(at, use))
    variance = count * (count - 1) * (2 * count + 5) / 18.0 * (1.0 + dependence) / (1.0 - dependence)
    return (score - 1.0) / math.sqrt(variance) > TREND_Z


def _first_full(at: Floats, use: Floats) -> Floats:
    """Draws of the first full week after the last measured; infinite beyond `FURTHEST_WEEKS`."""
    random = np.random.default_rng(len(use))
    rates = np.log(np.maximum(use, LEAST_USE))
    by_amount = float(np.abs(_residuals(at, use)).sum())
    by_ratio = float(np.abs(use - np.exp(rates - _residuals(at, rates))).sum())
    draws = []
    if by_ratio >= MUCH_BETTER * by_amount:
        draws.append(_draws(at, use, FULL_RATIO, random))
    if by_amount >= MUCH_BETTER * by_ratio:
        draws.append(_draws(at, rates, math.log(FULL_RATIO), random))
    return np.concatenate(draws)


def _draws(at: Floats, values: Floats, full: float, random: np.random.Generator) -> Floats:
    count = len(values)
    slope, level = _line(at, values)
    residuals = _residuals(at, values)
    dependence = _dependence(residuals)
    steps = residuals[1:] - dependence * residuals[:-1]
    # The fit takes degrees of freedom: residuals of few weeks scatter less than weeks to come.
    steps = (steps - steps.mean()) * math.sqrt(count / (count - LEAST_SIDE))
    past = _autoregression(random.choice(steps, (DRAWS, count + LEAST_WEEKS)), dependence, 0.0)[:, LEAST_WEEKS:]
    slope_errors, level_errors = _lines(at, past)
    ahead = np.arange(1, FURTHEST_WEEKS + 1, dtype=np.float64)
    scatter = _autoregression(random.choice(steps, (DRAWS, len(ahead))), dependence, residuals[-1])
    paths = (level - level_errors)[:, None] + (slope - slope_errors)[:, None] * ahead + scatter
    is_full = paths >= full
    first: Floats = np.where(is_full.any(axis=1), is_full.argmax(axis=1) + 1.0, np.inf)
    return first


def _autoregression(steps: Floats, dependence: float, start: float) -> Floats:
    values = np.empty_like(steps)
    last = np.full(len(steps), start)
    for place in range(steps.shape[1]):
        last = dependence * last + steps[:, place]
        values[:, place] = last
    return values
