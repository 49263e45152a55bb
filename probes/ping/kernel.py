"""The kernel's side of batched messages: `sendmmsg`, `recvmmsg`, their structures as NumPy types, control messages.

`Outbox` and `Inbox` own the memory that the kernel reads and writes; a row is one message. `read_controls` walks
the control messages of many rows at once and checks the level, type and length of each.
Nothing here knows what a ping is. 64-bit Linux only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_MESSAGES = 1024
"""UIO_MAXIOV: the kernel takes no more messages in one call."""

SO_TIMESTAMPING = 37
SO_RCVBUFFORCE = 33
SO_ATTACH_FILTER = 26
STAMP_TX_SOFTWARE = 1 << 1
STAMP_RX_SOFTWARE = 1 << 3
STAMP_SOFTWARE = 1 << 4
STAMP_OPT_ID = 1 << 7
STAMP_OPT_TSONLY = 1 << 11
STAMPS = STAMP_TX_SOFTWARE | STAMP_RX_SOFTWARE | STAMP_SOFTWARE | STAMP_OPT_ID | STAMP_OPT_TSONLY

IP_RECVERR = 11
IPV6_RECVERR = 25
ORIGIN_TIMESTAMPING = 4
STAMPED_AT_SEND = 0

SOCKADDR_BYTES = 28
"""Length of a `sockaddr_in6`; a `sockaddr_in` takes the first 16 of them."""

CONTROL_WORDS = 32
CONTROL_HEADER_WORDS = 2
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

_libc = ctypes.CDLL(None, use_errno=True)
_send = _libc.sendmmsg
_send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_receive = _libc.recvmmsg
_receive.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)


def row_addresses(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """Where each row of a C-contiguous array lies in memory. The array must outlive what is made of it."""
    return np.uint64(array.ctypes.data) + np.arange(len(array), dtype=np.uint64) * np.uint64(array.strides[0])


class Outbox:
    """Up to `rows` messages on their way out. Each is a row of `heads`, then a piece of the one shared `tail`."""

    def __init__(self, rows: int, head_bytes: int, tail: bytes) -> None:
        self.heads: npt.NDArray[np.uint8] = np.zeros((rows, head_bytes), np.uint8)
        self._tail = np.frombuffer(tail or b"\0", np.uint8)
        self._iov = np.zeros((rows, 2), IOVEC)
        self._iov["base"][:, 0] = row_addresses(self.heads)
        self._iov["length"][:, 0] = head_bytes
        self._iov["base"][:, 1] = self._tail.ctypes.data
        self._messages = np.zeros(rows, MMSGHDR)
        self._headers = self._messages["header"]
        self._headers["iov"] = row_addresses(self._iov)
        self._headers["iov_length"] = 2
        self._at = self._messages.ctypes.data

    def address(self, names: npt.NDArray[np.uint64], name_bytes: int, tail_bytes: Int64s) -> None:
        """Set, for the first `len(names)` rows, where each goes (pointers to sockaddrs) and how much tail it has."""
        rows = len(names)
        self._headers["name"][:rows] = names
        self._headers["name_length"][:rows] = name_bytes
        self._iov["length"][:rows, 1] = tail_bytes

    def send(self, descriptor: int, first: int, stop: int) -> int:
        """Send rows `first` to `stop`. Returns how many the kernel took; OSError if it refused the very first."""
        while True:
            taken: int = _send(descriptor, self._at + first * MMSGHDR.itemsize, stop - first, socket.MSG_DONTWAIT)
            if taken >= 0:
                return taken
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))


class Inbox:
    """Room for `rows` messages of up to `data_bytes`; what is longer is cut, its whole length still told where
    the kernel tells it."""

    def __init__(self, rows: int, data_bytes: int) -> None:
        self.rows = rows
        self.data: npt.NDArray[np.uint8] = np.zeros((rows, data_bytes), np.uint8)
        self.names: npt.NDArray[np.uint8] = np.zeros((rows, SOCKADDR_BYTES), np.uint8)
        self.control: Int64s = np.zeros((rows, CONTROL_WORDS), np.int64)
        self._iov = np.zeros(rows, IOVEC)
        self._iov["base"] = row_addresses(self.data)
        self._iov["length"] = data_bytes
        self._messages = np.zeros(rows, MMSGHDR)
        self._headers = self._messages["header"]
        self._headers["name"] = row_addresses(self.names)
        self._headers["iov"] = row_addresses(self._iov)
        self._headers["iov_length"] = 1
        self._headers["control"] = row_addresses(self.control)
        self._at = self._messages.ctypes.data
        self._used = rows

    def receive(self, descriptor: int, flags: int = 0) -> int:
        """Take what waits on the socket, without waiting. Returns how many rows now hold a message."""
        used = self._headers[: self._used]
        used["name_length"] = SOCKADDR_BYTES
        used["control_length"] = CONTROL_WORDS * WORD_BYTES
        self._used = 0
        while True:
            taken: int = _receive(descriptor, self._at, self.rows, socket.MSG_DONTWAIT | flags, None)
            if taken >= 0:
                self._used = taken
                return taken
            code = ctypes.get_errno()
            if code in (errno.EAGAIN, errno.EWOULDBLOCK):
                return 0
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))

    def lengths(self, count: int) -> Int64s:
        """Length in bytes of each of the first `count` messages."""
        return self._messages["length"][:count].astype(np.int64)

    def control_lengths(self, count: int) -> Int64s:
        """Bytes of control messages of each of the first `count` messages."""
        return self._headers["control_length"][:count].astype(np.int64)


class Controls:
    """What the control messages of many rows say; absent things are 0, and -1 for `key` and `hop_limit`."""

    __slots__ = ("hop_limit", "key", "stamp_ns")

    def __init__(self, rows: int) -> None:
        self.stamp_ns: Int64s = np.zeros(rows, np.int64)
        self.key: Int64s = np.full(rows, -1, np.int64)
        self.hop_limit: Int64s = np.full(rows, -1, np.int64)


def read_controls(control: Int64s, control_bytes: Int64s) -> Controls:
    """Walk the control messages of each row: kernel stamp (software, CLOCK_REALTIME), send key, hop limit.

    `control` has shape (rows, words of 8 bytes); `control_bytes` is how much of each row the kernel filled.
    A message that would reach beyond what was filled ends its row's walk.
    """
    rows = len(control)
    found = Controls(rows)
    pairs = np.ascontiguousarray(control).view(np.int32)
    row = np.arange(rows)
    at = np.zeros(rows, np.int64)
    left = control_bytes.copy()
    while True:
        header = left >= CONTROL_HEADER_WORDS * WORD_BYTES
        row, at, left = row[header], at[header], left[header]
        length = control[row, at]
        whole = (length >= CONTROL_HEADER_WORDS * WORD_BYTES) & (length <= left)
        row, at, left, length = row[whole], at[whole], left[whole], length[whole]
        if len(row) == 0:
            return found
        words = (length + WORD_BYTES - 1) // WORD_BYTES
        _read_one(found, control, pairs, row, at, length - CONTROL_HEADER_WORDS * WORD_BYTES)
        at = at + words
        left = left - words * WORD_BYTES


def _read_one(
    found: Controls, control: Int64s, pairs: npt.NDArray[np.int32], row: Int64s, at: Int64s, data_bytes: Int64s
) -> None:
    level = pairs[row, 2 * at + 2]
    kind = pairs[row, 2 * at + 3]
    data = at + CONTROL_HEADER_WORDS

    stamp = (level == socket.SOL_SOCKET) & (kind == SO_TIMESTAMPING) & (data_bytes >= 16)
    if stamp.any():
        r, d = row[stamp], data[stamp]
        found.stamp_ns[r] = control[r, d] * 1_000_000_000 + control[r, d + 1]

    hops = ((level == socket.IPPROTO_IP) & (kind == socket.IP_TTL)) | (
        (level == socket.IPPROTO_IPV6) & (kind == socket.IPV6_HOPLIMIT)
    )
    hops &= data_bytes >= 4
    if hops.any():
        found.hop_limit[row[hops]] = pairs[row[hops], 2 * data[hops]]

    errors = ((level == socket.IPPROTO_IP) & (kind == IP_RECVERR)) | (
        (level == socket.IPPROTO_IPV6) & (kind == IPV6_RECVERR)
    )
    errors &= data_bytes >= 16
    if errors.any():
        r, d = row[errors], data[errors]
        code, origin = pairs[r, 2 * d], pairs[r, 2 * d + 1] & 0xFF
        ours = (code == errno.ENOMSG) & (origin == ORIGIN_TIMESTAMPING) & (pairs[r, 2 * d + 2] == STAMPED_AT_SEND)
        found.key[r[ours]] = pairs[r, 2 * d + 3].view(np.uint32)[ours]
