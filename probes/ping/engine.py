"""Sends the echo requests of one cycle in batches, paced, and times their replies by the kernel's own stamps.

Takes sessions, each a socket with its targets; returns `EchoResults`, arrays of shape (targets, packets) with send
times and replies. Names, privileges and PingER's bursts are the business of `probes.ping.burst`.

Round trips run from the kernel's send stamp to its receive stamp, so it costs no accuracy to wake rarely and to read
many stamps at once. No Python runs for a single packet, except for one that the kernel refuses. Over a channel that
is not stamped (`probes.ping.plain`) they run from the call that sends to the one that reads, and a reply wakes us; so
it does while nobody can tell whether the stamps of the kernel can be trusted.
"""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from probes.contract import Deadline
from probes.ping import echo, kernel
from probes.ping.addresses import SocketAddress
from probes.ping.channel import Channel
from probes.ping.icmp_errors import HEADER_BYTES
from probes.ping.packet_table import NS_PER_MS, EchoResults, PacketTable, SendPattern
from probes.ping.receiver import Receiver
from probes.ping.schedule import Schedule, random_phases_ns
from probes.ping.sender import Sender
from probes.ping.stamp_keys import StampKeys

NS_PER_S = 1_000_000_000

BATCH_BYTES = 14_600
"""Packets that fall due close together wait for each other until they are as many bytes as this, and go out together:
what any TCP connection may put on a path at once (RFC 6928). Waking for each alone would cost many times the CPU."""

SHORTEST_TICK_NS = 2_000_000
"""Packets that fall due within this go out together, however many."""

RETRY_NS = 1_000_000
"""How long to wait for room in a full send buffer before looking again."""

DRAIN_NS = 250_000_000
"""Replies and stamps wait in the socket at most this long, and never more of them than its buffer surely holds."""

LAST_TICK_NS = 20_000_000
"""How often to look for replies when all is sent."""

SETTLE_NS = 20_000_000
"""How long after its timeout a reply that came in time may need to get from the kernel's stamp to us."""

MESSAGE_OVERHEAD_BYTES = 2048
"""What the kernel charges a socket for a message beyond its bytes: its own structures, rounded up."""

CORE_PACKETS_PER_S = 40_000
"""What one session surely sends and receives on one core. Flights that are asked for more have a thread each."""


class PingSession:
    """One socket, its targets, and the cycle of packets they are sent."""

    def __init__(self, channel: Channel, addresses: Sequence[SocketAddress], pattern: SendPattern) -> None:
        random = np.random.default_rng()
        targets = len(addresses)
        spacing_ns = round(pattern.spacing_s * NS_PER_S)
        self.channel = channel
        self.packets_per_s = targets / pattern.spacing_s if pattern.spacing_s > 0 else 0.0
        self._timeout_ns = round(pattern.timeout_s * NS_PER_S)
        self._late_ns = round(pattern.late_s * NS_PER_S)
        self._table = PacketTable(targets, pattern)
        target_of_rank = random.permutation(targets)
        self._rank_of_target = np.argsort(target_of_rank)
        self._make_ends([addresses[target] for target in target_of_rank])
        self._batch_of_turn = self._batches()
        self._stepped_ns = self._drained_ns = time.monotonic_ns()
        self._drained_next = 0
        self._meant_ns = 0
        self._buffer_full = False
        phases_ns = random_phases_ns(targets, spacing_ns, random)
        self._schedule = Schedule(self._stepped_ns, phases_ns, len(self._table.packet_bytes), spacing_ns)
        self._stop = self._schedule.total

    def _make_ends(self, addresses: Sequence[SocketAddress]) -> None:
        channel, table = self.channel, self._table
        largest_bytes = int(table.packet_bytes.max())
        # Replies and send stamps share the receive buffer; half of it is kept for what comes unexpectedly.
        charge_bytes = largest_bytes + 2 * MESSAGE_OVERHEAD_BYTES
        self._room = max(1, channel.receive_buffer_bytes // (2 * charge_bytes))
        rows = min(kernel.MAX_MESSAGES, self._room, table.total)
        echo_format = echo.EchoFormat(
            channel.family,
            channel.identifier,
            secrets.token_bytes(echo.SECRET_BYTES),
            secrets.token_bytes(largest_bytes - echo.MIN_PACKET_BYTES),
            ip_header=channel.has_ip_header,
            errors_among_replies=channel.errors_among_replies,
        )
        # A session before this one, on the same socket, has used numbers.
        channel.restart_stamp_keys()
        self._keys = StampKeys(table.total)
        self._sender = Sender(channel, addresses, echo_format, table, self._keys, rows, self._restart_keys)
        self._receiver = Receiver(channel, self._sender.names, echo_format, table, self._keys, rows)

    def _batches(self) -> list[int]:
        """How many packets go out together, for each turn by its size: so many in a row are to different targets."""
        sizes = self._table.packet_bytes
        if not self.channel.is_stamped:
            # A reply would wait for the batch.
            return [1] * len(sizes)
        fitting = BATCH_BYTES // (sizes + HEADER_BYTES[self.channel.family])
        batches: list[int] = np.clip(fitting, 1, self._table.targets).tolist()
        return batches

    def step(self) -> None:
        """Send what is due and read what has come."""
        self._stepped_ns = time.monotonic_ns()
        self._buffer_full = False
        if self.reads_at_once:
            # The reply does not wait until what is due has been sent.
            self._drain()
        if self._table.next < self._stop:
            self._send_due()
        if self._all_sent or self._stepped_ns >= self._drained_ns + DRAIN_NS:
            self._drain()

    def stop_sending(self) -> None:
        """Send no more; what is out is still waited for."""
        self._stop = self._table.next

    def finished(self) -> bool:
        """Whether all that was to be sent is out, and each request has its reply or can have none that counts."""
        if not self._all_sent:
            return False
        waited_ns = time.monotonic_ns() - int(self._table.called_ns[: self._stop].max(initial=0))
        if waited_ns > self._timeout_ns + self._late_ns + SETTLE_NS:
            return True
        if self._table.awaited():
            return False
        # All have answered; a duplicate of the last reply may still be on its way.
        return waited_ns > 2 * self._table.longest_round_trip_ns() + SETTLE_NS

    def wake_at_ns(self) -> int:
        """When `step` has something to do again."""
        if self._buffer_full:
            return self._stepped_ns + RETRY_NS
        if self._all_sent:
            return self._stepped_ns + LAST_TICK_NS
        following = self._table.next
        due_ns = self._schedule.due_at_ns(following)
        batch = self._batch_of_turn[following // self._table.targets]
        together_ns = self._schedule.due_at_ns(min(following + batch, self._stop) - 1)
        longest_ns = due_ns + self._schedule.longest_wait_ns
        wake_ns = max(min(together_ns, longest_ns), self._stepped_ns + SHORTEST_TICK_NS)
        self._meant_ns = wake_ns - due_ns
        return min(wake_ns, max(self._drained_ns + DRAIN_NS, self._stepped_ns + SHORTEST_TICK_NS))

    @property
    def reads_at_once(self) -> bool:
        """Whether a reply is to be read as soon as it comes, because the moment of reading may be its time."""
        return self._receiver.matcher.doubts_stamps

    def results(self) -> EchoResults:
        """What became of each packet."""
        return self._table.results(self._rank_of_target, self._timeout_ns, self._receiver.clock.offset_ns)

    @property
    def _all_sent(self) -> bool:
        return self._table.next >= self._stop

    def _send_due(self) -> None:
        self._schedule.postpone(self._table.next, self._stepped_ns, meant_ns=self._meant_ns)
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


def run_sessions(sessions: Sequence[PingSession], deadline: Deadline, timeout_s: float) -> None:
    """Run all sessions to their end. Sending stops early enough for the last replies to be waited for by `deadline`.

    Many packets take a thread for each session: sending and receiving run in the kernel, side by side.
    """
    if len(sessions) > 1 and sum(session.packets_per_s for session in sessions) > CORE_PACKETS_PER_S:
        with ThreadPoolExecutor(len(sessions)) as threads:
            for future in [threads.submit(_run_in_turn, [session], deadline, timeout_s) for session in sessions]:
                future.result()
    else:
        _run_in_turn(sessions, deadline, timeout_s)


def _run_in_turn(sessions: Sequence[PingSession], deadline: Deadline, timeout_s: float) -> None:
    last_chance_s = timeout_s + 2 * SETTLE_NS / NS_PER_S
    while sessions:
        if deadline.remaining_s <= last_chance_s:
            for session in sessions:
                session.stop_sending()
        for session in sessions:
            session.step()
        if all(session.finished() for session in sessions):
            return
        _sleep_until(min(session.wake_at_ns() for session in sessions), sessions)


def _sleep_until(wake_at_ns: int, sessions: Sequence[PingSession]) -> None:
    """Sleep, or be woken by a reply that is to be read at once."""
    sleep_ns = max(0, wake_at_ns - time.monotonic_ns())
    watched = [session.channel.descriptor for session in sessions if session.reads_at_once]
    if not watched:
        time.sleep(sleep_ns / NS_PER_S)
        return
    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    poll.poll(sleep_ns / NS_PER_MS)
