"""Captures of both ends of a transfer, as agents deliver them."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from monitor.analysis.packets import read_capture
from probes.throughput.spec import CapturedHeaders

FOLDER = Path(__file__).parent / "fixtures" / "captures"


def pcap_of(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.pcap.gz").read_bytes())


def captured(name: str, left_out_packets: int = 0) -> CapturedHeaders:
    data = pcap_of(name)
    packets = sum(1 for _ in read_capture(data))
    return CapturedHeaders(pcap_zlib=zlib.compress(data), packets=packets, left_out_packets=left_out_packets)
