"""Rates and bursts of IP packets as cells of ATM: PCR, SCR and MBS of a contract. No I/O.

An IP packet travels in AAL5 (ITU-T I.363.5): with LLC/SNAP of 8 bytes (RFC 2684; 0 for VC multiplexing) and a trailer
of 8 bytes, padded to whole cells of 48 bytes payload, 53 bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass

CELL_BYTES, CELL_PAYLOAD_BYTES = 53, 48
TRAILER_BYTES = 8
LLC_SNAP_BYTES = 8


@dataclass(frozen=True, slots=True)
class CellContract:
    """Cells per second (PCR, SCR) and cells (MBS). `pcr` is the rate of the cells while the burst passed."""

    pcr: float
    scr: float
    mbs: float | None

    @property
    def scr_bps(self) -> float:
        """The sustained rate with the headers of the cells."""
        return self.scr * CELL_BYTES * 8.0


def cells_of_packet(ip_bytes: int, encapsulation_bytes: int = LLC_SNAP_BYTES) -> int:
    """Number of cells of an IP packet in AAL5."""
    return -(-(ip_bytes + encapsulation_bytes + TRAILER_BYTES) // CELL_PAYLOAD_BYTES)


def as_cells(
    sustained_bps: float,
    burst_bytes: float | None,
    peak_bps: float,
    ip_bytes: int,
    encapsulation_bytes: int = LLC_SNAP_BYTES,
) -> CellContract:
    """A rate, a burst and the peak rate of IP packets of `ip_bytes` as cells.

    The burst is the depth of a bucket, which gains (MBS - 1) · SCR / PCR cells while MBS cells pass at PCR: MBS = 1 +
    (depth - 1) / (1 - SCR / PCR), the burst tolerance of ATM Forum TM 4.0. None at a peak not above the rate.
    """
    cells_per_byte = cells_of_packet(ip_bytes, encapsulation_bytes) / ip_bytes
    scr, pcr = (rate_bps / 8.0 * cells_per_byte for rate_bps in (sustained_bps, peak_bps))
    if burst_bytes is None or pcr <= scr:
        return CellContract(pcr, scr, None)
    depth = max(1.0, burst_bytes * cells_per_byte)
    return CellContract(pcr, scr, 1.0 + (depth - 1.0) / (1.0 - scr / pcr))
