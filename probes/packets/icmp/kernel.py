"""Batch system calls `sendmmsg` and `recvmmsg`, with NumPy structures and control messages.

64-bit Linux only, if `missing_calls` is empty; can be imported anywhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bytes, Int64s

NS_PER_S = 1_000_000_000

# UIO_MAXIOV: the maximum number of messages per call.
MAX_MESSAGES = 1024

SO_TIMESTAMPING = 37
SO_RCVBUFFORCE = 33
SO_ATTACH_FILTER = 26
STAMP_TX_SOFTWARE = 1 << 1
STAMP_RX_SOFTWARE = 1 << 3
STAMP_SOFTWARE = 1 << 4
STAMP_OPT_ID = 1 << 7
STAMP_OPT_TSONLY = 1 << 11
STAMP_TX_HARDWARE = 1 << 0
STAMP_RX_HARDWARE = 1 << 2
STAMP_RAW_HARDWARE = 1 << 6
STAMP_OPT_TX_SWHW = 1 << 14
STAMPS = STAMP_TX_SOFTWARE | STAMP_RX_SOFTWARE | STAMP_SOFTWARE | STAMP_OPT_ID | STAMP_OPT_TSONLY
HARDWARE_STAMPS = STAMP_TX_HARDWARE | STAMP_RX_HARDWARE | STAMP_RAW_HARDWARE | STAMP_OPT_TX_SWHW

IP_RECVERR = 11
IPV6_RECVERR = 25
HOP_LIMIT_MESSAGES = ((socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT))
TRAFFIC_CLASS_MESSAGES = ((socket.IPPROTO_IP, 1), (socket.IPPROTO_IPV6, 67))  # IP_TOS, IPV6_TCLASS
LOCAL_ADDRESS_MESSAGES = ((socket.IPPROTO_IP, 8), (socket.IPPROTO_IPV6, 50))  # IP_PKTINFO, IPV6_PKTINFO
IP_RECVERR_RFC4884 = 26
# Make the error queue report where the extensions of an ICMP error begin (RFC 4884).
IPV6_RECVERR_RFC4884 = 31
ERROR_MESSAGES = ((socket.IPPROTO_IP, IP_RECVERR), (socket.IPPROTO_IPV6, IPV6_RECVERR))
ORIGINS_ICMP = (2, 3)
ORIGIN_TIMESTAMPING = 4
STAMPED_AT_SEND = 0
# SO_EE_RFC4884_FLAG_INVALID: the kernel found the extensions malformed or their checksum wrong.
EXTENSION_INVALID = 1

# Linux only; `errno` lacks the name on other systems.
ENONET = 64

# An ICMP error about an earlier packet fails the next datagram call once (ip(7), IP_RECVERR); details are queued.
PENDING_ERRORS = frozenset(
    (
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        ENONET,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
        errno.EACCES,
        errno.EMSGSIZE,
        errno.EPROTO,
    )
)

# Length of a `sockaddr_in6`; a `sockaddr_in` takes the first 16 of them.
SOCKADDR_BYTES = 28
SOCKADDR_IN_BYTES = 16

CONTROL_WORDS = 32
CONTROL_HEADER_WORDS = 2
HOP_LIMIT_WORDS = CONTROL_HEADER_WORDS + 1
WORD_BYTES = 8


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_size_t), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_size_t),
        ("name_length", ctypes.c_uint32),
        ("iov", ctypes.c_size_t),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_size_t),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint32))


IOVEC = np.dtype(_IoVec)
MMSGHDR = np.dtype(_MMsgHdr)

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "sendmmsg": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int),
    "recvmmsg": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p),
}


@cache
def _call(name: str) -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.argtypes = ARGUMENTS[name]
    return function


def missing_calls() -> list[str]:
    """Batch calls that this system lacks, or a sandbox forbids."""
    return [name for name in ARGUMENTS if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        call = _call(name)
    except AttributeError:
        return False
    # With no messages and an invalid socket, an available call fails with EBADF.
    answer: int = call(-1, *[0] * (len(ARGUMENTS[name]) - 1))
    return answer >= 0 or ctypes.get_errno() == errno.EBADF


def row_addresses(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """Addresses of a C-contiguous array's rows, which must outlive the pointers."""
    return np.uint64(array.ctypes.data) + np.arange(len(array), dtype=np.uint64) * np.uint64(array.strides[0])


class KernelSendBatch:
    """Messages to send: a row of `heads` and a prefix of the shared `tail` each."""

    def __init__(
        self,
        descriptor: int,
        names: Bytes,
        name_bytes: int,
        rows: int,
        head_bytes: int,
        tail: bytes,
        *,
        with_hop_limits: bool = False,
    ) -> None:
        """`names` are destinations, a sockaddr of `name_bytes` per row; `with_hop_limits` gives messages TTLs."""
        self._call = _call("sendmmsg")
        self._descriptor = descriptor
        self._names = names
        self._name_pointers = row_addresses(names)
        self.heads: Bytes = np.zeros((rows, head_bytes), np.uint8)
        self._tail = np.frombuffer(tail or b"\0", np.uint8)
        self._iov = np.zeros((rows, 2), IOVEC)
        self._iov["base"][:, 0] = row_addresses(self.heads)
        self._iov["length"][:, 0] = head_bytes
        self._iov["base"][:, 1] = self._tail.ctypes.data
        self._messages = np.zeros(rows, MMSGHDR)
        self._headers = self._messages["header"]
        self._headers["iov"] = row_addresses(self._iov)
        self._headers["iov_length"] = 2
        self._headers["name_length"] = name_bytes
        self._at = self._messages.ctypes.data
        if with_hop_limits:
            self._add_hop_limits(HOP_LIMIT_MESSAGES[name_bytes == SOCKADDR_BYTES])

    def _add_hop_limits(self, kind: tuple[int, int]) -> None:
        """Add TTL control messages (ip(7), IP_TTL; RFC 3542, section 6.3)."""
        rows = len(self._messages)
        self._control: Int64s = np.zeros((rows, HOP_LIMIT_WORDS), np.int64)
        self._control[:, 0] = CONTROL_HEADER_WORDS * WORD_BYTES + np.dtype(np.int32).itemsize
        self._control.view(np.int32)[:, 2:4] = kind
        self._headers["control"] = row_addresses(self._control)
        self._headers["control_length"] = HOP_LIMIT_WORDS * WORD_BYTES

    def set_hop_limits(self, hop_limits: Int64s) -> None:
        self._control.view(np.int32)[: len(hop_limits), 2 * CONTROL_HEADER_WORDS] = hop_limits

    def set_destinations(self, destinations: Int64s, tail_bytes: Int64s) -> None:
        """Set destinations (rows of `names`) and tail lengths."""
        rows = len(destinations)
        self._headers["name"][:rows] = self._name_pointers[destinations]
        self._iov["length"][:rows, 1] = tail_bytes

    def send(self, first: int, stop: int) -> int:
        """Send rows; return how many were accepted. Raises OSError if the first was refused."""
        while True:
            taken: int = self._call(
                self._descriptor, self._at + first * MMSGHDR.itemsize, stop - first, socket.MSG_DONTWAIT
            )
            if taken >= 0:
                return taken
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))


class KernelReceiveBatch:
    """Received messages, truncated to `data_bytes`; MSG_TRUNC reports full lengths, `with_names` sources."""

    def __init__(self, descriptor: int, rows: int, data_bytes: int, *, flags: int = 0, with_names: bool = True) -> None:
        self._call = _call("recvmmsg")
        self._descriptor = descriptor
        self._flags = socket.MSG_DONTWAIT | flags
        self.rows = rows
        self.data: Bytes = np.zeros((rows, data_bytes), np.uint8)
        self.names: Bytes = np.zeros((rows, SOCKADDR_BYTES), np.uint8)
        self.control: Int64s = np.zeros((rows, CONTROL_WORDS), np.int64)
        self._iov = np.zeros(rows, IOVEC)
        self._iov["base"] = row_addresses(self.data)
        self._iov["length"] = data_bytes
        self._messages = np.zeros(rows, MMSGHDR)
        self._headers = self._messages["header"]
        self._name_bytes = SOCKADDR_BYTES if with_names else 0
        self._headers["name"] = row_addresses(self.names) if with_names else 0
        self._headers["iov"] = row_addresses(self._iov)
        self._headers["iov_length"] = 1
        self._headers["control"] = row_addresses(self.control)
        self._at = self._messages.ctypes.data
        self._used = rows

    def receive(self) -> int:
        """Receive without blocking; return the rows filled."""
        used = self._headers[: self._used]
        used["name_length"] = self._name_bytes
        used["control_length"] = CONTROL_WORDS * WORD_BYTES
        self._used = 0
        while True:
            taken: int = self._call(self._descriptor, self._at, self.rows, self._flags, None)
            if taken >= 0:
                self._used = taken
                return taken
            code = ctypes.get_errno()
            if code in (errno.EAGAIN, errno.EWOULDBLOCK):
                return 0
            if code != errno.EINTR and code not in PENDING_ERRORS:
                raise OSError(code, os.strerror(code))

    def lengths(self, count: int) -> Int64s:
        return self._messages["length"][:count].astype(np.int64)

    def controls(self, count: int) -> Controls:
        return read_controls(self.control[:count], self._headers["control_length"][:count].astype(np.int64))


class Controls:
    """Parsed control messages; absent values are 0, -1 for `key` and `hop_limit`."""

    __slots__ = (
        "error_code", "error_info", "error_origin", "error_type", "extension_at", "hardware_ns", "hop_limit", "key",
        "local_address", "offender", "read_ns", "stamp_ns", "traffic_class",
    )  # fmt: skip

    def __init__(self, rows: int) -> None:
        self.read_ns: Int64s | None = None  # monotonic
        self.traffic_class: Int64s | None = None  # DSCP and ECN, or -1
        # 4-byte words of `in_pktinfo` or `in6_pktinfo`
        self.local_address: npt.NDArray[np.int32] | None = None
        self.stamp_ns: Int64s = np.zeros(rows, np.int64)
        self.hardware_ns: Int64s = np.zeros(rows, np.int64)
        self.key: Int64s = np.full(rows, -1, np.int64)
        self.hop_limit: Int64s = np.full(rows, -1, np.int64)
        self.error_origin: Int64s = np.zeros(rows, np.int64)  # nonzero for a queued ICMP error
        self.error_type: Int64s = np.zeros(rows, np.int64)
        self.error_code: Int64s = np.zeros(rows, np.int64)
        self.error_info: Int64s = np.zeros(rows, np.int64)  # its MTU
        self.extension_at: Int64s = np.zeros(rows, np.int64)
        self.offender: Bytes = np.zeros((rows, SOCKADDR_BYTES), np.uint8)  # its sender


# Selected rows of a batch, or all.
Rows = Int64s | slice


@dataclass(frozen=True, slots=True)
class _ControlMessage:
    """Header and position (in words of 8 bytes) of a control message."""

    at: int
    length: int
    level: int
    kind: int

    @property
    def data(self) -> int:
        return self.at + CONTROL_HEADER_WORDS

    @property
    def data_bytes(self) -> int:
        return self.length - CONTROL_HEADER_WORDS * WORD_BYTES


def read_controls(control: Int64s, control_bytes: Int64s) -> Controls:
    """Parse kernel timestamps (CLOCK_REALTIME), send keys, hop limits and ICMP errors.

    `control` has shape (rows, words of 8 bytes), filled to `control_bytes`. Same layouts are parsed at once.
    """
    controls = Controls(len(control))
    pairs = np.ascontiguousarray(control).view(np.int32)
    rows: Rows = slice(None)
    left = np.arange(len(control))
    while len(left):
        first, filled = left[0], int(control_bytes[left[0]])
        messages = _layout(control[first], pairs[first], filled)
        alike = control_bytes[rows] == filled
        for message in messages:
            alike &= control[rows, message.at] == message.length
            alike &= control[rows, message.at + 1] == control[first, message.at + 1]
        some = rows if alike.all() else left[alike]
        for message in messages:
            _read_message(controls, control, pairs, some, message)
        # Each iteration removes at least the first row.
        rows = left = left[~alike]
    return controls


def _layout(control: Int64s, pairs: npt.NDArray[np.int32], filled: int) -> list[_ControlMessage]:
    messages = []
    at, left = 0, filled
    while left >= CONTROL_HEADER_WORDS * WORD_BYTES:
        length = int(control[at])
        if not CONTROL_HEADER_WORDS * WORD_BYTES <= length <= left:
            break
        messages.append(_ControlMessage(at, length, int(pairs[2 * at + 2]), int(pairs[2 * at + 3])))
        words = -(-length // WORD_BYTES)
        at, left = at + words, left - words * WORD_BYTES
    return messages


def _read_message(
    controls: Controls, control: Int64s, pairs: npt.NDArray[np.int32], rows: Rows, message: _ControlMessage
) -> None:
    kind, data = (message.level, message.kind), message.data
    if kind == (socket.SOL_SOCKET, SO_TIMESTAMPING) and message.data_bytes >= 16:
        controls.stamp_ns[rows] = control[rows, data] * NS_PER_S + control[rows, data + 1]
        if message.data_bytes >= 48:
            controls.hardware_ns[rows] = control[rows, data + 4] * NS_PER_S + control[rows, data + 5]
    elif kind in HOP_LIMIT_MESSAGES and message.data_bytes >= 4:
        controls.hop_limit[rows] = pairs[rows, 2 * data]
    elif kind in ERROR_MESSAGES and message.data_bytes >= 16:
        _read_error(controls, pairs, rows, message)
    elif kind in TRAFFIC_CLASS_MESSAGES and message.data_bytes >= 1:
        if controls.traffic_class is None:
            controls.traffic_class = np.full(len(control), -1, np.int64)
        controls.traffic_class[rows] = pairs[rows, 2 * data] & 0xFF
    elif kind in LOCAL_ADDRESS_MESSAGES and message.data_bytes >= 12:
        if controls.local_address is None:
            controls.local_address = np.zeros((len(control), 5), np.int32)
        some = slice(2 * data, 2 * data + min(message.data_bytes // 4, 5))
        controls.local_address[rows, : some.stop - some.start] = pairs[rows, some]


def _read_error(controls: Controls, pairs: npt.NDArray[np.int32], rows: Rows, message: _ControlMessage) -> None:
    """Parse `struct sock_extended_err`: a send timestamp's key, or an ICMP error."""
    unsigned, data = pairs.view(np.uint32), 2 * message.data
    stamp = (pairs[rows, data] == errno.ENOMSG) & (unsigned[rows, data + 1] & 0xFF == ORIGIN_TIMESTAMPING)
    stamp &= pairs[rows, data + 2] == STAMPED_AT_SEND
    if stamp.all():
        controls.key[rows] = unsigned[rows, data + 3]
        return
    each = np.arange(len(pairs))[rows]
    controls.key[each[stamp]] = unsigned[each[stamp], data + 3]
    icmp = each[np.isin(unsigned[each, data + 1] & 0xFF, ORIGINS_ICMP)]
    about = unsigned[icmp, data + 1]
    controls.error_origin[icmp] = about & 0xFF
    controls.error_type[icmp] = (about >> 8) & 0xFF
    controls.error_code[icmp] = (about >> 16) & 0xFF
    controls.error_info[icmp] = unsigned[icmp, data + 2]
    extension = unsigned[icmp, data + 3]
    is_sound = (extension >> 16) & EXTENSION_INVALID == 0
    controls.extension_at[icmp] = np.where(is_sound, extension & 0xFFFF, 0)
    words = min((message.data_bytes - 16) // 4, SOCKADDR_BYTES // 4)
    controls.offender.view(np.int32)[icmp, :words] = pairs[icmp, data + 4 : data + 4 + words]
