"""Receive time, hop limit and timestamps of packets from a batch of messages. test_ping_fuzz.py has hostile input."""

import socket

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.packets.burst_counts import BurstCounts
from probes.packets.engine import plain
from probes.packets.engine.packet_outcomes import HARDWARE_SLACK_NS
from probes.packets.engine.receiver import DOUBT_NS, Receiver
from probes.packets.icmp import kernel
from probes.packets.icmp.stamp_keys import StampKeys
from tests.unit.ping_wire import (
    CLOCK_OFFSET_NS,
    FORMS,
    IDENTIFIER,
    OTHER_SECRET,
    SECOND,
    Arrival,
    Form,
    PartialSession,
    control_messages,
    controls_of,
    extended_error,
    stamps,
)

MS = 1_000_000
RAW4 = Form(4, is_raw=True)
CALLED_NS = 100 * SECOND
INTERFACE_NS = 555 * SECOND
"""The interface clock's reading when the first packet was requested: no other clock has this reading."""


after_call_ns = st.integers(-100, 1_000_000).map(lambda after_us: after_us * 1000)


def send_stamp(
    session: PartialSession, packet: int, *, after_ns: int | None = None, hardware_after_ns: int | None = None
) -> None:
    """Store the send timestamp of a packet, from the kernel or the interface: so long after the call."""
    timestamps = stamps(
        kernel_ns=0 if after_ns is None else CLOCK_OFFSET_NS + CALLED_NS + after_ns,
        hardware_ns=0 if hardware_after_ns is None else INTERFACE_NS + hardware_after_ns,
    )
    error = extended_error(session.family, code=42, origin=4, data=packet)
    controls = controls_of([control_messages(timestamps, error)])
    keys = StampKeys(session.table.total)
    keys.sent(0, session.table.next)
    session.matcher.store_send_stamps(keys.packets(controls.key), controls, session.now_ns)


def answered(
    session: PartialSession, packet: int, *, after_ns: int | None = None, hardware_after_ns: int | None = None
) -> Arrival:
    timestamps = stamps(
        kernel_ns=0 if after_ns is None else CLOCK_OFFSET_NS + CALLED_NS + after_ns,
        hardware_ns=0 if hardware_after_ns is None else INTERFACE_NS + hardware_after_ns,
    )
    return session.answer(packet, control=control_messages(timestamps))


def one_burst(form: Form = RAW4, packets: int = 1) -> PartialSession:
    session = PartialSession(form, targets=1, sizes=(40,), count=packets)
    session.now_ns = CALLED_NS + SECOND
    return session


def burst_counts(session: PartialSession) -> BurstCounts:
    return BurstCounts(
        session.table.results(np.arange(session.targets), 2 * SECOND, CLOCK_OFFSET_NS), 1, session.family
    )


def stamps_lost(counted: BurstCounts) -> list[list[int]]:
    return counted.arrays["stamps_lost"].tolist()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_rtt_is_the_difference_of_kernel_stamps(form):
    session = one_burst(form)

    send_stamp(session, 0, after_ns=30_000)
    session.deliver([answered(session, 0, after_ns=5 * MS + 30_000)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0), stamps_lost(counted)) == (
        (5.0,),
        "kernel",
        [[0]],
    )


def test_without_the_send_stamp_the_rtt_starts_at_the_call():
    session = one_burst()

    session.deliver([answered(session, 0, after_ns=5 * MS)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0), stamps_lost(counted)) == (
        (5.0,),
        "user",
        [[1]],
    )


def test_without_the_receive_stamp_the_rtt_ends_at_the_read():
    session = one_burst()

    send_stamp(session, 0, after_ns=MS)
    session.deliver([session.answer(0)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0), stamps_lost(counted)) == (
        (999.0,),
        "user",
        [[1]],
    )


@pytest.mark.parametrize("after_ns", [-SECOND, SECOND + MS, 3 * SECOND])
def test_a_stamp_before_the_call_or_in_the_future_is_not_trusted(after_ns):
    session = one_burst()

    send_stamp(session, 0, after_ns=after_ns)
    session.deliver([answered(session, 0, after_ns=after_ns)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), stamps_lost(counted)) == ((1000.0,), [[1]])


@given(after_call_ns, after_call_ns, st.booleans(), st.booleans())
def test_no_rtt_is_below_zero(sent_after_ns, arrived_after_ns, send_stamped, arrival_stamped):
    """With a small clock reading error the kernel's timestamp may precede the call that caused it."""
    session = one_burst()

    send_stamp(session, 0, after_ns=sent_after_ns if send_stamped else None)
    session.deliver([answered(session, 0, after_ns=arrived_after_ns if arrival_stamped else None)])

    (rtt_ms,) = burst_counts(session).rtts_ms(0, 0)
    assert rtt_ms is not None
    assert rtt_ms >= 0


def test_stamps_before_a_trusted_and_after_a_bad_are_doubted():
    session = one_burst(packets=4)
    doubts = [session.matcher.doubts_stamps]
    stamped = [True, False, True, True]

    for packet, waited_ns in enumerate([0, MS, DOUBT_NS - MS, 2 * MS]):
        session.now_ns += waited_ns
        session.deliver([answered(session, packet, after_ns=MS) if stamped[packet] else session.answer(packet)])
        doubts.append(session.matcher.doubts_stamps)

    assert doubts == [True, False, True, True, False]


def test_a_reply_to_others_casts_no_doubt_on_stamps():
    earlier, session = PartialSession(RAW4, secret=OTHER_SECRET), one_burst()
    session.deliver([answered(session, 0, after_ns=MS)])

    session.deliver([earlier.answer(0)])

    assert not session.matcher.doubts_stamps


def test_hardware_stamps_of_both_ends_make_a_hardware_rtt():
    session = one_burst()

    send_stamp(session, 0, after_ns=10_000)
    send_stamp(session, 0, hardware_after_ns=12_000)
    session.deliver([answered(session, 0, after_ns=5 * MS, hardware_after_ns=5 * MS - 9_000)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0), stamps_lost(counted)) == (
        (4.979,),
        "hardware",
        [[0]],
    )


@pytest.mark.parametrize("end", ["sent", "arrived"])
def test_a_hardware_stamp_of_one_end_is_not_used(end):
    session = one_burst()

    send_stamp(session, 0, after_ns=10_000)
    if end == "sent":
        send_stamp(session, 0, hardware_after_ns=12_000)
    session.deliver([answered(session, 0, after_ns=5 * MS, hardware_after_ns=None if end == "sent" else 5 * MS)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0)) == ((4.99,), "kernel")


@given(st.one_of(st.integers(-3000, 3000).map(lambda saved_us: saved_us * 1000), st.integers(-(10**10), 10**10)))
def test_a_hardware_rtt_is_used_only_slightly_below_the_kernels(saved_ns):
    """Timestamps of two interfaces differ by an arbitrary clock offset."""
    session = one_burst()
    session.now_ns = CALLED_NS + SECOND
    kernel_ns = 500 * MS

    send_stamp(session, 0, after_ns=0)
    send_stamp(session, 0, hardware_after_ns=10**11)
    session.deliver([answered(session, 0, after_ns=kernel_ns, hardware_after_ns=10**11 + kernel_ns - saved_ns)])

    sound = 0 <= saved_ns <= min(HARDWARE_SLACK_NS, kernel_ns)
    counted = burst_counts(session)
    assert counted.stamp(0, 0) == ("hardware" if sound else "kernel")
    assert counted.rtts_ms(0, 0) == (round((kernel_ns - saved_ns * sound) / MS, 6),)


def test_a_hardware_rtt_needs_the_kernels_rtt():
    session = one_burst()

    send_stamp(session, 0, hardware_after_ns=0)
    session.deliver([answered(session, 0, after_ns=5 * MS, hardware_after_ns=5 * MS - 1000)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.stamp(0, 0)) == ((5.0,), "user")


def test_one_rtt_without_hardware_makes_it_a_kernel_burst():
    session = one_burst(packets=2)
    for packet in (0, 1):
        send_stamp(session, packet, after_ns=0)
    send_stamp(session, 1, hardware_after_ns=0)

    session.deliver(
        [answered(session, 0, after_ns=5 * MS), answered(session, 1, after_ns=5 * MS, hardware_after_ns=5 * MS)]
    )

    assert burst_counts(session).stamp(0, 0) == "kernel"


def test_the_first_of_duplicates_in_a_batch_counts():
    session = one_burst()

    session.deliver([answered(session, 0, after_ns=after_ns * MS) for after_ns in (7, 5, 9)])
    session.deliver([answered(session, 0, after_ns=MS)])

    counted = burst_counts(session)
    assert (counted.rtts_ms(0, 0), counted.arrays["duplicates"].tolist()) == ((7.0,), [[3]])


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_hop_limit_is_that_of_the_reply(form):
    session = one_burst(form)
    option = (0, 2) if form.family == 4 else (41, 52)

    session.deliver([session.answer(0, ttl=61, control=control_messages((*option, (61).to_bytes(4, "little"))))])

    assert burst_counts(session).ttl(0, 0) == 61


def test_an_ipv6_reply_without_a_hop_limit_has_none():
    session = one_burst(Form(6, is_raw=True))

    session.deliver([session.answer(0)])

    assert burst_counts(session).ttl(0, 0) is None


def test_a_send_stamp_with_an_unused_number_is_ignored():
    """The kernel numbers with 32 bits. No session sends that many packets."""
    session = PartialSession(RAW4, sent=3)
    session.now_ns = CALLED_NS + SECOND

    for number in (3, 11, 2**31, 2**32 - 1):
        send_stamp(session, number, after_ns=MS, hardware_after_ns=MS)

    assert not session.table.stamped_ns.any()


def test_a_stale_reply_of_an_earlier_batch_is_ignored():
    earlier, session = PartialSession(RAW4, secret=OTHER_SECRET), PartialSession(RAW4)

    session.deliver([earlier.answer(packet) for packet in range(12)])

    assert not any(session.replies)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_reply_to_a_refused_request_is_ignored(form):
    session = PartialSession(form, refused=[4])

    session.deliver([session.answer(4), session.answer(5)])

    assert session.replies == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_a_batch_without_messages_is_no_error():
    session = PartialSession(RAW4)

    session.matcher.match_messages(
        np.zeros((0, session.width), np.uint8), np.zeros(0, np.int64), np.zeros((0, 4), np.uint8), controls_of([]), 1
    )

    assert not any(session.replies)


class AlwaysReadable:
    """A socket on which a reply to another program is always waiting."""

    def __init__(self):
        other = PartialSession(RAW4, targets=1, sizes=(40,), count=1, secret=OTHER_SECRET)
        self._reply, self._host = other.answer(0).data, socket.inet_ntoa(other.host(0))

    def recvfrom_into(self, room):
        room[: len(self._reply)] = self._reply
        return len(self._reply), (self._host, 0)


class PlainChannel:
    """The part of a channel that the receiver uses."""

    family, is_raw, has_ip_header = 4, True, False

    def receive_batch(self, rows, data_bytes):
        return plain.PlainReceiveBatch(AlwaysReadable(), self.family, IDENTIFIER, rows, data_bytes)

    def error_queue(self, rows, data_bytes):
        return None


@pytest.mark.timeout(30)
def test_endless_replies_to_others_do_not_stop_sending():
    session = one_burst()
    names = np.zeros((1, kernel.SOCKADDR_BYTES), np.uint8)

    Receiver(PlainChannel(), names, session.format, session.table, StampKeys(1), rows=4).drain()

    assert session.replies == [0]
