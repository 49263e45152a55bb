"""The pacing of a session whose process wakes late and whose send buffer fills, with a simulated clock.

The bounds: a packet waits for others at most `wait`, which is the longer of 2 ms and min(50 ms, half of the spacing); a
delay of at most `late`, min(20 ms, a quarter of the spacing), is caught up. A longer delay moves all remaining packets.
So two packets to a target are never closer than the spacing less `wait` and `late`, and at no moment are more packets
sent than have phases within `wait` and `late` of each other.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.packets.arrays import Bytes, Int64s
from probes.packets.engine import receiver, sender
from probes.packets.engine import session as session_module
from probes.packets.engine.packet_outcomes import SendPattern
from probes.packets.engine.session import PingSession

MS = 1_000_000


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        return self.now_ns


class Wire:
    """A channel that notes when each message was sent, and accepts no more than it has room for. It receives
    nothing."""

    family, identifier, descriptor, receive_buffer_bytes = 4, 7, -1, 16 << 20
    is_raw = has_ip_header = errors_among_replies = is_stamped = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.room = 0
        self.sent_ns: list[int] = []
        self.restarted_after: list[int] = []

    def send_batch(self, names: Bytes, rows: int, head_bytes: int, tail: bytes) -> Wire:
        self.rows, self.heads = rows, np.zeros((rows, head_bytes), np.uint8)
        return self

    def receive_batch(self, rows: int, data_bytes: int) -> Wire:
        return self

    def error_queue(self, rows: int, data_bytes: int = 0) -> None:
        return None

    def set_destinations(self, places: Int64s, tail_bytes: Int64s) -> None:
        """All packets have the same destination."""

    def send_room(self, charge_bytes: int) -> int:
        return self.room

    def send(self, first: int, stop: int) -> int:
        self.sent_ns += [self._clock.now_ns] * (stop - first)
        self.room -= stop - first
        return stop - first

    def receive(self) -> int:
        return 0

    def restart_stamp_keys(self) -> None:
        self.restarted_after.append(len(self.sent_ns))


wake_ups = st.lists(
    st.tuples(
        st.one_of(st.just(0), *(st.integers(0, most_ms * 10) for most_ms in (2, 30, 3000))).map(
            lambda late: late * MS // 10
        ),
        st.one_of(st.just(10**6), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=60,
)
"""Delay of each wake-up, and the number of packets that the send buffer then accepts."""


def run_session(
    targets: int, count: int, spacing_s: float, late_and_room: list[tuple[int, int]]
) -> tuple[Wire, PingSession]:
    """Step a session until all packets are sent, waking at the requested times plus the given delays."""
    clock = Clock()
    wire = Wire(clock)
    with (
        patch.object(session_module, "time", clock),
        patch.object(sender, "time", clock),
        patch.object(receiver, "time", clock),
    ):
        addresses = [(f"192.0.2.{1 + target}", 0) for target in range(targets)]
        session = PingSession(wire, addresses, SendPattern((100,), count, spacing_s, 1.0))
        # After the drawn delays, a sender without delay and with enough room, so that the session ends.
        for late_ns, room in [*late_and_room, *[(0, 10**6)] * (10 * targets * count + 100)]:
            wire.room = room
            session.step()
            if len(wire.sent_ns) == targets * count:
                break
            clock.now_ns = max(clock.now_ns, session.wake_at_ns()) + late_ns
    return wire, session


sessions = st.tuples(st.integers(1, 40), st.integers(2, 8), st.sampled_from([0.01, 0.02, 0.05, 0.1, 0.333, 1.0, 5.0]))


def allowed_ns(spacing_s: float) -> tuple[int, int, int]:
    spacing_ns = round(spacing_s * 1000) * MS
    return spacing_ns, max(2 * MS, min(50 * MS, spacing_ns // 2)), min(20 * MS, spacing_ns // 4)


@settings(max_examples=150, deadline=None)
@given(sessions, wake_ups)
def test_late_wakeups_and_full_buffers_keep_packets_spaced(session, late_and_room):
    targets, count, spacing_s = session
    spacing_ns, wait_ns, late_ns = allowed_ns(spacing_s)

    wire, _ = run_session(targets, count, spacing_s, late_and_room)

    assert len(wire.sent_ns) == targets * count
    for packet in range(targets, targets * count):
        gap_ns = wire.sent_ns[packet] - wire.sent_ns[packet - targets]
        assert gap_ns >= spacing_ns - wait_ns - late_ns
        assert gap_ns >= spacing_ns / 4


@settings(max_examples=150, deadline=None)
@given(sessions, wake_ups)
def test_packets_sent_at_once_are_bounded_by_tick_and_lateness(session, late_and_room):
    targets, count, spacing_s = session
    spacing_ns, wait_ns, late_ns = allowed_ns(spacing_s)

    wire, _ = run_session(targets, count, spacing_s, late_and_room)

    at_once: dict[int, int] = defaultdict(int)
    for sent_ns in wire.sent_ns:
        at_once[sent_ns] += 1
    # Each target's phase lies somewhere in its own part of the spacing: two more than would fit evenly.
    assert max(at_once.values()) <= min(targets, targets * (wait_ns + late_ns) // spacing_ns + 2)


@settings(max_examples=80, deadline=None)
@given(sessions)
def test_a_sender_in_time_keeps_the_spacing_to_the_longest_wait(session):
    targets, count, spacing_s = session
    spacing_ns, wait_ns, _ = allowed_ns(spacing_s)

    wire, planned = run_session(targets, count, spacing_s, [(0, 10**6)])

    for packet in range(targets, targets * count):
        assert abs(wire.sent_ns[packet] - wire.sent_ns[packet - targets] - spacing_ns) <= wait_ns
    assert not planned.results().waited.any()


def test_packets_of_a_single_target_do_not_wait_for_each_other():
    wire, _ = run_session(1, 50, 0.02, [(0, 10**6)])

    # They wait only for a poll of the receive queue, 2 ms at most.
    assert all(abs(later - earlier - 20 * MS) <= 2 * MS for earlier, later in pairwise(wire.sent_ns))


def test_a_full_send_buffer_is_counted_and_the_packet_sent_later():
    wire, session = run_session(4, 5, 1.0, [(0, 10**6), *[(0, 0)] * 300])

    results = session.results()
    assert len(wire.sent_ns) == 20
    assert results.sent.all()
    assert 0 < results.waited.sum() < 20


def test_a_lost_reply_is_awaited_with_few_wake_ups():
    pattern = SendPattern((100,), 1, 1.0, timeout_s=2.0, late_s=1.0)
    clock = Clock()
    wire = Wire(clock)
    wire.room = 10**6
    wake_ups = 0
    with (
        patch.object(session_module, "time", clock),
        patch.object(sender, "time", clock),
        patch.object(receiver, "time", clock),
    ):
        session = PingSession(wire, [("192.0.2.1", 0)], pattern)
        while not session.finished() and wake_ups < 1000:
            clock.now_ns = max(clock.now_ns, session.wake_at_ns()) + MS // 10
            session.step()
            wake_ups += 1

    waited_s = (clock.now_ns - wire.sent_ns[-1]) / 10**9
    assert 3.0 < waited_s < 3.1
    assert wake_ups < 50


def test_a_session_numbers_its_stamps_from_its_first_packet():
    """Another session may have used the same socket before."""
    wire, _ = run_session(2, 2, 1.0, [(0, 10**6)])

    assert wire.restarted_after == [0]
