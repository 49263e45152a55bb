"""Measures request and response on each target.

A failed connection is its transaction's error, up to `MOST_ERRORS`; an unreachable or declining server ends the run.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime

import msgspec

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.egress import LARGEST_DSCP, Egress, open_within, prepare
from probes.packets.resolve import resolve
from probes.request_response.protocol import (
    CHUNK_BYTES,
    ENDING_BYTES,
    GREETING_BYTES,
    MAGIC,
    Order,
    OrderAnswer,
    PeerGone,
    decode_ending,
    elapsed_ms,
    encode_order,
    receive_exactly,
    receive_into,
    retransmits_of,
    send_all,
    without_delay,
)
from probes.request_response.spec import (
    BEYOND_COUNT,
    LARGEST_BLOCK_BYTES,
    LARGEST_RUN_BYTES,
    MOST_TRANSACTIONS,
    RequestResponseRun,
    RequestResponseSpec,
    RequestResponseTarget,
    not_measured,
)
from probes.transfers.address import is_local

MOST_ERRORS = 3
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)
DECLINED = {
    OrderAnswer.WRONG_KEY: (Outcome.NOT_PERMITTED, "the server has another key for this host"),
    OrderAnswer.TOO_LARGE: (
        Outcome.NOT_PERMITTED,
        "the limits of the server do not permit blocks or runs of this size",
    ),
    OrderAnswer.BUSY: (Outcome.BUSY, "the server answers as many others as its limits permit"),
}


def problems(spec: RequestResponseSpec) -> list[str]:
    """Values out of range, each with the valid range."""
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("port", spec.port, 1, 65_535),
        ("request_bytes", spec.request_bytes, 1, LARGEST_BLOCK_BYTES),
        ("response_bytes", spec.response_bytes, 1, LARGEST_BLOCK_BYTES),
        ("count", spec.count, 1, MOST_TRANSACTIONS),
        ("duration_s", spec.duration_s, 0.1, 60),
        ("idle_s", spec.idle_s, 0, 60),
        ("timeout_s", spec.timeout_s, 0.1, 60),
        ("dscp", spec.dscp, 0, LARGEST_DSCP),
    )
    reasons = [
        f"{name} {value}: must be from {low} to {high}" for name, value, low, high in bounds if not low <= value <= high
    ]
    if not reasons and spec.run_bytes > LARGEST_RUN_BYTES:
        most = LARGEST_RUN_BYTES // (spec.request_bytes + spec.response_bytes) - BEYOND_COUNT
        reasons.append(
            f"count {spec.count}: {spec.run_bytes} bytes in a run, at most {LARGEST_RUN_BYTES}; blocks of this size "
            f"permit a count of {max(most, 0)}"
        )
    return reasons


class RequestResponseProbe:
    """Measures over TCP connections, without privileges (`probes.contract.Probe`)."""

    def can_run(self, spec: RequestResponseSpec) -> list[str]:
        return problems(spec)

    def run(self, spec: RequestResponseSpec, deadline: Deadline) -> tuple[RequestResponseRun, ...]:
        """Measure the targets in turn. Raises ProbeError only for an invalid spec."""
        wrong = problems(spec)
        if wrong:
            raise ProbeError("; ".join(wrong), permanent=True)
        return tuple(self.each(spec, deadline))

    def each(self, spec: RequestResponseSpec, deadline: Deadline) -> Iterator[RequestResponseRun]:
        answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
        for target in spec.targets:
            answer, started_at = answers[target.address, target.family], datetime.now(UTC)
            if isinstance(answer, ProbeError):
                yield not_measured(spec, target, started_at, answer.outcome, str(answer))
                continue
            try:
                yield _Run(spec, target, answer, started_at).measure(deadline)
            except ProbeError as error:
                yield not_measured(spec, target, started_at, error.outcome, str(error), answer[0])


class _Run:
    """A run to a target: its connections and figures so far."""

    def __init__(
        self, spec: RequestResponseSpec, target: RequestResponseTarget, address: SocketAddress, started_at: datetime
    ) -> None:
        self._spec, self._target, self._address = spec, target, address
        self._started_at = started_at
        self._request = memoryview(bytes(spec.request_bytes))
        self._buffer = memoryview(bytearray(min(spec.response_bytes, CHUNK_BYTES)))
        self._latencies_ms: list[float] = []
        self._errors: list[str] = []
        self._retransmits: int | None = None
        self._far_retransmits: int | None = None
        self._connect_ms: float | None = None
        self._setup_ms: float | None = None

    def measure(self, deadline: Deadline) -> RequestResponseRun:
        """Raises ProbeError if the server is unreachable or declines."""
        first_ms = after_idle_ms = None
        connection = self._connect(deadline)
        try:
            first_ms = self._transact(connection, deadline)
            until = Deadline(min(self._spec.duration_s, deadline.remaining_s))
            while len(self._latencies_ms) < self._spec.count and not until.passed:
                latency_ms = self._transact(connection, deadline)
                if latency_ms is not None:
                    self._latencies_ms.append(latency_ms)
                elif len(self._errors) > MOST_ERRORS:
                    break
                else:
                    self._count_retransmits(connection)
                    connection.close()
                    try:
                        connection = self._connect(deadline)
                    except ProbeError as error:
                        self._errors.append(str(error))
                        break
            if self._spec.idle_s and not self._errors and deadline.remaining_s > self._spec.idle_s:
                time.sleep(self._spec.idle_s)
                after_idle_ms = self._transact(connection, deadline)
            self._end(connection, deadline)
        finally:
            connection.close()
        return RequestResponseRun(
            target=self._target.address,
            address=self._address[0],
            family=self._target.family,
            started_at=self._started_at,
            outcome=Outcome.MEASURED,
            request_bytes=self._spec.request_bytes,
            response_bytes=self._spec.response_bytes,
            errors=len(self._errors),
            connect_ms=self._connect_ms,
            setup_ms=self._setup_ms,
            first_ms=first_ms,
            after_idle_ms=after_idle_ms,
            latencies_ms=tuple(self._latencies_ms),
            retransmits=self._retransmits,
            far_retransmits=self._far_retransmits,
            detail="; ".join(dict.fromkeys(self._errors)) or None,
        )

    def _transact(self, connection: socket.socket, deadline: Deadline) -> float | None:
        until = Deadline(min(self._spec.timeout_s, deadline.remaining_s))
        began_ns = time.monotonic_ns()
        try:
            send_all(connection, self._request, until)
            receive_into(connection, self._buffer, self._spec.response_bytes, until)
        except TimeoutError:
            self._errors.append(f"no whole response within {self._spec.timeout_s:g} s")
            return None
        except OSError as error:
            self._errors.append(f"connection lost: {error.strerror or error}")
            return None
        return elapsed_ms(began_ns)

    def _connect(self, deadline: Deadline) -> socket.socket:
        until = Deadline(min(self._spec.timeout_s, deadline.remaining_s))
        egress = msgspec.structs.replace(self._target.leaves_by, dscp=self._spec.dscp or self._target.leaves_by.dscp)
        began_ns = time.monotonic_ns()
        connection = open_within(egress, lambda: self._open(egress))
        try:
            connection.settimeout(max(until.remaining_s, 0.001))
            began_ns = time.monotonic_ns()
            try:
                connection.connect((self._address[0], self._spec.port, *self._address[2:]))
            except OSError as error:
                raise self._unreachable(error) from error
            connect_ms, began_ns = elapsed_ms(began_ns), time.monotonic_ns()
            without_delay(connection)
            self._set_up(connection, until)
            if self._connect_ms is None:
                self._connect_ms, self._setup_ms = connect_ms, elapsed_ms(began_ns)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, egress: Egress) -> socket.socket:
        opened = socket.socket(FAMILY[self._target.family], socket.SOCK_STREAM)
        try:
            prepare(opened, self._target.family, egress)
            source = self._target.source
            if source is not None and is_local(source):
                opened.bind((source, 0))
        except BaseException:
            opened.close()
            raise
        return opened

    def _set_up(self, connection: socket.socket, until: Deadline) -> None:
        spec = self._spec
        order = Order(
            request_bytes=spec.request_bytes,
            response_bytes=spec.response_bytes,
            transactions=spec.count + BEYOND_COUNT,
        )
        try:
            greeting = receive_exactly(connection, GREETING_BYTES, until)
            if not greeting.startswith(MAGIC):
                raise ProbeError(f"port {spec.port} answers, but not with the server of this test")
            send_all(connection, encode_order(order, greeting, self._target.key), until)
            answer = receive_exactly(connection, 1, until)[0]
        except PeerGone as error:
            raise NotPermitted(
                f"the server on port {spec.port} closed the connection: this host is not among its peers"
            ) from error
        except OSError as error:
            raise ProbeError(f"port {spec.port} was connected to, but no server answers: {error}") from error
        if answer != OrderAnswer.GO:
            outcome, reason = DECLINED.get(
                OrderAnswer(answer) if answer in set(OrderAnswer) else OrderAnswer.GO, (None, "")
            )
            raise ProbeError(reason or f"the server answered {answer}", outcome=outcome)

    def _unreachable(self, error: OSError) -> ProbeError:
        place = f"port {self._spec.port}"
        if isinstance(error, TimeoutError):
            return NoRoute(f"no answer from {place} within {self._spec.timeout_s:g} s; a firewall may drop it")
        if error.errno == errno.ECONNREFUSED:
            return ProbeError(f"{place} is closed: no server runs there", outcome=Outcome.REFUSED)
        if error.errno in NO_ROUTE:
            return NoRoute(f"{place}: {error.strerror}")
        return ProbeError(f"{place}: {error.strerror or error}")

    def _count_retransmits(self, connection: socket.socket) -> None:
        counted = retransmits_of(connection)
        if counted is not None:
            self._retransmits = counted + (self._retransmits or 0)

    def _end(self, connection: socket.socket, deadline: Deadline) -> None:
        self._count_retransmits(connection)
        until = Deadline(min(self._spec.timeout_s, deadline.remaining_s))
        with suppress(OSError), closing(connection):
            connection.shutdown(socket.SHUT_WR)
            if not self._errors:
                self._far_retransmits = decode_ending(receive_exactly(connection, ENDING_BYTES, until))
