"""Compute `findings` and `losses` of delivered captures.

Agents are not trusted: findings of an unusable capture hold the reason.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from django.db import transaction

from monitor.archive.diagnosis.capture_findings import CaptureFindings
from monitor.archive.diagnosis.capture_process import DeliveredCapture, compare_captures, evaluate_capture
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.models import StoredCapture
from probes.transfers.spec import CapturedPart


def find_in_captures(now: datetime) -> bool:
    """Compute findings of the oldest pending capture; False without any. Safe to run concurrently."""
    row = _begin(now)
    if row is None:
        return False
    findings = evaluate_capture(_delivered(row))
    StoredCapture.objects.filter(pk=row.pk).update(findings=for_jsonb(findings))
    if findings.fault is None:
        _compare(row)
    return True


def pending_captures(most: int) -> list[StoredCapture]:
    """Lock the oldest captures without findings, skipping locked rows. Call within a transaction."""
    pending = StoredCapture.objects.select_for_update(skip_locked=True)
    return list(pending.filter(findings__isnull=True, reason__isnull=True).order_by("captured_at")[:most])


@transaction.atomic
def _begin(now: datetime) -> StoredCapture | None:
    """Lock the oldest pending capture, and store a fault as its findings in case this process dies."""
    row = next(iter(pending_captures(1)), None)
    if row is not None:
        fault = f"its evaluation began at {now:%Y-%m-%d %H:%M:%S} UTC and has not ended; it is not begun again"
        StoredCapture.objects.filter(pk=row.pk).update(findings=for_jsonb(CaptureFindings(fault=fault)))
    return row


def _compare(row: StoredCapture) -> None:
    """Store the losses between both ends, if computable."""
    other = StoredCapture.objects.filter(slot_id=row.slot_id, role=StoredCapture.other_end(row.role)).first()
    if other is None or other.pcap_zlib is None:
        return
    sender, receiver = (row, other) if row.role == StoredCapture.SENDER else (other, row)
    losses = compare_captures(_delivered(sender), _delivered(receiver))
    if losses is not None:
        StoredCapture.objects.filter(pk=sender.pk).update(losses=msgspec.to_builtins(losses))


def _delivered(row: StoredCapture) -> DeliveredCapture:
    parts = msgspec.convert(row.parts or (), tuple[CapturedPart, ...])
    return DeliveredCapture(bytes(row.pcap_zlib or b""), parts)
