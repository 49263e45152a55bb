"""Reads TCP_INFO of this host's connections by netlink, without privilege.

Structs: <linux/netlink.h>, <linux/inet_diag.h>, <linux/tcp.h>.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
# NLM_F_REQUEST, alone and with NLM_F_DUMP.
REQUEST_ONE, REQUEST_LIST = 0x001, 0x301
# Readings: new connections are seen within a second.
LIST_EVERY = 5
MOST_ASKED_SINGLY = 32
INET_DIAG_INFO = 2
ESTABLISHED = 1
HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBBI48s")
ATTRIBUTE = struct.Struct("=HH")
ALIGNMENT = 4
# Of struct inet_diag_msg: the state, the socket ID, and the length without attributes.
STATE_OFFSET, ID_OFFSET, ID_BYTES, MESSAGE_BYTES = 1, 4, 48, 72
# Of the peer's address in a socket ID, after both ports and the own address.
PEER_OFFSET = 20
ANSWER_BYTES = 65_536
TIMEOUT_S = 2.0

TIMEOUT, SEGMENT, UNACKNOWLEDGED, LAST_RECEIVED, SMOOTHED_RTT, CWND = 8, 16, 24, 52, 68, 80
NOT_SENT, MINIMUM_RTT = 144, 148
# Offsets in struct tcp_info; after `TIMES` and `SENT` more counters follow.
ACKNOWLEDGED, DELIVERY_RATE, TIMES, SENT = 120, 160, 168, 200
# Up to tcpi_reord_seen, which Linux has since 4.19.
TCP_INFO_BYTES = 224
UNSET_RTT_US = 2**32 - 1


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """Address of this host's streams: the peer and its port."""

    peer: str
    port: int
    from_port: bool = False  # `port` is the local port instead


@dataclass(frozen=True, slots=True)
class ConnectionCounters:
    connection: bytes
    sent_bytes: int
    acknowledged_bytes: int
    resent_bytes: int
    busy_s: float
    peer_window_limited_s: float
    send_buffer_limited_s: float
    age_s: float  # since it last received data: its age if it only sends
    duplicates: int
    reordering_seen: int
    delivery_rate_bps: float
    rtt_min_ms: float | None
    segment_bytes: int  # payload of sent segments
    cwnd_segments: int
    rtt_ms: float  # smoothed RTT
    timeout_s: float  # retransmission timeout
    outstanding_bytes: int  # sent or waiting, and not acknowledged


def counters_of(connection: socket.socket) -> ConnectionCounters:
    """Counters of an own connection. Raises `OSError` if the kernel lacks any."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    counters = _counters(b"", info)
    if counters is None:
        raise OSError(errno.EOPNOTSUPP, "this kernel has no counters of a connection; Linux has them since 4.19")
    return counters


class SocketReader:
    """Reads an address's connections within the context, in the thread's network namespace.

    Readings are empty where no netlink socket is permitted.
    """

    def __init__(self, streams: StreamAddress) -> None:
        self._streams = streams
        self._peer = ipaddress.ip_address(streams.peer)
        self._socket: socket.socket | None = None
        self._listed: tuple[bytes, ...] = ()
        self._readings = 0

    def __enter__(self) -> Self:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
            self._socket.settimeout(TIMEOUT_S)
        except OSError:
            self._socket = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    def read(self) -> list[ConnectionCounters]:
        if self._socket is None:
            return []
        try:
            rows = list(self._rows(self._socket))
        except OSError:
            return []
        return [row for row in rows if row.sent_bytes > 0]

    def _rows(self, diag: socket.socket) -> Iterator[ConnectionCounters]:
        """Counters of known connections, or of a new list when these may have changed."""
        is_list_due = self._readings % LIST_EVERY == 0 or not 0 < len(self._listed) <= MOST_ASKED_SINGLY
        self._readings += 1
        if is_list_due:
            ports = (self._streams.port, 0) if self._streams.from_port else (0, self._streams.port)
            diag.send(self._request(struct.pack("!HH", *ports).ljust(ID_BYTES, b"\0"), REQUEST_LIST))
            messages = [message for message in _messages(diag) if self._is_ours(message[0])]
            self._listed = tuple(number for number, _ in messages)
        else:
            messages = []
            for number in self._listed:
                diag.send(self._request(number, REQUEST_ONE))
                messages += _messages(diag, is_list=False)
        yield from (row for message in messages if (row := _counters(*message)) is not None)

    def _request(self, number: bytes, flags: int) -> bytes:
        """Request connections by socket ID, where zeros match any."""
        family = socket.AF_INET if self._peer.version == 4 else socket.AF_INET6
        body = REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0, 1 << ESTABLISHED, number)
        return HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, 0, 0) + body

    def _is_ours(self, number: bytes) -> bool:
        # Whether port and peer match: systems may ignore a request's port.
        source_port, destination_port = struct.unpack_from("!HH", number)
        address = number[PEER_OFFSET : PEER_OFFSET + len(self._peer.packed)]
        port = source_port if self._streams.from_port else destination_port
        return port == self._streams.port and address == self._peer.packed


def _messages(diag: socket.socket, *, is_list: bool = True) -> Iterator[tuple[bytes, bytes]]:
    """Socket ID and tcp_info of each established connection in an answer."""
    is_complete = False
    while not is_complete:
        is_complete = not is_list
        answer, offset = diag.recv(ANSWER_BYTES), 0
        while offset + HEADER.size <= len(answer):
            length, kind, *_ = HEADER.unpack_from(answer, offset)
            if kind != SOCK_DIAG_BY_FAMILY or length < HEADER.size:
                return  # done, or an error
            message = answer[offset + HEADER.size : offset + length]
            if message[STATE_OFFSET] == ESTABLISHED:
                yield _socket_of(message)
            offset += -(-length // ALIGNMENT) * ALIGNMENT


def _socket_of(message: bytes) -> tuple[bytes, bytes]:
    info, offset = b"", MESSAGE_BYTES
    while offset + ATTRIBUTE.size <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, offset)
        if kind == INET_DIAG_INFO:
            info = message[offset + ATTRIBUTE.size : offset + length]
        offset += max(ATTRIBUTE.size, -(-length // ALIGNMENT) * ALIGNMENT)
    return message[ID_OFFSET : ID_OFFSET + ID_BYTES], info


def _counters(number: bytes, info: bytes) -> ConnectionCounters | None:
    if len(info) < TCP_INFO_BYTES:
        return None
    (timeout_us,) = struct.unpack_from("=I", info, TIMEOUT)
    (unacknowledged,) = struct.unpack_from("=I", info, UNACKNOWLEDGED)
    (rtt_us,) = struct.unpack_from("=I", info, SMOOTHED_RTT)
    (not_sent_bytes,) = struct.unpack_from("=I", info, NOT_SENT)
    (segment_bytes,) = struct.unpack_from("=I", info, SEGMENT)
    (age_ms,) = struct.unpack_from("=I", info, LAST_RECEIVED)
    (cwnd_segments,) = struct.unpack_from("=I", info, CWND)
    (acknowledged_bytes,) = struct.unpack_from("=Q", info, ACKNOWLEDGED)
    (rtt_min_us,) = struct.unpack_from("=I", info, MINIMUM_RTT)
    (delivery_rate,) = struct.unpack_from("=Q", info, DELIVERY_RATE)
    busy_us, peer_window_us, send_buffer_us = struct.unpack_from("=3Q", info, TIMES)
    sent_bytes, resent_bytes, duplicates, reordering_seen = struct.unpack_from("=QQII", info, SENT)
    return ConnectionCounters(
        connection=number,
        sent_bytes=sent_bytes,
        acknowledged_bytes=acknowledged_bytes,
        resent_bytes=resent_bytes,
        busy_s=busy_us / 1e6,
        peer_window_limited_s=peer_window_us / 1e6,
        send_buffer_limited_s=send_buffer_us / 1e6,
        age_s=age_ms / 1e3,
        duplicates=duplicates,
        reordering_seen=reordering_seen,
        delivery_rate_bps=8.0 * delivery_rate,
        rtt_min_ms=None if rtt_min_us in (0, UNSET_RTT_US) else rtt_min_us / 1e3,
        segment_bytes=segment_bytes,
        cwnd_segments=cwnd_segments,
        rtt_ms=rtt_us / 1e3,
        timeout_s=timeout_us / 1e6,
        outstanding_bytes=unacknowledged * segment_bytes + not_sent_bytes,
    )
