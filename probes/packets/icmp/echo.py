"""Encodes echo requests and decodes replies, a whole batch at once. No I/O.

    type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | number 4 | secret 10 | balance 2 | padding

`packet_bytes` counts from the number on; `balance` makes the checksum the flow's (`probes.packets.flow`). A reply must
match a request in identifier, sequence, number, secret, length and source address.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from probes.packets.arrays import Bools, Bytes, Int64s

ICMP_HEADER_BYTES = 8
MIN_PACKET_BYTES = 16
MAX_PACKET_BYTES = 65_000
HEAD_BYTES = ICMP_HEADER_BYTES + MIN_PACKET_BYTES
SECRET_BYTES = 10
SEQUENCES = 1 << 16

IPV4_HEADER_BYTES = 20
IPV4_MAX_HEADER_BYTES = 60

HEAD = np.dtype(
    [
        ("type", "u1"),
        ("code", "u1"),
        ("checksum", ">u2"),
        ("identifier", ">u2"),
        ("sequence", ">u2"),
        ("number", ">u4"),
        ("secret", "u1", (SECRET_BYTES,)),
        ("balance", ">u2"),
    ]
)

SUMMED_BYTES = 4
# The sum of data that includes its own valid checksum.
ALL_ONES = 0xFFFF

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}


def word_sum(data: bytes) -> int:
    """Sum of 16-bit words in network order, zero-padded (RFC 1071, section 1)."""
    return int(np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").sum(dtype=np.uint64))


def internet_checksum(sums: Int64s) -> Int64s:
    """Internet checksum (RFC 1071) of these word sums."""
    for _ in range(3):
        sums = (sums & 0xFFFF) + (sums >> 16)
    return ~sums & 0xFFFF


@dataclass(frozen=True, slots=True)
class Replies:
    plausible: Bools  # echo replies with our identifier and secret
    intact: Bools  # valid checksum, verified by the kernel or by us
    start: Int64s  # where the ICMP header begins
    number: Int64s
    sequence: Int64s
    icmp_bytes: Int64s
    hop_limit: Int64s | None


class EchoFormat:
    """Encodes and decodes for a socket; only the first `head_bytes` of messages differ."""

    head_bytes: int = HEAD_BYTES

    def __init__(
        self,
        family: int,
        identifier: int,
        secret: bytes,
        padding: bytes,
        flows: Int64s,
        *,
        ip_header: bool,
        errors_among_replies: bool = False,
    ) -> None:
        self.family = family
        self.identifier = identifier
        self.secret = np.frombuffer(secret, np.uint8)
        self.padding = padding
        self.flows = flows
        self.ip_header = ip_header
        self.errors_among_replies = errors_among_replies
        self._constant_sum = (ECHO_REQUEST[family] << 8) + identifier + word_sum(secret)
        self._first_sequence = int.from_bytes(hashlib.blake2b(secret, digest_size=2).digest())
        self._padding_sums: dict[int, int] = {}

    def prepare(self, heads: Bytes) -> None:
        fields = heads.view(HEAD)[:, 0]
        fields["type"] = ECHO_REQUEST[self.family]
        fields["identifier"] = self.identifier
        fields["secret"] = self.secret

    def write(self, heads: Bytes, numbers: Int64s, turns: Int64s, ranks: Int64s, tail_sums: Int64s) -> None:
        """Complete prepared rows with a turn's requests to ranks.

        `tail_sums` has each size's `tail_sum`. Over IPv6 the kernel fills in the checksum.
        """
        fields = heads.view(HEAD)[:, 0]
        sequences, flows = self.sequences(turns), self.flows[ranks]
        fields["sequence"] = sequences
        fields["number"] = numbers
        sums = self._constant_sum + (numbers >> 16) + (numbers & 0xFFFF) + sequences + tail_sums
        fields["balance"] = ALL_ONES - internet_checksum(ALL_ONES - flows + internet_checksum(sums))
        # IPv6: the kernel's sum is constant for a pair of addresses, since everything else adds up to the flow.
        if self.family == 4:
            fields["checksum"] = flows

    def sequences(self, turns: Int64s) -> Int64s:
        return (turns + self._first_sequence) & 0xFFFF

    def turns(self, sequences: Int64s) -> Int64s:
        """Turn of each sequence number, modulo 65,536."""
        return (sequences - self._first_sequence) & 0xFFFF

    def tail_sum(self, packet_bytes: int) -> int:
        """Word sum of the padding, over IPv6 with the length (RFC 8200, section 8.1)."""
        if packet_bytes not in self._padding_sums:
            length_bytes = ICMP_HEADER_BYTES + packet_bytes if self.family == 6 else 0
            padding = self.padding[: packet_bytes - MIN_PACKET_BYTES]
            self._padding_sums[packet_bytes] = word_sum(padding) + length_bytes
        return self._padding_sums[packet_bytes]

    def read(self, data: Bytes, lengths: Int64s) -> Replies:
        """Decode each row's message; `lengths` are on the wire."""
        ip_bytes = self._ip_header_bytes(data)
        icmp_bytes = lengths - ip_bytes
        fields = _columns(data, ip_bytes).view(HEAD)[:, 0]
        # The kernel verifies checksums except for messages of raw IPv4 sockets.
        intact = has_valid_checksum(data, ip_bytes, lengths) if self.ip_header else np.ones(len(data), np.bool_)
        plausible = (
            intact
            & (fields["type"] == ECHO_REPLY[self.family])
            & (fields["code"] == 0)
            & (fields["identifier"] == self.identifier)
            & (fields["secret"] == self.secret).all(axis=1)
            & (icmp_bytes >= HEAD_BYTES)
        )
        return Replies(
            plausible=plausible,
            intact=intact,
            start=ip_bytes,
            number=fields["number"].astype(np.int64),
            sequence=fields["sequence"].astype(np.int64),
            icmp_bytes=icmp_bytes,
            hop_limit=data[:, 8].astype(np.int64) if self.ip_header else None,
        )

    def _ip_header_bytes(self, data: Bytes) -> Int64s:
        """IPv4 header length; 0 if the kernel strips the header."""
        if not self.ip_header:
            return np.zeros(len(data), np.int64)
        return np.maximum((data[:, 0] & 0x0F).astype(np.int64) * 4, IPV4_HEADER_BYTES)


def has_valid_checksum(data: Bytes, starts: Int64s, stops: Int64s) -> Bools:
    """Whether rows match their checksum (RFC 1071); truncated rows do not.

    Same layouts are summed at once.
    """
    valid = np.zeros(len(data), np.bool_)
    rows: Int64s | slice = slice(None)
    left = np.arange(len(data))
    while len(left):
        start, stop = int(starts[left[0]]), int(stops[left[0]])
        alike = (starts[rows] == start) & (stops[rows] == stop)
        some = rows if alike.all() else left[alike]
        if start < stop <= data.shape[1]:
            valid[some] = _sums(data[some, start:stop]) == ALL_ONES
        # Each iteration removes at least the first row.
        rows = left = left[~alike]
    return valid


def _sums(data: Bytes) -> Int64s:
    """Folded sum of each row, for any byte order (RFC 1071, section 2)."""
    if data.shape[1] % SUMMED_BYTES:
        data = np.pad(data, ((0, 0), (0, -data.shape[1] % SUMMED_BYTES)))
    sums: Int64s = data.view(np.uint32).sum(axis=1, dtype=np.uint64).astype(np.int64)
    return 0xFFFF - internet_checksum(sums)


def _columns(data: Bytes, start: Int64s) -> Bytes:
    if len(start) and (start == start[0]).all():
        return np.ascontiguousarray(data[:, start[0] : start[0] + HEAD_BYTES])
    gathered: Bytes = data[np.arange(len(data))[:, np.newaxis], start[:, np.newaxis] + np.arange(HEAD_BYTES)]
    return gathered
