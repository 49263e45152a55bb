"""Captures of the ends of throughput tests, with their findings.

In: the slot of a test. Out: `EndCapture`, the sender's first; the pcap file itself by `pcap_of_end`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from monitor.analysis.packets import CaptureLosses, KeptPart
from monitor.archive.diagnosis.capture_findings import CaptureFindings, parts_of, unpacked
from monitor.archive.models import StoredCapture


@dataclass(frozen=True, slots=True)
class EndCapture:
    """The capture of an end, or the `reason` for none. `parts` are those of the test that it has, empty for all packets
    up to the last. `findings` are None until they are computed; `losses` are in the sender's, None without both
    captures."""

    slot_id: int
    role: str
    captured_at: datetime
    packets: int
    left_out_packets: int
    parts: tuple[KeptPart, ...]
    reason: str | None
    findings: CaptureFindings | None
    losses: CaptureLosses | None


def captures_of(slot_id: int) -> list[EndCapture]:
    """The captures of a test, the sender's first; empty where none was asked for, or its data has been deleted."""
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
    """The pcap file of an end; None where there is none. Raises `CaptureError` where it is damaged."""
    row = StoredCapture.objects.filter(slot_id=slot_id, role=role).values_list("pcap_zlib", flat=True).first()
    return None if row is None else unpacked(bytes(row))
