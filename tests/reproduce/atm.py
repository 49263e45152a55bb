"""Policing on an ATM path (Bonaventure and others, TCP/IP and the European ATM Pilot, 1995): 3% above the contract is a
collapse.

The contract was 23.42 Mbit/s of cells. The sender's adapter spaces its cells at its own rate, a policer drops cells
that arrive too early, and a lost cell is a lost packet. Nothing is scaled; packets are of 1,500 bytes and 32 cells
instead of 9,180 bytes, and the RTT and the tolerance of the policer are ours. For comparison: the same contract with a
router's bucket, policed by packets.
"""

from __future__ import annotations

from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import PACKET_BYTES, Run, Say, measure

CONTRACT_MBPS = 23.42
CELL_BYTES, CELL_PAYLOAD_BYTES = 53, 48
CELLS = -(-PACKET_BYTES // CELL_PAYLOAD_BYTES)
TOLERANCE_CELLS = 4
BUCKET_BYTES = 100_000
RTT_MS, QUEUE_MS = 40.0, 200.0
SHARES = (0.97, 0.99, 1.01, 1.03)
PUBLISHED = {0.99: "19 (within the contract)", 1.03: "1 (3% more)"}
START_UP_S, MEASURED_S = 3.0, 20.0


def reproduce(lab: RunningLab, say: Say) -> Table:
    """Each rate with both policers. Failures: loss within the contract, or no collapse above it by cells."""
    table = Table(
        (
            "cells, of the contract", "published, Mbit/s",
            f"policer of {TOLERANCE_CELLS} cells, Mbit/s", "packets lost",
            f"bucket of {BUCKET_BYTES // 1000} KB, Mbit/s", "packets lost",
        )
    )  # fmt: skip
    rates_bps = {}
    for share in SHARES:
        say(f"  {share:.0%} of the contract")
        cells = measure(lab, run(share, CELL_PAYLOAD_BYTES), say)
        packets = measure(lab, run(share, 0), say)
        rates_bps[share] = cells.rate_bps
        lost = [measured.data.dropped_policer / measured.data.received for measured in (cells, packets)]
        table.rows.append(
            (
                f"{share:.0%}", PUBLISHED.get(share, "–"), f"{cells.rate_bps / 1e6:.1f}", f"{lost[0]:.1%}",
                f"{packets.rate_bps / 1e6:.1f}", f"{lost[1]:.1%}",
            )
        )  # fmt: skip
        say(f"    {' '.join(table.rows[-1])}")
        if share < 1.0 and cells.data.dropped_policer:
            table.failures.append(f"{cells.data.dropped_policer} packets lost at {share:.0%} of the contract")
    if rates_bps[1.03] > 0.2 * rates_bps[0.99]:
        table.failures.append(f"no collapse: {rates_bps[1.03] / 1e6:.1f} Mbit/s at 3% above the contract")
    return table


def run(share: float, cell_payload_bytes: int) -> Run:
    """The adapter sends its cells at `share` of the contract; `cell_payload_bytes` 0 polices packets as a whole."""
    contract_mbps = CONTRACT_MBPS * CELL_PAYLOAD_BYTES / CELL_BYTES
    packets_as_cells = PACKET_BYTES / (CELLS * CELL_PAYLOAD_BYTES)
    path = {
        "rate_mbps": share * contract_mbps * packets_as_cells,
        "queue_ms": QUEUE_MS,
        # Without the padding of the last cell a packet is smaller, and so is its contract.
        "policer_mbps": contract_mbps * (1.0 if cell_payload_bytes else packets_as_cells),
        "policer_bytes": TOLERANCE_CELLS * CELL_PAYLOAD_BYTES if cell_payload_bytes else BUCKET_BYTES,
        "policer_cell_bytes": cell_payload_bytes,
    }
    return Run(RTT_MS, path, Plan(START_UP_S + MEASURED_S, "reno"), START_UP_S)
