"""The sockets of a policer test: planned sending, and receiving with kernel timestamps."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Final

import numpy as np

from probes.contract import Deadline
from probes.packets.icmp.kernel import SO_RCVBUFFORCE
from probes.policer.trains import Floats, TrainPlan

# Token of the test, number of the train, number of the packet.
HEADER: Final = struct.Struct("!8sHI")
TOKEN_BYTES = 8
# Headers of IP and UDP.
UDP_BYTES = {4: 28, 6: 48}
RECEIVE_BUFFER_BYTES = 8 * 2**20
SO_RXQ_OVFL, SO_TIMESTAMPNS = 40, 35
STAMP = struct.Struct("@ll")
OVERFLOW = struct.Struct("=I")
# After a longer stall the rest delays the train.
CATCH_UP_S = 0.03
# The end of a pause is not slept but polled: sleeping is no more precise than this.
SPIN_S = 0.0003
# A train has arrived when nothing has come for this long.
DRAIN_S = 0.4
LONGEST_DRAIN_S = 5.0
POLL_S = 0.1
FULL = (errno.ENOBUFS, errno.EAGAIN)


def send_train(sock: socket.socket, family: int, token: bytes, number: int, plan: TrainPlan) -> Floats:
    """Send a train; return each packet's monotonic time. Raises `OSError`.

    Late packets follow at once, to empty the bucket.
    """
    payload = bytearray(max(HEADER.size, plan.ip_bytes - UDP_BYTES[family]))
    due_s = plan.send_times_s()
    gaps_s = np.diff(due_s, prepend=0.0).tolist()
    sent_s = np.empty(len(gaps_s))
    next_s = time.monotonic() + plan.pause_s
    for packet, gap_s in enumerate(gaps_s):
        next_s += gap_s
        now_s = _wait_until(next_s)
        next_s = max(next_s, now_s - CATCH_UP_S)
        HEADER.pack_into(payload, 0, token, number, packet)
        sent_s[packet] = now_s
        _send(sock, payload)
    return sent_s


def _wait_until(at_s: float) -> float:
    now_s = time.monotonic()
    if at_s - now_s > SPIN_S:
        time.sleep(at_s - now_s - SPIN_S)
        now_s = time.monotonic()
    while now_s < at_s:
        now_s = time.monotonic()
    return now_s


def _send(sock: socket.socket, payload: bytearray) -> None:
    """Send a packet; local queue drops are loss, refused ports show later."""
    try:
        sock.send(payload)
    except ConnectionRefusedError:
        return
    except OSError as error:
        if error.errno not in FULL:
            raise


class TrainReceiver(threading.Thread):
    """Receives a test's packets from start until `close`."""

    def __init__(self, sock: socket.socket, token: bytes) -> None:
        super().__init__(name="policer-receiver", daemon=True)
        self._socket, self._token = sock, token
        self._arrivals: dict[int, list[tuple[int, float]]] = {}
        self._newest_s = time.monotonic()
        self._ended = threading.Event()
        self.host_drops = 0
        for option in (socket.SO_RCVBUF, SO_RCVBUFFORCE):
            with suppress(PermissionError):
                sock.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        sock.settimeout(POLL_S)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                data, ancillary, _, _ = self._socket.recvmsg(65536, 128)
            except TimeoutError:
                continue
            except OSError:
                return
            if len(data) >= HEADER.size:
                self._take(data, ancillary)

    def _take(self, data: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        token, train, packet = HEADER.unpack_from(data)
        if token != self._token:
            return
        at_s = time.time()
        for _, kind, value in ancillary:
            if kind == SO_TIMESTAMPNS and len(value) >= STAMP.size:
                seconds, nanoseconds = STAMP.unpack_from(value)
                at_s = seconds + nanoseconds / 1e9
            elif kind == SO_RXQ_OVFL:
                self.host_drops = OVERFLOW.unpack_from(value)[0]
        self._newest_s = time.monotonic()
        self._arrivals.setdefault(train, []).append((packet, at_s))

    def arrivals(self, train: int, deadline: Deadline) -> list[tuple[int, float]]:
        """Await all packets; return numbers and receiver times (s)."""
        until = Deadline(min(LONGEST_DRAIN_S, deadline.remaining_s))
        began_s = time.monotonic()
        while not until.passed and time.monotonic() - max(began_s, self._newest_s) < DRAIN_S:
            self._ended.wait(POLL_S / 2)
        return self._arrivals.pop(train, [])

    def close(self) -> None:
        self._ended.set()
        self.join()
