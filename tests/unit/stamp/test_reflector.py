"""The reflector: whom it answers, how long and how often; whatever arrives, it raises nothing."""

from __future__ import annotations

import base64
import ipaddress
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.peers import Peers
from probes.stamp import tlv
from probes.stamp.packets import digest
from probes.stamp.reflector.reflector import SentReplies
from probes.stamp.reflector.replies import Answers, ReplyMaker, Requests
from probes.stamp.reflector.sessions import MOST_SESSIONS_PER_PEER, RateCap, SenderSession, SenderSessions

KEY = b"k" * 32
OPEN, KEYED, STRANGER = (ipaddress.ip_address(text).packed for text in ("192.0.2.1", "192.0.2.2", "198.51.100.1"))
NOW_NS = 1_800_000_000_000_000_000
RECEIVED_NS = NOW_NS - 40_000
NTP_UNIX_S = 2_208_988_800


def make(*, per_peer_per_s: float = 1e6, total_per_s: float = 1e6, most_sessions: int = 1000) -> ReplyMaker:
    peers = Peers({"192.0.2.1": None, "192.0.2.2": base64.b64encode(KEY).decode()}, ["203.0.113.0/24"])
    return ReplyMaker(peers, RateCap(per_peer_per_s, total_per_s), SenderSessions(most_sessions))


def answer(maker: ReplyMaker, packets: list[bytes], sources: list[bytes], *, ports=None, now_s=0.0) -> Answers:
    """Hand the reflector packets in a buffer with rests of earlier ones."""
    width = max(128, *map(len, packets))
    data = np.full((len(packets), width), 0xAA, np.uint8)
    for row, packet in enumerate(packets):
        data[row, : len(packet)] = np.frombuffer(packet, np.uint8)
    count = len(packets)
    return maker.answer(
        Requests(
            data=data,
            lengths=np.array([len(packet) for packet in packets], np.int64),
            addresses=np.frombuffer(b"".join(sources), np.uint8).reshape(count, 4),
            ports=np.frombuffer(b"".join(ports or [b"\x12\x34"] * count), np.uint8).reshape(count, 2),
            received_ns=np.full(count, RECEIVED_NS, np.int64),
            ttls=np.full(count, 57, np.int64),
            traffic_classes=np.full(count, 46 << 2 | 1, np.int64),
        ),
        NOW_NS,
        now_s,
    )


def request(sequence: int, extensions: bytes = b"") -> bytes:
    """An open packet, written by hand from RFC 8762, section 4.2.1, with SSID 0x0707."""
    return struct.pack(">IQHH28x", sequence, 0x1122334455667788, 0x8001, 0x0707) + extensions


def replies(answers: Answers) -> list[bytes]:
    return [answers.data[row, :length].tobytes() for row, length in enumerate(answers.lengths.tolist())]


def test_a_reply_has_the_fields_of_rfc_8762() -> None:
    maker = make()

    first, second = replies(answer(maker, [request(70), request(71)], [OPEN, OPEN]))

    assert len(first) == 44
    fields = struct.unpack(">IQHHQIQHHB3x", first)
    assert (fields[0], fields[3], fields[5:]) == (0, 0x0707, (70, 0x1122334455667788, 0x8001, 0, 57))
    assert [stamp >> 32 for stamp in (fields[1], fields[4])] == [(NOW_NS // 10**9 + NTP_UNIX_S) % 2**32] * 1 + [
        (RECEIVED_NS // 10**9 + NTP_UNIX_S) % 2**32
    ]
    assert struct.unpack_from(">I", second) == (1,)


@pytest.mark.parametrize("length", [14, 20, 41])
def test_a_short_packet_is_answered_at_its_length(length: int) -> None:
    (reply,) = replies(answer(make(), [request(5)[:length]], [OPEN]))

    assert len(reply) == length
    assert struct.unpack_from(">I", reply) == (0,)


def test_only_peers_are_answered() -> None:
    maker = make()
    within = ipaddress.ip_address("203.0.113.77").packed

    answers = answer(maker, [request(1)] * 3, [STRANGER, OPEN, within])

    assert answers.rows.tolist() == [1, 2]
    assert maker.counts["not_a_peer"] == 1


def authenticated(sequence: int, key: bytes = KEY) -> bytes:
    """An authenticated packet, written by hand from RFC 8762, section 4.2.2."""
    head = struct.pack(">I12xQHH68x", sequence, 0x1122334455667788, 0x8001, 0x0707)
    return head + digest(key, head)


def test_a_peer_with_a_key_is_answered_with_it_only() -> None:
    maker = make()

    answers = answer(maker, [authenticated(1), authenticated(2, b"x" * 32), request(3)], [KEYED] * 3)

    (reply,) = replies(answers)
    assert answers.rows.tolist() == [0]
    assert reply[96:] == digest(KEY, reply[:96])
    assert maker.counts["not_authentic"] == 2


def test_each_sender_and_ssid_has_a_counter() -> None:
    other = request(9).replace(b"\x07\x07", b"\x08\x08")

    answers = answer(make(), [request(1), other, request(2)], [OPEN] * 3)

    assert answers.numbers == [0, 0, 1]


def test_the_class_of_service_tells_the_dscp_that_came() -> None:
    answers = answer(make(), [request(1, tlv.class_of_service(10))], [OPEN])

    (reply,) = replies(answers)
    flags, kind, length, value, _ = struct.unpack(">BBHHH", reply[44:])
    # RFC 8972, section 4.4: DSCP asked for, DSCP and ECN that came, then how the reply was marked.
    assert (flags, kind, length) == (0, 4, 4)
    assert (value >> 10, value >> 4 & 63, value >> 2 & 3, value & 3) == (10, 46, 1, 0)
    assert answers.traffic_classes.tolist() == [10 << 2]


def test_a_reply_tells_when_the_last_one_left() -> None:
    maker = make()
    first = answer(maker, [request(1, tlv.follow_up())], [OPEN])
    first.sessions[0].sent_counter, first.sessions[0].sent_ns = 0, NOW_NS + 30_000

    (reply,) = replies(answer(maker, [request(2, tlv.follow_up())], [OPEN]))

    flags, kind, length, counter, stamp, mode = struct.unpack(">BBHIQB3x", reply[44:])
    assert (flags, kind, length, counter, mode) == (0, 7, 16, 0, 2)
    assert (stamp >> 32) - NTP_UNIX_S == NOW_NS // 10**9
    assert (stamp & 0xFFFFFFFF) * 10**9 >> 32 == pytest.approx(30_000, abs=1)


def test_unknown_and_broken_extensions_come_back_with_their_flags() -> None:
    unknown, broken = b"\x00\xc8\x00\x02hi", b"\x00\x04\x00\x40"

    (reply,) = replies(answer(make(), [request(1, unknown + broken)], [OPEN]))

    assert reply[44:] == b"\x80\xc8\x00\x02hi" + b"\x40\x04\x00\x40"


def test_a_peer_gets_no_more_than_its_rate() -> None:
    maker = make(per_peer_per_s=10)

    at_once = answer(maker, [request(n) for n in range(50)], [OPEN] * 50)
    later = answer(maker, [request(n) for n in range(50)], [OPEN] * 50, now_s=0.5)

    assert (len(at_once.rows), len(later.rows)) == (10, 5)
    assert maker.counts["above_rate"] == 85


def test_all_peers_together_get_no_more_than_the_total() -> None:
    others = [ipaddress.ip_address(f"203.0.113.{host}").packed for host in range(40)]

    assert len(answer(make(total_per_s=25), [request(1)] * 40, others).rows) == 25


def test_counters_of_a_peer_are_bounded() -> None:
    sessions = SenderSessions(1000)
    ((other,), _) = sessions.take_numbers(STRANGER, [b"\0\1\0\0"])

    for ssid in range(5000):
        sessions.take_numbers(OPEN, [b"\0\1" + ssid.to_bytes(2)])

    assert len(sessions) == MOST_SESSIONS_PER_PEER + 1
    assert sessions.take_numbers(STRANGER, [b"\0\1\0\0"]) == ([other], [1])


@pytest.mark.parametrize("most", [1, 100])
def test_counters_of_all_peers_are_bounded(most: int) -> None:
    sessions = SenderSessions(most)

    for host in range(1000):
        sessions.take_numbers(host.to_bytes(4), [b"\0\1\0\0", b"\0\1\0\1"])

    assert len(sessions) == most


def test_the_session_that_rested_longest_is_forgotten() -> None:
    sessions = SenderSessions(2)
    for address in (OPEN, KEYED, OPEN, STRANGER):
        sessions.take_numbers(address, [b"\0\1\0\0"])

    assert sessions.take_numbers(OPEN, [b"\0\1\0\0"])[1] == [2]
    assert sessions.take_numbers(KEYED, [b"\0\1\0\0"])[1] == [0]


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_a_send_time_is_that_of_the_reply_with_its_key(at_once: int) -> None:
    sent, sessions = SentReplies(most=7), [SenderSession() for _ in range(30)]
    for first in range(0, 30, at_once):
        numbers = list(range(first, min(first + at_once, 30)))
        sent.add(sessions[first : first + at_once], [100 + number for number in numbers])
        sent.store_stamps(np.array([*numbers, -1]), np.array([1000 + number for number in numbers] + [5]))

    assert [session.sent_counter for session in sessions] == list(range(100, 130))
    assert [session.sent_ns for session in sessions] == list(range(1000, 1030))


HEADS = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=80).map(lambda rest: request(1, rest)),
    st.binary(max_size=80).map(lambda rest: authenticated(1) + rest),
    st.tuples(st.sampled_from([1, 4, 7, 8, 200]), st.integers(0, 30), st.binary(max_size=40)).map(
        lambda parts: authenticated(1) + struct.pack(">BBH", 0x80, parts[0], parts[1]) + parts[2]
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(HEADS, st.just(request(1, tlv.class_of_service(10) + tlv.follow_up()))),
            st.sampled_from([OPEN, KEYED, STRANGER, ipaddress.ip_address("203.0.113.5").packed]),
            st.sampled_from([b"\0\1", b"\0\2"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_packets_of_a_batch_are_answered_as_each_alone(messages) -> None:
    packets, sources, ports = zip(*messages, strict=True)
    together, apart = make(per_peer_per_s=5, total_per_s=8), make(per_peer_per_s=5, total_per_s=8)

    answers = answer(together, list(packets), list(sources), ports=list(ports))

    expected = []
    # The rates of a batch are those of an address after another.
    for source in dict.fromkeys(sources):
        for row in (row for row in range(len(packets)) if sources[row] == source):
            single = answer(apart, [packets[row]], [source], ports=[ports[row]])
            expected += [(row, number, reply) for number, reply in zip(single.numbers, replies(single), strict=True)]
    assert sorted(zip(answers.rows.tolist(), answers.numbers, replies(answers), strict=True)) == sorted(expected)
    assert together.counts == apart.counts


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(HEADS, st.sampled_from([OPEN, KEYED, STRANGER])), min_size=1, max_size=8))
def test_nothing_that_arrives_raises_or_gets_a_larger_reply(messages) -> None:
    answers = answer(make(), [packet for packet, _ in messages], [source for _, source in messages])

    for row, length in zip(answers.rows.tolist(), answers.lengths.tolist(), strict=True):
        packet, source = messages[row]
        assert length <= len(packet)
        assert source != STRANGER
        if source == KEYED:
            assert packet[96:112] == digest(KEY, packet[:96])
    for reply in replies(answers):
        # Nothing of the buffer's earlier contents.
        assert b"\xaa" * 8 not in reply or any(b"\xaa" * 8 in packet for packet, _ in messages)
