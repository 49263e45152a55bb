"""Compute the findings of a capture from its connections. No database."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from monitor.analysis.packets import (
    CaptureError,
    CaptureFigures,
    KeptPart,
    TcpConnection,
    TimeSequence,
    captured_figures_of,
    time_sequence,
)
from probes.transfers.spec import MOST_CAPTURED_PACKETS, CapturedPart

# Connections with less than this share of the largest connection's bytes are no streams of the test.
LEAST_STREAM_RATIO = 0.02
# Bytes of a packet in an agent's capture: the record's header and the packet's headers.
MOST_RECORD_BYTES = 16 + 256
MOST_PCAP_BYTES = 24 + MOST_CAPTURED_PACKETS * MOST_RECORD_BYTES


class CaptureFindings(msgspec.Struct, frozen=True, kw_only=True):
    """Figures and plot of a capture."""

    streams: int = 0
    resent_packets: int = 0  # of all streams
    figures: CaptureFigures | None = None  # of the stream with the first packet
    plot: TimeSequence | None = None
    fault: str | None = None  # why there are no figures


def unpacked(pcap_zlib: bytes) -> bytes:
    """Decompress a capture. Raises `CaptureError` where it is damaged or too large."""
    stream = zlib.decompressobj()
    try:
        pcap = stream.decompress(pcap_zlib, MOST_PCAP_BYTES)
    except zlib.error as error:
        raise CaptureError(f"cannot be unpacked: {error}") from error
    if not stream.eof:
        raise CaptureError("ends too early, or is larger than a capture may be")
    return pcap


def parts_of(stored: object) -> tuple[KeptPart, ...]:
    """Captured parts of a transfer; empty where no packet is missing before the last."""
    parts = msgspec.convert(stored or (), tuple[CapturedPart, ...])
    return tuple(KeptPart(part.period_bytes, part.kept_bytes, part.until_ns) for part in parts)


def findings_of(connections: Sequence[TcpConnection], parts: Sequence[KeptPart] = ()) -> CaptureFindings:
    """Compute the findings of the test's streams; connections are in the order of their first packets."""
    most_bytes = max((connection.sender.payload_bytes for connection in connections), default=0)
    if not most_bytes:
        return CaptureFindings(fault="has no TCP packets with data")
    carrying = [
        connection for connection in connections if connection.sender.payload_bytes >= LEAST_STREAM_RATIO * most_bytes
    ]
    figures = [captured_figures_of(connection, parts) for connection in carrying]
    return CaptureFindings(
        streams=len(carrying),
        resent_packets=sum(figure.resent_packets for figure in figures),
        figures=figures[0],
        plot=time_sequence(carrying[0], parts),
    )
