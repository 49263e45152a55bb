"""Combine the members of an aggregate test: their rates while all sent, in bits/s, and Jain's fairness. Bytes are taken
as spread evenly within an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from monitor.analysis.binomial import lower_bound, upper_bound
from monitor.arrays import Floats

# A few intervals of 0.1 s prove nothing.
MIN_COMMON_S = 1.0
# Fewer packets under load cannot tell whether a path suffered.
MIN_PACKETS = 5
# One-sided confidence of each bound of the loss.
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class MemberIntervals:
    began_s: float  # on the common clock of all members
    end_s: Sequence[float]  # ends of the intervals, from began_s
    carried_bytes: Sequence[int]
    omitted_s: float = 0.0  # not counted, from began_s

    @property
    def counts_from_s(self) -> float:
        return self.began_s + self.omitted_s

    @property
    def ended_s(self) -> float:
        return self.began_s + self.end_s[-1]

    def bits_between(self, begin_s: float, end_s: float) -> float:
        """Bits that arrived between two times of the common clock."""
        at: Floats = self.began_s + np.array([0.0, *self.end_s])
        total: Floats = np.array([0.0, *np.cumsum(self.carried_bytes, dtype=np.float64)])
        first, last = np.interp([begin_s, end_s], at, total)
        return 8.0 * float(last - first)


@dataclass(frozen=True, slots=True)
class CommonRates:
    """Rates of the members while all of them sent."""

    begin_s: float
    length_s: float
    rates_bps: tuple[float, ...]

    @property
    def sum_bps(self) -> float:
        return sum(self.rates_bps)

    @property
    def fairness(self) -> float | None:
        return jain_index(self.rates_bps)


def common_rates(members: Sequence[MemberIntervals]) -> CommonRates | None:
    """Rates over the time in which all members sent; None if that is shorter than `MIN_COMMON_S`."""
    if not members:
        return None
    begin_s = max(member.counts_from_s for member in members)
    end_s = min(member.ended_s for member in members)
    length_s = end_s - begin_s
    if length_s < MIN_COMMON_S:
        return None
    return CommonRates(begin_s, length_s, tuple(member.bits_between(begin_s, end_s) / length_s for member in members))


def start_spread_s(members: Sequence[MemberIntervals]) -> float | None:
    """Seconds from the first member's start to the last; None without members."""
    begins_s = [member.began_s for member in members]
    return max(begins_s) - min(begins_s) if begins_s else None


def jain_index(rates: Sequence[float]) -> float | None:
    """Jain's fairness index (Σx)² / (n Σx²), from 1/n to 1 (all equal); None for fewer than two rates or all 0. Jain,
    Chiu and Hawe, DEC-TR-301 (1984)."""
    highest = max(rates, default=0.0)
    if len(rates) < 2 or highest <= 0:
        return None
    shares = [rate / highest for rate in rates]
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


class Harm(StrEnum):
    """Effect of an aggregate test on the packets of another path."""

    SLOWER = "RTT higher"
    LOSSIER = "loss higher"
    BOTH = "RTT and loss higher"
    NONE = "no effect seen"
    UNDETERMINED = "too few packets"


@dataclass(frozen=True, slots=True)
class PacketFigures:
    """Packets of a path in a period; RTTs are None where none was answered."""

    sent: int
    received: int
    rtt_median_ms: float | None
    rtt_p95_ms: float | None

    @property
    def loss_ratio(self) -> float | None:
        return None if self.sent == 0 else 1.0 - self.received / self.sent


def harm_of(loaded: PacketFigures, rest: PacketFigures) -> Harm:
    """Compare packets under load with the rest: median RTT above their 95th percentile, lower bound of the loss above
    their upper bound."""
    if loaded.sent < MIN_PACKETS or rest.sent < MIN_PACKETS:
        return Harm.UNDETERMINED
    lost, lost_at_rest = loaded.sent - loaded.received, rest.sent - rest.received
    is_lossier = bool(lower_bound(lost, loaded.sent, CONFIDENCE) > upper_bound(lost_at_rest, rest.sent, CONFIDENCE))
    is_slower = (
        loaded.received >= MIN_PACKETS
        and loaded.rtt_median_ms is not None
        and rest.rtt_p95_ms is not None
        and loaded.rtt_median_ms > rest.rtt_p95_ms
    )
    if is_slower and is_lossier:
        return Harm.BOTH
    return Harm.SLOWER if is_slower else Harm.LOSSIER if is_lossier else Harm.NONE


class AggregateState(StrEnum):
    COMPLETE = "complete"
    PARTIAL = "partial"
    APART = "not simultaneous"
    FAILED = "failed"


def state_of(members: int, measured: int, common: CommonRates | None) -> AggregateState:
    """Complete only if all members measured, and at the same time."""
    if measured == 0:
        return AggregateState.FAILED
    if measured < members:
        return AggregateState.PARTIAL
    return AggregateState.APART if common is None else AggregateState.COMPLETE
