"""Sends a cycle's echo requests in paced batches and times the replies, by kernel timestamps, or where these are
missing or untrusted, by send and receive calls. Takes sessions, each a socket with its targets; returns
`EchoResults`."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from probes.contract import Deadline
from probes.packets.addresses import SocketAddress
from probes.packets.arrays import Int64s
from probes.packets.engine.even import EvenSchedule, even_times
from probes.packets.engine.packet_outcomes import NS_PER_MS, EchoResults, PacketTable, SendPattern
from probes.packets.engine.randomness import KernelRandom
from probes.packets.engine.receiver import Receiver
from probes.packets.engine.schedule import Schedule, random_phases_ns
from probes.packets.engine.sender import Sender
from probes.packets.flow import flows_of
from probes.packets.icmp import echo, kernel
from probes.packets.icmp.channel import Channel
from probes.packets.icmp.icmp_errors import HEADER_BYTES
from probes.packets.icmp.stamp_keys import StampKeys

NS_PER_S = 1_000_000_000

# TCP's initial window (RFC 6928); waking for each packet would cost many times the CPU.
BATCH_BYTES = 14_600

# All packets due within this interval are sent together, however many.
SHORTEST_TICK_NS = 2_000_000

# Retry interval when the send buffer is full.
RETRY_NS = 1_000_000

# Maximum time that replies and timestamps wait in the socket; read earlier if its buffer could fill up.
DRAIN_NS = 500_000_000

LAST_TICK_NS = 20_000_000
# After the last request, replies are polled at an eighth of the time since, and every 20 ms at most.
LAST_TICK_SHARE = 8

# Maximum delay between the kernel's receive timestamp and our reading of the reply.
SETTLE_NS = 20_000_000

# Buffer space the kernel charges per message in addition to its bytes, rounded up.
MESSAGE_OVERHEAD_BYTES = 2048

# Packet rate that a session safely handles on a core; above this, each session gets its own thread.
CORE_PACKETS_PER_S = 40_000


class PingSession:
    """A socket, its targets, and the packets to send to them in a cycle."""

    def __init__(self, channel: Channel, addresses: Sequence[SocketAddress], pattern: SendPattern) -> None:
        random = KernelRandom()
        targets = len(addresses)
        spacing_ns = round(pattern.spacing_s * NS_PER_S)
        self.channel = channel
        self.packets_per_s = targets / pattern.spacing_s if pattern.spacing_s > 0 else 0.0
        self._timeout_ns = round(pattern.timeout_s * NS_PER_S)
        self._longest_wait_ns = self._timeout_ns + round(pattern.late_s * NS_PER_S) + SETTLE_NS
        times = even_times(channel.family, addresses, pattern, random) if pattern.is_even else None
        self._table = self._make_table(targets, pattern, None if times is None else times.cells)
        target_of_rank = random.permutation(targets) if times is None else np.arange(targets)
        self._rank_of_target = np.argsort(target_of_rank)
        flows = flows_of(channel.family, addresses)
        self.flows: list[int] = flows.tolist()
        self._make_sender_and_receiver([addresses[target] for target in target_of_rank], flows[target_of_rank])
        self._batch_of_turn = self._batches()
        self._stepped_ns = self._drained_ns = time.monotonic_ns()
        self._drained_next = 0
        self._planned_wait_ns = 0
        self._buffer_full = False
        self._schedule: Schedule | EvenSchedule
        if times is None:
            phases_ns = random_phases_ns(targets, spacing_ns, random)
            self._schedule = Schedule(self._stepped_ns, phases_ns, len(self._table.packet_bytes), spacing_ns)
        else:
            self._schedule = EvenSchedule(self._stepped_ns, times.due_ns, spacing_ns)
        self._stop = self._schedule.total

    def _make_table(self, targets: int, pattern: SendPattern, cells: Int64s | None) -> PacketTable:
        return PacketTable(targets, pattern, cells)

    def _make_sender_and_receiver(self, addresses: Sequence[SocketAddress], flows: Int64s) -> None:
        channel, table = self.channel, self._table
        largest_bytes = int(table.packet_bytes.max())
        # Replies and send timestamps share the receive buffer; half of it is reserve for unexpected messages.
        charge_bytes = largest_bytes + 2 * MESSAGE_OVERHEAD_BYTES
        self._room = max(1, channel.receive_buffer_bytes // (2 * charge_bytes))
        rows = min(kernel.MAX_MESSAGES, self._room, table.total)
        echo_format = echo.EchoFormat(
            channel.family,
            channel.identifier,
            secrets.token_bytes(echo.SECRET_BYTES),
            secrets.token_bytes(largest_bytes - echo.MIN_PACKET_BYTES),
            flows,
            ip_header=channel.has_ip_header,
            errors_among_replies=channel.errors_among_replies,
        )
        # An earlier session on the same socket may have used keys.
        channel.restart_stamp_keys()
        self._keys = StampKeys(table.total)
        self._sender = Sender(channel, addresses, echo_format, table, self._keys, rows, self._restart_keys)
        self._receiver = Receiver(channel, self._sender.names, echo_format, table, self._keys, rows)

    def _batches(self) -> list[int]:
        sizes = self._table.packet_bytes
        if not self.channel.is_stamped:
            # Otherwise the RTT would include the rest of the batch.
            return [1] * len(sizes)
        fitting = BATCH_BYTES // (sizes + HEADER_BYTES[self.channel.family])
        batches: list[int] = np.clip(fitting, 1, self._table.targets).tolist()
        return batches

    def step(self) -> None:
        """Send due packets and read replies."""
        self._stepped_ns = time.monotonic_ns()
        self._buffer_full = False
        if self.reads_at_once:
            # Read replies before sending, so that they do not wait.
            self._drain()
        if self._table.next < self._stop:
            self._send_due()
        if self._all_sent or self._stepped_ns >= self._drained_ns + DRAIN_NS:
            self._drain()

    def stop_sending(self) -> None:
        """Stop sending, but await replies."""
        self._stop = self._table.next

    def finished(self) -> bool:
        if not self._all_sent:
            return False
        waited_ns = time.monotonic_ns() - self._last_called_ns
        if waited_ns > self._longest_wait_ns:
            return True
        if self._table.has_pending():
            return False
        # All requests are answered; a duplicate of the last reply may still arrive.
        return waited_ns > 2 * self._table.max_rtt_ns() + SETTLE_NS

    def wake_at_ns(self) -> int:
        """When `step` is next due."""
        if self._buffer_full:
            return self._stepped_ns + RETRY_NS
        if self._all_sent:
            waited_ns = self._stepped_ns - self._last_called_ns
            left_ns = self._longest_wait_ns - waited_ns
            return self._stepped_ns + max(LAST_TICK_NS, min(waited_ns // LAST_TICK_SHARE, left_ns))
        following = self._table.next
        due_ns = self._schedule.due_at_ns(following)
        batch = self._batch_of_turn[self._table.turn_of(following)]
        together_ns = self._schedule.due_at_ns(min(following + batch, self._stop) - 1)
        longest_ns = due_ns + self._schedule.longest_wait_ns
        # Waking rarely costs no accuracy, since the kernel takes the timestamps.
        wake_ns = max(min(together_ns, longest_ns), self._stepped_ns + SHORTEST_TICK_NS)
        self._planned_wait_ns = wake_ns - due_ns
        return min(wake_ns, max(self._drained_ns + DRAIN_NS, self._stepped_ns + SHORTEST_TICK_NS))

    @property
    def reads_at_once(self) -> bool:
        """Whether read time may count as arrival."""
        return self._receiver.matcher.doubts_stamps

    def results(self) -> EchoResults:
        return self._table.results(self._rank_of_target, self._timeout_ns, self._receiver.clock.offset_ns)

    @property
    def _all_sent(self) -> bool:
        return self._table.next >= self._stop

    @property
    def _last_called_ns(self) -> int:
        return int(self._table.called_ns[self._stop - 1]) if self._stop else 0

    def _send_due(self) -> None:
        self._schedule.postpone(self._table.next, self._stepped_ns, planned_wait_ns=self._planned_wait_ns)
        due = min(self._schedule.due(self._stepped_ns), self._stop)
        while self._table.next < due and not self._buffer_full:
            room = self._room - (self._table.next - self._drained_next)
            if room <= 0:
                self._drain()
            else:
                self._buffer_full = not self._sender.send(min(due, self._table.next + room))

    def _drain(self) -> None:
        self._receiver.drain()
        self._drained_ns = time.monotonic_ns()
        self._drained_next = self._table.next

    def _restart_keys(self) -> None:
        self._receiver.drain_stamps()
        self.channel.restart_stamp_keys()
        self._keys.restart()


def run_sessions(
    sessions: Sequence[PingSession],
    deadline: Deadline,
    timeout_s: float,
    after_step: Callable[[], None] | None = None,
) -> None:
    """Run all sessions; sending ends in time for the last replies.

    Sessions above `CORE_PACKETS_PER_S` get threads, and no `after_step`.
    """
    if len(sessions) > 1 and sum(session.packets_per_s for session in sessions) > CORE_PACKETS_PER_S:
        # Threads let the kernel send and receive in parallel.
        with ThreadPoolExecutor(len(sessions)) as threads:
            for future in [threads.submit(_run_in_turn, [session], deadline, timeout_s) for session in sessions]:
                future.result()
    else:
        _run_in_turn(sessions, deadline, timeout_s, after_step)


def _run_in_turn(
    sessions: Sequence[PingSession],
    deadline: Deadline,
    timeout_s: float,
    after_step: Callable[[], None] | None = None,
) -> None:
    last_chance_s = timeout_s + 2 * SETTLE_NS / NS_PER_S
    while sessions:
        if deadline.remaining_s <= last_chance_s:
            for session in sessions:
                session.stop_sending()
        for session in sessions:
            session.step()
        if after_step is not None:
            after_step()
        if all(session.finished() for session in sessions):
            return
        _sleep_until(min(session.wake_at_ns() for session in sessions), sessions)


def _sleep_until(wake_at_ns: int, sessions: Sequence[PingSession]) -> None:
    """Sleep, or wake early for a reply to read immediately."""
    sleep_ns = max(0, wake_at_ns - time.monotonic_ns())
    watched = [session.channel.descriptor for session in sessions if session.reads_at_once]
    if not watched:
        time.sleep(sleep_ns / NS_PER_S)
        return
    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    poll.poll(sleep_ns / NS_PER_MS)
