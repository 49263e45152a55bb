"""What a TCP transfer gets on a path, which limit holds it, and what to change to get more.

In: the figures of one path: round trips, loss (counted, or taken as known), and what is known of the sender and of the
capacity. Out: an `Estimate`, which is the least of three limits: window, loss and capacity. A figure that makes no
sense raises `FigureError`, which names it and says what to give. How far estimates are from measurements is not here.

Each limit has a sign, and so has their least:
  - with some of the packets lost, loss gives a rate (about); with none lost, a floor (at least); with all of them lost,
    a ceiling (at most). Floor and ceiling take the loss at its one-sided 95% bound;
  - a window or a capacity that is not known can hold the transfer lower than those that are known, never higher: what
    is about a rate without it becomes at most that rate;
  - a floor that lies above window and capacity says that loss does not bind. A floor below them leaves open which limit
    binds: the answer is then between the two.

The 80% interval goes from the 10th to the 90th percentile. That of the loss is Clopper and Pearson's; it is joined to
that of the round trip, and of a calibration, as independent errors of a product are, by adding squares of logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from monitor.analysis.binomial import lower_bound, upper_bound
from monitor.analysis.loss import ZERO_LOSS_BOUND
from monitor.analysis.tcp.calibration import Calibration
from monitor.analysis.tcp.models import (
    MSS_BYTES,
    CongestionControl,
    loss_limit_bps,
    loss_ratio_for,
    mathis_bps,
    window_limit_bps,
)
from monitor.analysis.tcp.timing import buffer_bytes, recovery_s, slow_start_s, streams_needed

BOUND_CONFIDENCE = 0.95
"""Of a floor or a ceiling, which stands alone."""
TAIL_CONFIDENCE = 0.9
"""On each side of the 80% interval."""

LEAST_LOSS_RATIO = 1e-15
"""Less cannot be told from none: at 100 Gbit/s it is one packet in three years."""

MOST_MSS_BYTES = 65_495
"""An IPv4 packet of 65,535 bytes less 40 of headers."""


class FigureError(ValueError):
    """A figure that makes no sense: its name, its value, and what to give in its place."""

    def __init__(self, name: str, value: float, wanted: str) -> None:
        super().__init__(f"{name} is {value}; {wanted}")
        self.name = name
        self.wanted = wanted


class LimitName(StrEnum):
    """What can hold a transfer."""

    WINDOW = "window"
    LOSS = "loss"
    CAPACITY = "capacity"


class Sign(StrEnum):
    """How a figure stands to the true one."""

    ABOUT = "about"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Rtt:
    """The round trip of a path in ms: its median, and the 10th and 90th percentiles where they are known."""

    median_ms: float
    p10_ms: float | None = None
    p90_ms: float | None = None

    def __post_init__(self) -> None:
        wanted = "give the round trip in milliseconds, above 0, as ping shows it"
        for name, value in (("rtt_ms", self.median_ms), ("rtt_p10_ms", self.low_ms), ("rtt_p90_ms", self.high_ms)):
            _check(name, value, 1e-6, 1e9, wanted)
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
    """The loss of a path (0 to 1) and of how many packets it was counted; without `sent` it is taken as exactly so."""

    ratio: float
    sent: int | None = None

    def __post_init__(self) -> None:
        if self.sent is not None:
            _check("sent", self.sent, 1, 1e15, "give how many packets the loss was counted on, 1 or more")
        _check("loss_ratio", self.ratio, 0.0, 1.0, "give lost/sent, from 0 to 1, not a percentage")
        if 0.0 < self.ratio < LEAST_LOSS_RATIO:
            raise FigureError("loss_ratio", self.ratio, f"give 0 for none, or at least {LEAST_LOSS_RATIO:g}")

    @classmethod
    def counted(cls, lost: int, sent: int) -> Self:
        """The loss of counted packets."""
        if not 0 <= lost <= sent:
            raise FigureError("lost", lost, f"give how many of the {sent} packets sent were lost")
        return cls(lost / sent if sent else math.nan, sent)

    @classmethod
    def of_sent(cls, ratio: float, sent: int) -> Self:
        """A ratio that was rounded, and the packets it was counted on: the nearest whole number of them was lost."""
        cls(ratio, sent)
        lost = round(ratio * sent)
        if (lost == 0) != (ratio == 0.0) or (lost == sent) != (ratio == 1.0):
            raise FigureError("loss_ratio", ratio, f"of {sent} packets sent this is no whole packet; give lost/sent")
        return cls.counted(lost, sent)

    @property
    def lost(self) -> int | None:
        return None if self.sent is None else round(self.ratio * self.sent)

    @property
    def none_of_some(self) -> bool:
        """Nothing was lost, of so many packets as were counted."""
        return self.ratio == 0.0 and self.sent is not None

    @property
    def all_of_some(self) -> bool:
        """Every packet was lost, of so many as were counted."""
        return self.ratio == 1.0 and self.sent is not None

    @property
    def sign_of_rate(self) -> Sign:
        """How a rate that this loss allows stands to the true one."""
        if self.none_of_some:
            return Sign.AT_LEAST
        return Sign.AT_MOST if self.all_of_some else Sign.ABOUT

    @property
    def bound_ratio(self) -> float:
        """The 95% bound where none (3/N, as everywhere) or all were lost; the ratio itself otherwise."""
        if self.sent is not None and self.none_of_some:
            return min(1.0, ZERO_LOSS_BOUND / self.sent)
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
class Transfer:
    """How data is sent. The window is that of each stream; None is not known."""

    mss_bytes: float = MSS_BYTES
    window_bytes: float | None = None
    capacity_bps: float | None = None
    control: CongestionControl = CongestionControl.CUBIC
    streams: int = 1

    def __post_init__(self) -> None:
        wanted = f"give the payload of a segment in bytes, 1 to {MOST_MSS_BYTES:,}; on Ethernet it is 1460"
        _check("mss_bytes", self.mss_bytes, 1, MOST_MSS_BYTES, wanted)
        if self.window_bytes is not None:
            _check("window_bytes", self.window_bytes, 1, 1e15, "give bytes, 1 or more, or leave it out if not known")
        if self.capacity_bps is not None:
            _check("capacity_bps", self.capacity_bps, 1, 1e18, "give a rate above 0, or leave it out if not known")
        _check("streams", self.streams, 1, 1e6, "give how many transfers run side by side, 1 to a million")


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that is known. The interval is the 80% one; None is an end that is open."""

    name: LimitName
    sign: Sign
    throughput_bps: float
    low_bps: float | None
    high_bps: float | None


@dataclass(frozen=True, slots=True)
class Advice:
    """What gets `times` as much: all of window, loss and capacity that are not None; streams in place of the first two.

    `window_bytes` and `capacity_bps` are the least that will do, `loss_ratio` the most; None is enough already.
    """

    times: float
    target_bps: float
    window_bytes: float | None
    loss_ratio: float | None
    capacity_bps: float | None
    streams: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The least of the limits that are known.

    `throughput_bps` is None where there is no ground for one figure: then either `sign` is BETWEEN and `low_bps` and
    `high_bps` are its bounds, or `sign` is None and nothing is known that limits. Otherwise `low_bps` and `high_bps`
    are the 80% interval of the figure itself, None at an end that is open. `binding` is None where it cannot be told.
    `not_known` names the limits that were left out, each of which can only make it less; with AT_LEAST, which is said
    where loss is all that is known, they count for nothing. `packets_to_tell` is how many packets without a loss would
    show that loss does not bind, where that is open.

    `reno_index_bps` is the Mathis formula as PingER's tables have it (C = 1, one stream), an index for comparing paths
    and years and no estimate: a bound where none or all were lost, None where the loss is known to be 0.
    """

    throughput_bps: float | None
    sign: Sign | None
    low_bps: float | None
    high_bps: float | None
    binding: LimitName | None
    limits: tuple[Limit, ...]
    not_known: tuple[LimitName, ...]
    packets_to_tell: int | None
    reno_index_bps: float | None
    reno_index_sign: Sign | None
    advice: Advice | None


@dataclass(frozen=True, slots=True)
class Needs:
    """What a rate asks of each stream: a buffer, the time to start, and the time to be back after a loss."""

    buffer_bytes: float
    slow_start_s: float
    recovery_s: float


def estimate(
    rtt: Rtt, loss: Loss, transfer: Transfer, times: float = 2.0, calibration: Calibration | None = None
) -> Estimate:
    """The throughput that these figures allow, and what gets `times` as much of it.

    With a calibration the loss limit is of the loss that TCP makes of the given one, which remains the one that advice
    and bounds are told in. The Reno index is never calibrated, nor the loss where everything is lost.
    """
    seen = _Seen(rtt, loss, transfer, None if loss.ratio == 1.0 else calibration)
    if not 1.0 < times <= 1e6:
        raise FigureError("times", times, "give how many times as much is wanted, above 1 and up to a million")
    limits = _limits(seen)
    given = (transfer.window_bytes, transfer.capacity_bps)
    not_known = tuple(
        name for name, value in zip((LimitName.WINDOW, LimitName.CAPACITY), given, strict=True) if value is None
    )
    index_bps = float(mathis_bps(rtt.median_ms, loss.bound_ratio, transfer.mss_bytes))
    throughput_bps, sign, low_bps, high_bps, binding = _least(limits, complete=not not_known)
    return Estimate(
        throughput_bps=throughput_bps,
        sign=sign,
        low_bps=low_bps,
        high_bps=high_bps,
        binding=binding,
        limits=limits,
        not_known=not_known,
        packets_to_tell=_packets_to_tell(limits, seen),
        reno_index_bps=None if math.isnan(index_bps) else index_bps,
        reno_index_sign=None if math.isnan(index_bps) else loss.sign_of_rate,
        advice=None if loss.all_of_some else _advice(throughput_bps, binding, times, limits, seen),
    )


def needs(rtt: Rtt, transfer: Transfer, found: Estimate) -> Needs | None:
    """What the estimated rate asks of each stream; None for a mere bound of a loss that was not seen."""
    if found.advice is None or found.throughput_bps is None:
        return None
    stream_bps = found.throughput_bps / transfer.streams
    return Needs(
        buffer_bytes=float(buffer_bytes(stream_bps, rtt.median_ms)),
        slow_start_s=float(slow_start_s(stream_bps, rtt.median_ms, transfer.mss_bytes)),
        recovery_s=float(recovery_s(transfer.control, stream_bps, rtt.median_ms, transfer.mss_bytes)),
    )


def _check(name: str, value: float, least: float, most: float, wanted: str) -> None:
    """Absurdly small and large figures are refused like negative ones: they are slips of the unit."""
    if not least <= value <= most:
        raise FigureError(name, value, wanted)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What an estimate is made of. A calibration that is None changes nothing."""

    rtt: Rtt
    loss: Loss
    transfer: Transfer
    calibration: Calibration | None

    def by_loss_bps(self, rtt_ms: float, ratio: float) -> float:
        """What a loss that pings see lets all streams have."""
        made = ratio if self.calibration is None else self.calibration.loss_ratio(ratio)
        stream_bps = float(loss_limit_bps(self.transfer.control, rtt_ms, made, self.transfer.mss_bytes))
        return self.transfer.streams * stream_bps

    def loss_needed(self, rate_bps: float) -> float:
        """The most loss that pings may see for that rate of all streams."""
        one_bps, transfer = rate_bps / self.transfer.streams, self.transfer
        made = float(loss_ratio_for(transfer.control, one_bps, self.rtt.median_ms, transfer.mss_bytes))
        return made if self.calibration is None else min(1.0, made / self.calibration.loss_factor)

    @property
    def ratios(self) -> tuple[float, float]:
        """The ends of the calibration's interval, over its middle."""
        return (1.0, 1.0) if self.calibration is None else (self.calibration.low_ratio, self.calibration.high_ratio)


def _limits(seen: _Seen) -> tuple[Limit, ...]:
    found = []
    transfer, loss = seen.transfer, seen.loss
    if transfer.window_bytes is not None:
        found.append(_window_limit(seen.rtt, transfer.window_bytes * transfer.streams))
    if loss.ratio > 0.0 or loss.none_of_some:
        found.append(_loss_limit(seen))
    if transfer.capacity_bps is not None:
        capacity_bps = transfer.capacity_bps
        found.append(Limit(LimitName.CAPACITY, Sign.ABOUT, capacity_bps, capacity_bps, capacity_bps))
    return tuple(found)


def _window_limit(rtt: Rtt, window_bytes: float) -> Limit:
    rate_bps, low_bps, high_bps = window_limit_bps(window_bytes, [rtt.median_ms, rtt.high_ms, rtt.low_ms]).tolist()
    return Limit(LimitName.WINDOW, Sign.ABOUT, rate_bps, low_bps, high_bps)


def _loss_limit(seen: _Seen) -> Limit:
    rtt, loss = seen.rtt, seen.loss
    low_ratio, high_ratio = seen.ratios
    middle_bps, sign = seen.by_loss_bps(rtt.median_ms, loss.bound_ratio), loss.sign_of_rate
    if sign is Sign.AT_LEAST:
        floor_bps = middle_bps * low_ratio
        return Limit(LimitName.LOSS, sign, floor_bps, floor_bps, None)
    if sign is Sign.AT_MOST:
        return Limit(LimitName.LOSS, sign, middle_bps, None, middle_bps)
    if middle_bps == 0.0:
        return Limit(LimitName.LOSS, Sign.ABOUT, 0.0, 0.0, 0.0)
    least_loss, most_loss = loss.interval
    slowest_bps, fastest_bps = (seen.by_loss_bps(rtt_ms, loss.ratio) for rtt_ms in (rtt.high_ms, rtt.low_ms))
    lossy_bps, clean_bps = (seen.by_loss_bps(rtt.median_ms, ratio) for ratio in (most_loss, least_loss))
    low_bps = _joined(middle_bps, slowest_bps, lossy_bps, middle_bps * low_ratio)
    high_bps = _joined(middle_bps, fastest_bps, clean_bps, middle_bps * high_ratio)
    return Limit(LimitName.LOSS, Sign.ABOUT, middle_bps, low_bps, high_bps)


def _joined(middle_bps: float, *others_bps: float) -> float:
    """All errors at once, on the side that they are on."""
    apart = math.hypot(*(math.log(other_bps / middle_bps) for other_bps in others_bps))
    return middle_bps * math.exp(math.copysign(apart, sum(other_bps - middle_bps for other_bps in others_bps)))


Least = tuple[float | None, Sign | None, float | None, float | None, LimitName | None]


def _least(limits: tuple[Limit, ...], *, complete: bool) -> Least:
    """(throughput_bps, sign, low_bps, high_bps, binding) of the least of the limits."""
    caps = [limit for limit in limits if limit.sign is not Sign.AT_LEAST]
    floor = _floor(limits)
    if not caps:
        return (None, None, None, None, None) if floor is None else (floor, Sign.AT_LEAST, floor, None, None)
    least = min(caps, key=lambda limit: limit.throughput_bps)
    rate_bps, high_bps = least.throughput_bps, min(cap.high_bps for cap in caps if cap.high_bps is not None)
    if floor is not None and floor < rate_bps:
        if complete:
            return None, Sign.BETWEEN, floor, high_bps, None
        return rate_bps, Sign.AT_MOST, None, high_bps, None
    if any(cap.sign is Sign.AT_MOST for cap in caps):
        return rate_bps, Sign.AT_MOST, None, high_bps, least.name if least.sign is Sign.AT_MOST else None
    low_bps = min(cap.low_bps for cap in caps if cap.low_bps is not None)
    sign = Sign.ABOUT if complete or rate_bps == 0.0 else Sign.AT_MOST
    return rate_bps, sign, low_bps, high_bps, least.name


def _floor(limits: tuple[Limit, ...]) -> float | None:
    return next((limit.throughput_bps for limit in limits if limit.sign is Sign.AT_LEAST), None)


def _packets_to_tell(limits: tuple[Limit, ...], seen: _Seen) -> int | None:
    floor = _floor(limits)
    caps = [limit.throughput_bps for limit in limits if limit.sign is not Sign.AT_LEAST]
    if floor is None or not caps or floor >= min(caps):
        return None
    return math.ceil(ZERO_LOSS_BOUND / seen.loss_needed(min(caps) / seen.ratios[0]))


def _advice(
    throughput_bps: float | None,
    binding: LimitName | None,
    times: float,
    limits: tuple[Limit, ...],
    seen: _Seen,
) -> Advice | None:
    """None where it is not known what binds, and where nothing arrives, of which no multiple is more."""
    if throughput_bps is None or binding is None or throughput_bps == 0.0:
        return None
    target_bps, transfer = times * throughput_bps, seen.transfer
    short = {limit.name for limit in limits if limit.throughput_bps < target_bps}
    per_stream_bps = [
        limit.throughput_bps / transfer.streams for limit in limits if limit.name is not LimitName.CAPACITY
    ]
    streams = int(streams_needed(target_bps, min(per_stream_bps))) if per_stream_bps else transfer.streams
    return Advice(
        times=times,
        target_bps=target_bps,
        window_bytes=max(transfer.mss_bytes, float(buffer_bytes(target_bps, seen.rtt.median_ms, transfer.streams)))
        if LimitName.WINDOW in short or transfer.window_bytes is None
        else None,
        loss_ratio=seen.loss_needed(target_bps) if LimitName.LOSS in short else None,
        capacity_bps=target_bps if LimitName.CAPACITY in short or transfer.capacity_bps is None else None,
        streams=streams if streams > transfer.streams else None,
    )
