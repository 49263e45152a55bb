"""BPF filters by which a ring of `probes.transfers.capture.ring` selects packets of a test: address, port and bytes.
Beside a ring for the first packets, rings keep `Stretches` of each connection's bytes, by sequence and ACK numbers:
both ends keep the same without agreeing on them."""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import dataclass

from probes.packets.icmp.packet_filter import (
    ADD_X,
    AND,
    JUMP_IF_EQUAL,
    LOAD_BYTE,
    LOAD_BYTE_AT_X,
    LOAD_HALF,
    LOAD_HALF_AT_X,
    RETURN,
    X_IS_A,
    X_IS_IP_HEADER_LENGTH,
    Instruction,
    Step,
    assemble,
)

# Enough for the headers of IPv6 and TCP with all options.
SNAP_BYTES = 128
ETHER_TYPES = {4: 0x0800, 6: 0x86DD}
LOAD_WORD, LOAD_WORD_AT_X, JUMP_IF_SET, JUMP_IF_AT_LEAST, JUMP_IF_EQUALS_X = 0x20, 0x40, 0x45, 0x35, 0x1D
SHIFT_RIGHT, STORE, X_IS_STORED = 0x74, 0x02, 0x61
# SKF_AD_OFF + SKF_AD_PROTOCOL of linux/filter.h: the EtherType.
PROTOCOL = 0xFFFFF000
FRAGMENTED = 0x3FFF
TCP = socket.IPPROTO_TCP
IPV6_HEADER_BYTES = 40
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Stretches:
    """The first `kept_bytes` of each `period_bytes` of sequence numbers, a power of two."""

    period_bytes: int
    kept_bytes: int


# Longer than 64 kB segments, which may begin before it; 32-bit sequence numbers are ambiguous across 2 GiB.
STRETCHES = tuple(Stretches(period_bytes, MIB // 4) for period_bytes in (2 * MIB, 16 * MIB, 128 * MIB, 1024 * MIB))


def filter_program(peer: str, port: int, stretches: Stretches | None = None) -> list[Instruction]:
    """Accept TCP packets of this address and port, in `stretches` if given."""
    address = ipaddress.ip_address(peer)
    steps: list[Step] = [(LOAD_HALF, 0, 0, PROTOCOL), (JUMP_IF_EQUAL, 0, "drop", ETHER_TYPES[address.version])]
    if address.version == 4:
        steps += [
            (LOAD_BYTE, 0, 0, 9),
            (JUMP_IF_EQUAL, 0, "drop", TCP),
            (LOAD_HALF, 0, 0, 6),
            (JUMP_IF_SET, "drop", 0, FRAGMENTED),
            *_matches("source", 12, address.packed),
            *_matches("destination", 16, address.packed),
            (RETURN, 0, 0, 0),
            "source",
            "destination",
            (X_IS_IP_HEADER_LENGTH, 0, 0, 0),
            (LOAD_HALF_AT_X, 0, 0, 0),
            (JUMP_IF_EQUAL, "ours", 0, port),
            (LOAD_HALF_AT_X, 0, 0, 2),
        ]
    else:
        steps += [
            (LOAD_BYTE, 0, 0, 6),
            (JUMP_IF_EQUAL, 0, "drop", TCP),
            *_matches("source", 8, address.packed),
            *_matches("destination", 24, address.packed),
            (RETURN, 0, 0, 0),
            "source",
            "destination",
            (LOAD_HALF, 0, 0, IPV6_HEADER_BYTES),
            (JUMP_IF_EQUAL, "ours", 0, port),
            (LOAD_HALF, 0, 0, IPV6_HEADER_BYTES + 2),
        ]
    steps += [(JUMP_IF_EQUAL, "ours", "drop", port), "ours"]
    if stretches is not None:
        steps += [
            *(_number_of_ipv4() if address.version == 4 else _number_of_ipv6()),
            (AND, 0, 0, stretches.period_bytes - 1),
            (JUMP_IF_AT_LEAST, "drop", 0, stretches.kept_bytes),
        ]
    return assemble([*steps, (RETURN, 0, 0, SNAP_BYTES), "drop", (RETURN, 0, 0, 0)])


def _matches(label: str, at: int, packed: bytes) -> list[Step]:
    steps: list[Step] = []
    words = [struct.unpack_from(">I", packed, place)[0] for place in range(0, len(packed), 4)]
    for place, word in enumerate(words):
        is_last = place == len(words) - 1
        steps += [
            (LOAD_WORD, 0, 0, at + 4 * place),
            (JUMP_IF_EQUAL, label if is_last else 0, 0 if is_last else f"not {label}", word),
        ]
    return [*steps, f"not {label}"]


def _number_of_ipv4() -> list[Step]:
    """Sequence number, or without payload the acknowledged.

    Length 0 is a segment above 64 kB, before the card cuts it.
    """
    return [
        (LOAD_BYTE_AT_X, 0, 0, 12),
        (AND, 0, 0, 0xF0),
        (SHIFT_RIGHT, 0, 0, 2),
        (ADD_X, 0, 0, 0),
        (STORE, 0, 0, 0),
        (X_IS_STORED, 0, 0, 0),
        (LOAD_HALF, 0, 0, 2),
        (JUMP_IF_EQUALS_X, "no payload", 0, 0),
        (X_IS_IP_HEADER_LENGTH, 0, 0, 0),
        (LOAD_WORD_AT_X, 0, 0, 4),
        (JUMP_IF_AT_LEAST, "number", "number", 0),
        "no payload",
        (X_IS_IP_HEADER_LENGTH, 0, 0, 0),
        (LOAD_WORD_AT_X, 0, 0, 8),
        "number",
    ]


def _number_of_ipv6() -> list[Step]:
    return [
        (LOAD_BYTE, 0, 0, IPV6_HEADER_BYTES + 12),
        (AND, 0, 0, 0xF0),
        (SHIFT_RIGHT, 0, 0, 2),
        (X_IS_A, 0, 0, 0),
        (LOAD_HALF, 0, 0, 4),
        (JUMP_IF_EQUALS_X, "no payload", 0, 0),
        (LOAD_WORD, 0, 0, IPV6_HEADER_BYTES + 4),
        (JUMP_IF_AT_LEAST, "number", "number", 0),
        "no payload",
        (LOAD_WORD, 0, 0, IPV6_HEADER_BYTES + 8),
        "number",
    ]
