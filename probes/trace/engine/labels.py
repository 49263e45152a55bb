"""Decodes ICMP error extensions (RFC 4884, section 7) and MPLS labels (RFC 4950). No I/O.

Malformed extensions have no labels.
"""

from __future__ import annotations

import struct

from probes.packets.icmp.echo import word_sum
from probes.trace.spec import MOST_LABELS, MplsLabel

VERSION = 2
HEADER = struct.Struct(">BBH")
OBJECT = struct.Struct(">HBB")
LABEL_STACK = (1, 1)
ENTRY_BYTES = 4
BOTTOM = 0x100


def read_labels(extensions: bytes) -> tuple[MplsLabel, ...]:
    """Read the label stack, topmost first; empty if malformed."""
    if len(extensions) < HEADER.size:
        return ()
    version, _, checksum = HEADER.unpack_from(extensions)
    # A checksum of 0 means that the router computed none.
    if version >> 4 != VERSION or (checksum != 0 and not _is_sound(extensions)):
        return ()
    at = HEADER.size
    while at + OBJECT.size <= len(extensions):
        length, *kind = OBJECT.unpack_from(extensions, at)
        if not OBJECT.size <= length <= len(extensions) - at:
            return ()
        if tuple(kind) == LABEL_STACK:
            return _entries(extensions[at + OBJECT.size : at + length])
        at += length
    return ()


def _is_sound(extensions: bytes) -> bool:
    total = word_sum(extensions)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def _entries(stack: bytes) -> tuple[MplsLabel, ...]:
    # Label 20 bits, traffic class 3, bottom 1, TTL 8 (RFC 3032, section 2.1).
    if len(stack) % ENTRY_BYTES:
        return ()
    labels = []
    for (entry,) in struct.iter_unpack(">I", stack):
        labels.append(MplsLabel(label=entry >> 12, traffic_class=(entry >> 9) & 7, ttl=entry & 0xFF))
        if entry & BOTTOM or len(labels) == MOST_LABELS:
            break
    return tuple(labels)
