"""Store captured packet headers of throughput tests, in their batch's transaction. Nothing is decompressed here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from monitor.archive.models import StoredCapture
from probes.site.wire import Delivered
from probes.transfers.spec import CapturedHeaders, ServerReport, ThroughputRun


def store_captures(results: Sequence[Delivered]) -> None:
    """Store captures; existing rows stay unchanged."""
    rows = [row for delivered in results if (row := _row(delivered)) is not None]
    if rows:
        rows.sort(key=lambda row: (row.slot_id, row.role))
        StoredCapture.objects.bulk_create(rows, ignore_conflicts=True)


def _row(delivered: Delivered) -> StoredCapture | None:
    said = delivered.result
    if not isinstance(said, ThroughputRun | ServerReport) or not isinstance(said.capture, CapturedHeaders):
        return None
    if delivered.slot_id is None:
        return None
    sends = said.sends if isinstance(said, ServerReport) else not said.reverse
    capture = said.capture
    return StoredCapture(
        slot_id=delivered.slot_id,
        role=StoredCapture.SENDER if sends else StoredCapture.RECEIVER,
        path_id=delivered.path_id,
        captured_at=said.started_at,
        packets=capture.packets,
        left_out_packets=capture.left_out_packets,
        parts=msgspec.to_builtins(capture.parts) if capture.parts else None,
        reason=None if capture.packets else capture.reason or "no packets",
        pcap_zlib=capture.pcap_zlib if capture.packets else None,
    )
