"""Ends and ticks of axes, equal in SVG and interactive chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOST_TICKS = 6
PADDING = 0.04
MOST_TIME_TICKS = 9
# A label nearer than this to the end of the time axis would stick out of the chart.
EDGE_SHARE = 0.025
TICK_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600)
WEEK_S = 604_800
TICK_MONTHS = (1, 2, 3, 6, 12, 24)
NO_RATES_BPS = (1e6, 1e9)
LEAST_BPS = 1.0


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    ticks: tuple[float, ...]  # ascending
    is_log: bool = False

    def share(self, value: float) -> float:
        """Position between the ends, clipped to 0 to 1; on a logarithmic scale 0 is at 0."""
        if self.is_log and value <= 0:
            return 0.0
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def linear_scale(low: float, high: float) -> Scale:
    """Scale a little wider than the values, with ticks at multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        low, high = 0.98 * low, 1.02 * high if high > 0 else 1.0
    low, high = max(0.0, low - PADDING * (high - low)), high + PADDING * (high - low)
    rough = (high - low) / MOST_TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step), math.floor(high / step)
    return Scale(low, high, tuple(round(number * step, digits) for number in range(first, last + 1)))


def log_scale(values: list[float]) -> Scale:
    """Ends and ticks at 1, 2 or 5 times a power of ten, or powers only."""
    low, high = (max(LEAST_BPS, min(values)), max(LEAST_BPS, *values)) if values else NO_RATES_BPS
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 2)
    ladder = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    first = max(place for place, step in enumerate(ladder) if step <= low * 1.001)
    last = min(place for place, step in enumerate(ladder) if step >= high * 0.999 and place > first)
    ticks = ladder[first : last + 1]
    if len(ticks) >= MOST_TICKS:
        ticks = [step for step in ticks if math.log10(step).is_integer()]
    return Scale(ladder[first], ladder[last], tuple(ticks[:: math.ceil(len(ticks) / MOST_TICKS)]), is_log=True)


def time_ticks(since: datetime, until: datetime) -> list[datetime]:
    """At most nine round moments in UTC."""
    length = until - since
    edge = EDGE_SHARE * length
    return [at for at in _round_moments(since, length) if since + edge <= at <= until - edge]


def _round_moments(since: datetime, length: timedelta) -> Iterator[datetime]:
    since = since.astimezone(UTC)
    until = since + length
    least_s = length.total_seconds() / MOST_TIME_TICKS
    step_s = next((step for step in TICK_S if step >= least_s), None)
    if step_s is not None:
        at = datetime.fromtimestamp(since.timestamp() // step_s * step_s, tz=UTC)
        while at <= until:
            yield at
            at += timedelta(seconds=step_s)
        return
    if least_s <= WEEK_S:
        at = since.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=since.weekday())
        while at <= until:
            yield at
            at += timedelta(days=7)
        return
    months = next((months for months in TICK_MONTHS if months * 30 * 86_400 >= least_s), TICK_MONTHS[-1])
    number = (since.year * 12 + since.month - 1) // months * months
    while (at := datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)) <= until:
        yield at
        number += months


def time_label(at: datetime) -> str:
    """The largest part of the time that begins at the tick, as in interactive charts."""
    at = at.astimezone(UTC)
    if at.second:
        return f"{at:%H:%M:%S}"
    if at.hour or at.minute:
        return f"{at:%H:%M}"
    if at.day > 1:
        return f"{at:%d %b}" if at.isoweekday() == 7 else f"{at:%a %d %b}"
    return f"{at:%B}" if at.month > 1 else f"{at:%Y}"


def rate_label(bps: float) -> str:
    for unit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if bps >= unit:
            return f"{bps / unit:g}{prefix}"
    return f"{bps:g}"
