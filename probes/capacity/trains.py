"""One train of echo requests as the kernel's stamps saw it: when each left, when its reply came. No I/O.

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

LEAST_KEPT = 3
KEPT_SHARE = 0.25


@dataclass(frozen=True)
class EchoTrain:
    """Requests of `ip_bytes` each, sent back to back. `round_trip_ns` is NaN where no reply came in time; there
    `arrived_ns` means nothing. `stamped`: sent and arrived are both the kernel's stamps."""

    ip_bytes: int
    sent_ns: npt.NDArray[np.int64]
    arrived_ns: npt.NDArray[np.int64]
    round_trip_ns: npt.NDArray[np.float64]
    stamped: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sent_ns)

    @cached_property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Which requests had their reply in time."""
        return ~np.isnan(self.round_trip_ns)

    @cached_property
    def whole(self) -> bool:
        """All answered, in order, and stamped by the kernel at both ends."""
        return bool(self.answered.all() and self.stamped.all() and (np.diff(self.arrived_ns) >= 0).all())

    @property
    def gaps_ns(self) -> npt.NDArray[np.int64]:
        """Between each reply and the next."""
        return np.diff(self.arrived_ns)

    @property
    def gap_ns(self) -> float:
        """The dispersion: the median of the gaps, which a single hold-up of sender or path does not move."""
        return float(np.median(self.gaps_ns))

    @property
    def sent_gap_ns(self) -> float:
        """Median gap between the requests as they left."""
        return float(np.median(np.diff(self.sent_ns)))

    @property
    def delay_sum_ns(self) -> float:
        """Round trips of the first and the last packet together: least where neither met other traffic."""
        return float(self.round_trip_ns[0] + self.round_trip_ns[-1])

    def is_spread_by(self, sent_share: float) -> bool:
        """Whether the requests left closer together than `sent_share` of the gap their replies have."""
        return self.sent_gap_ns < sent_share * self.gap_ns


def rate_bps(ip_bytes: int, gap_ns: float) -> float:
    """The rate of a link that spreads packets of this size by this gap."""
    return ip_bytes * BITS_PER_BYTE * NS_PER_S / gap_ns


def least_delayed(trains: Sequence[EchoTrain]) -> list[EchoTrain]:
    """The quarter with the least delay sum, at least three (CapProbe keeps the one; a few bear the stamps' noise)."""
    kept = max(LEAST_KEPT, math.ceil(len(trains) * KEPT_SHARE))
    return sorted(trains, key=lambda train: train.delay_sum_ns)[:kept]
