"""Estimates the bottleneck capacity of a path from trains of echo requests. No I/O.

Minimum sum of RTTs: CapProbe (Kapoor and others, SIGCOMM 2004). Trains: Dovrolis, Ramanathan and Moore,
"Packet-dispersion techniques and a capacity-estimation methodology", 2004.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probes.capacity.spec import CapacityVerdict
from probes.capacity.trains import MIN_KEPT, NS_PER_S, EchoTrain, least_delayed, rate_bps

# Software timestamps have jitter of a microsecond or two.
RESOLUTION_NS = 3_000

# If the gap between requests exceeds this share of the gap between replies, this host spaced them.
OWN_SHARE = 0.75

BATCH_GAP_SHARE = 0.25
# Replies are batched if this share of the gaps is below `BATCH_GAP_SHARE` of the mean gap.
BATCHED_SHARE = 0.4

# If the gap of small packets exceeds this share of the gap of large packets, the delay is per packet.
PER_PACKET_SHARE = 0.6

# Minimum share of complete pairs, and of trains spaced by the path.
ENOUGH_SHARE = 0.5

CUT_SHARE = 0.5
# Truncated: the second half's reply share is below `CUT_SHARE` of the first packet's, and lower by this difference.
CUT_DIFFERENCE = 0.15

# Maximum ratio of the quartiles of gaps that give a rate.
SETTLED_RATIO = 1.5

AGREEING_RATIO = 1.2
# Pairs and trains agree up to `AGREEING_RATIO`; beyond this ratio, both are rejected.
CONTRARY_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, or the reason for none."""

    verdict: CapacityVerdict
    detail: str | None = None
    capacity_bps: float | None = None  # only with the verdict `MEASURED`
    low_bps: float | None = None  # without `capacity_bps`, a lower bound
    high_bps: float | None = None
    method: str | None = None  # trains that the estimate is based on


@dataclass(frozen=True, slots=True)
class _TrainsByPurpose:
    pairs: list[EchoTrain]
    long: list[EchoTrain]
    small: list[EchoTrain]


@dataclass(frozen=True, slots=True)
class _GapRates:
    """Median and quartiles of the gaps of the least delayed trains, as rates."""

    kind: str
    ip_bytes: int
    gap_ns: float
    low_bps: float
    high_bps: float

    @property
    def median_bps(self) -> float:
        return rate_bps(self.ip_bytes, self.gap_ns)

    @property
    def settled(self) -> bool:
        return self.high_bps <= SETTLED_RATIO * self.low_bps


def estimate(trains: Sequence[EchoTrain]) -> Estimate:
    """Estimate the capacity; the first reason to reject the replies is the verdict.

    Needs pairs and longer trains of a size, and clearly smaller long trains.
    """
    if not any(train.answered.any() for train in trains):
        return Estimate(CapacityVerdict.NO_REPLY, "no echo request was answered")
    if not any((train.answered & train.stamped).any() for train in trains):
        return Estimate(CapacityVerdict.UNSTAMPED, "no kernel timestamps, which the estimate requires")
    kinds = _by_kind(trains)
    result = (
        _check_loss(kinds)
        or _check_batching(kinds)
        or _check_resolution(kinds)
        or _check_per_packet(kinds)
        or _combine(kinds)
    )
    return _check_rate_limit(result, kinds)


def _by_kind(trains: Sequence[EchoTrain]) -> _TrainsByPurpose:
    largest = max(train.ip_bytes for train in trains)
    large = [train for train in trains if train.ip_bytes == largest]
    return _TrainsByPurpose(
        pairs=[train for train in large if len(train) == 2],
        long=[train for train in large if len(train) > 2],
        small=[train for train in trains if train.ip_bytes < largest],
    )


def _complete(trains: Sequence[EchoTrain]) -> list[EchoTrain]:
    return [train for train in trains if train.is_complete]


def _check_loss(kinds: _TrainsByPurpose) -> Estimate | None:
    complete = len(_complete(kinds.pairs))
    if complete >= max(MIN_KEPT, ENOUGH_SHARE * len(kinds.pairs)):
        return None
    detail = (
        f"only {complete} of {len(kinds.pairs)} pairs were answered completely, in order and with kernel timestamps"
    )
    return Estimate(CapacityVerdict.LOSSY, detail)


def _check_batching(kinds: _TrainsByPurpose) -> Estimate | None:
    trains = _complete(kinds.long)
    if not trains:
        return None
    near = np.concatenate([train.gaps_ns < BATCH_GAP_SHARE * train.gaps_ns.mean() for train in trains])
    share = float(near.mean())
    if share < BATCHED_SHARE:
        return None
    detail = (
        f"replies arrived in batches of about {1 / (1 - share):.1f}: interrupt coalescing at either end or at a hop "
        "(on this host, disable it with `ethtool -C INTERFACE rx-usecs 0`)"
    )
    return Estimate(CapacityVerdict.BATCHED, detail)


def _check_resolution(kinds: _TrainsByPurpose) -> Estimate | None:
    trains = _complete(kinds.long)
    if len(trains) < MIN_KEPT:
        trains = _complete(kinds.pairs)
    gap_ns = statistics.median(train.gap_ns for train in trains)
    if gap_ns < RESOLUTION_NS:
        detail = (
            f"replies are {gap_ns / 1000:.1f} µs apart, below the timestamp resolution of {RESOLUTION_NS / 1000:g} µs"
        )
        return Estimate(CapacityVerdict.RESOLUTION, detail)
    if sum(train.is_spread_by(OWN_SHARE) for train in trains) >= ENOUGH_SHARE * len(trains):
        return None
    sent_gap_ns = statistics.median(train.sent_gap_ns for train in trains)
    detail = (
        f"replies are {gap_ns / 1000:.1f} µs apart, but the requests already left {sent_gap_ns / 1000:.1f} µs apart: "
        "this host or its interface is the limit"
    )
    return Estimate(CapacityVerdict.OWN_LIMIT, detail, low_bps=rate_bps(trains[0].ip_bytes, max(gap_ns, sent_gap_ns)))


def _check_per_packet(kinds: _TrainsByPurpose) -> Estimate | None:
    """Detect a limit per packet.

    Where a busy path or host makes gaps differ, only quicker small packets exclude it.
    """
    candidates = _candidates(kinds)
    settled = [rates for rates in candidates if rates.settled]
    complete = _complete(kinds.small)
    if not settled or len(complete) < MIN_KEPT:
        return None
    large, small = settled[0], _rates("small trains", kinds.small)
    is_clear = small is not None and small.settled
    gap_ns = small.gap_ns if small is not None and is_clear else min(float(train.gaps_ns.mean()) for train in complete)
    if gap_ns <= PER_PACKET_SHARE * large.gap_ns:
        return None
    gaps = (
        f"packets of {complete[0].ip_bytes} bytes are {gap_ns / 1000:.0f} µs apart, and those of {large.ip_bytes} "
        f"bytes {large.gap_ns / 1000:.0f} µs"
    )
    if not is_clear:
        detail = f"{gaps}, but differ too much to tell a link from a limit per packet: path or host too busy"
        return replace(_unsettled(candidates), detail=detail)
    detail = (
        f"{gaps}: a limit of about {NS_PER_S / large.gap_ns:.0f} echoes/s independent of packet size, not a link rate"
    )
    return Estimate(CapacityVerdict.PER_PACKET, detail)


def _combine(kinds: _TrainsByPurpose) -> Estimate:
    # Combine pairs and trains. A token bucket passes pairs at line rate; cross traffic within a train makes its gaps
    # differ.
    candidates = _candidates(kinds)
    settled = [rates for rates in candidates if rates.settled]
    medians_bps = [rates.median_bps for rates in settled]
    if not settled or max(medians_bps) > CONTRARY_RATIO * min(medians_bps):
        return _unsettled(candidates)
    if max(medians_bps) > AGREEING_RATIO * min(medians_bps):
        settled = settled[:1]
    capacity_bps = statistics.harmonic_mean(rates.median_bps for rates in settled)
    return Estimate(
        CapacityVerdict.MEASURED,
        capacity_bps=capacity_bps,
        # If all gaps are equal, rounding may put the mean outside the quartiles.
        low_bps=min(capacity_bps, *(rates.low_bps for rates in settled)),
        high_bps=max(capacity_bps, *(rates.high_bps for rates in settled)),
        method=" and ".join(rates.kind for rates in reversed(settled)),
    )


def _candidates(kinds: _TrainsByPurpose) -> list[_GapRates]:
    both = (_rates("trains", kinds.long), _rates("pairs", kinds.pairs))
    return [rates for rates in both if rates is not None]


def _unsettled(candidates: Sequence[_GapRates]) -> Estimate:
    if not candidates:
        return Estimate(CapacityVerdict.UNSETTLED, "too few trains were sent back to back: this host is too busy")
    ranges = (f"{rates.kind} {rates.low_bps / 1e6:.3g} to {rates.high_bps / 1e6:.3g} Mbit/s" for rates in candidates)
    detail = f"gaps of the least delayed trains differ too much ({'; '.join(ranges)}): path or host too busy"
    return Estimate(
        CapacityVerdict.UNSETTLED,
        detail,
        low_bps=min(rates.low_bps for rates in candidates),
        high_bps=max(rates.high_bps for rates in candidates),
    )


def _rates(kind: str, trains: Sequence[EchoTrain]) -> _GapRates | None:
    usable = [train for train in _complete(trains) if train.is_spread_by(OWN_SHARE)]
    if len(usable) < MIN_KEPT:
        return None
    gaps_ns = np.concatenate([train.gaps_ns for train in least_delayed(usable)])
    low_ns, median_ns, high_ns = np.maximum(np.percentile(gaps_ns, (25, 50, 75)), 1.0).tolist()
    ip_bytes = usable[0].ip_bytes
    return _GapRates(kind, ip_bytes, median_ns, rate_bps(ip_bytes, high_ns), rate_bps(ip_bytes, low_ns))


def _check_rate_limit(result: Estimate, kinds: _TrainsByPurpose) -> Estimate:
    # Detect ICMP rate limiting: trains lose their tail but not their head.
    heads = np.array([train.answered[0] for train in (*kinds.pairs, *kinds.long, *kinds.small)])
    tails = np.concatenate([train.answered[len(train) // 2 :] for train in (*kinds.long, *kinds.small)])
    head_share, tail_share = float(heads.mean()), float(tails.mean())
    if tail_share > min(CUT_SHARE * head_share, head_share - CUT_DIFFERENCE):
        return result
    detail = (
        f"{head_share:.0%} of the first packets of trains were answered, but only {tail_share:.0%} in the second half "
        "of long trains: ICMP is rate-limited on the path or at the far end, or a queue is very short"
    )
    if result.verdict is CapacityVerdict.MEASURED:
        return replace(result, detail=detail)
    return Estimate(CapacityVerdict.RATE_LIMITED, detail)
