"""A train of echo requests with kernel timestamps in nanoseconds. No I/O."""

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
    """Requests of `ip_bytes` each, sent back to back."""

    ip_bytes: int
    sent_ns: npt.NDArray[np.int64]
    arrived_ns: npt.NDArray[np.int64]
    round_trip_ns: npt.NDArray[np.float64]  # NaN if no reply came in time; `arrived_ns` is then undefined
    stamped: npt.NDArray[np.bool_]  # both times are kernel timestamps

    def __len__(self) -> int:
        return len(self.sent_ns)

    @cached_property
    def answered(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.round_trip_ns)

    @cached_property
    def is_complete(self) -> bool:
        """Whether all packets were answered in order, with kernel timestamps."""
        return bool(self.answered.all() and self.stamped.all() and (np.diff(self.arrived_ns) >= 0).all())

    @property
    def gaps_ns(self) -> npt.NDArray[np.int64]:
        """Gaps between consecutive replies."""
        return np.diff(self.arrived_ns)

    @property
    def gap_ns(self) -> float:
        """The dispersion: the median gap, robust against a single delay."""
        return float(np.median(self.gaps_ns))

    @property
    def sent_gap_ns(self) -> float:
        return float(np.median(np.diff(self.sent_ns)))

    @property
    def delay_sum_ns(self) -> float:
        """RTTs of the first and last packet: minimal without cross traffic."""
        return float(self.round_trip_ns[0] + self.round_trip_ns[-1])

    def is_spread_by(self, sent_share: float) -> bool:
        """Whether requests were closer than `sent_share` of the gap between replies."""
        return self.sent_gap_ns < sent_share * self.gap_ns


def rate_bps(ip_bytes: int, gap_ns: float) -> float:
    """Rate of a link that spaces such packets by this gap."""
    return ip_bytes * BITS_PER_BYTE * NS_PER_S / gap_ns


def least_delayed(trains: Sequence[EchoTrain]) -> list[EchoTrain]:
    """Return the quarter with the smallest delay sums, at least three.

    Several reduce timestamp noise; CapProbe keeps only the minimum.
    """
    kept = max(MIN_KEPT, math.ceil(len(trains) * KEPT_SHARE))
    return sorted(trains, key=lambda train: train.delay_sum_ns)[:kept]
