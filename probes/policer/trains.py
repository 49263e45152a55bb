"""UDP trains as both ends saw them, and which train comes next. No I/O.

The first train finds out whether anything limits the rate, the second the sustained rate, the third, after the time in
which a bucket fills, whether the burst comes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """A train to send, `pause_s` after the one before: `lead_packets` at `lead_bps`, which empty a bucket that has
    filled in the pause, then `packets` at `rate_bps`."""

    packets: int
    ip_bytes: int
    rate_bps: float
    pause_s: float = 0.0
    lead_packets: int = 0
    lead_bps: float = 1e9

    @property
    def total_packets(self) -> int:
        """All packets of the train."""
        return self.lead_packets + self.packets

    def send_times_s(self) -> Floats:
        """When each packet is to leave, from the first on."""
        gaps_s = np.full(self.total_packets, self.ip_bytes * 8.0 / self.rate_bps)
        gaps_s[: self.lead_packets] = self.ip_bytes * 8.0 / self.lead_bps
        return np.concatenate([[0.0], np.cumsum(gaps_s[:-1])])


@dataclass(frozen=True)
class UdpTrain:
    """Packets of `ip_bytes` each. `sent_s` is by the sender's clock, `arrived_s` by the receiver's, NaN where lost. The
    first `lead_packets` only emptied the bucket."""

    ip_bytes: int
    sent_s: Floats
    arrived_s: Floats
    lead_packets: int = 0

    def __len__(self) -> int:
        return len(self.sent_s)

    @cached_property
    def passed(self) -> npt.NDArray[np.bool_]:
        """Which packets arrived."""
        return ~np.isnan(self.arrived_s)

    @cached_property
    def delay_s(self) -> Floats:
        """Delay of each packet, plus the offset of the clocks; NaN where lost."""
        return self.arrived_s - self.sent_s

    def without_lead(self) -> UdpTrain:
        """The packets behind those that emptied the bucket."""
        return UdpTrain(self.ip_bytes, self.sent_s[self.lead_packets :], self.arrived_s[self.lead_packets :])

    @property
    def sent_bps(self) -> float:
        """The rate at which the train was sent."""
        length_s = float(self.sent_s[-1] - self.sent_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) * self.ip_bytes * 8.0 / length_s if length_s > 0.0 else float("inf")
