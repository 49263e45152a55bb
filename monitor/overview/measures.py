"""The metrics on pages: names, number formats and colour bands (of PingER for loss, of ITU-T G.107 for MOS, else spread
over the values)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from monitor.analysis import figures
from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS, LossBand
from monitor.archive.queries.metrics import Metric

QUANTILES = (0.25, 0.5, 0.75, 0.95)
# Least ratio of neighbouring bounds.
LEAST_FACTOR = 1.25
# How far beyond the last bound the worst value must be for a band of its own.
FAR_FACTOR = 2.0


INFINITE = float("inf")


class MetricChoice(StrEnum):
    """The metrics that pages offer, by their names in addresses."""

    LOSS = "loss"
    RTT = "rtt"
    RTT_MIN = "min-rtt"
    IPDV = "ipdv"
    UNREACHABILITY = "unreachability"
    THROUGHPUT = "throughput"
    ESTIMATE = "estimate"
    MOS = "mos"

    @property
    def metric(self) -> Metric:
        return _METRICS[self]


_METRICS = {
    MetricChoice.LOSS: Metric.LOSS,
    MetricChoice.RTT: Metric.RTT_MEDIAN,
    MetricChoice.RTT_MIN: Metric.RTT_MIN,
    MetricChoice.IPDV: Metric.IPDV,
    MetricChoice.UNREACHABILITY: Metric.UNREACHABILITY,
    MetricChoice.THROUGHPUT: Metric.THROUGHPUT,
    MetricChoice.ESTIMATE: Metric.ESTIMATE,
    MetricChoice.MOS: Metric.MOS,
}


@dataclass(frozen=True, slots=True)
class Band:
    """A colour band: values below `below` that are in no lower band."""

    below: float
    style: str
    label: str


@dataclass(frozen=True, slots=True)
class MetricFormat:
    title: str  # in a sentence
    short: str  # where there is little room
    write: Callable[[float], str]
    bands: tuple[Band, ...]  # from the lowest figure up
    steady_below: float  # least change: difference for ratios and MOS, else share of the older
    # The band of a zero with a style of its own: no loss in N packets.
    nothing: Band | None = None
    # Whether its bands spread over the values; without values it has none.
    is_spread: bool = False

    def over(self, values: Iterable[float], *, lower_is_worse: bool = False) -> MetricFormat:
        """The format with bands spread over these values; itself if its bands are fixed."""
        if not self.is_spread:
            return self
        bounds = spread_bounds(values, lower_is_worse=lower_is_worse)
        return replace(self, bands=_steps(self.write_bound, bounds, lower_is_worse=lower_is_worse))

    def write_bound(self, value: float) -> str:
        """The bound of a band, to two significant digits."""
        return _round_trips(value) if self.write is figures.milliseconds else self.write(value)

    def words(self, value: float) -> str:
        return self.nothing.label if self.nothing is not None and value == 0 else self.write(value)

    def style(self, value: float) -> str:
        """The class of a figure; empty without bands."""
        if self.nothing is not None and value == 0:
            return self.nothing.style
        return self.band(value).style if self.bands else ""

    def band(self, value: float) -> Band:
        return self.bands[bisect_right([band.below for band in self.bands[:-1]], value)]


# The colours of so many bands: few bands are far apart.
STEP_STYLES = {
    1: (0,),
    2: (0, 3),
    3: (0, 2, 4),
    4: (0, 1, 3, 5),
    5: (0, 1, 2, 4, 5),
    6: (0, 1, 2, 3, 4, 5),
}


def _steps(write: Callable[[float], str], ends: tuple[float, ...], *, lower_is_worse: bool) -> tuple[Band, ...]:
    # The worst band is darkest; a single band has no end to name.
    if not ends:
        return (Band(INFINITE, "step-0", "all about the same"),)
    styles = [f"step-{step}" for step in STEP_STYLES[len(ends) + 1]]
    if lower_is_worse:
        styles.reverse()
    return (
        *(Band(end, style, f"below {write(end)}") for end, style in zip(ends, styles, strict=False)),
        Band(INFINITE, styles[-1], f"{write(ends[-1])} or more"),
    )


def _round_trips(end_ms: float) -> str:
    return f"{float(f'{end_ms:.2g}'):,g} ms"


def _mos(value: float) -> str:
    return f"{value:.2f}"


def _change(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


LOSS_BANDS = (
    *(
        Band(below, f"loss-{step}", f"{name}, below {figures.percent(below)}")
        for step, (below, name) in enumerate(LOSS_BAND_UPPER_RATIOS)
    ),
    Band(INFINITE, "loss-5", f"{LossBand.BAD}, {figures.percent(LOSS_BAND_UPPER_RATIOS[-1][0])} or more"),
)
UNREACHABILITY_BANDS = (
    Band(1e-9, "none-lost", "always reached"),
    Band(0.001, "loss-0", "below 0.1%"),
    Band(0.01, "loss-1", "below 1%"),
    Band(0.05, "loss-3", "below 5%"),
    Band(0.2, "loss-4", "below 20%"),
    Band(INFINITE, "loss-5", "20% or more"),
)
# User satisfaction by MOS, table B.1 of ITU-T G.107.
MOS_BANDS = (
    Band(2.58, "loss-5", "not recommended, below 2.58"),
    Band(3.10, "loss-4", "nearly all dissatisfied, below 3.1"),
    Band(3.60, "loss-3", "many dissatisfied, below 3.6"),
    Band(4.03, "loss-2", "some dissatisfied, below 4.03"),
    Band(4.34, "loss-1", "satisfied, below 4.34"),
    Band(INFINITE, "loss-0", "very satisfied, 4.34 or more"),
)

MEASURES = {
    Metric.LOSS: MetricFormat("loss", "loss", figures.percent, LOSS_BANDS, 0.001, Band(0, "none-lost", "0%")),
    Metric.RTT_MEDIAN: MetricFormat("median RTT", "median RTT", figures.milliseconds, (), 0.05, is_spread=True),
    Metric.RTT_MIN: MetricFormat("minimum RTT", "min RTT", figures.milliseconds, (), 0.05, is_spread=True),
    Metric.IPDV: MetricFormat("jitter (IPDV)", "jitter", figures.milliseconds, (), 0.25, is_spread=True),
    Metric.UNREACHABILITY: MetricFormat(
        "unreachable time", "unreachable time", figures.percent, UNREACHABILITY_BANDS, 0.001,
        Band(0, "none-lost", "0%"),
    ),
    Metric.THROUGHPUT: MetricFormat("measured throughput", "throughput", figures.bit_rate, (), 0.1, is_spread=True),
    Metric.ESTIMATE: MetricFormat("Mathis (Reno) estimate", "estimate", figures.bit_rate, (), 0.25, is_spread=True),
    Metric.MOS: MetricFormat("MOS", "MOS", _mos, MOS_BANDS, 0.1),
}  # fmt: skip

# Metrics with a change as difference, and its scale: percentage points, or none.
_DIFFERENCES = {Metric.LOSS: 100.0, Metric.UNREACHABILITY: 100.0, Metric.MOS: 1.0}


def change(metric: Metric, before: float, now: float) -> float | None:
    """The change as a difference for ratios and MOS, else as a share of `before`; None where undefined."""
    if metric in _DIFFERENCES:
        return now - before
    return None if before == 0 else now / before - 1


def is_steady(metric: Metric, changed: float) -> bool:
    return abs(changed) < MEASURES[metric].steady_below


def is_worse(metric: Metric, changed: float) -> bool:
    return (changed < 0) == metric.lower_is_worse


def write_change(metric: Metric, changed: float) -> str:
    """A change with its sign: +0.35 pts, −12%."""
    if metric is Metric.MOS:
        return _change(changed)
    if metric in _DIFFERENCES:
        return f"{_change(changed * _DIFFERENCES[metric])} pts"
    return f"{changed * 100:+,.0f}%".replace("-", "−")


def measure_of(metric: Metric) -> MetricFormat:
    """The format of a metric; metrics that are not in the grid get their unit's format, without bands."""
    if metric in MEASURES:
        return MEASURES[metric]
    name, _, unit = metric.value.rpartition("_")
    if unit in _UNITS:
        words = name.replace("_", " ").replace("rtt", "RTT")
        return MetricFormat(words, words, _UNITS[unit], (), 0.0)
    return MetricFormat(metric.value, metric.value, lambda value: f"{value:.3g}", (), 0.0)


def _packets(value: float) -> str:
    return f"{value:.2f} packets"


_UNITS = {"ratio": figures.percent, "ms": figures.milliseconds, "bps": figures.bit_rate, "packets": _packets}


def spread_bounds(values: Iterable[float], *, lower_is_worse: bool) -> tuple[float, ...]:
    """At most five increasing bounds, finest at the worse end; none for about equal values."""
    positive = np.array([value for value in values if value > 0], dtype=np.float64)
    if positive.size == 0:
        return ()
    logs = np.sort(-np.log(positive) if lower_is_worse else np.log(positive))
    least, most = logs[0], logs[-1]
    chosen: list[float] = []
    for quantile in np.quantile(logs, QUANTILES, method="lower"):
        if quantile - (chosen[-1] if chosen else least) >= np.log(LEAST_FACTOR) and quantile < most:
            chosen.append(float(quantile))
    last = chosen[-1] if chosen else least
    if most - last >= np.log(FAR_FACTOR):
        chosen.append(float((last + most) / 2))
    bounds = np.exp(-np.array(chosen) if lower_is_worse else np.array(chosen))
    return tuple(sorted({float(f"{bound:.2g}") for bound in bounds}))
