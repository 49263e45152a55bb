"""Expected TCP throughput of a path, the binding limit (window, loss or capacity), and the changes that would raise it.

The 80% interval combines independent errors of RTT, loss (Clopper and Pearson), limits and calibration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from monitor.analysis.loss import ZERO_LOSS_BOUND
from monitor.analysis.tcp.calibration import Calibration
from monitor.analysis.tcp.figures import (
    ATTAINED_HIGH,
    ATTAINED_LOW,
    BBR_UNHARMED_RATIO,
    FigureError,
    LimitEstimate,
    LimitName,
    Loss,
    Rtt,
    Sign,
    SpeedUp,
    StreamRequirements,
    ThroughputEstimate,
    TransferSettings,
)
from monitor.analysis.tcp.models import (
    loss_limit_bps,
    loss_ratio_for,
    mathis_bps,
    window_limit_bps,
)
from monitor.analysis.tcp.timing import buffer_bytes, recovery_s, slow_start_s, streams_needed


def estimate(
    rtt: Rtt, loss: Loss, transfer: TransferSettings, times: float = 2.0, calibration: Calibration | None = None
) -> ThroughputEstimate:
    """Throughput allowed by these figures, and changes that multiply it by `times`. Calibration applies only to the
    loss limit, not to advice, bounds, the Mathis (Reno) index or a total loss."""
    seen = _Seen(rtt, loss, transfer, None if loss.ratio == 1.0 else calibration)
    if not 1.0 < times <= 1e6:
        raise FigureError("times", times, "give the target speed-up, above 1 and up to a million")
    limits = _limits(seen)
    given = (transfer.window_bytes, transfer.capacity_bps)
    not_known = tuple(
        name for name, value in zip((LimitName.WINDOW, LimitName.CAPACITY), given, strict=True) if value is None
    )
    index_bps = float(mathis_bps(rtt.median_ms, loss.bound_ratio, transfer.mss_bytes))
    throughput_bps, sign, low_bps, high_bps, binding = _least(limits, complete=not not_known)
    return ThroughputEstimate(
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


def needs(rtt: Rtt, transfer: TransferSettings, answer: ThroughputEstimate) -> StreamRequirements | None:
    """Requirements of the estimated rate for each stream; None for a bound of an unseen loss."""
    if answer.advice is None or answer.throughput_bps is None:
        return None
    stream_bps = answer.throughput_bps / transfer.streams
    return StreamRequirements(
        buffer_bytes=float(buffer_bytes(stream_bps, rtt.median_ms)),
        slow_start_s=float(slow_start_s(stream_bps, rtt.median_ms, transfer.mss_bytes)),
        recovery_s=float(recovery_s(transfer.control, stream_bps, rtt.median_ms, transfer.mss_bytes)),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """Inputs of an estimate. A calibration of None changes nothing."""

    rtt: Rtt
    loss: Loss
    transfer: TransferSettings
    calibration: Calibration | None

    def by_loss_bps(self, rtt_ms: float, ratio: float) -> float:
        """Rate of all streams at a loss seen by pings."""
        made = ratio if self.calibration is None else self.calibration.loss_ratio(ratio)
        stream_bps = float(loss_limit_bps(self.transfer.control, rtt_ms, made, self.transfer.mss_bytes))
        return self.transfer.streams * stream_bps

    def loss_needed(self, rate_bps: float) -> float:
        """Maximum loss seen by pings for this rate of all streams."""
        stream_bps, transfer = rate_bps / self.transfer.streams, self.transfer
        made = float(loss_ratio_for(transfer.control, stream_bps, self.rtt.median_ms, transfer.mss_bytes))
        return made if self.calibration is None else min(1.0, made / self.calibration.loss_factor)

    @property
    def ratios(self) -> tuple[float, float]:
        """Ends of the calibration's interval relative to its middle."""
        return (1.0, 1.0) if self.calibration is None else (self.calibration.low_ratio, self.calibration.high_ratio)


def _limits(seen: _Seen) -> tuple[LimitEstimate, ...]:
    transfer, loss = seen.transfer, seen.loss
    window = (
        None if transfer.window_bytes is None else _window_limit(seen.rtt, transfer.window_bytes * transfer.streams)
    )
    capacity = None if transfer.capacity_bps is None else _capacity_limit(transfer.capacity_bps)
    if transfer.is_bbr and loss.ratio < 1.0:
        held = tuple(limit for limit in (window, capacity) if limit is not None)
        despite_loss = tuple(_despite_loss(limit, seen) for limit in held)
        if not held or loss.ratio <= BBR_UNHARMED_RATIO:
            return despite_loss
        least = min(despite_loss, key=lambda limit: limit.throughput_bps)
        return (*held, replace(least, name=LimitName.LOSS))
    by_loss = _loss_limit(seen) if loss.ratio > 0.0 or loss.none_of_some else None
    return tuple(limit for limit in (window, by_loss, capacity) if limit is not None)


def _window_limit(rtt: Rtt, window_bytes: float) -> LimitEstimate:
    rate_bps, slow_bps, fast_bps = window_limit_bps(window_bytes, [rtt.median_ms, rtt.high_ms, rtt.low_ms]).tolist()
    low_bps = _joined(rate_bps, slow_bps, rate_bps * ATTAINED_LOW)
    high_bps = _joined(rate_bps, fast_bps, rate_bps * ATTAINED_HIGH)
    return LimitEstimate(LimitName.WINDOW, Sign.ABOUT, rate_bps, low_bps, high_bps)


def _capacity_limit(capacity_bps: float) -> LimitEstimate:
    low_bps, high_bps = capacity_bps * ATTAINED_LOW, capacity_bps * ATTAINED_HIGH
    return LimitEstimate(LimitName.CAPACITY, Sign.ABOUT, capacity_bps, low_bps, high_bps)


def _despite_loss(limit: LimitEstimate, seen: _Seen) -> LimitEstimate:
    ratio, low_bps, high_bps = seen.loss.ratio, limit.low_bps, limit.high_bps
    assert low_bps is not None
    assert high_bps is not None
    low_bps *= 1.0 - ratio
    if ratio > BBR_UNHARMED_RATIO:
        # The sender may react to so much loss after all.
        low_bps = min(low_bps, seen.by_loss_bps(seen.rtt.median_ms, ratio))
    return LimitEstimate(
        limit.name, limit.sign, limit.throughput_bps * (1.0 - ratio), low_bps, high_bps * (1.0 - ratio)
    )


def _loss_limit(seen: _Seen) -> LimitEstimate:
    rtt, loss = seen.rtt, seen.loss
    low_ratio, high_ratio = seen.ratios
    middle_bps, sign = seen.by_loss_bps(rtt.median_ms, loss.bound_ratio), loss.sign_of_rate
    if sign is Sign.AT_LEAST:
        floor_bps = middle_bps * low_ratio
        return LimitEstimate(LimitName.LOSS, sign, floor_bps, floor_bps, None)
    if sign is Sign.AT_MOST:
        return LimitEstimate(LimitName.LOSS, sign, middle_bps, None, middle_bps)
    if middle_bps == 0.0:
        return LimitEstimate(LimitName.LOSS, Sign.ABOUT, 0.0, 0.0, 0.0)
    least_loss, most_loss = loss.interval
    slowest_bps, fastest_bps = (seen.by_loss_bps(rtt_ms, loss.ratio) for rtt_ms in (rtt.high_ms, rtt.low_ms))
    lossy_bps, clean_bps = (seen.by_loss_bps(rtt.median_ms, ratio) for ratio in (most_loss, least_loss))
    low_bps = _joined(middle_bps, slowest_bps, lossy_bps, middle_bps * low_ratio)
    high_bps = _joined(middle_bps, fastest_bps, clean_bps, middle_bps * high_ratio)
    return LimitEstimate(LimitName.LOSS, Sign.ABOUT, middle_bps, low_bps, high_bps)


def _joined(middle_bps: float, *others_bps: float) -> float:
    """Combine independent errors on the same side."""
    apart = math.hypot(*(math.log(other_bps / middle_bps) for other_bps in others_bps))
    return middle_bps * math.exp(math.copysign(apart, sum(other_bps - middle_bps for other_bps in others_bps)))


Least = tuple[float | None, Sign | None, float | None, float | None, LimitName | None]


def _least(limits: tuple[LimitEstimate, ...], *, complete: bool) -> Least:
    """(throughput_bps, sign, low_bps, high_bps, binding) of the minimum of the limits."""
    caps = [limit for limit in limits if limit.sign is not Sign.AT_LEAST]
    floor = _floor(limits)
    if not caps:
        return None, None, None, None, None
    least = min(caps, key=lambda limit: limit.throughput_bps)
    rate_bps, high_bps = least.throughput_bps, min(cap.high_bps for cap in caps if cap.high_bps is not None)
    # A floor above the others shows that loss does not bind; below them it leaves open which limit binds.
    if floor is not None and floor < rate_bps:
        if complete:
            return None, Sign.BETWEEN, floor, high_bps, None
        return rate_bps, Sign.AT_MOST, None, high_bps, None
    if any(cap.sign is Sign.AT_MOST for cap in caps):
        return rate_bps, Sign.AT_MOST, None, high_bps, least.name if least.sign is Sign.AT_MOST else None
    low_bps = min(cap.low_bps for cap in caps if cap.low_bps is not None)
    sign = Sign.ABOUT if complete or rate_bps == 0.0 else Sign.AT_MOST
    return rate_bps, sign, low_bps, high_bps, least.name


def _floor(limits: tuple[LimitEstimate, ...]) -> float | None:
    return next((limit.throughput_bps for limit in limits if limit.sign is Sign.AT_LEAST), None)


def _packets_to_tell(limits: tuple[LimitEstimate, ...], seen: _Seen) -> int | None:
    floor = _floor(limits)
    caps = [limit.throughput_bps for limit in limits if limit.sign is not Sign.AT_LEAST]
    if floor is None or not caps or floor >= min(caps) or seen.loss.is_retransmits:
        return None
    return math.ceil(ZERO_LOSS_BOUND / seen.loss_needed(min(caps) / seen.ratios[0]))


def _loss_needed(target_bps: float, seen: _Seen) -> float:
    """Maximum loss for this rate; BBR's up to where it keeps it."""
    return BBR_UNHARMED_RATIO if seen.transfer.is_bbr else seen.loss_needed(target_bps)


def _advice(
    throughput_bps: float | None,
    binding: LimitName | None,
    times: float,
    limits: tuple[LimitEstimate, ...],
    seen: _Seen,
) -> SpeedUp | None:
    """None where the binding limit is unknown or the throughput is zero."""
    if throughput_bps is None or binding is None or throughput_bps == 0.0:
        return None
    target_bps, transfer = times * throughput_bps, seen.transfer
    short = {limit.name for limit in limits if limit.throughput_bps < target_bps}
    per_stream_bps = [
        limit.throughput_bps / transfer.streams for limit in limits if limit.name is not LimitName.CAPACITY
    ]
    streams = int(streams_needed(target_bps, min(per_stream_bps))) if per_stream_bps else transfer.streams
    return SpeedUp(
        times=times,
        target_bps=target_bps,
        window_bytes=max(transfer.mss_bytes, float(buffer_bytes(target_bps, seen.rtt.median_ms, transfer.streams)))
        if LimitName.WINDOW in short or transfer.window_bytes is None
        else None,
        loss_ratio=_loss_needed(target_bps, seen) if LimitName.LOSS in short else None,
        capacity_bps=target_bps if LimitName.CAPACITY in short or transfer.capacity_bps is None else None,
        streams=streams if streams > transfer.streams else None,
    )
