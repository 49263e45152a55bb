"""Runs a round's probes over a socket."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from probes.bounds import LARGEST_ICMP_FLOW
from probes.contract import Deadline
from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Int64s
from probes.packets.engine.receiver import Receiver
from probes.packets.flow import flows_of
from probes.packets.icmp import echo
from probes.packets.icmp.channel import Channel
from probes.packets.icmp.stamp_keys import StampKeys
from probes.trace.engine.packets import PACKET_BYTES, TraceSender, TraceTable
from probes.trace.engine.udp import DESTINATION_PORT, UdpFormat, UdpMatcher
from probes.trace.round import COMPARED_ATTEMPTS, COMPARED_FLOWS, TtlProbe
from probes.trace.search import REACHED, Answer
from probes.trace.spec import TraceSpec

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
# Bytes of an ICMP error that are read: all of it (RFC 4443, section 2.4 c).
ERROR_BYTES = 1280
MOST_ROWS = 256
SHORT_TICK_S = 0.02
LONG_TICK_S = 0.2
# Up to this many targets intervals are short, as somebody may be watching; with more, wake-ups do more.
FEW_TARGETS = 20


def flows_to(family: int, addresses: Sequence[SocketAddress], flows: int) -> Int64s:
    """ICMP checksums of each target's flows, its pings' first."""
    main = flows_of(family, addresses)
    # Odd steps all over the range, so that balancers that look at few bits see them too.
    steps = np.arange(flows, dtype=np.int64) * 0x3D2B
    every: Int64s = 1 + (main[:, np.newaxis] - 1 + steps) % LARGEST_ICMP_FLOW
    return every.reshape(-1)


class Round(Protocol):
    """Decides which probes go out when, such as `probes.trace.round.TraceRound`; times in seconds."""

    one_by_one: bool

    @property
    def is_over(self) -> bool: ...
    def due(self, now_s: float) -> list[TtlProbe]: ...
    def next_at_s(self) -> float | None: ...
    def answered(self, probe: TtlProbe, answer: Answer | None, now_s: float) -> None: ...


class TraceSession:
    """A socket, its targets and the round of their traces."""

    def __init__(self, channel: Channel, addresses: Sequence[SocketAddress], round_: Round, spec: TraceSpec) -> None:
        self.channel = channel
        self.round = round_
        self.refused: dict[int, int] = {}
        self.replied: set[int] = set()
        self._spec = spec
        self._addresses = addresses
        self._flows = spec.flows
        self._reached_by = "port_unreachable" if spec.protocol == "udp" else None
        self._tick_s = SHORT_TICK_S if len(addresses) <= FEW_TARGETS else LONG_TICK_S
        self._pending: dict[int, TtlProbe] = {}
        compared = COMPARED_FLOWS * COMPARED_ATTEMPTS if spec.flows > 1 else 0
        packets = spec.max_hops * (spec.attempts + spec.flows) + compared + 1
        capacity = min(len(addresses) * packets, echo.SEQUENCES)
        self._table = TraceTable(channel.family, capacity, spec.timeout_s)
        self.flows = flows_to(channel.family, addresses, spec.flows)
        is_udp = spec.protocol == "udp"
        echo_format = (UdpFormat if is_udp else echo.EchoFormat)(
            channel.family,
            channel.identifier,
            secrets.token_bytes(echo.SECRET_BYTES),
            secrets.token_bytes(PACKET_BYTES - echo.MIN_PACKET_BYTES),
            self.flows,
            ip_header=channel.has_ip_header,
            errors_among_replies=channel.errors_among_replies,
        )
        self._keys = StampKeys(capacity)
        rows = min(MOST_ROWS, capacity)
        by_flow = [
            (address[0], DESTINATION_PORT + flow if is_udp else 0, *address[2:])
            for address in addresses
            for flow in range(spec.flows)
        ]
        channel.ask_for_extensions()
        self._sender = TraceSender(channel, by_flow, echo_format, self._table, self._keys, rows, self._restart_keys)
        self._receiver = Receiver(
            channel,
            self._sender.names,
            echo_format,
            self._table,
            self._keys,
            rows,
            ERROR_BYTES,
            UdpMatcher if is_udp else None,
        )
        self._table.unanswered = self._pending

    @property
    def is_over(self) -> bool:
        return self.round.is_over

    def flow(self, rank: int) -> int:
        if self._spec.protocol == "udp":
            return (self.channel.identifier << 16) + DESTINATION_PORT
        return int(self.flows[rank * self._flows])

    def step(self) -> None:
        now_ns = time.monotonic_ns()
        for probe in self.round.due(now_ns / NS_PER_S):
            if self._table.planned == self._table.total:
                self.round.answered(probe, None, now_ns / NS_PER_S)
                continue
            number = self._table.plan(probe.rank * self._flows + probe.flow, probe.ttl)
            self._pending[number] = probe
        if self._table.next < self._table.planned:
            self._sender.send(self._table.planned)
        if self._pending:
            self._receiver.drain()
            if self._table.has_short_quotes:
                self.round.one_by_one = True
            self._resolve(time.monotonic_ns())

    def wake_at_s(self) -> float:
        """When `step` is next due."""
        next_s, tick_s = self.round.next_at_s(), time.monotonic() + self._tick_s
        return tick_s if self._pending or next_s is None else max(next_s, tick_s)

    def _resolve(self, now_ns: int) -> None:
        numbers = np.fromiter(self._pending, np.int64, len(self._pending))
        replied = self._table.replies[numbers] > 0
        refused = self._table.refused_errno[numbers] != 0
        late = now_ns - self._table.called_ns[numbers] > self._spec.timeout_s * NS_PER_S
        late &= numbers < self._table.next
        errors = self._table.errors
        for number in numbers[replied | refused | late].tolist():
            if number not in errors or self._table.replies[number]:
                self._end(number, now_ns, self._reply(number))
        for number in [number for number in errors if number in self._pending]:
            self._end(number, now_ns, self._error(number))
        errors.clear()

    def _end(self, number: int, now_ns: int, answer: Answer | None) -> None:
        probe = self._pending.pop(number)
        if self._table.refused_errno[number]:
            self.refused[probe.rank] = int(self._table.refused_errno[number])
        if answer is not None:
            self.replied.add(probe.rank)
        self.round.answered(probe, answer, now_ns / NS_PER_S)

    def _reply(self, number: int) -> Answer | None:
        if self._table.replies[number] == 0:
            return None
        hop_limit = int(self._table.hop_limit[number])
        address = self._addresses[self._pending[number].rank][0]
        return self._in_time(number, int(self._table.arrived_ns[number]), Answer(address, 0.0, REACHED, (), hop_limit))

    def _error(self, number: int) -> Answer | None:
        error = self._table.errors[number]
        router = socket.inet_ntop(FAMILY[self.channel.family], error.router)
        is_reached = error.name == self._reached_by and router == self._addresses[self._pending[number].rank][0]
        event = REACHED if is_reached else error.name
        return self._in_time(number, error.arrived_ns, Answer(router, 0.0, event, error.mpls))

    def _in_time(self, number: int, arrived_ns: int, answer: Answer) -> Answer | None:
        rtt_ms = max(0, arrived_ns - self._table.sent_ns(number, arrived_ns)) / NS_PER_MS
        return answer._replace(rtt_ms=rtt_ms) if rtt_ms <= 1000 * self._spec.timeout_s else None

    def _restart_keys(self) -> None:
        self._receiver.drain_stamps()
        self.channel.restart_stamp_keys()
        self._keys.restart()


def run_sessions(
    sessions: Sequence[TraceSession], deadline: Deadline, after_step: Callable[[], None] | None = None
) -> None:
    """Run all sessions; `after_step` follows possible answers."""
    while not deadline.passed:
        for session in sessions:
            session.step()
        if after_step is not None:
            after_step()
        if all(session.is_over for session in sessions):
            return
        wake_at_s = min(session.wake_at_s() for session in sessions if not session.is_over)
        time.sleep(max(0.0, min(wake_at_s - time.monotonic(), deadline.remaining_s)))
