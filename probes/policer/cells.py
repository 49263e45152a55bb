"""IP rates and bursts as ATM cells: PCR, SCR and MBS of a contract. No I/O.

AAL5 (ITU-T I.363.5) adds LLC/SNAP (8 bytes, RFC 2684) and a trailer (8 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass

CELL_BYTES, CELL_PAYLOAD_BYTES = 53, 48
TRAILER_BYTES = 8
LLC_SNAP_BYTES = 8


@dataclass(frozen=True, slots=True)
class CellContract:
    """Cells per second (PCR, SCR) and cells (MBS)."""

    pcr: float  # cell rate while the burst passed
    scr: float
    mbs: float | None

    @property
    def scr_bps(self) -> float:
        """Sustained rate with cell headers."""
        return self.scr * CELL_BYTES * 8.0


def cells_of_packet(ip_bytes: int) -> int:
    return -(-(ip_bytes + LLC_SNAP_BYTES + TRAILER_BYTES) // CELL_PAYLOAD_BYTES)


def as_cells(sustained_bps: float, burst_bytes: float | None, peak_bps: float, ip_bytes: int) -> CellContract:
    """Convert rate, burst and peak of IP packets to cells.

    ATM Forum TM 4.0: MBS = 1 + (depth - 1) / (1 - SCR / PCR); None if the peak is not above the rate.
    """
    cells_per_byte = cells_of_packet(ip_bytes) / ip_bytes
    scr, pcr = (rate_bps / 8.0 * cells_per_byte for rate_bps in (sustained_bps, peak_bps))
    if burst_bytes is None or pcr <= scr:
        return CellContract(pcr, scr, None)
    depth = max(1.0, burst_bytes * cells_per_byte)
    return CellContract(pcr, scr, 1.0 + (depth - 1.0) / (1.0 - scr / pcr))
