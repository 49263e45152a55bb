"""Captures of the ends of throughput tests, with their findings, sender first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from monitor.analysis.packets import CaptureLosses, KeptPart
from monitor.archive.diagnosis.capture_findings import CaptureFindings, parts_of, unpacked
from monitor.archive.models import StoredCapture


@dataclass(frozen=True, slots=True)
class EndCapture:
    """Capture of an end, or the `reason` for none."""

    slot_id: int
    role: str
    captured_at: datetime
    packets: int
    left_out_packets: int
    parts: tuple[KeptPart, ...]  # captured parts of the test; empty: all packets up to the last
    reason: str | None
    findings: CaptureFindings | None  # None until computed
    losses: CaptureLosses | None  # in the sender's capture; None without both captures


def captures_of(slot_id: int) -> list[EndCapture]:
    """Captures of a test, sender first; empty if none was requested or data was deleted."""
    captures = [
        EndCapture(
            slot_id=slot_id,
            role=row.role,
            captured_at=row.captured_at,
            packets=row.packets,
            left_out_packets=row.left_out_packets,
            parts=parts_of(row.parts),
            reason=row.reason,
            findings=None if row.findings is None else msgspec.convert(row.findings, CaptureFindings),
            losses=None if row.losses is None else msgspec.convert(row.losses, CaptureLosses),
        )
        for row in StoredCapture.objects.filter(slot_id=slot_id).defer("pcap_zlib")
    ]
    return sorted(captures, key=lambda capture: capture.role != StoredCapture.SENDER)


def pcap_of_end(slot_id: int, role: str) -> bytes | None:
    """Pcap file of an end, or None. Raises `CaptureError` where it is damaged."""
    row = StoredCapture.objects.filter(slot_id=slot_id, role=role).values_list("pcap_zlib", flat=True).first()
    return None if row is None else unpacked(bytes(row))
