"""UDP trains as both ends saw them, and the plan of a train. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainPlan:
    packets: int
    ip_bytes: int
    rate_bps: float
    pause_s: float = 0.0  # after the train before
    lead_packets: int = 0  # sent first, to empty a bucket filled in the pause
    lead_bps: float = 1e9

    @property
    def total_packets(self) -> int:
        return self.lead_packets + self.packets

    def send_times_s(self) -> Floats:
        gaps_s = np.full(self.total_packets, self.ip_bytes * 8.0 / self.rate_bps)
        gaps_s[: self.lead_packets] = self.ip_bytes * 8.0 / self.lead_bps
        return np.concatenate([[0.0], np.cumsum(gaps_s[:-1])])


@dataclass(frozen=True)
class UdpTrain:
    """Packets of `ip_bytes` each."""

    ip_bytes: int
    sent_s: Floats  # by the sender's clock
    arrived_s: Floats  # by the receiver's clock; NaN where lost
    lead_packets: int = 0  # first packets, which only emptied the bucket

    def __len__(self) -> int:
        return len(self.sent_s)

    @cached_property
    def passed(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.arrived_s)

    @cached_property
    def delay_s(self) -> Floats:
        """Delays plus the clocks' offset; NaN where lost."""
        return self.arrived_s - self.sent_s

    def without_lead(self) -> UdpTrain:
        """The packets behind the lead."""
        return UdpTrain(self.ip_bytes, self.sent_s[self.lead_packets :], self.arrived_s[self.lead_packets :])

    @property
    def sent_bps(self) -> float:
        length_s = float(self.sent_s[-1] - self.sent_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) * self.ip_bytes * 8.0 / length_s if length_s > 0.0 else float("inf")
