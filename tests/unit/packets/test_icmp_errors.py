"""Parsing of ICMP errors, built from RFC 792, RFC 1191, RFC 4443 and RFC 4884."""

import socket
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.packets.icmp.icmp_errors import TYPES, name_of
from tests.unit.ping_wire import (
    OTHER_SECRET,
    OUR_HOST,
    REPLY,
    ROUTER,
    SECOND,
    Arrival,
    Form,
    PartialSession,
    checked,
    control_messages,
    extended_error,
    icmp_error,
    ipv4,
    ipv6,
)

RAW4, RAW6 = Form(4, is_raw=True), Form(6, is_raw=True)
RAW = [RAW4, RAW6]
RFC_TYPES = {
    4: {3: "destination unreachable", 11: "time exceeded", 12: "parameter problem"},
    6: {1: "destination unreachable", 2: "packet too big", 3: "time exceeded", 4: "parameter problem"},
}


def deliver(session: PartialSession, *errors: bytes, router: bytes | None = None) -> None:
    session.deliver([session.arrival(error, router or ROUTER[session.family]) for error in errors])


@pytest.mark.parametrize("family", [4, 6])
def test_the_types_are_those_of_the_rfcs(family):
    assert set(TYPES[family]) == set(RFC_TYPES[family])


@pytest.mark.parametrize(
    ("form", "icmp_type"), [(form, kind) for form in RAW for kind in RFC_TYPES[form.family]], ids=str
)
def test_errors_of_every_type_and_code_are_stored_unchanged(form, icmp_type):
    session = PartialSession(form, targets=8, count=16)
    errors = [icmp_error(icmp_type, code, session.quoted(code)) for code in range(256)]

    deliver(session, *errors)

    assert session.errors == [(code, icmp_type, code, 0, ROUTER[form.family]) for code in range(256)]
    assert not any(session.replies)


@pytest.mark.parametrize("outer", range(11))
@pytest.mark.parametrize("inner", range(11))
def test_ipv4_options_are_accepted_in_either_header(outer, inner):
    session = PartialSession(RAW4)
    quoted = ipv4(OUR_HOST[4], session.host(5), session.request(5), options=inner)

    session.deliver([session.arrival(icmp_error(11, 0, quoted), ROUTER[4], options=outer)])

    assert session.errors == [(5, 11, 0, 0, ROUTER[4])]


@pytest.mark.parametrize("quoted_bytes", [8, 9, 23, 24, 25, 69])
def test_over_ipv4_eight_quoted_bytes_are_enough(quoted_bytes):
    session = PartialSession(RAW4)
    quoted = ipv4(OUR_HOST[4], session.host(7), session.request(7)[:quoted_bytes])

    deliver(session, icmp_error(3, 1, quoted))

    assert session.errors == [(7, 3, 1, 0, ROUTER[4])]


@pytest.mark.parametrize(("form", "least"), [(RAW4, 8), (RAW6, 24)], ids=str)
def test_a_quote_that_is_too_short_is_ignored(form, least):
    for quoted_bytes in range(least):
        session = PartialSession(form)
        quoted = session.quoted(0, session.request(0)[:quoted_bytes])
        deliver(session, icmp_error(TYPES[form.family][0], 0, quoted))
        assert session.errors == []


def test_a_padded_quote_with_extensions_is_parsed():
    """RFC 4884: the quote is padded to 128 bytes, its length counted in words, and MPLS labels follow (RFC 4950)."""
    session = PartialSession(RAW4)
    quoted = session.quoted(3).ljust(128, b"\0")
    labels = struct.pack(">HHHBBI", 0x2000, 0, 8, 1, 1, 24001 << 12 | 0x101)

    deliver(session, icmp_error(11, 0, quoted + labels, rest=bytes([0, 32, 0, 0])))

    assert session.errors == [(3, 11, 0, 0, ROUTER[4])]


@pytest.mark.parametrize("mtu_bytes", [0, 68, 1280, 1499])
def test_over_ipv4_the_mtu_is_the_last_half_of_the_word(mtu_bytes):
    """RFC 1191, section 4. RFC 4884 has a length in the first half."""
    session = PartialSession(RAW4, sizes=(1472,))

    deliver(session, icmp_error(3, 4, session.quoted(0)[:128], rest=struct.pack(">BBH", 0, 32, mtu_bytes)))

    assert session.errors == [(0, 3, 4, mtu_bytes, ROUTER[4])]


@pytest.mark.parametrize("code", [0, 1, 255])
@pytest.mark.parametrize(("told_bytes", "mtu_bytes"), [(1, 1), (1280, 1280), (1447, 1447), (0x10500, 0)])
def test_over_ipv6_the_mtu_is_the_whole_word_for_any_code(told_bytes, mtu_bytes, code):
    """RFC 4443, section 3.2: the code is ignored by the receiver. Of 0x10500, half a word would be 1280."""
    session = PartialSession(RAW6, sizes=(1400,))

    deliver(session, icmp_error(2, code, session.quoted(0)[:1184], rest=struct.pack(">I", told_bytes)))

    assert session.errors == [(0, 2, code, mtu_bytes, ROUTER[6])]


@pytest.mark.parametrize(("form", "icmp_type", "header"), [(RAW4, 3, 20), (RAW6, 2, 40)], ids=str)
@pytest.mark.parametrize("more", [0, 1, 30_000])
def test_an_mtu_in_which_the_packet_would_fit_is_ignored(form, icmp_type, header, more):
    """RFC 8201, section 4: such a message is stale or false."""
    session = PartialSession(form, sizes=(1000,))
    rest = struct.pack(">I", header + 8 + 1000 + more)

    deliver(session, icmp_error(icmp_type, 4, session.quoted(0)[:400], rest=rest))

    assert session.errors == [(0, icmp_type, 4, 0, ROUTER[form.family])]


@pytest.mark.parametrize("form", RAW, ids=str)
def test_only_packet_too_big_errors_carry_an_mtu(form):
    kinds = [kind for kind in TYPES[form.family] if (form.family, kind) != (6, 2)]
    session = PartialSession(form, sizes=(1400,), targets=len(kinds))

    deliver(
        session, *(icmp_error(kind, 1, session.quoted(at)[:400], bytes([0, 0, 5, 0])) for at, kind in enumerate(kinds))
    )

    assert [mtu_bytes for _, _, _, mtu_bytes, _ in session.errors] == [0] * len(kinds)


@pytest.mark.parametrize("form", RAW, ids=str)
def test_only_the_first_error_of_a_packet_is_stored(form):
    session = PartialSession(form)
    kind = TYPES[form.family][0]
    other = ROUTER[form.family][:-1] + b"\2"

    deliver(session, icmp_error(kind, 1, session.quoted(2)), icmp_error(kind, 3, session.quoted(2)))
    deliver(session, icmp_error(kind, 0, session.quoted(2)), icmp_error(kind, 0, session.quoted(1)), router=other)

    assert session.errors == [(1, kind, 0, 0, other), (2, kind, 1, 0, ROUTER[form.family])]


def forgeries(session: PartialSession) -> dict[str, bytes]:
    """Quotes of packet 4, each with a single wrong field; packet 10 is not sent yet, packet 2 was refused."""
    family, host = session.family, session.host(4)
    request = session.request(4)
    stale = PartialSession(session.form, secret=OTHER_SECRET, count=4).request(4)
    wrap = ipv4 if family == 4 else ipv6
    protocol = {"protocol": 17} if family == 4 else {"next_header": 17}
    return {
        "another secret": session.quoted(4, stale),
        "another secret, cut": session.quoted(4, stale[:8]),
        "another identifier": session.quoted(4, checked(request[:4] + b"\0\1" + request[6:])),
        "another sequence": session.quoted(4, session.request(4, sequence=7)),
        "another target": session.quoted(4, host=session.host(5)),
        "no target of ours": session.quoted(4, host=OUR_HOST[family]),
        "not sent yet": session.quoted(10),
        "not sent yet, cut": session.quoted(10, session.request(10)[:8]),
        "a number out of range": session.quoted(2**32 - 1),
        "refused": session.quoted(2),
        "a reply": session.quoted(4, checked(bytes([REPLY[family]]) + request[1:])),
        "another code": session.quoted(4, checked(request[:1] + b"\1" + request[2:])),
        "another protocol": wrap(OUR_HOST[family], host, request, **protocol),
        "another family": (ipv6 if family == 4 else ipv4)(OUR_HOST[10 - family], ROUTER[10 - family], request),
        "nothing": b"",
        "a header alone": session.quoted(4, b""),
    }


@pytest.mark.parametrize("form", RAW, ids=str)
@pytest.mark.parametrize("forgery", list(forgeries(PartialSession(RAW4, count=4))))
def test_a_forged_error_is_ignored(form, forgery):
    session = PartialSession(form, count=4, sent=10, refused=[2])
    kind = TYPES[form.family][0]

    deliver(session, icmp_error(kind, 0, forgeries(session)[forgery]))
    assert session.errors == []

    deliver(session, icmp_error(kind, 0, session.quoted(4)))
    assert [packet for packet, *_ in session.errors] == [4]


@given(st.integers(1, 0xFFFF))
def test_over_ipv4_the_quoted_checksum_must_match_the_request(change):
    session = PartialSession(RAW4)
    request = session.request(6)
    (checksum,) = struct.unpack(">H", request[2:4])
    wrong = request[:2] + struct.pack(">H", checksum ^ change) + request[4:]

    deliver(session, icmp_error(3, 1, session.quoted(6, wrong[:8])), icmp_error(3, 1, session.quoted(6, wrong)))

    assert session.errors == []


@settings(deadline=None)
@given(st.data())
def test_over_ipv4_a_corrupted_error_is_ignored(data):
    """A raw IPv4 socket also receives messages with a wrong checksum: a corrupted code or MTU must not be used."""
    session = PartialSession(RAW4)
    error = bytearray(icmp_error(3, 4, session.quoted(0), rest=bytes([0, 0, 0, 40])))
    error[data.draw(st.integers(0, len(error) - 1))] ^= data.draw(st.integers(1, 255))

    deliver(session, bytes(error))

    assert session.errors == []


@pytest.mark.parametrize("form", RAW, ids=str)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_truncated_error_is_ignored_or_names_the_right_packet(form, data):
    session = PartialSession(form)
    packet = data.draw(st.integers(0, 11))
    error = icmp_error(TYPES[form.family][0], 0, session.quoted(packet))
    shorter = checked(error[: data.draw(st.integers(4, len(error)))])

    deliver(session, shorter)

    assert {about for about, *_ in session.errors} <= {packet}


@pytest.mark.parametrize("inner", range(16))
def test_a_wrong_quoted_header_length_matches_no_packet(inner):
    session = PartialSession(RAW4)
    quoted = session.quoted(4)
    lying = bytes([0x40 + inner]) + quoted[1:]

    deliver(session, icmp_error(11, 0, lying), icmp_error(11, 0, lying[:28]))

    # Less than five words is invalid, and is parsed as five.
    assert [packet for packet, *_ in session.errors] == ([4] if inner <= 5 else [])


def test_a_sequence_beyond_16_bits_is_matched_by_its_number_only():
    session = PartialSession(RAW4, targets=1, sizes=(16,), count=0x10002)
    high = 0x10001

    deliver(session, icmp_error(3, 1, session.quoted(high, session.request(high)[:8])))
    assert session.errors == []

    deliver(session, icmp_error(3, 1, session.quoted(high)))
    assert [packet for packet, *_ in session.errors] == [high]


@pytest.mark.parametrize("family", [4, 6])
def test_a_datagram_sockets_error_queue_gives_the_same_errors(family):
    """ip(7), IP_RECVERR: the message is the quoted ICMP packet, its address is the destination of that packet; the
    error is a control message: `ee_info` is the MTU, followed by the address of the error's sender."""
    session = PartialSession(Form(family, is_raw=False), sizes=(1400,))
    too_big = {4: (3, 4), 6: (2, 0)}[family]
    origin = {4: 2, 6: 3}[family]

    def error_message(kind: int, code: int) -> bytes:
        return control_messages(
            extended_error(
                family, code=90, origin=origin, kind=kind, icmp_code=code, info=1300, offender=ROUTER[family]
            )
        )

    session.queue(
        [
            (session.request(0), session.host(0), error_message(*too_big)),
            (session.request(4), session.host(4), error_message(TYPES[family][-1], 1)),
            (session.request(5), session.host(4), error_message(*too_big)),
        ]
    )

    assert session.errors == [(0, *too_big, 1300, ROUTER[family]), (4, TYPES[family][-1], 1, 0, ROUTER[family])]


def test_an_error_about_a_priming_request_is_not_counted():
    session = PartialSession(RAW4)
    session.table._turns_by_size = session.table._turns_by_size[1:]

    deliver(session, icmp_error(3, 1, session.quoted(0)), icmp_error(3, 1, session.quoted(4)))

    errors = session.table.results(np.arange(3), 2 * SECOND, 0).errors
    assert (errors.target.tolist(), errors.turn.tolist()) == ([1], [0])


@pytest.mark.parametrize("data", [b"", b"\x45", b"\x4f" * 60, b"\xff" * 1500, bytes(152)])
@pytest.mark.parametrize("form", RAW, ids=str)
def test_a_message_that_is_no_icmp_error_is_ignored(form, data):
    session = PartialSession(form)

    session.deliver([Arrival(data, ROUTER[form.family])])

    assert session.errors == []


def test_an_error_without_a_name_is_called_by_its_numbers():
    assert (name_of(4, 3, 13), name_of(4, 3, 99)) == ("administratively_prohibited", "icmp_type_3_code_99")


def test_router_addresses_are_in_network_order():
    session = PartialSession(RAW4)

    deliver(session, icmp_error(3, 1, session.quoted(0)), router=socket.inet_aton("203.0.113.9"))

    assert [router for *_, router in session.errors] == [bytes([203, 0, 113, 9])]
