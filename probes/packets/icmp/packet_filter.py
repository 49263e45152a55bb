"""Classic BPF filter of a raw ICMP socket: only replies to and errors about our requests."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

from probes.packets.icmp import kernel
from probes.packets.icmp.echo import ECHO_REPLY, ECHO_REQUEST
from probes.packets.icmp.icmp_errors import (
    FRAGMENT_HEADER,
    FRAGMENT_HEADER_BYTES,
    IPV6_HEADER_BYTES,
    PROTOCOL_ICMP,
    TYPES,
)

# A classic BPF instruction: code, jump if true, jump if false, operand (bpf(4); McCanne and Jacobson 1993).
Instruction = tuple[int, int, int, int]

LOAD_BYTE, LOAD_HALF = 0x30, 0x28
LOAD_BYTE_AT_X, LOAD_HALF_AT_X = 0x50, 0x48
X_IS_IP_HEADER_LENGTH = 0xB1
AND, SHIFT_LEFT, ADD_X, X_IS_A = 0x54, 0x64, 0x0C, 0x07
JUMP_IF_EQUAL, RETURN = 0x15, 0x06
WHOLE = 0x40000

IDENTIFIER_AT = 4
QUOTED_IP_AT = 8

# An instruction whose jumps may be labels, or a label for the next instruction.
Step = tuple[int, int | str, int | str, int] | str


def program(family: int, identifier: int) -> list[Instruction]:
    """Accept echo replies with this identifier, and errors that quote it."""
    behind_ip = _behind_ipv4(identifier) if family == 4 else _of_ipv6(identifier)
    return assemble([*behind_ip, "drop", (RETURN, 0, 0, 0)])


def _behind_ipv4(identifier: int) -> list[Step]:
    return [
        (X_IS_IP_HEADER_LENGTH, 0, 0, 0),
        (LOAD_BYTE_AT_X, 0, 0, 0),
        (JUMP_IF_EQUAL, "reply", 0, ECHO_REPLY[4]),
        *[(JUMP_IF_EQUAL, "error", 0, icmp_type) for icmp_type in TYPES[4]],
        (RETURN, 0, 0, 0),
        "reply",
        (LOAD_HALF_AT_X, 0, 0, IDENTIFIER_AT),
        (JUMP_IF_EQUAL, 0, "drop", identifier),
        (RETURN, 0, 0, WHOLE),
        "error",
        (LOAD_BYTE_AT_X, 0, 0, QUOTED_IP_AT + 9),
        (JUMP_IF_EQUAL, 0, "drop", PROTOCOL_ICMP[4]),
        (LOAD_BYTE_AT_X, 0, 0, QUOTED_IP_AT),
        (AND, 0, 0, 0x0F),
        (SHIFT_LEFT, 0, 0, 2),
        (ADD_X, 0, 0, 0),
        (X_IS_A, 0, 0, 0),
        (LOAD_BYTE_AT_X, 0, 0, QUOTED_IP_AT),
        (JUMP_IF_EQUAL, 0, "drop", ECHO_REQUEST[4]),
        (LOAD_HALF_AT_X, 0, 0, QUOTED_IP_AT + IDENTIFIER_AT),
        (JUMP_IF_EQUAL, 0, "drop", identifier),
        (RETURN, 0, 0, WHOLE),
    ]


def _of_ipv6(identifier: int) -> list[Step]:
    behind_at = QUOTED_IP_AT + IPV6_HEADER_BYTES
    return [
        (LOAD_BYTE, 0, 0, 0),
        (JUMP_IF_EQUAL, "reply", 0, ECHO_REPLY[6]),
        *[(JUMP_IF_EQUAL, "error", 0, icmp_type) for icmp_type in TYPES[6]],
        (RETURN, 0, 0, 0),
        "reply",
        (LOAD_HALF, 0, 0, IDENTIFIER_AT),
        (JUMP_IF_EQUAL, 0, "drop", identifier),
        (RETURN, 0, 0, WHOLE),
        "error",
        (LOAD_BYTE, 0, 0, QUOTED_IP_AT + 6),
        (JUMP_IF_EQUAL, "whole", 0, PROTOCOL_ICMP[6]),
        (JUMP_IF_EQUAL, 0, "drop", FRAGMENT_HEADER),
        (LOAD_BYTE, 0, 0, behind_at),
        (JUMP_IF_EQUAL, 0, "drop", PROTOCOL_ICMP[6]),
        *_quotes_our_request(behind_at + FRAGMENT_HEADER_BYTES, identifier),
        "whole",
        *_quotes_our_request(behind_at, identifier),
    ]


def _quotes_our_request(at: int, identifier: int) -> list[Step]:
    return [
        (LOAD_BYTE, 0, 0, at),
        (JUMP_IF_EQUAL, 0, "drop", ECHO_REQUEST[6]),
        (LOAD_HALF, 0, 0, at + IDENTIFIER_AT),
        (JUMP_IF_EQUAL, 0, "drop", identifier),
        (RETURN, 0, 0, WHOLE),
    ]


def assemble(steps: list[Step]) -> list[Instruction]:
    labels: dict[str, int] = {}
    instructions: list[tuple[int, int | str, int | str, int]] = []
    for step in steps:
        if isinstance(step, str):
            labels[step] = len(instructions)
        else:
            instructions.append(step)

    def distance(jump: int | str, at: int) -> int:
        return jump if isinstance(jump, int) else labels[jump] - at - 1

    return [
        (code, distance(if_true, at), distance(if_false, at), operand)
        for at, (code, if_true, if_false, operand) in enumerate(instructions)
    ]


def attach(opened: socket.socket, instructions: Sequence[Instruction]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    opened.setsockopt(
        socket.SOL_SOCKET, kernel.SO_ATTACH_FILTER, struct.pack("HP", len(instructions), ctypes.addressof(code))
    )
