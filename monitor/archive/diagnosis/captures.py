"""Compute the findings of captures after their delivery: figures and plot of each end, losses between both.

In: rows of `throughput_capture` without findings. Out: their columns `findings` and `losses`. A capture that cannot be
read has the reason in its findings: agents are trusted only so far. `monitor.analysis.packets` computes.
"""

from __future__ import annotations

import logging

import msgspec
from django.db import transaction

from monitor.analysis.packets import CaptureError, TcpConnection, connections_of, lost_between, read_capture
from monitor.archive.diagnosis.capture_findings import CaptureFindings, findings_of, parts_of, unpacked
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.models import StoredCapture

log = logging.getLogger(__name__)


def find_in_captures(most: int) -> int:
    """Compute the findings of the oldest captures without any; returns how many. Safe to run concurrently."""
    with transaction.atomic():
        rows = pending_captures(most)
        for row in rows:
            _find(row)
    return len(rows)


def pending_captures(most: int) -> list[StoredCapture]:
    """The oldest captures without findings that nobody else works on, locked. Call within a transaction."""
    pending = StoredCapture.objects.select_for_update(skip_locked=True)
    return list(pending.filter(findings__isnull=True, reason__isnull=True).order_by("captured_at")[:most])


def _find(row: StoredCapture) -> None:
    """Store the findings of a capture, and the losses where the other end's is there."""
    connections: list[TcpConnection] = []
    try:
        connections = _connections(row)
        findings = findings_of(connections, parts_of(row.parts))
    except CaptureError as error:
        findings = CaptureFindings(fault=str(error))
    except Exception as error:
        log.exception("the capture of slot %d at the %s cannot be read", row.slot_id, row.role)
        findings = CaptureFindings(fault=f"{type(error).__name__}: {error}")
    StoredCapture.objects.filter(pk=row.pk).update(findings=for_jsonb(findings))
    if findings.fault is None:
        _compare(row, connections)


def _compare(row: StoredCapture, connections: list[TcpConnection]) -> None:
    """Store the losses between this capture and that of the other end, if that is there."""
    other = StoredCapture.objects.filter(slot_id=row.slot_id, role=StoredCapture.other_end(row.role)).first()
    if other is None or other.pcap_zlib is None:
        return
    try:
        far = _connections(other)
    except CaptureError:
        return
    here, there = (connections, parts_of(row.parts)), (far, parts_of(other.parts))
    sender, receiver = (here, there) if row.role == StoredCapture.SENDER else (there, here)
    losses = msgspec.to_builtins(lost_between(sender[0], receiver[0], sender[1], receiver[1]))
    StoredCapture.objects.filter(slot_id=row.slot_id, role=StoredCapture.SENDER).update(losses=losses)


def _connections(row: StoredCapture) -> list[TcpConnection]:
    return connections_of(read_capture(unpacked(bytes(row.pcap_zlib or b""))))
