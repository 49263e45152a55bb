"""STAMP extensions: TLVs behind the base packet (RFC 8972, section 4). No I/O.

The sender sets flag U; a reflector that knows the type clears it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct(">BBH")
UNRECOGNISED = 0x80
MALFORMED = 0x40
# Flag I: the HMAC TLV did not verify.
UNVERIFIED = 0x20

EXTRA_PADDING = 1
CLASS_OF_SERVICE = 4
FOLLOW_UP = 7
HMAC = 8

CLASS_OF_SERVICE_BYTES = 4
FOLLOW_UP_BYTES = 16
HMAC_TLV_BYTES = 16
# How the follow-up timestamp was made (RFC 8972, section 4.3): by software of the host, here its kernel.
SOFTWARE_STAMP = 2


@dataclass(frozen=True, slots=True)
class Tlv:
    """A TLV at offset `at` of its packet."""

    at: int
    flags: int
    type: int
    length: int
    is_whole: bool  # its value lies within the packet

    @property
    def value_at(self) -> int:
        return self.at + HEADER.size

    @property
    def end(self) -> int:
        return self.value_at + self.length


def parse(packet: bytes | memoryview, base_bytes: int) -> list[Tlv]:
    """List the TLVs behind the base packet, up to padding or a malformed TLV."""
    found: list[Tlv] = []
    at = base_bytes
    while at + HEADER.size <= len(packet):
        flags, kind, length = HEADER.unpack_from(packet, at)
        if kind == 0:
            break
        is_whole = at + HEADER.size + length <= len(packet)
        found.append(Tlv(at, flags, kind, length, is_whole))
        if not is_whole:
            break
        at += HEADER.size + length
    return found


def header(kind: int, length: int) -> bytes:
    """The header of a sender's TLV."""
    return HEADER.pack(UNRECOGNISED, kind, length)


def class_of_service(dscp: int) -> bytes:
    """Request replies with this DSCP (RFC 8972, section 4.4)."""
    return header(CLASS_OF_SERVICE, CLASS_OF_SERVICE_BYTES) + struct.pack(">HH", dscp << 10, 0)


def follow_up() -> bytes:
    """A TLV for the reflector to fill in (RFC 8972, section 4.7)."""
    return header(FOLLOW_UP, FOLLOW_UP_BYTES) + bytes(FOLLOW_UP_BYTES)
