"""Echo requests as rows of bytes, and replies read back, for whole batches at once. No I/O.

A request is the ICMP header, 16 bytes that are ours (the packet's number in the cycle and a secret), then padding:

    type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | number 4 | secret 12 | padding

`packet_bytes` counts from the number on. A reply is ours if identifier, sequence, number, secret, length and
source address are all those of a request that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probes.ping.arrays import Bools, Bytes, Int64s

ICMP_HEADER_BYTES = 8
MIN_PACKET_BYTES = 16
MAX_PACKET_BYTES = 65_000
HEAD_BYTES = ICMP_HEADER_BYTES + MIN_PACKET_BYTES
SECRET_BYTES = 12

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
    ]
)

SUMMED_BYTES = 4
ALL_ONES = 0xFFFF
"""The sum of what contains its own checksum."""

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}


def word_sum(data: bytes) -> int:
    """Sum of the 16-bit words of `data`, as RFC 1071 section 1 has them: in network order, the last filled up."""
    return int(np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").sum(dtype=np.uint64))


def internet_checksum(sums: Int64s) -> Int64s:
    """The Internet checksum (RFC 1071) of what has these sums of words."""
    for _ in range(3):
        sums = (sums & 0xFFFF) + (sums >> 16)
    return ~sums & 0xFFFF


@dataclass(frozen=True, slots=True)
class Replies:
    """What a batch of replies says. `plausible` tells which are echo replies with our identifier and secret; the ICMP
    header of each begins at `start`. `intact`: whether its checksum is right, by the kernel's word or our own."""

    plausible: Bools
    intact: Bools
    start: Int64s
    number: Int64s
    sequence: Int64s
    icmp_bytes: Int64s
    hop_limit: Int64s | None


class EchoFormat:
    """Requests and replies of one socket: its family, identifier and secret, and the padding all requests share."""

    def __init__(
        self,
        family: int,
        identifier: int,
        secret: bytes,
        padding: bytes,
        *,
        ip_header: bool,
        errors_among_replies: bool = False,
    ) -> None:
        self.family = family
        self.identifier = identifier
        self.secret = np.frombuffer(secret, np.uint8)
        self.padding = padding
        self.ip_header = ip_header
        self.errors_among_replies = errors_among_replies
        self._constant_sum = (ECHO_REQUEST[family] << 8) + identifier + word_sum(secret)
        self._padding_sums: dict[int, int] = {}

    def prepare(self, heads: Bytes) -> None:
        """Write into each row what all requests of this socket have in common."""
        fields = heads.view(HEAD)[:, 0]
        fields["type"] = ECHO_REQUEST[self.family]
        fields["identifier"] = self.identifier
        fields["secret"] = self.secret

    def write(self, heads: Bytes, numbers: Int64s, sequences: Int64s, tail_sums: Int64s) -> None:
        """Make each row, once prepared, a request with its checksum. (Over IPv6 the kernel puts in its own.)

        `tail_sums` are `tail_sum` of the size of each.
        """
        fields = heads.view(HEAD)[:, 0]
        sequences = sequences & 0xFFFF
        fields["sequence"] = sequences
        fields["number"] = numbers
        if self.family == 4:
            fields["checksum"] = self.checksums(numbers, sequences, tail_sums)

    def checksums(self, numbers: Int64s, sequences: Int64s, tail_sums: Int64s) -> Int64s:
        """The checksum of each of these requests over IPv4: of all its words, its own being zero."""
        return internet_checksum(
            self._constant_sum + (numbers >> 16) + (numbers & 0xFFFF) + (sequences & 0xFFFF) + tail_sums
        )

    def tail_sum(self, packet_bytes: int) -> int:
        """Sum of the words of the padding of a request of this size."""
        if packet_bytes not in self._padding_sums:
            self._padding_sums[packet_bytes] = word_sum(self.padding[: packet_bytes - MIN_PACKET_BYTES])
        return self._padding_sums[packet_bytes]

    def read(self, data: Bytes, lengths: Int64s) -> Replies:
        """Read one message from each row of `data`; `lengths` are the whole lengths on the wire, even where cut."""
        ip_bytes = self._ip_header_bytes(data)
        icmp_bytes = lengths - ip_bytes
        fields = _columns(data, ip_bytes).view(HEAD)[:, 0]
        # The kernel checks the sums of whatever else it hands out, but not of what a raw IPv4 socket gets.
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
        """Length of the IPv4 header in front, from its own length field; 0 where the kernel takes it off."""
        if not self.ip_header:
            return np.zeros(len(data), np.int64)
        return np.maximum((data[:, 0] & 0x0F).astype(np.int64) * 4, IPV4_HEADER_BYTES)


def has_valid_checksum(data: Bytes, starts: Int64s, stops: Int64s) -> Bools:
    """Whether the bytes of each row from `start` to `stop` have the checksum they carry (RFC 1071).

    Those that are not all there have not. The rows of a batch are mostly laid out alike; each layout is summed at once.
    """
    found = np.zeros(len(data), np.bool_)
    rows: Int64s | slice = slice(None)
    left = np.arange(len(data))
    while len(left):
        start, stop = int(starts[left[0]]), int(stops[left[0]])
        alike = (starts[rows] == start) & (stops[rows] == stop)
        some = rows if alike.all() else left[alike]
        if start < stop <= data.shape[1]:
            found[some] = _sums(data[some, start:stop]) == ALL_ONES
        # The first is like itself, so each turn has fewer.
        rows = left = left[~alike]
    return found


def _sums(data: Bytes) -> Int64s:
    """The folded sum of each row. Wider words and another order of bytes give the same (RFC 1071, section 2)."""
    if data.shape[1] % SUMMED_BYTES:
        data = np.pad(data, ((0, 0), (0, -data.shape[1] % SUMMED_BYTES)))
    sums: Int64s = data.view(np.uint32).sum(axis=1, dtype=np.uint64).astype(np.int64)
    return 0xFFFF - internet_checksum(sums)


def _columns(data: Bytes, start: Int64s) -> Bytes:
    """The `HEAD_BYTES` of each row from its own `start`, as a contiguous array."""
    if len(start) and (start == start[0]).all():
        return np.ascontiguousarray(data[:, start[0] : start[0] + HEAD_BYTES])
    gathered: Bytes = data[np.arange(len(data))[:, np.newaxis], start[:, np.newaxis] + np.arange(HEAD_BYTES)]
    return gathered
