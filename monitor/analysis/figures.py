"""Figures as text: numbers in, short English text with its unit out.

A partial loss never rounds to 0% or to 100%, no loss is shown as a bound, and a missing value is "no data".
Not here: dates and names, and anything that depends on where the text is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from monitor.analysis.loss import ZERO_LOSS_BOUND

NO_DATA = "no data"

EXCLUDED_PACKETS = (
    "Packets sent while a throughput test of ours ran from or to either end of the path are excluded; "
    "their RTT and loss are the latency under load."
)
"""Pages and documentation have this text."""

_TOLERANCE = 1e-9
_NEXT_TO_NOTHING = 0.05
"""Share of its high end below which the low end of an interval is not written: 0.008 to 6% is up to 6%."""
_BIT_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))

_TO_THE_SECOND = timedelta(minutes=10)
"""Of a shorter time both ends are written to the second, unless both are whole minutes."""


def count(number: int) -> str:
    """1,140."""
    return f"{number:,}"


def percent(ratio: float) -> str:
    """A ratio (0 to 1) in percent: 1 decimal from 1% up, two significant digits below, as in 2.1% and 0.034%."""
    value = ratio * 100.0
    if value <= 0.0 or value >= 100.0:
        return "0%" if value <= 0.0 else "100%"
    if value > 99.9:
        return f"{_plain(value, math.ceil(-math.log10(100.0 - value)) + 1)}%"
    return f"{_plain(value, 1 if value >= 1.0 else 1 - math.floor(math.log10(value)))}%"


def about_percent(ratio: float, low: float, high: float) -> str:
    """A loss in short, where its interval does not fit: 5.2%, or ~5% to one significant digit, as for a cell."""
    exact = percent_between(ratio, low, high)
    if ratio <= 0.0 or " to " not in exact:
        return exact if ratio > 0.0 else percent(0.0)
    size = 10.0 ** _exponent(ratio * 100.0)
    step = size / 2.0 if ratio * 100.0 < 1.75 * size else size
    return f"~{_plain(min(round(ratio * 100.0 / step) * step, 99.0), max(0, 1 - round(math.log10(size))))}%"


def percent_between(ratio: float, low: float, high: float) -> str:
    """A loss whose true value lies between `low` and `high`, with no more digits than that proves: 5.2%, 5% or 4 to 7%.

    A figure is between the halves of its last digit; where no number of digits fits, the interval itself is written.
    Without loss its bound: below 1.3%. All lost is 100%.
    """
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
    """An interval of a loss in percent, rounded outward: 4 to 7%, and up to 6% where its low end is next to nothing."""
    least, most = low * 100.0, high * 100.0
    decimals = max(0, -_exponent(max((most - least) / 2.0, _TOLERANCE)))
    end = f"{_outward(math.ceil, most, decimals)}%"
    if least <= most * _NEXT_TO_NOTHING:
        return f"up to {end}"
    return f"{_outward(math.floor, least, max(decimals, -_exponent(least)))} to {end}"


def loss(lost: int, sent: int) -> str:
    """The pooled loss of `sent` packets; with none lost of N its 95% bound, `< 3/N` in percent and rounded up."""
    if sent == 0:
        return NO_DATA
    if lost > 0:
        return percent(lost / sent)
    return loss_bound(ZERO_LOSS_BOUND / sent) if sent > 3 else f"none lost of {sent}"


def loss_bound(ratio: float) -> str:
    """An upper bound of the loss in percent, rounded up: < 0.9%."""
    return f"< {_rounded_up_percent(ratio)}%"


def none_lost(sent: int) -> str:
    """No loss as its evidence: 0 of 1,530, so below 0.2% (95%). Up to three packets have no bound below 100%."""
    if sent <= 3:
        return f"0 of {sent}"
    return f"0 of {sent:,}, so below {_rounded_up_percent(ZERO_LOSS_BOUND / sent)}% (95%)"


def loss_evidence(sent: int, received: int) -> str:
    """The counts behind a loss: 12 of 6,000 lost; of no loss `none_lost`, with the bound that they prove."""
    return none_lost(sent) if received == sent else f"{sent - received:,} of {sent:,} lost"


def milliseconds(value_ms: float | None) -> str:
    """A time in ms to 0.1 ms from 100 ms up, to 0.01 ms from 1 ms up, to 1 µs below."""
    if value_ms is None or math.isnan(value_ms):
        return NO_DATA
    size = abs(value_ms)
    decimals = 1 if size >= 100 else 2 if size >= 1 else 3
    return f"{value_ms:,.{decimals}f} ms"


def milliseconds_between(low_ms: float, high_ms: float) -> str:
    """An interval of a time, with its unit once: 0.233 to 102.4 ms."""
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
    """A time that goes on, in whole units that have passed: never longer than it is."""
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
