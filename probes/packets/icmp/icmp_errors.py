"""Decodes and names ICMP errors about our echo requests in batches. No I/O.

Errors quote at least 8 bytes of payload (RFC 792; RFC 4443 section 2.4 c). Number and secret are compared if quoted,
always over IPv6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from probes.packets.arrays import Bools, Bytes, Int64s
from probes.packets.icmp.echo import (
    ECHO_REPLY,
    ECHO_REQUEST,
    HEAD,
    HEAD_BYTES,
    ICMP_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    IPV4_MAX_HEADER_BYTES,
)
from probes.packets.spec import ALTERED, OTHER_ADDRESS

IPV6_HEADER_BYTES = 40
FRAGMENT_HEADER = 44
FRAGMENT_HEADER_BYTES = 8
# Length of the IP and ICMP headers of a request.
HEADER_BYTES = {4: IPV4_HEADER_BYTES + ICMP_HEADER_BYTES, 6: IPV6_HEADER_BYTES + ICMP_HEADER_BYTES}

# Bytes of an error that are examined, with headers of maximum length.
MOST_BYTES = 2 * IPV4_MAX_HEADER_BYTES + ICMP_HEADER_BYTES + HEAD_BYTES

# Maximum length of an ICMP error over IPv4 (RFC 1812, section 4.3.2.3).
LONGEST_BYTES = 576

# The quoted packet is padded to this length where extensions follow it (RFC 4884, section 3).
SHORTEST_PADDED_BYTES = 128
EXTENSION_HEADER_BYTES = 4

PROTOCOL_ICMP = {4: 1, 6: 58}
# Destination unreachable, (packet too big,) time exceeded, parameter problem.
TYPES = {4: (3, 11, 12), 6: (1, 2, 3, 4)}

# Type and code of the errors that carry an MTU; over IPv6 the code is ignored.
TOO_BIG = {4: (3, 4), 6: (2, 0)}

OTHER_ADDRESS_CODE, ALTERED_CODE = 0, 1
NAMES: dict[tuple[int, int, int], str] = {
    # Echo replies that do not count; these codes are ours, on the wire there is only 0.
    **{(family, reply, OTHER_ADDRESS_CODE): OTHER_ADDRESS for family, reply in ECHO_REPLY.items()},
    **{(family, reply, ALTERED_CODE): ALTERED for family, reply in ECHO_REPLY.items()},
    (4, 3, 0): "net_unreachable",
    (4, 3, 1): "host_unreachable",
    (4, 3, 2): "protocol_unreachable",
    (4, 3, 3): "port_unreachable",
    (4, 3, 4): "fragmentation_needed",
    (4, 3, 5): "source_route_failed",
    (4, 3, 6): "net_unknown",
    (4, 3, 7): "host_unknown",
    (4, 3, 9): "net_prohibited",
    (4, 3, 10): "host_prohibited",
    (4, 3, 11): "net_unreachable_for_tos",
    (4, 3, 12): "host_unreachable_for_tos",
    (4, 3, 13): "administratively_prohibited",
    (4, 11, 0): "time_exceeded",
    (4, 11, 1): "reassembly_time_exceeded",
    (4, 12, 0): "parameter_problem",
    (6, 1, 0): "net_unreachable",
    (6, 1, 1): "administratively_prohibited",
    (6, 1, 2): "beyond_scope_of_source",
    (6, 1, 3): "host_unreachable",
    (6, 1, 4): "port_unreachable",
    (6, 1, 5): "source_address_failed_policy",
    (6, 1, 6): "reject_route",
    (6, 2, 0): "fragmentation_needed",
    (6, 3, 0): "time_exceeded",
    (6, 3, 1): "reassembly_time_exceeded",
    (6, 4, 0): "parameter_problem",
}


def name_of(family: int, icmp_type: int, icmp_code: int) -> str:
    """Name an error, or give type and code."""
    return NAMES.get((family, icmp_type, icmp_code), f"icmp_type_{icmp_type}_code_{icmp_code}")


@dataclass(frozen=True, slots=True)
class Quotes:
    """The requests quoted by a batch of errors, row by row."""

    identifier: Int64s
    checksum: Int64s
    sequence: Int64s
    whole: Bools  # rows that include number and secret
    number: Int64s
    secret: Bytes


def read_quotes(family: int, quoted: Bytes, lengths: Int64s) -> tuple[Quotes, Bools]:
    """Decode each row's first `lengths` bytes, and mark long enough echo requests.

    `quoted` has at least `HEAD_BYTES` columns.
    """
    fields = np.ascontiguousarray(quoted[:, :HEAD_BYTES]).view(HEAD)[:, 0]
    plausible = (fields["type"] == ECHO_REQUEST[family]) & (fields["code"] == 0) & (lengths >= ICMP_HEADER_BYTES)
    quotes = Quotes(
        identifier=fields["identifier"].astype(np.int64),
        checksum=fields["checksum"].astype(np.int64),
        sequence=fields["sequence"].astype(np.int64),
        whole=lengths >= HEAD_BYTES,
        number=fields["number"].astype(np.int64),
        secret=fields["secret"],
    )
    return quotes, plausible


@dataclass(frozen=True, slots=True)
class Errors:
    """A batch of errors, row by row."""

    icmp_type: Int64s
    icmp_code: Int64s
    mtu_bytes: Int64s  # 0 without an MTU
    hosts: Bytes  # destinations of offending packets, in network order
    quoted: Bytes  # the quoted request
    quoted_bytes: Int64s
    messages: Bytes
    message_bytes: Int64s  # where extensions (RFC 4884) end in `messages`
    extension_at: Int64s  # where they begin; 0 without any

    def take(self, rows: Int64s) -> Errors:
        return Errors(*(getattr(self, name)[rows] for name in self.__slots__))

    def with_mtu_below(self, ip_bytes: Int64s) -> Errors:
        """Drop MTUs that the packet would fit: stale or forged (RFC 8201, section 4)."""
        return replace(self, mtu_bytes=np.where(self.mtu_bytes < ip_bytes, self.mtu_bytes, 0))


def uncounted_replies(family: int, codes: Int64s, hosts: Bytes) -> Errors:
    """Convert replies to errors with our codes in `NAMES`."""
    none = np.zeros(len(codes), np.int64)
    nothing = np.zeros((len(codes), 0), np.uint8)
    icmp_type = np.full(len(codes), ECHO_REPLY[family], np.int64)
    return Errors(icmp_type, codes, none, hosts, nothing, none, nothing, none, none)


def read_errors(family: int, data: Bytes, lengths: Int64s, starts: Int64s) -> tuple[Errors, Int64s]:
    """Decode a raw socket's ICMP errors, with headers at `starts`; return them with their rows.

    `data` has at least `MOST_BYTES` columns. Short errors are left out.
    """
    rows = np.flatnonzero(np.isin(_byte(data, starts), TYPES[family]))
    at, left = starts[rows], np.minimum(lengths[rows], data.shape[1]) - starts[rows]
    data = data[rows]
    inner = at + ICMP_HEADER_BYTES
    if family == 4:
        inner_bytes = np.maximum((_byte(data, inner) & 0x0F).astype(np.int64) * 4, 20)
        protocol, host_at, host_bytes = _byte(data, inner + 9), inner + 16, 4
    else:
        inner_bytes, protocol = _behind_ipv6(data, inner)
        host_at, host_bytes = inner + 24, 16
    quoted_bytes = left - ICMP_HEADER_BYTES - inner_bytes
    sound = np.flatnonzero((protocol == PROTOCOL_ICMP[family]) & (quoted_bytes >= ICMP_HEADER_BYTES))
    icmp_type, icmp_code = _byte(data, at).astype(np.int64), _byte(data, at + 1).astype(np.int64)
    errors = Errors(
        icmp_type=icmp_type,
        icmp_code=icmp_code,
        mtu_bytes=np.where(carries_mtu(family, icmp_type, icmp_code), _mtu_bytes(family, data, at), 0),
        hosts=_columns(data, host_at, host_bytes),
        quoted=_columns(data, inner + inner_bytes, HEAD_BYTES),
        quoted_bytes=quoted_bytes,
        messages=data,
        message_bytes=at + left,
        extension_at=_extension_at(family, data, at, left),
    )
    return errors.take(sound), rows[sound]


def _extension_at(family: int, data: Bytes, at: Int64s, left: Int64s) -> Int64s:
    """Where extensions begin (RFC 4884, section 4), by default after 128 bytes (section 5.5); 0 without."""
    quoted_bytes = _byte(data, at + (5 if family == 4 else 4)).astype(np.int64) * (4 if family == 4 else 8)
    before = ICMP_HEADER_BYTES + np.where(quoted_bytes == 0, SHORTEST_PADDED_BYTES, quoted_bytes)
    fits = (before >= ICMP_HEADER_BYTES + SHORTEST_PADDED_BYTES) & (left >= before + EXTENSION_HEADER_BYTES)
    return np.where(fits, at + before, 0)


def _behind_ipv6(data: Bytes, inner: Int64s) -> tuple[Int64s, Bytes]:
    """Quoted headers' length and next protocol, past a first fragment header (RFC 8200, section 4.5)."""
    following = _byte(data, inner + 6)
    cut = following == FRAGMENT_HEADER
    fragment = inner + IPV6_HEADER_BYTES
    first_piece = (_byte(data, fragment + 2) == 0) & (_byte(data, fragment + 3) & 0xF8 == 0)
    inner_bytes = IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES * cut.astype(np.int64)
    return inner_bytes, np.where(cut, np.where(first_piece, _byte(data, fragment), FRAGMENT_HEADER), following)


def carries_mtu(family: int, icmp_type: Int64s, icmp_code: Int64s) -> Bools:
    too_big, code = TOO_BIG[family]
    carries: Bools = (icmp_type == too_big) & ((icmp_code == code) if family == 4 else True)
    return carries


def _mtu_bytes(family: int, data: Bytes, at: Int64s) -> Int64s:
    # RFC 1191 section 4: the last 16 bits; RFC 4443 section 3.2: 32.
    width = 2 if family == 4 else 4
    octets = _columns(data, at + ICMP_HEADER_BYTES - width, width).astype(np.int64)
    places: Int64s = 256 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return octets @ places


def _byte(data: Bytes, at: Int64s) -> Bytes:
    octets: Bytes = data[np.arange(len(data)), np.minimum(at, data.shape[1] - 1)]
    return octets


def _columns(data: Bytes, start: Int64s, width: int) -> Bytes:
    columns = np.minimum(start[:, np.newaxis] + np.arange(width), data.shape[1] - 1)
    gathered: Bytes = data[np.arange(len(data))[:, np.newaxis], columns]
    return gathered
