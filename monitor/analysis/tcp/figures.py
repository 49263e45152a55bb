"""Values of an estimate, which validate themselves and raise `FigureError`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from monitor.analysis.binomial import lower_bound, upper_bound
from monitor.analysis.loss import zero_loss_bound_ratio
from monitor.analysis.tcp.models import (
    MSS_BYTES,
    CongestionControl,
)

# Confidence of a one-sided bound.
BOUND_CONFIDENCE = 0.95
# Confidence on each side of the 80% interval.
TAIL_CONFIDENCE = 0.9

# Minimum loss ratio above 0: at 100 Gbit/s a packet in three years.
LEAST_LOSS_RATIO = 1e-15

# Published paths attained 0.71 to 0.95 of a limit (docs/method/estimate.md); CUBIC 0.7 after loss (RFC 9438, section
# 4.6).
ATTAINED_LOW, ATTAINED_HIGH = 0.7, 1.05

# Maximum loss at which BBR delivers capacity × (1 - loss): Cardwell and others, "BBR: congestion-based congestion
# control", ACM Queue 14 (2016), figure 8.
BBR_UNHARMED_RATIO = 0.05

# An IPv4 packet of 65,535 bytes less 40 of headers.
MOST_MSS_BYTES = 65_495


class FigureError(ValueError):
    """An invalid figure: its name, its value, and the valid range."""

    def __init__(self, name: str, value: float, wanted: str) -> None:
        super().__init__(f"{name} is {value}; {wanted}")
        self.name = name
        self.wanted = wanted


class LimitName(StrEnum):
    WINDOW = "window"
    LOSS = "loss"
    CAPACITY = "capacity"


class Sign(StrEnum):
    """Relation of a figure to the true value."""

    ABOUT = "about"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Rtt:
    """RTT of a path in ms: median, and 10th and 90th percentiles where known."""

    median_ms: float
    p10_ms: float | None = None
    p90_ms: float | None = None

    def __post_init__(self) -> None:
        wanted = "give the RTT in milliseconds, above 0, as ping shows it"
        for name, value in (("rtt_ms", self.median_ms), ("rtt_p10_ms", self.low_ms), ("rtt_p90_ms", self.high_ms)):
            check(name, value, 1e-6, 1e9, wanted)
        if self.low_ms > self.median_ms:
            raise FigureError("rtt_p10_ms", self.low_ms, f"give at most the median, {self.median_ms} ms")
        if self.high_ms < self.median_ms:
            raise FigureError("rtt_p90_ms", self.high_ms, f"give at least the median, {self.median_ms} ms")

    @property
    def low_ms(self) -> float:
        return self.median_ms if self.p10_ms is None else self.p10_ms

    @property
    def high_ms(self) -> float:
        return self.median_ms if self.p90_ms is None else self.p90_ms


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss of a path, 0 to 1."""

    ratio: float
    sent: int | None = None  # sample size in packets; None for an exact loss
    is_forward: bool = False  # of the data's direction alone, not of round trips
    is_retransmits: bool = False  # retransmitted share of segments, at least the loss events'

    def __post_init__(self) -> None:
        if self.sent is not None:
            check("sent", self.sent, 1, 1e15, "give the sample size of the loss in packets, 1 or more")
        check("loss_ratio", self.ratio, 0.0, 1.0, "give lost/sent, from 0 to 1, not a percentage")
        if 0.0 < self.ratio < LEAST_LOSS_RATIO:
            raise FigureError("loss_ratio", self.ratio, f"give 0 for none, or at least {LEAST_LOSS_RATIO:g}")

    @classmethod
    def counted(cls, lost: int, sent: int) -> Self:
        if not 0 <= lost <= sent:
            raise FigureError("lost", lost, f"give the number of lost packets, 0 to {sent}")
        return cls(lost / sent if sent else math.nan, sent)

    @classmethod
    def counted_forward(cls, lost: int, sent: int) -> Self:
        """The loss of counted packets in the direction of the data."""
        return replace(cls.counted(lost, sent), is_forward=True)

    @classmethod
    def of_sent(cls, ratio: float, sent: int) -> Self:
        """Loss from a rounded ratio and the sample size, to the nearest integer number of packets."""
        cls(ratio, sent)
        lost = round(ratio * sent)
        if (lost == 0) != (ratio == 0.0) or (lost == sent) != (ratio == 1.0):
            raise FigureError("loss_ratio", ratio, f"this is no whole number of {sent} packets; give lost/sent")
        return cls.counted(lost, sent)

    @property
    def lost(self) -> int | None:
        return None if self.sent is None else round(self.ratio * self.sent)

    @property
    def none_of_some(self) -> bool:
        """Whether nothing was lost in a counted sample."""
        return self.ratio == 0.0 and self.sent is not None

    @property
    def all_of_some(self) -> bool:
        """Whether every packet of a counted sample was lost."""
        return self.ratio == 1.0 and self.sent is not None and not self.is_retransmits

    @property
    def sign_of_rate(self) -> Sign:
        """Relation of a rate at this loss to the true rate."""
        if self.none_of_some or self.is_retransmits:
            return Sign.AT_LEAST
        return Sign.AT_MOST if self.all_of_some else Sign.ABOUT

    @property
    def bound_ratio(self) -> float:
        """The 95% bound where none (3/N) or all were lost, else the ratio."""
        if self.sent is not None and self.none_of_some:
            return float(zero_loss_bound_ratio(self.sent))
        if self.sent is not None and self.all_of_some:
            return float(lower_bound(self.sent, self.sent, BOUND_CONFIDENCE))
        return self.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """The 80% interval of the loss."""
        if self.sent is None:
            return self.ratio, self.ratio
        lost = self.ratio * self.sent
        return float(lower_bound(lost, self.sent, TAIL_CONFIDENCE)), float(
            upper_bound(lost, self.sent, TAIL_CONFIDENCE)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    """Parameters of a transfer; None is unknown."""

    mss_bytes: float = MSS_BYTES
    window_bytes: float | None = None  # of each stream
    capacity_bps: float | None = None
    control: CongestionControl = CongestionControl.CUBIC  # loss model; of BBR its lower bound
    streams: int = 1
    is_bbr: bool = False  # the sender keeps its rate under loss

    def __post_init__(self) -> None:
        wanted = f"give the payload of a segment in bytes, 1 to {MOST_MSS_BYTES:,}; on Ethernet it is 1460"
        check("mss_bytes", self.mss_bytes, 1, MOST_MSS_BYTES, wanted)
        if self.window_bytes is not None:
            check("window_bytes", self.window_bytes, 1, 1e15, "give bytes, 1 or more, or omit it if unknown")
        if self.capacity_bps is not None:
            check("capacity_bps", self.capacity_bps, 1, 1e18, "give a rate above 0, or omit it if unknown")
        check("streams", self.streams, 1, 1e6, "give the number of parallel streams, 1 to a million")


@dataclass(frozen=True, slots=True)
class LimitEstimate:
    """A known limit with its 80% interval; None is an open end."""

    name: LimitName
    sign: Sign
    throughput_bps: float
    low_bps: float | None
    high_bps: float | None


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """Changes that multiply throughput: window, loss and capacity together; None is sufficient already."""

    times: float
    target_bps: float
    window_bytes: float | None  # minimum
    loss_ratio: float | None  # maximum
    capacity_bps: float | None  # minimum
    streams: int | None  # replaces window and loss


@dataclass(frozen=True, slots=True)
class ThroughputEstimate:
    """The minimum of the known limits. Without a single figure `sign` is BETWEEN the ends, or None without limits."""

    throughput_bps: float | None  # None where the inputs allow no single figure
    sign: Sign | None
    low_bps: float | None  # of the 80% interval, or a bound; None at an open end
    high_bps: float | None
    binding: LimitName | None  # None where undetermined
    limits: tuple[LimitEstimate, ...]
    not_known: tuple[LimitName, ...]  # each can only lower the estimate, which then is no floor
    packets_to_tell: int | None  # without loss, to show that loss does not bind
    reno_index_bps: float | None  # Mathis as in PingER (C = 1); None at zero loss
    reno_index_sign: Sign | None  # a bound where none or all were lost
    advice: SpeedUp | None


@dataclass(frozen=True, slots=True)
class StreamRequirements:
    """Requirements of a rate for each stream: buffer, ramp-up, and recovery after a loss."""

    buffer_bytes: float
    slow_start_s: float
    recovery_s: float


def check(name: str, value: float, least: float, most: float, wanted: str) -> None:
    """Raise `FigureError` outside the range, which also excludes errors of the unit."""
    if not least <= value <= most:
        raise FigureError(name, value, wanted)
