"""Random loss: rates of Reno, CUBIC and BBR on a path with independent packet loss, compared with their models.

Reno must be within 30% of Mathis with C = sqrt(3/2) and p the ratio dropped by the relay in the measured time. That
constant is valid with delayed acknowledgements as well, as Linux opens its window by the segments that an
acknowledgement covers (RFC 3465), not by acknowledgements. CUBIC is compared with RFC 9438. BBR has no model of loss:
its rate is compared with that of the bottleneck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.analysis.tcp.models import (
    CongestionControl,
    average_window,
    mathis_bps,
)
from tests.lab import RunningLab
from tests.oracles.reno import MATHIS_EACH_ACK
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import PACKET_BYTES, PAYLOAD_BYTES, Measured, Run, Say, measure

LOSS_RATIOS = (0.001, 0.01)
ROUND_TRIPS_MS = (10.0, 50.0, 100.0, 175.0)
SENDERS = (
    ("reno", False, "Reno, delayed ACKs"),
    ("reno", True, "Reno, an ACK for each"),
    ("cubic", False, "CUBIC"),
    ("bbr", False, "BBR"),
)
WITHIN = 0.3
LOSSES = 100
SAMPLING_ERROR = 0.2
"""Standard deviation of measured over modelled rate, times the root of the losses counted:
tests/unit/lab/test_reproduce.py has it from a simulation."""

MOST_MBPS, MOST_STREAMS, LEAST_S = 20.0, 8, 8.0
START_UP_CYCLES = 3.0
WIDE_MBPS, BBR_MBPS, BBR_S, BBR_START_UP_S = 200.0, 20.0, 12.0, 5.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table. `each_ack`: every segment is acknowledged, otherwise every second as usual."""

    loss_ratio: float
    rtt_ms: float
    control: str
    each_ack: bool = False
    losses: int = LOSSES

    @property
    def run(self) -> Run:
        """As many streams as fit, for as long as the losses take. Streams share only the relay."""
        if self.control == "bbr":
            path = {"loss_ratio": self.loss_ratio, "rate_mbps": BBR_MBPS}
            return Run(self.rtt_ms, path, Plan(BBR_START_UP_S + BBR_S, "bbr"), BBR_START_UP_S)
        stream_mbps = float(mathis_bps(self.rtt_ms, self.loss_ratio, PAYLOAD_BYTES, MATHIS_EACH_ACK)) / 1e6
        streams = max(1, min(MOST_STREAMS, int(MOST_MBPS / stream_mbps)))
        losses_s = streams * stream_mbps * 1e6 / 8 / PAYLOAD_BYTES * self.loss_ratio
        start_up_s = max(2.0, START_UP_CYCLES * cycle_s(self.rtt_ms, self.loss_ratio))
        duration_s = start_up_s + max(LEAST_S, self.losses / losses_s)
        path = {"loss_ratio": self.loss_ratio, "rate_mbps": WIDE_MBPS}
        return Run(self.rtt_ms, path, Plan(duration_s, self.control, streams), start_up_s, each_ack=self.each_ack)


def cycle_s(rtt_ms: float, loss_ratio: float) -> float:
    """From a loss to the next: half a maximum window of RTTs (Mathis 1997, figure 1)."""
    return math.sqrt(8.0 / (3.0 * loss_ratio)) / 2.0 * rtt_ms / 1000.0


def model_bps(cell: Cell, loss_ratio: float) -> float:
    """The model's rate of a stream at that loss; for BBR, the rate of the bottleneck."""
    if cell.control == "bbr":
        return BBR_MBPS * 1e6 * PAYLOAD_BYTES / PACKET_BYTES
    if cell.control == "reno":
        return float(mathis_bps(cell.rtt_ms, loss_ratio, PAYLOAD_BYTES, MATHIS_EACH_ACK))
    window = float(average_window(CongestionControl(cell.control), cell.rtt_ms, loss_ratio))
    return window * PAYLOAD_BYTES * 8 / cell.rtt_ms * 1000


def ratio_to_model(cell: Cell, measured: Measured) -> float:
    """Measured over modelled rate of a stream, at the counted loss."""
    return measured.rate_bps / len(measured.samples[-1].streams) / model_bps(cell, measured.loss_ratio)


def reproduce(lab: RunningLab, say: Say) -> Table:
    """The Mbit/s of a stream in all cells, and their ratio to the model. A failure is a Reno cell that is not within
    `WITHIN` of Mathis."""
    table = Table(("loss", "sender", *(f"RTT {rtt_ms:g} ms" for rtt_ms in ROUND_TRIPS_MS)))
    for loss_ratio in LOSS_RATIOS:
        for control, each_ack, name in SENDERS:
            cells = []
            for rtt_ms in ROUND_TRIPS_MS:
                cell = Cell(loss_ratio, rtt_ms, control, each_ack)
                say(f"  {name}: {loss_ratio:.1%}, {rtt_ms:g} ms")
                measured = measure(lab, cell.run, say)
                ratio = ratio_to_model(cell, measured)
                stream_mbps = measured.rate_bps / len(measured.samples[-1].streams) / 1e6
                cells.append(f"{stream_mbps:.2f}, {ratio:.2f}")
                say(f"    {measured.loss_ratio:.3%} lost, RTT {measured.rtt_ms:.1f} ms: {cells[-1]}")
                if control == "reno" and abs(ratio - 1.0) > WITHIN:
                    table.failures.append(f"Reno at {loss_ratio:.1%}, {rtt_ms:g} ms: {ratio:.2f} of Mathis")
            table.rows.append((f"{loss_ratio:.1%}", name, *cells))
    return table
