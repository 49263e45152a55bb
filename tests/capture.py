"""ICMP RTTs from a packet capture: pcap-savefile(5) with nanosecond timestamps, Ethernet."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

NANOSECOND_MAGIC = 0xA1B23C4D
FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
ETHERNET_BYTES = 14
ECHO_REQUEST, ECHO_REPLY = 8, 0


def captured_round_trips_ms(capture: bytes) -> np.ndarray:
    """For each echo request in the capture, in order: milliseconds to its reply, NaN without a reply."""
    sent_ns: dict[bytes, int] = {}
    arrived_ns: dict[bytes, int] = {}
    for stamp_ns, packet in records(capture):
        ip_bytes = 4 * (packet[ETHERNET_BYTES] & 0x0F)
        icmp = packet[ETHERNET_BYTES + ip_bytes :]
        whose = icmp[4:8]
        if icmp[0] == ECHO_REQUEST:
            sent_ns[whose] = stamp_ns
        elif icmp[0] == ECHO_REPLY:
            arrived_ns.setdefault(whose, stamp_ns)
    return np.array(
        [(arrived_ns[packet] - at) / 1e6 if packet in arrived_ns else np.nan for packet, at in sent_ns.items()]
    )


def records(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Each packet's timestamp in nanoseconds, and its captured bytes."""
    (magic,) = struct.unpack_from("<I", capture)
    assert magic == NANOSECOND_MAGIC, f"not a capture with nanosecond stamps: {magic:#x}"
    at = FILE_HEADER_BYTES
    while at + RECORD_HEADER_BYTES <= len(capture):
        seconds, nanoseconds, captured, _ = struct.unpack_from("<IIII", capture, at)
        at += RECORD_HEADER_BYTES
        yield seconds * 1_000_000_000 + nanoseconds, capture[at : at + captured]
        at += captured
