"""The metrics as pages show them: their names, the format of their figures, and their colours.

Bands go from good to bad for loss (PingER's bands) and MOS (those of ITU-T G.107). RTTs and rates are
neither good nor bad by themselves, and go from low to high. A band's upper end is not part of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis import figures
from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS, LossBand
from monitor.archive.queries.metrics import Metric

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
    """A colour step: values below `below` (and in no lower band), its class and its label."""

    below: float
    style: str
    label: str


@dataclass(frozen=True, slots=True)
class MetricFormat:
    """A metric on a page: its name in a sentence, its name where there is little room, how a figure of it is written,
    its bands from the lowest figure up, and from which change on two figures differ (a difference for ratios and MOS,
    else a share of the older figure)."""

    title: str
    short: str
    write: Callable[[float], str]
    bands: tuple[Band, ...]
    steady_below: float
    nothing: Band | None = None
    """The band of a zero, where a zero has a style of its own: no loss in N packets."""

    def words(self, value: float) -> str:
        """A figure as a cell has it."""
        return self.nothing.label if self.nothing is not None and value == 0 else self.write(value)

    def style(self, value: float) -> str:
        """The class of a figure; empty where it has no bands."""
        if self.nothing is not None and value == 0:
            return self.nothing.style
        return self.band(value).style if self.bands else ""

    def band(self, value: float) -> Band:
        """The band that a value is in."""
        return self.bands[bisect_right([band.below for band in self.bands[:-1]], value)]


def _steps(write: Callable[[float], str], ends: tuple[float, ...]) -> tuple[Band, ...]:
    """Bands from little to much."""
    return (
        *(Band(end, f"step-{step}", f"below {write(end)}") for step, end in enumerate(ends)),
        Band(INFINITE, f"step-{len(ends)}", f"{write(ends[-1])} or more"),
    )


def _round_trips(end_ms: float) -> str:
    return f"{end_ms:g} ms"


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
RATE_BANDS = (
    Band(100e3, "step-5", "below 100 kbit/s"),
    Band(1e6, "step-4", "below 1 Mbit/s"),
    Band(10e6, "step-3", "below 10 Mbit/s"),
    Band(100e6, "step-2", "below 100 Mbit/s"),
    Band(1e9, "step-1", "below 1 Gbit/s"),
    Band(INFINITE, "step-0", "1 Gbit/s or more"),
)
MOS_BANDS = (
    Band(2.58, "loss-5", "not recommended, below 2.58"),
    Band(3.10, "loss-4", "nearly all dissatisfied, below 3.1"),
    Band(3.60, "loss-3", "many dissatisfied, below 3.6"),
    Band(4.03, "loss-2", "some dissatisfied, below 4.03"),
    Band(4.34, "loss-1", "satisfied, below 4.34"),
    Band(INFINITE, "loss-0", "very satisfied, 4.34 or more"),
)
"""User satisfaction by MOS, table B.1 of ITU-T G.107."""
RTT_BANDS = _steps(_round_trips, (10, 50, 100, 200, 400))
IPDV_BANDS = _steps(_round_trips, (1, 5, 20, 50, 100))

MEASURES = {
    Metric.LOSS: MetricFormat("loss", "loss", figures.percent, LOSS_BANDS, 0.001, Band(0, "none-lost", "0%")),
    Metric.RTT_MEDIAN: MetricFormat("median RTT", "median RTT", figures.milliseconds, RTT_BANDS, 0.05),
    Metric.RTT_MIN: MetricFormat("minimum RTT", "min RTT", figures.milliseconds, RTT_BANDS, 0.05),
    Metric.IPDV: MetricFormat("jitter (IPDV)", "jitter", figures.milliseconds, IPDV_BANDS, 0.25),
    Metric.UNREACHABILITY: MetricFormat(
        "unreachable time", "unreachable time", figures.percent, UNREACHABILITY_BANDS, 0.001,
        Band(0, "none-lost", "0%"),
    ),
    Metric.THROUGHPUT: MetricFormat("measured throughput", "throughput", figures.bit_rate, RATE_BANDS, 0.1),
    Metric.ESTIMATE: MetricFormat("Mathis (Reno) estimate", "estimate", figures.bit_rate, RATE_BANDS, 0.25),
    Metric.MOS: MetricFormat("MOS", "MOS", _mos, MOS_BANDS, 0.1),
}  # fmt: skip

_DIFFERENCES = {Metric.LOSS: 100.0, Metric.UNREACHABILITY: 100.0, Metric.MOS: 1.0}
"""Metrics whose change is a difference, and in which units of theirs it is written: percentage points, or none."""


def change(metric: Metric, before: float, now: float) -> float | None:
    """The change of the metric: a difference for ratios and MOS, else a share of `before`; None where that is
    undefined."""
    if metric in _DIFFERENCES:
        return now - before
    return None if before == 0 else now / before - 1


def is_steady(metric: Metric, changed: float) -> bool:
    """Whether a change is negligible."""
    return abs(changed) < MEASURES[metric].steady_below


def is_worse(metric: Metric, changed: float) -> bool:
    """Whether a change is for the worse."""
    return (changed < 0) == metric.lower_is_worse


def write_change(metric: Metric, changed: float) -> str:
    """A change with its sign: +0.35 pts, −12%."""
    if metric is Metric.MOS:
        return _change(changed)
    if metric in _DIFFERENCES:
        return f"{_change(changed * _DIFFERENCES[metric])} pts"
    return f"{changed * 100:+,.0f}%".replace("-", "−")


def measure_of(metric: Metric) -> MetricFormat:
    """The measure of any metric; a metric not on the grid is formatted by the unit of its name and has no bands."""
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
