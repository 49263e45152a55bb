"""Compute the findings of captures after their delivery: figures and plot of each end, losses between both.

In: rows of `throughput_capture` without findings. Out: their columns `findings` and `losses`. A capture that cannot be
read has the reason in its findings: agents are trusted only so far. `monitor.analysis.packets` computes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence

import msgspec
from django.db import transaction

from monitor.analysis.packets import (
    CaptureError,
    CaptureFigures,
    TcpConnection,
    TimeSequence,
    connections_of,
    figures_of,
    lost_between,
    read_capture,
    time_sequence,
)
from monitor.archive.ingest.captures import RECEIVER, SENDER
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.models import StoredCapture
from probes.throughput.spec import MOST_CAPTURED_PACKETS

log = logging.getLogger(__name__)

LEAST_STREAM_RATIO = 0.02
"""Of the bytes of the largest connection: what has less is no stream of the test."""
MOST_RECORD_BYTES = 16 + 256
"""Of a packet in a capture of an agent: the record's header, and the headers of the packet."""
MOST_PCAP_BYTES = 24 + MOST_CAPTURED_PACKETS * MOST_RECORD_BYTES


class CaptureFindings(msgspec.Struct, frozen=True, kw_only=True):
    """`figures` and `plot` are those of the stream with the first packet, of so many `streams`; `resent_packets` are
    those of all streams. `fault` says why there are none."""

    streams: int = 0
    resent_packets: int = 0
    figures: CaptureFigures | None = None
    plot: TimeSequence | None = None
    fault: str | None = None


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


def unpacked(pcap_zlib: bytes) -> bytes:
    """The pcap file of a capture. Raises `CaptureError` where it is damaged, or larger than a capture may be."""
    stream = zlib.decompressobj()
    try:
        pcap = stream.decompress(pcap_zlib, MOST_PCAP_BYTES)
    except zlib.error as error:
        raise CaptureError(f"cannot be unpacked: {error}") from error
    if not stream.eof:
        raise CaptureError("ends too early, or is larger than a capture may be")
    return pcap


def findings_of(connections: Sequence[TcpConnection]) -> CaptureFindings:
    """The findings of the connections with data, in the order of their first packets. The tool's own connection has
    too little of it to be a stream."""
    most_bytes = max((connection.sender.payload_bytes for connection in connections), default=0)
    if not most_bytes:
        return CaptureFindings(fault="has no TCP packets with data")
    carrying = [
        connection for connection in connections if connection.sender.payload_bytes >= LEAST_STREAM_RATIO * most_bytes
    ]
    figures = [figures_of(connection) for connection in carrying]
    return CaptureFindings(
        streams=len(carrying),
        resent_packets=sum(figure.resent_packets for figure in figures),
        figures=figures[0],
        plot=time_sequence(carrying[0]),
    )


def _find(row: StoredCapture) -> None:
    """Store the findings of a capture, and the losses where the other end's is there."""
    connections: list[TcpConnection] = []
    try:
        connections = _connections(row)
        findings = findings_of(connections)
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
    other = StoredCapture.objects.filter(slot_id=row.slot_id, role=RECEIVER if row.role == SENDER else SENDER).first()
    if other is None or other.pcap_zlib is None:
        return
    try:
        far = _connections(other)
    except CaptureError:
        return
    ends = (connections, far) if row.role == SENDER else (far, connections)
    losses = msgspec.to_builtins(lost_between(*ends))
    StoredCapture.objects.filter(slot_id=row.slot_id, role=SENDER).update(losses=losses)


def _connections(row: StoredCapture) -> list[TcpConnection]:
    return connections_of(read_capture(unpacked(bytes(row.pcap_zlib or b""))))
