"""A router that tells its MPLS labels, since Linux routers do not: answers for the kernel of this network namespace,
which must drop its own Time Exceeded without the mark.

    python tests/net/label_switch.py INTERFACE ADDRESS-IPV4 ADDRESS-IPV6 LABEL…
"""

from __future__ import annotations

import socket
import struct
import sys

ETH_P_ALL = 3
SO_MARK = 36
MARK = 7
QUOTED_BYTES = 128


def main(interface: str, *texts: str) -> None:
    """Answer until killed."""
    addresses, labels = texts[:2], list(map(int, texts[2:]))
    incoming = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    incoming.bind((interface, ETH_P_ALL))
    replies = {
        4: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        6: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
    }
    for family, address in zip((4, 6), addresses, strict=True):
        replies[family].setsockopt(socket.SOL_SOCKET, SO_MARK, MARK)
        replies[family].bind((address, 0))
    print("ready", flush=True)
    while True:
        packet = incoming.recv(2048)
        version = packet[0] >> 4
        if version not in replies:
            continue
        ttl, source = (packet[8], packet[12:16]) if version == 4 else (packet[7], packet[8:24])
        if ttl != 1 or (version == 6 and packet[24] == 0xFF):
            continue
        quoted = packet[:QUOTED_BYTES].ljust(QUOTED_BYTES, b"\0")
        words = bytes([0, QUOTED_BYTES // 4, 0, 0]) if version == 4 else bytes([QUOTED_BYTES // 8, 0, 0, 0])
        error = struct.pack(">BBH", *((11, 0) if version == 4 else (3, 0)), 0) + words + quoted + stack(labels)
        error = error[:2] + struct.pack(">H", checksum(error)) + error[4:]
        host = socket.inet_ntop(socket.AF_INET if version == 4 else socket.AF_INET6, source)
        replies[version].sendto(error, (host, 0))


def stack(labels: list[int]) -> bytes:
    """RFC 4950: each label with traffic class 5 and TTL 1, the last at the bottom of the stack."""
    entries = b"".join(
        struct.pack(">I", label << 12 | 5 << 9 | (place == len(labels) - 1) << 8 | 1)
        for place, label in enumerate(labels)
    )
    extensions = struct.pack(">BBHHBB", 0x20, 0, 0, 4 + len(entries), 1, 1) + entries
    return extensions[:2] + struct.pack(">H", checksum(extensions)) + extensions[4:]


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main(*sys.argv[1:])
