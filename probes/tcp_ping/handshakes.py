"""Times TCP handshakes: paced non-blocking connects, closed at once without data.

Accepted: `tcpi_rtt`; refused: timed here. A retransmitted SYN counts as lost (Karn's algorithm, RFC 6298, section 3).
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probes.contract import Deadline, ProbeError
from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Bools, Int64s
from probes.packets.egress import ANY, Egress, open_within, prepare
from probes.packets.icmp.icmp_errors import name_of
from probes.packets.spec import IcmpError

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
TCP_INFO_BYTES = 104
# Places of `tcpi_rtt` (in microseconds) and `tcpi_total_retrans` in `struct tcp_info` (linux/tcp.h).
RTT_AT, TOTAL_RETRANSMITS_AT = 68, 100
# `struct sock_extended_err` (linux/errqueue.h), followed by the socket address of the sender.
EXTENDED_ERROR = struct.Struct("=IBBBBII")
ICMP_ORIGINS = (2, 3)
# IP_RECVERR and IPV6_RECVERR.
RECEIVE_ERRORS = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
OFFENDER_HOST = {4: slice(4, 8), 6: slice(8, 24)}
IP_BIND_ADDRESS_NO_PORT = 24
PENDING = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)


@dataclass(frozen=True, slots=True)
class HandshakeResults:
    """Results of handshakes: arrays of shape (targets, handshakes)."""

    sent: Bools
    sent_at_ns: Int64s
    rtt_ms: npt.NDArray[np.float64]  # NaN where no reply came in time
    kernel_timed: Bools  # by the kernel's sample
    was_reset: Bools  # the reply was a RST
    refused_errno: npt.NDArray[np.int16]  # of this host's refusal to connect, else 0
    errors: dict[int, list[IcmpError]]  # ICMP errors by target


@dataclass(slots=True)
class _Attempt:
    """A handshake without reply yet."""

    target: int
    number: int
    opened: socket.socket
    called_ns: int


class Handshakes:
    """Runs a cycle's handshakes from one family and source address."""

    def __init__(
        self,
        family: int,
        addresses: Sequence[SocketAddress],
        port: int,
        due_ns: Int64s,
        timeout_s: float,
        source: str | None = None,
        egress: Egress = ANY,
    ) -> None:
        """`due_ns`: connect times from the beginning on, of shape (targets, handshakes)."""
        self._family = family
        self._addresses = [(address[0], port, *address[2:]) for address in addresses]
        self._due_ns = due_ns
        self._timeout_ns = round(timeout_s * NS_PER_S)
        self._source = source
        self._egress = egress
        shape = due_ns.shape
        self._results = HandshakeResults(
            sent=np.zeros(shape, np.bool_),
            sent_at_ns=np.zeros(shape, np.int64),
            rtt_ms=np.full(shape, np.nan),
            kernel_timed=np.zeros(shape, np.bool_),
            was_reset=np.zeros(shape, np.bool_),
            refused_errno=np.zeros(shape, np.int16),
            errors={},
        )
        self._poll = select.epoll()
        self._open: dict[int, _Attempt] = {}
        self._by_age: deque[_Attempt] = deque()

    def run(self, deadline: Deadline) -> HandshakeResults:
        """Connect when due, and await replies. Raises ProbeError without interface or namespace."""
        return open_within(self._egress, lambda: self._run(deadline))

    def _run(self, deadline: Deadline) -> HandshakeResults:
        order = np.argsort(self._due_ns, axis=None, kind="stable")
        cells = deque(zip(*(axis.tolist() for axis in np.unravel_index(order, self._due_ns.shape)), strict=True))
        start_ns = time.monotonic_ns()
        try:
            while cells or self._open:
                if cells and deadline.remaining_s * NS_PER_S <= self._timeout_ns:
                    cells.clear()
                    continue
                now_ns = time.monotonic_ns()
                if cells and start_ns + int(self._due_ns[cells[0]]) <= now_ns:
                    planned_ns = start_ns + int(self._due_ns[cells[0]])
                    # As pings: a late wake-up postpones the rest rather than bunching it.
                    start_ns += now_ns - planned_ns if now_ns - planned_ns > 20 * NS_PER_MS else 0
                    self._begin(*cells.popleft())
                    continue
                self._expire(now_ns)
                self._await(start_ns + int(self._due_ns[cells[0]]) if cells else None)
        finally:
            for attempt in self._open.values():
                attempt.opened.close()
            self._poll.close()
        return self._results

    def _begin(self, target: int, number: int) -> None:
        try:
            opened = self._socket()
        except OSError as error:
            self._results.refused_errno[target, number] = error.errno or errno.EIO
            return
        cell = target, number
        self._results.sent_at_ns[cell] = time.time_ns()
        attempt = _Attempt(target, number, opened, time.monotonic_ns())
        code = opened.connect_ex(self._addresses[target])
        if code not in (0, errno.ECONNREFUSED, *PENDING):
            self._results.refused_errno[cell] = code
            opened.close()
            return
        self._results.sent[cell] = True
        if code not in PENDING:
            self._finish(attempt, code, time.monotonic_ns())
            return
        self._open[opened.fileno()] = attempt
        self._by_age.append(attempt)
        self._poll.register(opened, select.EPOLLOUT)

    def _socket(self) -> socket.socket:
        """Open a socket, bound to the source if that is local. Raises OSError or ProbeError."""
        opened = socket.socket(FAMILY[self._family], socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            prepare(opened, self._family, self._egress)
            opened.setsockopt(*RECEIVE_ERRORS[self._family], 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
            if self._source is not None:
                opened.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
                with suppress(OSError):
                    opened.bind((self._source, 0))
        except (OSError, ProbeError):
            opened.close()
            raise
        return opened

    def _await(self, due_ns: int | None) -> None:
        oldest_ns = self._by_age[0].called_ns + self._timeout_ns if self._by_age else None
        until_ns = min(at_ns for at_ns in (due_ns, oldest_ns) if at_ns is not None) if due_ns or oldest_ns else 0
        events = self._poll.poll(max(0.0, (until_ns - time.monotonic_ns()) / NS_PER_S))
        now_ns = time.monotonic_ns()
        for descriptor, _ in events:
            attempt = self._open.pop(descriptor)
            self._poll.unregister(descriptor)
            self._finish(attempt, attempt.opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), now_ns)
        while self._by_age and self._by_age[0].opened.fileno() < 0:
            self._by_age.popleft()

    def _expire(self, now_ns: int) -> None:
        """Give up timed-out handshakes before the SYN is retransmitted."""
        while self._by_age and self._by_age[0].called_ns + self._timeout_ns <= now_ns:
            attempt = self._by_age.popleft()
            descriptor = attempt.opened.fileno()
            if descriptor >= 0:
                del self._open[descriptor]
                self._poll.unregister(descriptor)
                attempt.opened.close()

    def _finish(self, attempt: _Attempt, code: int, now_ns: int) -> None:
        cell, results = (attempt.target, attempt.number), self._results
        with attempt.opened as opened:
            error = None if code == 0 else self._icmp_error(opened)
            if error is not None:
                results.errors.setdefault(attempt.target, []).append(error)
            elif code in (0, errno.ECONNREFUSED):
                kernel_ms = _kernel_rtt_ms(opened) if code == 0 else None
                results.rtt_ms[cell] = (now_ns - attempt.called_ns) / NS_PER_MS if kernel_ms is None else kernel_ms
                results.kernel_timed[cell] = kernel_ms is not None
                results.was_reset[cell] = code != 0

    def _icmp_error(self, opened: socket.socket) -> IcmpError | None:
        """The ICMP error that ended a handshake; None after a RST."""
        try:
            _, controls, _, _ = opened.recvmsg(0, 512, socket.MSG_ERRQUEUE)
        except OSError:
            return None
        for level, kind, data in controls:
            if (level, kind) != RECEIVE_ERRORS[self._family] or len(data) < EXTENDED_ERROR.size:
                continue
            _, origin, icmp_type, icmp_code, _, info, _ = EXTENDED_ERROR.unpack_from(data)
            host = data[EXTENDED_ERROR.size :][OFFENDER_HOST[self._family]]
            if origin in ICMP_ORIGINS and len(host) in (4, 16):
                return IcmpError(
                    name=name_of(self._family, icmp_type, icmp_code),
                    icmp_type=icmp_type,
                    icmp_code=icmp_code,
                    router=socket.inet_ntop(FAMILY[self._family], host),
                    count=1,
                    mtu_bytes=info or None,
                )
        return None


def _kernel_rtt_ms(opened: socket.socket) -> float | None:
    try:
        info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except (OSError, AttributeError):
        return None
    if len(info) < TCP_INFO_BYTES or int.from_bytes(info[TOTAL_RETRANSMITS_AT:][:4], "little"):
        return None
    rtt_us = int.from_bytes(info[RTT_AT:][:4], "little")
    return rtt_us / 1000 if rtt_us else None
