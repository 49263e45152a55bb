"""Distinguishes policer, shaper and link, with rate and burst, by UDP trains. No I/O.

At most burst + rate × time passes; beyond, a policer drops, a shaper delays, a full queue drops after delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from probes.policer.spec import IP_BYTES, LONGEST_REFILL_S, LONGEST_TRAIN_S, PolicerVerdict
from probes.policer.trains import Floats, TrainPlan, UdpTrain

# Rate of the second train over the rate of the limit.
OVER = 1.3
# A limit passes at most these shares of the first train, and of another; a lossy share then differs by 15%.
BELOW_FIRST, BELOW = 0.65, 0.85
RATES_AGREE = 0.06
BURSTS_AGREE = 0.12
BURST_KNOWN = 0.1
# Packets that must pass behind the burst: the rate is then known to 5%.
LEAST_PASSED = 20
# Maximum deviation of the bytes passed from rate × time, as a share of them; `SLACK_PACKETS` and `SLACK_S` are added.
ON_THE_LINE = 0.1
SLACK_PACKETS, SLACK_S = 4.0, 0.003
# A rise of the delay below this is noise of the hosts.
LEAST_DELAY_S = 0.002
NOISE = 3.0
# Maximum delay behind the burst over burst / rate: 1 for a queue that holds the burst, 0 for a policer.
NOT_QUEUED = 0.35
LINK_PACKETS = 6.0
LEAST_DROPPED = 10
LEAST_WAITING = 5
# A longer gap between packets is a stall of the sender, in which a bucket may have filled to the brim.
STALL_S, STALL_GAPS = 0.005, 5.0
# After a first train with this loss, a slower train follows, at this multiple of the rate that passed.
MOSTLY_LOST = 0.9
SLOWER = 8.0
SLOWER_PAUSE_S = 2.0
LEAST_PEAK_BPS = 50_000.0
WAITING_PACKETS = 80.0
# Maximum rate over a known limit's rate: more only wastes packets.
STEEP = 10.0
LEAST_SUSTAINED_S = 1.2
FEW_PACKETS = 250


@dataclass(frozen=True, slots=True)
class PolicerEstimate:
    verdict: PolicerVerdict
    detail: str | None = None  # why the verdict is undetermined, or how it is qualified
    sustained_bps: float | None = None
    sustained_range_bps: tuple[float, float] | None = None
    burst_bytes: float | None = None
    burst_range_bytes: tuple[float, float] | None = None
    delay_rise_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrainFit:
    """A limit as one train shows it, rates in bytes per second."""

    drops: bool  # a policer, instead of a delay
    rate: float
    seconds: float
    burst_low_bytes: float
    burst_high_bytes: float
    rise_s: float

    @property
    def burst_bytes(self) -> float:
        """Middle of the permitted range."""
        return (self.burst_low_bytes + self.burst_high_bytes) / 2.0


def first_train(peak_bps: float, train_bytes: int) -> TrainPlan:
    packets = int(min(train_bytes, peak_bps / 8.0 * LONGEST_TRAIN_S) // IP_BYTES)
    return TrainPlan(max(2, packets), IP_BYTES, peak_bps)


def next_train(trains: Sequence[UdpTrain], peak_bps: float, train_bytes: int) -> TrainPlan | None:
    """The next train; None if no more is needed, or helps."""
    base_s = base_delay_s(trains)
    if len(trains) == 1 and _passed_too_little(trains[0], base_s):
        return _slower_train(trains[0])
    trains, peak_bps = _from_first(trains, base_s, peak_bps)
    first = fit_train(trains[0], base_s)
    if first is None:
        return None
    if len(trains) == 1:
        return _second_train(first, peak_bps, train_bytes)
    second = fit_train(trains[1].without_lead(), base_s, limit=first)
    # A limit passes the same rate in trains of two rates; other loss would not.
    if len(trains) > 2 or second is None or not _agree(first, second):
        return None
    # A queue drains, and a bucket fills, in the time of the burst at the rate.
    refill_s = 1.15 * first.burst_high_bytes / second.rate + max(first.rise_s, second.rise_s) + 0.1
    if refill_s > LONGEST_REFILL_S:
        return None
    lead_bps = min(peak_bps, STEEP * 8.0 * first.rate)
    emptying = _emptying_packets(first, lead_bps)
    beyond = FEW_PACKETS / 2.0 if first.drops else max(emptying, WAITING_PACKETS * STEEP)
    return TrainPlan(int(min(emptying + beyond, train_bytes / IP_BYTES)), IP_BYTES, lead_bps, refill_s)


def _passed_too_little(train: UdpTrain, base_s: float) -> bool:
    passed = _passed_at_end(train)
    return 0.0 < passed < 1.0 - MOSTLY_LOST and fit_train(train, base_s) is None


def _passed_at_end(train: UdpTrain) -> float:
    return float(train.passed[len(train) // 2 :].mean())


def _slower_train(train: UdpTrain) -> TrainPlan:
    rate_bps = SLOWER * max(LEAST_PEAK_BPS, _passed_at_end(train) * train.sent_bps)
    packets = int(LONGEST_TRAIN_S * rate_bps / 8.0 / IP_BYTES)
    return TrainPlan(max(LEAST_PASSED, packets), IP_BYTES, rate_bps, SLOWER_PAUSE_S)


def _from_first(trains: Sequence[UdpTrain], base_s: float, peak_bps: float) -> tuple[Sequence[UdpTrain], float]:
    """Drop a mostly lost first train; return the first remaining rate."""
    if len(trains) > 1 and _passed_too_little(trains[0], base_s):
        return trains[1:], trains[1].sent_bps
    return trains, peak_bps


def _second_train(first: TrainFit, peak_bps: float, train_bytes: int) -> TrainPlan:
    # Slower than the first: so that a share that passes is no rate.
    rate_bps = OVER * 8.0 * first.rate
    wanted = max(FEW_PACKETS, LEAST_SUSTAINED_S * rate_bps / 8.0 / IP_BYTES)
    most = min(train_bytes / 2.0, LONGEST_TRAIN_S * rate_bps / 8.0) / IP_BYTES
    lead_bps = min(peak_bps, STEEP * 8.0 * first.rate)
    lead = int(1.1 * _emptying_packets(first, lead_bps)) + 10
    return TrainPlan(int(max(2, min(wanted, most))), IP_BYTES, rate_bps, 0.0, lead, lead_bps)


def _emptying_packets(fit: TrainFit, peak_bps: float) -> float:
    return fit.burst_high_bytes / (1.0 - min(0.9, fit.rate * 8.0 / peak_bps)) / IP_BYTES


def base_delay_s(trains: Sequence[UdpTrain]) -> float:
    """Minimum delay of all packets; NaN if none arrived."""
    arrived = [train.delay_s[train.passed] for train in trains if train.passed.any()]
    return float(min(delays.min() for delays in arrived)) if arrived else float("nan")


def estimate(trains: Sequence[UdpTrain], host_drops: int = 0) -> PolicerEstimate:
    """Estimate the limit; `host_drops` are at the receiver's socket."""
    undetermined = PolicerVerdict.UNDETERMINED
    if not any(train.passed.any() for train in trains):
        return PolicerEstimate(undetermined, "no packet arrived: UDP may be filtered on the way")
    if host_drops:
        return PolicerEstimate(
            undetermined, f"the receiver's host dropped {host_drops} packets: repeat on an idle host"
        )
    base_s = base_delay_s(trains)
    trains, _ = _from_first(trains, base_s, 0.0)
    first = fit_train(trains[0], base_s)
    if first is None:
        return _without_limit(trains[0], base_s)
    if len(trains) < 2:
        return PolicerEstimate(undetermined, "the test ended after its first train")
    second = fit_train(trains[1].without_lead(), base_s, limit=first)
    if second is None or not _agree(first, second):
        return PolicerEstimate(
            undetermined, "two trains at different rates did not pass the same rate: loss, or a rate that changes"
        )
    found = _verdict(first, second)
    if found.verdict is undetermined:
        return found
    again = _burst_again(trains[2], base_s, second) if len(trains) > 2 else None
    return _with_burst(found, first, again, second.rate)


def _without_limit(train: UdpTrain, base_s: float) -> PolicerEstimate:
    lost = 1.0 - float(train.passed.mean())
    delays = train.delay_s[train.passed] - base_s
    rise_s = float(np.median(delays[-max(1, len(delays) // 4) :]))
    if lost == 0.0 and rise_s < max(LEAST_DELAY_S, 0.1 * float(train.sent_s[-1] - train.sent_s[0])):
        return PolicerEstimate(PolicerVerdict.NO_LIMIT, delay_rise_s=rise_s)
    if lost > 0.0:
        return PolicerEstimate(
            PolicerVerdict.UNDETERMINED,
            f"{lost:.1%} of the first train was lost, but what passed has no constant rate below that of the train",
        )
    return PolicerEstimate(PolicerVerdict.UNDETERMINED, "the delay rose, but the arrivals have no constant rate")


def fit_train(train: UdpTrain, base_s: float, limit: TrainFit | None = None) -> TrainFit | None:
    """Fit a train's limit, of the kind of `limit` if given, or None."""
    if len(train) < LEAST_PASSED or not train.passed.any():
        return None
    rise_s = _rise_s(train, base_s)
    below = BELOW_FIRST if limit is None else BELOW
    if limit is not None:
        return _fit_drops(train, rise_s, below, limit.rate) if limit.drops else _fit_delays(train, base_s, below)
    drops = _fit_drops(train, rise_s, below)
    if drops is None or rise_s > _highest_rise_s(train, base_s, drops):
        return _fit_delays(train, base_s, below)
    return drops


def _highest_rise_s(train: UdpTrain, base_s: float, fit: TrainFit) -> float:
    # Maximum delay behind a policer's first drop: noise, below a queue's.
    early = train.delay_s[: max(1, int(np.argmin(train.passed)) // 2)]
    noise_s = float(np.nanmedian(early)) - base_s if train.passed[: len(early)].any() else 0.0
    return min(max(LEAST_DELAY_S, NOISE * noise_s), NOT_QUEUED * fit.burst_bytes / fit.rate)


def _rise_s(train: UdpTrain, base_s: float) -> float:
    """Median delay above the minimum, behind the first drop or last third."""
    first = int(np.argmin(train.passed)) if not train.passed.all() else 2 * len(train) // 3
    behind = train.delay_s[first:][train.passed[first:]]
    return max(0.0, float(np.median(behind)) - base_s) if behind.size else 0.0


def _fit_drops(train: UdpTrain, rise_s: float, below: float, known_rate: float | None = None) -> TrainFit | None:
    """Rate between drops, from empty to empty bucket, unless the sender stalls."""
    spells = _dropping(train)
    packets = sum(last - first for first, last in spells)
    passed = sum(int(train.passed[first:last].sum()) for first, last in spells)
    seconds = sum(float(train.sent_s[last] - train.sent_s[first]) for first, last in spells)
    if passed < LEAST_PASSED or seconds <= 0.0 or passed > below * packets:
        return None
    rate = passed * train.ip_bytes / seconds
    for first, last in spells:
        until = np.concatenate([[0.0], np.cumsum(train.passed[first + 1 : last + 1]) * float(train.ip_bytes)])
        if not _is_line(until, train.sent_s[first : last + 1] - train.sent_s[first], rate, train.ip_bytes):
            return None
    first_drop = int(np.argmin(train.passed))
    needed_bytes = _needed_bytes(train, first_drop, rate if known_rate is None else known_rate)
    low = float(needed_bytes[:-1].max()) if first_drop else 0.0
    return TrainFit(True, rate, seconds, low, max(low, float(needed_bytes[-1])), rise_s)


def _dropping(train: UdpTrain) -> list[tuple[int, int]]:
    """First and last drop of each part without a stall."""
    drops = np.flatnonzero(~train.passed)
    if drops.size < 2:
        return []
    gaps_s = np.diff(train.sent_s)
    part = np.concatenate([[0], np.cumsum(gaps_s > max(STALL_S, STALL_GAPS * float(np.median(gaps_s))))])[drops]
    firsts = drops[np.flatnonzero(np.diff(part, prepend=-1))]
    lasts = drops[np.flatnonzero(np.diff(part, append=part[-1] + 1))]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True) if last > first]


def _needed_bytes(train: UdpTrain, first_drop: int, rate: float) -> Floats:
    """Bucket depth that each packet needs to pass; at the drop less is left."""
    sent_s = train.sent_s[: first_drop + 1] - train.sent_s[0]
    ahead = np.arange(1, first_drop + 2) * float(train.ip_bytes) - rate * sent_s
    return np.asarray(ahead - np.minimum.accumulate(ahead) + train.ip_bytes)


def _fit_delays(train: UdpTrain, base_s: float, below: float) -> TrainFit | None:
    """Rate of arrivals while packets wait, and the bytes sent ahead of it."""
    arrived_s = train.arrived_s[train.passed]
    delays = train.delay_s[train.passed] - base_s
    rise_s = float(np.median(delays[-max(1, len(delays) // 3) :]))
    if rise_s < LEAST_DELAY_S or arrived_s.size < 2 * LEAST_PASSED:
        return None
    waiting = delays > max(LEAST_DELAY_S / 2.0, 0.25 * rise_s)
    until = np.arange(1, arrived_s.size + 1) * float(train.ip_bytes)
    spells = _waiting(waiting)
    seconds = sum(float(arrived_s[last] - arrived_s[first]) for first, last in spells)
    passed = sum(last - first for first, last in spells)
    if passed < LEAST_PASSED or seconds <= 0.0 or (np.diff(arrived_s[waiting]) < 0.0).any():
        return None
    rate = passed * train.ip_bytes / seconds
    if 8.0 * rate > below * train.sent_bps:
        return None
    for first, last in spells:
        part = slice(first, last + 1)
        if not _is_line(until[part] - until[first], arrived_s[part] - arrived_s[first], rate, train.ip_bytes):
            return None
    # Bytes at the limit ahead of the rate, since it was last idle: a sender that stalls lets tokens go.
    sent_s = train.sent_s[train.passed]
    idle = np.minimum.accumulate(until - rate * (sent_s - sent_s[0])) - train.ip_bytes
    ahead = (until - rate * (arrived_s - (sent_s[0] + base_s)) - idle)[waiting]
    # Noise of the hosts only delays: the packets furthest ahead have the least of it.
    low, middle, high = (max(0.0, float(value)) for value in np.quantile(ahead, (0.5, 0.9, 0.98)))
    if middle > LINK_PACKETS * train.ip_bytes and _waits_before(train, delays, middle, rise_s):
        return None
    return TrainFit(False, rate, seconds, low, high, rise_s)


def _waiting(waiting: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last packet of each spell in which all arrivals had waited."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], waiting, [False]])))
    return [(int(first), int(end) - 1) for first, end in edges.reshape(-1, 2) if end - first >= LEAST_WAITING]


def _waits_before(train: UdpTrain, delays_s: Floats, burst_bytes: float, rise_s: float) -> bool:
    # Whether burst packets were delayed: then a queue precedes the limit.
    ahead = delays_s[: max(1, int(0.7 * burst_bytes / train.ip_bytes))]
    return float(np.median(ahead)) > max(LEAST_DELAY_S, 0.25 * rise_s)


def _is_line(until: Floats, times_s: Floats, rate: float, ip_bytes: int) -> bool:
    """Whether bytes are rate × time, but for few packets and jitter."""
    allowed = SLACK_PACKETS * ip_bytes + SLACK_S * rate + ON_THE_LINE * 0.25 * float(until[-1])
    return float(np.abs(until - rate * times_s - np.median(until - rate * times_s)).max()) <= allowed


def _agree(first: TrainFit, second: TrainFit) -> bool:
    noise = 1.5 * IP_BYTES * (1.0 / (first.rate * first.seconds) + 1.0 / (second.rate * second.seconds))
    return abs(first.rate / second.rate - 1.0) <= RATES_AGREE + noise


def _verdict(first: TrainFit, second: TrainFit) -> PolicerEstimate:
    seconds = first.seconds + second.seconds
    rate = (first.rate * first.seconds + second.rate * second.seconds) / seconds
    rates_bps = sorted(8.0 * fit.rate for fit in (first, second))
    verdict, detail = _kind(first, rate)
    if verdict is PolicerVerdict.UNDETERMINED:
        return PolicerEstimate(verdict, detail, delay_rise_s=first.rise_s)
    return PolicerEstimate(
        verdict,
        detail,
        sustained_bps=8.0 * rate,
        sustained_range_bps=(rates_bps[0], rates_bps[1]),
        delay_rise_s=max(first.rise_s, second.rise_s),
    )


def _kind(first: TrainFit, rate: float) -> tuple[PolicerVerdict, str | None]:
    if not first.drops:
        is_link = first.burst_high_bytes < LINK_PACKETS * IP_BYTES + LEAST_DELAY_S * rate
        return (PolicerVerdict.LINK if is_link else PolicerVerdict.SHAPER), None
    if first.burst_bytes / rate < LEAST_DELAY_S:
        return PolicerVerdict.UNDETERMINED, (
            f"a burst of {first.burst_bytes:.0f} bytes is too short at this rate to tell a policer from a short queue"
        )
    return PolicerVerdict.POLICER, None


def _burst_again(train: UdpTrain, base_s: float, limit: TrainFit) -> tuple[float, float] | None:
    """Range of the burst in another train; None if it shows none."""
    if limit.drops:
        drops = np.flatnonzero(~train.passed)
        if drops.size < LEAST_DROPPED:
            return None
        needed_bytes = _needed_bytes(train, int(drops[0]), limit.rate)
        low = float(needed_bytes[:-1].max()) if drops[0] else 0.0
        return low, max(low, float(needed_bytes[-1]))
    fit = _fit_delays(train, base_s, BELOW)
    if fit is None or not _agree(limit, fit):
        return None
    return fit.burst_low_bytes, fit.burst_high_bytes


def _with_burst(
    found: PolicerEstimate, first: TrainFit, again: tuple[float, float] | None, rate: float
) -> PolicerEstimate:
    """Add the burst if another train agrees, else why it is unknown."""
    # Without a burst, a shaper is a link of changed rate.
    if found.verdict is PolicerVerdict.LINK:
        return found
    middle = first.burst_bytes if again is None else (first.burst_bytes + sum(again) / 2.0) / 2.0
    apart = 2.0 * abs(middle - first.burst_bytes) - 1.5 * IP_BYTES - SLACK_S * rate
    if again is not None and apart <= BURSTS_AGREE * first.burst_bytes:
        low, high = min(first.burst_low_bytes, again[0]), max(first.burst_high_bytes, again[1])
        if not first.drops and high - low > BURST_KNOWN * middle:
            return replace(found, detail="burst unknown: the delays of the hosts are too large for it")
        return replace(found, burst_bytes=middle, burst_range_bytes=(low, high))
    if found.verdict is PolicerVerdict.SHAPER:
        return PolicerEstimate(
            PolicerVerdict.UNDETERMINED,
            "a burst passed faster once, but not again: a shaper, or a link whose rate changes",
            delay_rise_s=found.delay_rise_s,
        )
    reason = "its bucket takes too long to fill" if again is None else "it differed between trains"
    return replace(found, detail=f"burst unknown: {reason}")
