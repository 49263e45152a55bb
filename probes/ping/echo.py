"""Echo requests as rows of bytes, and replies read back, for whole batches at once. No I/O.

A request is the ICMP header, 16 bytes that are ours (the packet's number in the cycle and a secret), then padding:

    type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | number 4 | secret 12 | padding

`packet_bytes` counts from the number on. A reply is ours if identifier, sequence, number, secret, length and
source address are all those of a request that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probes.ping.kernel import Bools, Int64s

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
        ("checksum", "u2"),
        ("identifier", ">u2"),
        ("sequence", ">u2"),
        ("number", ">u4"),
        ("secret", "u1", (SECRET_BYTES,)),
    ]
)

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}


def word_sum(data: bytes) -> int:
    """Sum of the 16-bit words of `data` in this machine's byte order, which RFC 1071 section 2(B) allows."""
    return int(np.frombuffer(data + b"\0" * (len(data) % 2), np.uint16).sum(dtype=np.uint64))


def checksums(heads: npt.NDArray[np.uint8], tail_sums: Int64s) -> npt.NDArray[np.uint16]:
    """The Internet checksum (RFC 1071) of each row, its checksum field being zero.

    `heads` has shape (rows, even number of bytes); `tail_sums` is `word_sum` of what follows each row.
    """
    total = heads.view(np.uint16).sum(axis=1, dtype=np.int64) + tail_sums
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    folded: npt.NDArray[np.uint16] = (~total & 0xFFFF).astype(np.uint16)
    return folded


@dataclass(frozen=True, slots=True)
class Replies:
    """What a batch of replies says. `plausible` tells which are echo replies with our identifier and secret."""

    plausible: Bools
    number: Int64s
    sequence: Int64s
    icmp_bytes: Int64s
    hop_limit: Int64s | None


class EchoFormat:
    """Requests and replies of one socket: its family, identifier and secret, and the padding all requests share."""

    def __init__(self, family: int, identifier: int, secret: bytes, padding: bytes, *, ip_header: bool) -> None:
        self.family = family
        self.identifier = identifier
        self.secret = np.frombuffer(secret, np.uint8)
        self.padding = padding
        self.ip_header = ip_header
        self._padding_sums: dict[int, int] = {}

    def write(self, heads: npt.NDArray[np.uint8], numbers: Int64s, sequences: Int64s, packet_bytes: Int64s) -> None:
        """Write one request into each row of `heads`, with its checksum. (Over IPv6 the kernel puts in its own.)"""
        fields = heads.view(HEAD)[:, 0]
        fields["type"] = ECHO_REQUEST[self.family]
        fields["checksum"] = 0
        fields["identifier"] = self.identifier
        fields["sequence"] = sequences & 0xFFFF
        fields["number"] = numbers
        fields["secret"] = self.secret
        if self.family == 4:
            fields["checksum"] = checksums(heads, self._tail_sums(packet_bytes))

    def _tail_sums(self, packet_bytes: Int64s) -> Int64s:
        sizes, which = np.unique(packet_bytes, return_inverse=True)
        return np.array([self._padding_sum(size) for size in sizes.tolist()], np.int64)[which]

    def _padding_sum(self, size: int) -> int:
        if size not in self._padding_sums:
            self._padding_sums[size] = word_sum(self.padding[: size - MIN_PACKET_BYTES])
        return self._padding_sums[size]

    def read(self, data: npt.NDArray[np.uint8], lengths: Int64s) -> Replies:
        """Read one message from each row of `data`; `lengths` are the whole lengths on the wire, even where cut."""
        ip_bytes = self._ip_header_bytes(data)
        icmp_bytes = lengths - ip_bytes
        fields = _columns(data, ip_bytes).view(HEAD)[:, 0]
        plausible = (
            (fields["type"] == ECHO_REPLY[self.family])
            & (fields["code"] == 0)
            & (fields["identifier"] == self.identifier)
            & (fields["secret"] == self.secret).all(axis=1)
            & (icmp_bytes >= HEAD_BYTES)
        )
        return Replies(
            plausible=plausible,
            number=fields["number"].astype(np.int64),
            sequence=fields["sequence"].astype(np.int64),
            icmp_bytes=icmp_bytes,
            hop_limit=data[:, 8].astype(np.int64) if self.ip_header else None,
        )

    def _ip_header_bytes(self, data: npt.NDArray[np.uint8]) -> Int64s:
        """Length of the IPv4 header in front, from its own length field; 0 where the kernel takes it off."""
        if not self.ip_header:
            return np.zeros(len(data), np.int64)
        return np.maximum((data[:, 0] & 0x0F).astype(np.int64) * 4, IPV4_HEADER_BYTES)


def _columns(data: npt.NDArray[np.uint8], start: Int64s) -> npt.NDArray[np.uint8]:
    """The `HEAD_BYTES` of each row from its own `start`, as a contiguous array."""
    if len(start) and (start == start[0]).all():
        return np.ascontiguousarray(data[:, start[0] : start[0] + HEAD_BYTES])
    gathered: npt.NDArray[np.uint8] = data[
        np.arange(len(data))[:, np.newaxis], start[:, np.newaxis] + np.arange(HEAD_BYTES)
    ]
    return gathered
