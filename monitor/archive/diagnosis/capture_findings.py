"""The findings of a capture: figures and plot of a stream, of a test's capture or of a file.

In: a capture's connections. Out: `CaptureFindings`. No database; `monitor.analysis.packets` computes.
"""

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


def parts_of(stored: object) -> tuple[KeptPart, ...]:
    """The parts of a transfer that a stored capture has; empty where none of its packets is missing before the last."""
    parts = msgspec.convert(stored or (), tuple[CapturedPart, ...])
    return tuple(KeptPart(part.period_bytes, part.kept_bytes, part.until_ns) for part in parts)


def findings_of(connections: Sequence[TcpConnection], parts: Sequence[KeptPart] = ()) -> CaptureFindings:
    """The findings of the connections with data, in the order of their first packets. The tool's own connection has
    too little of it to be a stream."""
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
