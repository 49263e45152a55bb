"""A train of echo requests with kernel timestamps: send time and reply time of each packet. No I/O.

Times are nanoseconds; only differences within a train are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

BITS_PER_BYTE = 8
NS_PER_S = 1_000_000_000

MIN_KEPT = 3
KEPT_SHARE = 0.25


@dataclass(frozen=True)
class EchoTrain:
    """Requests of `ip_bytes` each, sent back to back. `round_trip_ns` is NaN if no reply came in time; `arrived_ns` is
    then undefined. `stamped`: both times are kernel timestamps."""

    ip_bytes: int
    sent_ns: npt.NDArray[np.int64]
    arrived_ns: npt.NDArray[np.int64]
    round_trip_ns: npt.NDArray[np.float64]
    stamped: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sent_ns)

    @cached_property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Which requests had a reply in time."""
        return ~np.isnan(self.round_trip_ns)

    @cached_property
    def is_complete(self) -> bool:
        """Whether all packets were answered in order and with kernel timestamps at both ends."""
        return bool(self.answered.all() and self.stamped.all() and (np.diff(self.arrived_ns) >= 0).all())

    @property
    def gaps_ns(self) -> npt.NDArray[np.int64]:
        """Gaps between consecutive replies."""
        return np.diff(self.arrived_ns)

    @property
    def gap_ns(self) -> float:
        """The dispersion: the median of the gaps, robust against a single delay at the sender or on the path."""
        return float(np.median(self.gaps_ns))

    @property
    def sent_gap_ns(self) -> float:
        """Median gap between the requests when sent."""
        return float(np.median(np.diff(self.sent_ns)))

    @property
    def delay_sum_ns(self) -> float:
        """Sum of the RTTs of the first and last packet: minimal without cross traffic."""
        return float(self.round_trip_ns[0] + self.round_trip_ns[-1])

    def is_spread_by(self, sent_share: float) -> bool:
        """Whether the gap between requests was below `sent_share` of the gap between replies."""
        return self.sent_gap_ns < sent_share * self.gap_ns


def rate_bps(ip_bytes: int, gap_ns: float) -> float:
    """The rate of a link that spaces packets of this size by this gap."""
    return ip_bytes * BITS_PER_BYTE * NS_PER_S / gap_ns


def least_delayed(trains: Sequence[EchoTrain]) -> list[EchoTrain]:
    """The quarter with the smallest delay sum, at least three. (CapProbe keeps only the minimum; several reduce
    timestamp noise.)"""
    kept = max(MIN_KEPT, math.ceil(len(trains) * KEPT_SHARE))
    return sorted(trains, key=lambda train: train.delay_sum_ns)[:kept]
