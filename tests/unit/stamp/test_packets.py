"""Packets of STAMP against those that stamp-suite 1.0.0 sent and answered, recorded on loopback."""

from __future__ import annotations

import base64
import ipaddress
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from probes.packets.engine.packet_outcomes import SendPattern
from probes.packets.icmp.clock import StampClock
from probes.packets.icmp.kernel import Controls
from probes.peers import Peers
from probes.stamp.engine.session import Identities, StampFormat, StampMatcher
from probes.stamp.engine.table import MOST_UNCOUNTED, ReplyFigures, StampTable, Uncounted
from probes.stamp.packets import PTP, decode_estimate, encode_estimate, is_authentic, to_ntp, to_unix_ns
from probes.stamp.reflector.replies import ReplyMaker, Requests
from probes.stamp.reflector.sessions import RateCap, SenderSessions
from probes.stamp.request_format import RequestFormat

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures" / "stamp" / "stamp_suite.json").read_text())
KEY = b"k" * 32
PEER = struct.pack(">H4s", 862, ipaddress.ip_address("192.0.2.1").packed)
FIRST_SEQUENCE = 1000


def read(name: str, *, length: int = 200, source: bytes = PEER, change: int | None = None) -> ReplyFigures:
    """Read the recorded replies to our three packets, cut to a length, from a source, with a changed byte."""
    return read_table(name, length=length, source=source, change=change).figures(np.array([0]), 0)


def read_table(
    name: str, *, length: int = 200, source: bytes = PEER, change: int | None = None, is_echo: bool = False
) -> StampTable:
    is_authenticated = name == "reflector_authenticated"
    layout = RequestFormat.of_size(200, is_authenticated=is_authenticated)
    identities = Identities(np.array([0x0707]), np.array([FIRST_SEQUENCE]), (KEY if is_authenticated else None,))
    table = StampTable(1, SendPattern((200,), 3, 1.0, 2.0))
    table.next = 3
    stamp_at = 16 if is_authenticated else 4
    packets = [(bytes.fromhex(sent), bytearray.fromhex(reply)) for sent, reply in RECORDED[name]]
    table.sent_stamps[:] = [struct.unpack_from(">Q", sent, stamp_at)[0] for sent, _ in packets]
    stamp_format = StampFormat(4, layout, identities, 46, 0.001)
    hosts = np.frombuffer(PEER, np.uint8).reshape(1, 6)
    matcher = StampMatcher(stamp_format, table, hosts, StampClock(lambda: (1, 0)))
    data = np.zeros((3, 256), np.uint8)
    for row, (_, reply) in enumerate(packets):
        if change is not None:
            reply[change] ^= 1
        data[row, :length] = np.frombuffer(bytes((packets[row][0] if is_echo else reply)[:length]), np.uint8)
    controls = Controls(3)
    sources = np.frombuffer(source * 3, np.uint8).reshape(3, 6)
    matcher.match_messages(data, np.full(3, length), sources, controls, 10**9)
    return table


@pytest.mark.parametrize("name", ["reflector_open", "reflector_authenticated"])
def test_replies_of_a_foreign_reflector_are_read(name: str) -> None:
    figures = read(name)

    assert figures.counter.tolist() == [[0, 1, 2]]
    assert figures.forward_ttl.tolist() == [[64, 64, 64]]
    assert figures.forward_dscp.tolist() == [[46, 46, 46]]
    # It answers within a few ms, and tells the true send time of a reply with the next.
    assert (np.abs(figures.far_sent_ns - figures.far_received_ns) < 10**8).all()
    assert figures.followed_up.tolist() == [[True, True, False]]


def test_a_reflector_without_a_counter_returns_our_numbers() -> None:
    assert read("reflector_stateless").counter.tolist() == [[FIRST_SEQUENCE, FIRST_SEQUENCE + 1, FIRST_SEQUENCE + 2]]


@pytest.mark.parametrize(("length", "ttl"), [(38, -1), (41, 64)])
def test_short_replies_are_read_as_far_as_they_go(length: int, ttl: int) -> None:
    figures = read("reflector_open", length=length)

    assert figures.counter.tolist() == [[0, 1, 2]]
    assert (figures.far_received_ns > 0).all()
    assert figures.forward_ttl.tolist() == [[ttl] * 3]
    assert figures.forward_dscp.tolist() == [[-1] * 3]


OTHER_PORT = struct.pack(">H4s", 863, ipaddress.ip_address("192.0.2.1").packed)
OTHER_HOST = struct.pack(">H4s", 862, ipaddress.ip_address("192.0.2.2").packed)


@pytest.mark.parametrize(
    ("name", "length", "source", "change"),
    [
        ("reflector_open", 37, PEER, None),
        ("reflector_open", 200, OTHER_PORT, None),
        ("reflector_open", 200, OTHER_HOST, None),
        ("reflector_open", 200, PEER, 35),  # our timestamp
        ("reflector_open", 200, PEER, 24),  # our sequence number
        ("reflector_open", 200, PEER, 15),  # SSID
        ("reflector_authenticated", 200, PEER, 3),  # anything that the HMAC covers
        ("reflector_authenticated", 200, PEER, 100),  # the HMAC itself
    ],
)
def test_what_does_not_match_a_packet_is_not_believed(name, length, source, change) -> None:
    assert (read(name, length=length, source=source, change=change).counter == -1).all()


def test_follow_ups_with_a_wrong_hmac_are_left_out() -> None:
    # Behind the base packet with its own HMAC: the follow-up time, covered by the HMAC TLV.
    assert not read("reflector_authenticated", change=112 + 8 + 12).followed_up.any()


@pytest.mark.parametrize(("name", "is_authenticated"), [("sender_open", False), ("sender_authenticated", True)])
def test_packets_of_a_foreign_sender_are_answered(name: str, is_authenticated: bool) -> None:
    packet = bytes.fromhex(RECORDED[name])
    peers = Peers({"192.0.2.1": base64.b64encode(KEY).decode() if is_authenticated else None})
    maker = ReplyMaker(peers, RateCap(10, 10), SenderSessions(10))

    answers = maker.answer(
        Requests(
            data=np.frombuffer(packet, np.uint8).reshape(1, -1),
            lengths=np.array([len(packet)]),
            addresses=np.array([[192, 0, 2, 1]], np.uint8),
            ports=np.array([[1, 2]], np.uint8),
            received_ns=np.zeros(1, np.int64),
            ttls=np.array([64]),
            traffic_classes=np.array([0]),
        ),
        10**18,
        0.0,
    )

    reply = answers.data[0].tobytes()
    base = 112 if is_authenticated else 44
    assert len(reply) == len(packet)
    assert is_authentic(KEY, reply) == is_authenticated
    # Class of Service and Follow-Up Telemetry were known, and their HMAC valid: no flag.
    assert (reply[base], reply[base + 8]) == (0, 0)


def test_ntp_seconds_are_those_of_rfc_5905() -> None:
    # RFC 5905, figure 4: 1 January 2000 is second 3,155,673,600 of the prime epoch.
    unix_ns = np.array([946_684_800 * 10**9, 946_684_800 * 10**9 + 500_000_000])

    assert to_ntp(unix_ns).tolist() == [3_155_673_600 << 32, 3_155_673_600 << 32 | 1 << 31]


@pytest.mark.parametrize("unix_s", [946_684_800, 1_800_000_000, 2_085_978_495, 2_085_978_497, 3_000_000_000])
@pytest.mark.parametrize("rest_ns", [0, 1, 123_456_789, 999_999_999])
def test_timestamps_survive_their_way(unix_s: int, rest_ns: int) -> None:
    # 2036 lies between the third and the fourth: NTP's era ends.
    unix_ns = np.array([unix_s * 10**9 + rest_ns])

    assert to_unix_ns(to_ntp(unix_ns), np.array([0])).tolist() == unix_ns.tolist()


def test_ptp_timestamps_are_read_where_the_estimate_says_so() -> None:
    assert to_unix_ns(np.array([1_800_000_000 << 32 | 5], np.uint64), np.array([PTP])).tolist() == [
        1_800_000_000 * 10**9 + 5
    ]


@pytest.mark.parametrize("error_s", [1e-7, 5e-5, 0.0123, 1.0, 3600.0])
def test_error_estimates_are_rounded_up_by_less_than_a_percent(error_s: float) -> None:
    decoded = decode_estimate(encode_estimate(error_s))

    assert decoded is not None
    assert error_s <= decoded <= error_s * 1.01


@pytest.mark.parametrize("estimate", [encode_estimate(None), 0x8000, 0x0101])
def test_a_clock_that_claims_nothing_has_no_estimate(estimate: int) -> None:
    assert decode_estimate(estimate) is None


OTHER = struct.pack(">H4s", 862, ipaddress.ip_address("192.0.2.99").packed)


@pytest.mark.parametrize("name", ["reflector_open", "reflector_authenticated"])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"source": OTHER}, Uncounted.OTHER_ADDRESS),
        ({"is_echo": True}, Uncounted.ECHO),
        ({"change": 100}, Uncounted.NOT_AUTHENTIC),
    ],
)
def test_replies_that_do_not_count_are_told(name, how, reason) -> None:
    table = read_table(name, **how)

    if name == "reflector_open" and reason is Uncounted.NOT_AUTHENTIC:
        assert not table.uncounted
    else:
        assert table.uncounted == {0: {(reason, how.get("source", PEER)): 3}}
        assert not table.replies.any()


def test_senders_of_replies_that_do_not_count_are_bounded() -> None:
    table = StampTable(1, SendPattern((200,), 3, 1.0, 2.0))

    table.enter_uncounted(np.zeros(100, np.int64), Uncounted.ECHO, np.arange(600, dtype=np.uint8).reshape(100, 6))

    assert len(table.uncounted[0]) == MOST_UNCOUNTED
