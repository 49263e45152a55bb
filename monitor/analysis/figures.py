"""Figures as English text with units. A partial loss never rounds to 0% or 100%; no loss is shown as a bound. Not here:
dates and names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from monitor.analysis.loss import ZERO_LOSS_BOUND

NO_DATA = "no data"

# Pages and documentation have this text.
EXCLUDED_PACKETS = (
    "Packets sent while a throughput test of ours ran from or to either end of the path are excluded; "
    "their RTT and loss are the latency under load."
)

_TOLERANCE = 1e-9
# Below this share of the high end, the low end is omitted: 0.008 to 6% is "up to 6%".
_NEXT_TO_NOTHING = 0.05
_BIT_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))

# Both ends of a shorter time are written to the second, unless both are whole minutes.
_TO_THE_SECOND = timedelta(minutes=10)


def count(number: int) -> str:
    return f"{number:,}"


def percent(ratio: float) -> str:
    """A ratio in percent: 1 decimal from 1% up, two significant digits below (2.1%, 0.034%)."""
    value = ratio * 100.0
    if value <= 0.0 or value >= 100.0:
        return "0%" if value <= 0.0 else "100%"
    if value > 99.9:
        return f"{_plain(value, math.ceil(-math.log10(100.0 - value)) + 1)}%"
    return f"{_plain(value, 1 if value >= 1.0 else 1 - math.floor(math.log10(value)))}%"


def about_percent(ratio: float, low: float, high: float) -> str:
    """A loss without its interval, for a cell: 5.2%, ~6% to a digit, ~5% (1, 2, 3, 5, 7) if the interval is wider."""
    exact = percent_between(ratio, low, high)
    if ratio <= 0.0 or " to " not in exact:
        return exact if ratio > 0.0 else percent(0.0)
    size = 10.0 ** _exponent(ratio * 100.0)
    if ratio < high - low and ratio < 0.5:
        ratio = (
            min((1.0, 2.0, 3.0, 5.0, 7.0, 10.0), key=lambda digit: abs(math.log(ratio * 100.0 / size / digit)))
            * size
            / 100.0
        )
    step = size / 2.0 if ratio * 100.0 < 1.75 * size else size
    return f"~{_plain(min(round(ratio * 100.0 / step) * step, 99.0), max(0, 1 - round(math.log10(size))))}%"


def percent_between(ratio: float, low: float, high: float) -> str:
    """A loss with no more digits than its interval proves: 5.2%, 5%, or the interval itself, 4 to 7%; without loss its
    bound, below 1.3%."""
    if ratio >= 1.0:
        return percent(ratio)
    if ratio <= 0.0:
        return f"below {_rounded_up_percent(high)}%"
    value, least, most = ratio * 100.0, low * 100.0, high * 100.0
    for decimals in range(1 if value >= 1.0 else 1 - _exponent(value), -1, -1):
        rounded, half = round(value, decimals), 0.5 * 10.0**-decimals + _TOLERANCE
        if 0.0 < rounded <= least + half and most <= rounded + half:
            return f"{_plain(rounded, decimals)}%"
    return percent_interval(low, high)


def percent_interval(low: float, high: float) -> str:
    """An interval of a loss in percent, rounded outward: 4 to 7%, or up to 6%."""
    least, most = low * 100.0, high * 100.0
    decimals = max(0, -_exponent(max((most - least) / 2.0, _TOLERANCE)))
    end = f"{_outward(math.ceil, most, decimals)}%"
    if least <= most * _NEXT_TO_NOTHING:
        return f"up to {end}"
    return f"{_outward(math.floor, least, max(decimals, -_exponent(least)))} to {end}"


def loss(lost: int, sent: int) -> str:
    """The pooled loss of `sent` packets; with none lost its 95% bound, `< 3/N` in percent, rounded up."""
    if sent == 0:
        return NO_DATA
    if lost > 0:
        return percent(lost / sent)
    return loss_bound(ZERO_LOSS_BOUND / sent) if sent > 3 else f"none lost of {sent}"


def loss_bound(ratio: float) -> str:
    """An upper bound of the loss in percent, rounded up: < 0.9%."""
    return f"< {_rounded_up_percent(ratio)}%"


def none_lost(sent: int) -> str:
    """No loss as its evidence: 0 of 1,530, so below 0.2% (95%). Up to three packets give no bound."""
    if sent <= 3:
        return f"0 of {sent}"
    return f"0 of {sent:,}, so below {_rounded_up_percent(ZERO_LOSS_BOUND / sent)}% (95%)"


def loss_evidence(sent: int, received: int) -> str:
    """The counts behind a loss: 12 of 6,000 lost; without loss `none_lost`."""
    return none_lost(sent) if received == sent else f"{sent - received:,} of {sent:,} lost"


def milliseconds(value_ms: float | None) -> str:
    """A time in ms to 0.1 ms from 100 ms up, to 0.01 ms from 1 ms up, to 1 µs below."""
    if value_ms is None or math.isnan(value_ms):
        return NO_DATA
    size = abs(value_ms)
    decimals = 1 if size >= 100 else 2 if size >= 1 else 3
    return f"{value_ms:,.{decimals}f} ms"


def milliseconds_between(low_ms: float, high_ms: float) -> str:
    return f"{milliseconds(low_ms).removesuffix(' ms')} to {milliseconds(high_ms)}"


def change_ms(before_ms: float, after_ms: float) -> str:
    """A change of a time in ms to three digits, or to 0.1 ms: 64 → 124.5 ms."""
    return f"{_short_ms(before_ms)} → {_short_ms(after_ms)} ms"


def bit_rate(value_bps: float | None) -> str:
    """A rate to three significant digits with its decimal prefix: 93.4 Mbit/s."""
    if value_bps is None or math.isnan(value_bps):
        return NO_DATA
    scale, unit = next((pair for pair in _BIT_RATES if value_bps >= pair[0]), _BIT_RATES[-1])
    number = value_bps / scale
    decimals = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{_plain(number, decimals)} {unit}"


def bit_rates(values_bps: Sequence[float]) -> str:
    """A rate, or the lowest and the highest: `1.05 Mbit/s to 28.9 Mbit/s`."""
    return " to ".join(dict.fromkeys(map(bit_rate, values_bps))) or NO_DATA


def duration(seconds: float) -> str:
    """Seconds under two minutes, minutes under two hours, then hours and days: 90 s, 10 min, 2.5 h, 3 days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{_plain(seconds / 3600, 1)} h"
    return f"{_plain(seconds / 86_400, 1)} days"


def time_so_far(seconds: float) -> str:
    """A running time in whole units passed: never longer than it is."""
    unit_s = 1 if seconds < 120 else 60 if seconds < 7200 else 360 if seconds < 172_800 else 8640
    return duration(max(seconds, 0.0) // unit_s * unit_s)


def clock_format(since: datetime, until: datetime) -> str:
    """The format of the times of day of both ends of a period."""
    is_short = until - since < _TO_THE_SECOND
    return "%H:%M:%S" if is_short and (since.second or until.second) else "%H:%M"


def _short_ms(value: float) -> str:
    size = abs(value)
    return _plain(value, 1 if size >= 10 else 2 if size >= 1 else 3)


def _plain(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _exponent(value: float) -> int:
    return math.floor(math.log10(value))


def _outward(rounding: Callable[[float], int], value: float, decimals: int) -> str:
    return _plain(rounding(round(value * 10.0**decimals, 6)) / 10.0**decimals, decimals)


def _rounded_up_percent(ratio: float) -> str:
    value = ratio * 100.0
    decimals = max(0, 1 - math.floor(math.log10(value)))
    return _plain(math.ceil(round(value * 10**decimals, 6)) / 10**decimals, decimals)
