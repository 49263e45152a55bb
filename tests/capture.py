"""ICMP RTTs from a packet capture over IPv4."""

from __future__ import annotations

import numpy as np

from monitor.analysis.packets import read_capture

NANOSECOND_MAGIC = b"\x4d\x3c\xb2\xa1"
ECHO_REQUEST, ECHO_REPLY = 8, 0


def captured_round_trips_ms(capture: bytes) -> np.ndarray:
    """For each echo request in the capture, in order: milliseconds to its reply, NaN without a reply."""
    assert capture[:4] == NANOSECOND_MAGIC, f"not a capture with nanosecond stamps: {capture[:4].hex()}"
    sent_ns: dict[bytes, int] = {}
    arrived_ns: dict[bytes, int] = {}
    for packet in read_capture(capture):
        icmp = packet.ip[4 * (packet.ip[0] & 0x0F) :]
        whose = icmp[4:8]
        if icmp[0] == ECHO_REQUEST:
            sent_ns[whose] = packet.at_ns
        elif icmp[0] == ECHO_REPLY:
            arrived_ns.setdefault(whose, packet.at_ns)
    return np.array(
        [(arrived_ns[packet] - at) / 1e6 if packet in arrived_ns else np.nan for packet, at in sent_ns.items()]
    )
