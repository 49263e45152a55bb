"""Errors of routers: nothing is believed that does not quote our probe, and no extension makes trouble."""

from __future__ import annotations

import socket
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.packets.engine.receiver import ReplyMatcher
from probes.packets.icmp.clock import StampClock
from probes.packets.icmp.echo import EchoFormat
from probes.trace.engine.packets import TraceTable, read_labels
from probes.trace.engine.udp import UdpFormat, UdpMatcher
from probes.trace.spec import MplsLabel
from tests.unit.ping_wire import (
    CLOCK_OFFSET_NS,
    FORMS,
    IDENTIFIER,
    OUR_HOST,
    ROUTER,
    SECOND,
    SECRET,
    Form,
    checked,
    control_messages,
    controls_of,
    extended_error,
    icmp_error,
    ip,
    ipv4,
    rfc1071,
    rows_of,
    stamps,
)

WIDTH = 1280
EXCEEDED = {4: (11, 0), 6: (3, 0)}


class Session:
    """A session of traces with some probes sent: number, target and TTL of each are drawn by the table."""

    def __init__(self, form: Form, *, targets: int = 3, sent: int = 12, udp: bool = False) -> None:
        self.form, self.family = form, form.family
        self.table = TraceTable(self.family, 64, 2.0)
        self.hosts = [ROUTER[self.family][:-1] + bytes([100 + rank]) for rank in range(targets)]
        self.format = (UdpFormat if udp else EchoFormat)(
            self.family,
            IDENTIFIER,
            SECRET,
            bytes(range(40)),
            np.array([0x1234 + 0x1111 * rank for rank in range(targets)]),
            ip_header=form.has_ip_header,
            errors_among_replies=form.is_raw,
        )
        for number in range(sent):
            self.table.plan(number * 7 % targets, 1 + number % 5)
        self.table.next = sent
        self.table.called_ns[:sent] = 100 * SECOND
        self.table.unanswered = set(range(sent))
        hosts = np.array([list(host) for host in self.hosts], np.uint8)
        clock = StampClock(lambda: (0, CLOCK_OFFSET_NS))
        self.matcher = (UdpMatcher if udp else ReplyMatcher)(self.format, self.table, hosts, clock)

    def host(self, number: int) -> bytes:
        return self.hosts[int(self.table.ranks[number])]

    def probe(self, number: int) -> bytes:
        heads = np.zeros((1, self.format.head_bytes), np.uint8)
        self.format.prepare(heads)
        numbers, ranks = np.array([number]), self.table.ranks[[number]]
        self.format.write(heads, numbers, numbers, ranks, np.array([self.format.tail_sum(56)]))
        message = heads.tobytes() + self.format.padding
        return checked(message) if self.family == 6 and type(self.format) is EchoFormat else message

    def receive(self, messages: list[bytes], source: bytes, control: bytes = b"") -> None:
        """Messages of a raw socket."""
        if self.form.has_ip_header:
            messages = [ipv4(source, OUR_HOST[4], message) for message in messages]
        data, lengths = rows_of(messages, WIDTH, bytes(WIDTH))
        sources = np.array([list(source)] * len(messages), np.uint8)
        self.matcher.match_messages(data, lengths, sources, controls_of([control] * len(messages)), 200 * SECOND)

    def queue(self, quotes: list[tuple[bytes, bytes]], extension_at: int = 0, stamp_ns: int = 0) -> None:
        """Quotes with their destination on the error queue of a datagram socket."""
        icmp_type, icmp_code = EXCEEDED[self.family]
        error = extended_error(
            self.family,
            code=113,
            origin={4: 2, 6: 3}[self.family],
            kind=icmp_type,
            icmp_code=icmp_code,
            data=extension_at,
            offender=ROUTER[self.family],
        )
        control = control_messages(stamps(kernel_ns=stamp_ns), error)
        data, lengths = rows_of([quote for quote, _ in quotes], WIDTH, bytes(WIDTH))
        hosts = np.array([list(host) for _, host in quotes], np.uint8)
        self.matcher.match_queued_errors(data, lengths, hosts, controls_of([control] * len(quotes)), 200 * SECOND)

    def quoted(self, number: int, message: bytes | None = None) -> bytes:
        message = self.probe(number) if message is None else message
        return ip(self.family, OUR_HOST[self.family], self.host(number), message)


def label_stack(*labels: tuple[int, int, int]) -> bytes:
    """RFC 4950 in RFC 4884: version 2, checksum; object of class 1, type 1; the bottom of the stack is marked."""
    entries = b"".join(
        struct.pack(">I", label << 12 | exp << 9 | (place == len(labels) - 1) << 8 | ttl)
        for place, (label, exp, ttl) in enumerate(labels)
    )
    body = struct.pack(">BBHHBB", 0x20, 0, 0, 4 + len(entries), 1, 1) + entries
    return body[:2] + struct.pack(">H", rfc1071(body)) + body[4:]


raw_forms = pytest.mark.parametrize("form", [form for form in FORMS if form.is_raw], ids=str)
families = pytest.mark.parametrize("family", [4, 6])


@raw_forms
def test_a_router_is_told_from_its_error_with_its_arrival(form):
    session = Session(form)
    stamp = control_messages(stamps(kernel_ns=CLOCK_OFFSET_NS + 101 * SECOND))
    session.receive([icmp_error(*EXCEEDED[form.family], session.quoted(5))], ROUTER[form.family], stamp)

    [(number, error)] = session.table.errors.items()
    assert (number, error.router, error.name) == (5, ROUTER[form.family], "time_exceeded")
    assert error.arrived_ns == 101 * SECOND
    assert error.mpls == ()


def test_eight_quoted_bytes_tell_the_probe_over_ipv4():
    session = Session(Form(4, is_raw=True))
    session.receive([icmp_error(11, 0, session.quoted(8)[:28])], ROUTER[4])

    assert list(session.table.errors) == [8]


@raw_forms
@pytest.mark.parametrize("says_length", [True, False], ids=["with its length", "of an old router"])
def test_labels_follow_the_padded_quote_on_a_raw_socket(form, says_length):
    quote = Session(form).quoted(5).ljust(128, b"\0")
    words = {4: bytes([0, 32, 0, 0]), 6: bytes([16, 0, 0, 0])}[form.family] if says_length else bytes(4)
    session = Session(form)
    error = icmp_error(*EXCEEDED[form.family], quote + label_stack((16001, 3, 1), (524287, 0, 254)), words)
    session.receive([error], ROUTER[form.family])

    assert session.table.errors[5].mpls == (
        MplsLabel(label=16001, traffic_class=3, ttl=1),
        MplsLabel(label=524287, traffic_class=0, ttl=254),
    )


@families
def test_labels_are_read_where_the_error_queue_says(family):
    session = Session(Form(family, is_raw=False))
    quote = session.probe(5).ljust(108, b"\0")
    session.queue([(quote + label_stack((299776, 0, 1)), session.host(5))], extension_at=108)

    assert session.table.errors[5].mpls == (MplsLabel(label=299776, traffic_class=0, ttl=1),)


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda stack: b"\x10" + stack[1:],
        lambda stack: stack[:2] + bytes([stack[2] ^ 1]) + stack[3:],
        lambda stack: stack[:-1],
        lambda stack: stack[:5] + b"\xff" + stack[6:],
        lambda stack: stack[:3],
    ],
    ids=["version", "checksum", "cut", "length", "header"],
)
def test_malformed_extensions_have_no_labels(spoilt):
    assert read_labels(label_stack((16001, 3, 1)))
    assert read_labels(spoilt(label_stack((16001, 3, 1)))) == ()


def test_other_extensions_before_the_labels_are_skipped():
    """RFC 5837: interface information, class 2."""
    stack = label_stack((77, 0, 1))[4:]
    body = struct.pack(">BBH", 0x20, 0, 0) + struct.pack(">HBB", 8, 2, 0x0A) + b"eth0" + stack
    assert read_labels(body) == (MplsLabel(label=77, traffic_class=0, ttl=1),)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_no_extensions_raise_and_all_labels_are_in_bounds(noise, sound):
    body = b"\x20\0\0\0" + noise
    labels = read_labels(body[:2] + struct.pack(">H", rfc1071(body)) + noise if sound else noise)

    assert msgspec.json.decode(msgspec.json.encode(labels), type=tuple[MplsLabel, ...]) == labels
    assert len(labels) <= 16


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_only_errors_that_quote_our_probe_are_believed(data):
    form = data.draw(st.sampled_from(FORMS))
    session = Session(form)
    number = data.draw(st.integers(0, 11))
    message = bytearray(session.probe(number))
    place = data.draw(st.sampled_from(["fields", "host", "number", "length"]))
    host = session.host(number)
    if place == "fields":
        message[data.draw(st.sampled_from([0, 1, *range(4, 22)]))] ^= data.draw(st.integers(1, 255))
    elif place == "host":
        host = ROUTER[session.family]
    elif place == "number":
        message = bytearray(session.probe(data.draw(st.integers(12, 63))))
    else:
        message = message[: data.draw(st.integers(0, 7))]
    extensions = data.draw(st.binary(max_size=60))
    if form.is_raw:
        quote = ip(session.family, OUR_HOST[session.family], host, bytes(message))
        padded = quote if place == "length" else quote.ljust(128, b"\0") + extensions
        session.receive([icmp_error(*EXCEEDED[session.family], padded)], ROUTER[session.family])
    else:
        session.queue([(bytes(message), host)], data.draw(st.integers(0, 0xFFFF)))

    assert session.table.errors == {}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_fuzzed_errors_never_raise(data):
    form = data.draw(st.sampled_from(FORMS))
    session = Session(form, udp=not form.is_raw and data.draw(st.booleans()))
    number = data.draw(st.integers(0, 11))
    extensions = data.draw(st.binary(max_size=120) | st.just(label_stack((1, 2, 3))))
    quote = session.quoted(number) if form.is_raw else session.probe(number)
    message = bytearray(quote.ljust(data.draw(st.sampled_from([0, 108, 128])), b"\0") + extensions)
    for _ in range(data.draw(st.integers(0, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    if form.is_raw:
        rest = data.draw(st.binary(min_size=4, max_size=4))
        session.receive([icmp_error(*EXCEEDED[session.family], bytes(message), rest)], ROUTER[session.family])
    else:
        session.queue([(bytes(message), session.host(number))], data.draw(st.integers(0, 0xFFFF)))

    # A changed number may be that of another probe to the same target: the secret is still ours.
    assert {session.host(each) for each in session.table.errors} <= {session.host(number)}


@families
def test_a_datagram_is_told_by_the_payload_that_an_error_quotes(family):
    session = Session(Form(family, is_raw=False), udp=True)
    session.queue([(session.probe(5), session.host(5))])

    assert list(session.table.errors) == [5]


@families
def test_a_quote_of_another_payload_is_not_believed(family):
    session = Session(Form(family, is_raw=False), udp=True)
    forged = bytearray(session.probe(5))
    forged[6] ^= 1
    session.queue([(bytes(forged), session.host(5)), (bytes(forged[:3]), session.host(5))])

    assert session.table.errors == {}


@families
def test_an_error_without_payload_counts_for_the_only_unanswered_datagram(family):
    session = Session(Form(family, is_raw=False), udp=True)
    session.queue([(b"", session.host(5))])
    assert session.table.errors == {}
    assert session.table.has_short_quotes

    session.table.unanswered = {5}
    session.queue([(b"", session.host(5))])
    assert list(session.table.errors) == [5]
    assert socket.inet_ntop({4: socket.AF_INET, 6: socket.AF_INET6}[family], session.table.errors[5].router)
