"""Combine the members of an aggregate test: their rates over the time in which all sent, their sum and its fairness.

In: the bytes of each member by interval, with the begin of each on one clock. Out: rates in bits/s. The intervals of
two members rarely begin together: within an interval bytes are taken as spread evenly. Also here: whether the packets
of another path suffered meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.binomial import lower_bound, upper_bound

Floats = NDArray[np.float64]

MIN_COMMON_S = 1.0
"""Members that sent together for less give no sum: a few intervals of 0.1 s say nothing."""
MIN_PACKETS = 5
"""Fewer packets under load cannot tell whether a path suffered."""
CONFIDENCE = 0.99
"""Of each bound of the loss."""


@dataclass(frozen=True, slots=True)
class MemberIntervals:
    """The data of a member: ends of its intervals in seconds since it began, and the bytes of each. `began_s` is on the
    clock of all members; the first `omitted_s` seconds do not count."""

    began_s: float
    end_s: Sequence[float]
    carried_bytes: Sequence[int]
    omitted_s: float = 0.0

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
    """Rates of the members from `begin_s` on, for the `length_s` seconds in which all sent."""

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
    """Seconds from the first member's begin to the last; None without members."""
    begins_s = [member.began_s for member in members]
    return max(begins_s) - min(begins_s) if begins_s else None


def jain_index(rates: Sequence[float]) -> float | None:
    """Fairness of rates, from 1/n (one has all) to 1 (all equal): (Σx)² / (n Σx²). None for fewer than two rates, or if
    all are 0. Jain, Chiu and Hawe, DEC-TR-301 (1984)."""
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
    """Compare a path's packets under load with its others. The RTT is higher if the median under load exceeds the 95th
    percentile of the others, the loss if its lower bound exceeds the upper bound of theirs."""
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
    """State of an aggregate test's result."""

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
