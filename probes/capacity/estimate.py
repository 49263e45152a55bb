"""The narrowest link of a path, from trains of echo requests: trains in, an `Estimate` with its verdict out. No I/O.

A link of rate C passes packets of L bits that come back to back at intervals of L/C, and no faster link behind it
draws them together again (packet pair: Jacobson 1988; Bolot 1993; Carter and Crovella 1996). Other traffic may push
between the two, or hold the first one up later on. Both delay a packet, so the pairs whose two round trips sum to the
least were not touched (CapProbe: Kapoor, Chen, Lao, Gerla and Sanadidi, SIGCOMM 2004). A longer train has many gaps
against the noise of the stamps, but more time in which other traffic can get in (Dovrolis, Ramanathan and Moore,
"Packet-dispersion techniques and a capacity-estimation methodology", 2004); the median of its gaps is that of an idle
link while fewer than half of them hold other packets. So both are sent, and looked at together.

Every reason to doubt the replies is looked for before a figure is given; the first that holds is the verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probes.capacity.spec import Verdict
from probes.capacity.trains import LEAST_KEPT, NS_PER_S, EchoTrain, least_delayed, rate_bps

RESOLUTION_NS = 3_000
"""Software stamps waver by a microsecond or two, for they are taken when the kernel gets round to it."""

OWN_SHARE = 0.75
"""Requests that left this near to the gap of their replies were spread by this host, not by the path."""

BATCH_GAP_SHARE = 0.25
BATCHED_SHARE = 0.4
"""Replies are batched if this share of the gaps is below `BATCH_GAP_SHARE` of the mean gap."""

PER_PACKET_SHARE = 0.6
"""Small packets that are spread by more than this share of the large ones' gap: time is spent per packet."""

ENOUGH_SHARE = 0.5
"""Of the pairs, that must come back whole; of the trains, that must be spread by the path."""

CUT_SHARE = 0.5
CUT_DIFFERENCE = 0.15
"""Trains are cut if their second halves are answered less than their heads by both, a ratio and a difference."""

SETTLED_RATIO = 1.5
"""Gaps whose quartiles lie further apart do not tell a rate."""

AGREEING_RATIO = 1.2
CONTRARY_RATIO = 2.0
"""Up to the one, pairs and trains say the same; beyond the other, neither is believed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`capacity_bps` only where the verdict is `MEASURED`; `low_bps` alone is a lower bound.

    `method` says which trains the figure rests on.
    """

    verdict: Verdict
    detail: str | None = None
    capacity_bps: float | None = None
    low_bps: float | None = None
    high_bps: float | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The trains by what they are for."""

    pairs: list[EchoTrain]
    long: list[EchoTrain]
    small: list[EchoTrain]


@dataclass(frozen=True, slots=True)
class _Rates:
    """What the least delayed trains of one kind say: median and quartiles of their gaps, as rates."""

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
    """The capacity of the path that `trains` went over, or why it cannot be told.

    Wants pairs and longer trains of one size, and long trains of a clearly smaller size.
    """
    if not any(train.answered.any() for train in trains):
        return Estimate(Verdict.NO_REPLY, "no echo request was answered")
    if not any((train.answered & train.stamped).any() for train in trains):
        return Estimate(Verdict.UNSTAMPED, "the kernel stamped no packet, and gaps are told by its stamps only")
    kinds = _by_kind(trains)
    found = _too_much_lost(kinds) or _batched(kinds) or _too_fast(kinds) or _per_packet(kinds) or _combined(kinds)
    return _with_cut(found, kinds)


def _by_kind(trains: Sequence[EchoTrain]) -> _Sorted:
    largest = max(train.ip_bytes for train in trains)
    large = [train for train in trains if train.ip_bytes == largest]
    return _Sorted(
        pairs=[train for train in large if len(train) == 2],
        long=[train for train in large if len(train) > 2],
        small=[train for train in trains if train.ip_bytes < largest],
    )


def _whole(trains: Sequence[EchoTrain]) -> list[EchoTrain]:
    return [train for train in trains if train.whole]


def _too_much_lost(kinds: _Sorted) -> Estimate | None:
    whole = len(_whole(kinds.pairs))
    if whole >= max(LEAST_KEPT, ENOUGH_SHARE * len(kinds.pairs)):
        return None
    detail = f"only {whole} of {len(kinds.pairs)} pairs came back whole, in order and stamped by the kernel"
    return Estimate(Verdict.LOSSY, detail)


def _batched(kinds: _Sorted) -> Estimate | None:
    """Whether replies were taken off an interface in batches, which then share a stamp or nearly so."""
    trains = _whole(kinds.long)
    if not trains:
        return None
    near = np.concatenate([train.gaps_ns < BATCH_GAP_SHARE * train.gaps_ns.mean() for train in trains])
    share = float(near.mean())
    if share < BATCHED_SHARE:
        return None
    detail = (
        f"replies came in batches of about {1 / (1 - share):.1f}: an interface at either end, or a hop, gathers "
        "packets before it hands them on (on this host `ethtool -C INTERFACE rx-usecs 0` ends it)"
    )
    return Estimate(Verdict.BATCHED, detail)


def _too_fast(kinds: _Sorted) -> Estimate | None:
    """Whether the gaps are those of our stamps or of our own sending."""
    trains = _whole(kinds.long)
    if len(trains) < LEAST_KEPT:
        trains = _whole(kinds.pairs)
    gap_ns = statistics.median(train.gap_ns for train in trains)
    if gap_ns < RESOLUTION_NS:
        detail = f"replies are {gap_ns / 1000:.1f} µs apart: the stamps tell no less than {RESOLUTION_NS / 1000:g} µs"
        return Estimate(Verdict.RESOLUTION, detail)
    if sum(train.is_spread_by(OWN_SHARE) for train in trains) >= ENOUGH_SHARE * len(trains):
        return None
    sent_gap_ns = statistics.median(train.sent_gap_ns for train in trains)
    detail = (
        f"replies are {gap_ns / 1000:.1f} µs apart, but the requests already left {sent_gap_ns / 1000:.1f} µs apart: "
        "this host, or its own interface, is the limit"
    )
    return Estimate(Verdict.OWN_LIMIT, detail, low_bps=rate_bps(trains[0].ip_bytes, max(gap_ns, sent_gap_ns)))


def _per_packet(kinds: _Sorted) -> Estimate | None:
    """Whether small packets are spread like large ones. Where small ones cannot be sent fast enough, nobody knows."""
    small, large = _rates("small trains", kinds.small), _rates("trains", kinds.long)
    if small is None or large is None or not (small.settled and large.settled):
        return None
    if small.gap_ns <= PER_PACKET_SHARE * large.gap_ns:
        return None
    detail = (
        f"packets of {small.ip_bytes} bytes are {small.gap_ns / 1000:.0f} µs apart, and those of {large.ip_bytes} "
        f"bytes {large.gap_ns / 1000:.0f} µs: something answers or passes about {NS_PER_S / large.gap_ns:.0f} echoes/s "
        "whatever their size, which is no link's rate"
    )
    return Estimate(Verdict.PER_PACKET, detail)


def _combined(kinds: _Sorted) -> Estimate:
    """Pairs and trains together. Where they differ, the trains, if their gaps agree among themselves: the credit that
    a shaper has saved up draws a pair together; other traffic between the packets of a train makes its gaps differ."""
    found = [rates for rates in (_rates("trains", kinds.long), _rates("pairs", kinds.pairs)) if rates is not None]
    settled = [rates for rates in found if rates.settled]
    medians_bps = [rates.median_bps for rates in settled]
    if not settled or max(medians_bps) > CONTRARY_RATIO * min(medians_bps):
        return _unsettled(found)
    if max(medians_bps) > AGREEING_RATIO * min(medians_bps):
        settled = settled[:1]
    capacity_bps = statistics.harmonic_mean(rates.median_bps for rates in settled)
    return Estimate(
        Verdict.MEASURED,
        capacity_bps=capacity_bps,
        # Where all gaps are the same, rounding may set the mean beside them.
        low_bps=min(capacity_bps, *(rates.low_bps for rates in settled)),
        high_bps=max(capacity_bps, *(rates.high_bps for rates in settled)),
        method=" and ".join(rates.kind for rates in reversed(settled)),
    )


def _unsettled(found: Sequence[_Rates]) -> Estimate:
    if not found:
        return Estimate(Verdict.UNSETTLED, "too few trains left this host close enough together: it is too busy")
    said = "; ".join(f"{rates.kind} {rates.low_bps / 1e6:.3g} to {rates.high_bps / 1e6:.3g} Mbit/s" for rates in found)
    detail = f"the gaps of what was least delayed do not agree ({said}): the path, or this host, is too busy"
    return Estimate(
        Verdict.UNSETTLED,
        detail,
        low_bps=min(rates.low_bps for rates in found),
        high_bps=max(rates.high_bps for rates in found),
    )


def _rates(kind: str, trains: Sequence[EchoTrain]) -> _Rates | None:
    """None where too few came back whole and were spread by the path."""
    usable = [train for train in _whole(trains) if train.is_spread_by(OWN_SHARE)]
    if len(usable) < LEAST_KEPT:
        return None
    gaps_ns = np.concatenate([train.gaps_ns for train in least_delayed(usable)])
    low_ns, median_ns, high_ns = np.maximum(np.percentile(gaps_ns, (25, 50, 75)), 1.0).tolist()
    ip_bytes = usable[0].ip_bytes
    return _Rates(kind, ip_bytes, median_ns, rate_bps(ip_bytes, high_ns), rate_bps(ip_bytes, low_ns))


def _with_cut(found: Estimate, kinds: _Sorted) -> Estimate:
    """Trains that lose their tails where their heads pass met a limit on packets; other loss strikes all alike.

    Pairs that pass such a limit whole say the capacity all the same.
    """
    heads = np.array([train.answered[0] for train in (*kinds.pairs, *kinds.long, *kinds.small)])
    tails = np.concatenate([train.answered[len(train) // 2 :] for train in (*kinds.long, *kinds.small)])
    head_share, tail_share = float(heads.mean()), float(tails.mean())
    if tail_share > min(CUT_SHARE * head_share, head_share - CUT_DIFFERENCE):
        return found
    detail = (
        f"the first packet of a train is answered in {head_share:.0%} of the cases, one in the second half of a long "
        f"train in {tail_share:.0%}: ICMP is rate-limited on the way or at the far end, or a queue is very short"
    )
    if found.verdict is Verdict.MEASURED:
        return replace(found, detail=detail)
    return Estimate(Verdict.RATE_LIMITED, detail)
