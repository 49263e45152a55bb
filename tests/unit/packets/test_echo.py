import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.packets.icmp.echo import EchoFormat, has_valid_checksum, internet_checksum, word_sum

SECRET = b"ten octets"
FLOW = 0x1234


def rfc1071(data: bytes) -> int:
    """The checksum as defined in RFC 1071 section 4.1, word by word in network order."""
    total = 0
    for high, low in zip(data[::2], (data + b"\0")[1::2], strict=False):
        total += (high << 8) + low
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request(number: int, turn: int, size: int, padding: bytes, family: int = 4, flow: int = FLOW) -> bytes:
    heads = np.zeros((1, 24), np.uint8)
    echo = EchoFormat(family, 0xBEEF, SECRET, padding, np.array([flow]), ip_header=False)
    echo.prepare(heads)
    echo.write(heads, np.array([number]), np.array([turn]), np.array([0]), np.array([echo.tail_sum(size)]))
    return heads.tobytes() + padding[: size - 16]


def sequence_of(packet: bytes) -> int:
    return int.from_bytes(packet[6:8], "big")


def as_reply(packet: bytes) -> bytes:
    blank = b"\0" + packet[1:2] + b"\0\0" + packet[4:]
    return blank[:2] + struct.pack(">H", rfc1071(blank)) + blank[4:]


def read(*messages: bytes, ip_header: bool = False):
    data = np.zeros((len(messages), 84), np.uint8)
    for row, message in enumerate(messages):
        data[row, : min(84, len(message))] = np.frombuffer(message[:84], np.uint8)
    lengths = np.array([len(message) for message in messages])
    return EchoFormat(4, 0xBEEF, SECRET, b"", np.array([FLOW]), ip_header=ip_header).read(data, lengths)


@given(st.binary(max_size=300))
def test_the_checksum_equals_that_of_rfc_1071(data):
    assert internet_checksum(np.array([word_sum(data)])).tolist() == [rfc1071(data)]


NUMBERS, TURNS, SIZES = st.integers(0, 2**32 - 1), st.integers(0, 2**20), st.integers(16, 300)
FLOWS, PADDING = st.integers(1, 0xFFFE), st.binary(min_size=284, max_size=284)


@given(NUMBERS, TURNS, SIZES, PADDING, FLOWS)
def test_a_requests_fields_are_in_place_and_its_checksum_valid(number, turn, size, padding, flow):
    packet = request(number, turn, size, padding, flow=flow)

    assert len(packet) == 8 + size
    assert rfc1071(packet) == 0
    assert struct.unpack(">BBHHxxI", packet[:12]) == (8, 0, flow, 0xBEEF, number)
    assert packet[12:22] == SECRET
    assert (sequence_of(packet) - sequence_of(request(number, 0, size, padding))) & 0xFFFF == turn & 0xFFFF


@given(NUMBERS, TURNS, SIZES, PADDING, FLOWS)
def test_over_ipv6_a_flow_has_the_same_checksum_whatever_it_holds(number, turn, size, padding, flow):
    """The kernel adds the pseudo-header (RFC 8200 section 8.1): both addresses, the length and the next header."""

    def checksum_of(packet):
        addresses = bytes(range(32))
        return rfc1071(addresses + struct.pack(">IxxxB", len(packet), 58) + packet)

    packet = request(number, turn, size, padding, family=6, flow=flow)

    assert checksum_of(packet) == checksum_of(request(0, 0, 16, b"", family=6, flow=flow))


def test_over_ipv6_the_checksum_is_left_to_the_kernel():
    packet = request(1, 2, 16, b"", family=6)

    assert packet[:4] == bytes([128, 0, 0, 0])


def test_a_reply_is_parsed():
    replies = read(as_reply(request(7, 3, 100, bytes(84))))

    assert replies.plausible.tolist() == [True]
    sequence = sequence_of(request(0, 3, 16, b""))
    assert (replies.number[0], replies.sequence[0], replies.icmp_bytes[0]) == (7, sequence, 108)


@pytest.mark.parametrize("options", [0, 4, 40])
def test_the_ip_header_is_skipped_whatever_its_length(options):
    header = bytes([0x45 + options // 4]) + bytes(7) + bytes([57]) + bytes(11 + options)

    replies = read(header + as_reply(request(7, 3, 16, b"")), bytes([0x45]) + bytes(60), ip_header=True)

    assert replies.plausible.tolist() == [True, False]
    assert replies.hop_limit is not None
    assert (replies.number[0], replies.icmp_bytes[0], replies.hop_limit[0]) == (7, 24, 57)


def test_requests_forgeries_and_cut_replies_are_not_plausible():
    good = as_reply(request(7, 3, 16, b""))
    wrong_secret = good[:-3] + b"?" + good[-2:]
    wrong_identifier = good[:4] + b"\0\1" + good[6:]
    an_error = b"\3" + good[1:]

    replies = read(request(7, 3, 16, b""), wrong_secret, wrong_identifier, an_error, good[:20], b"", good)

    assert replies.plausible.tolist() == [False] * 6 + [True]


@given(st.lists(st.binary(max_size=120), min_size=1, max_size=20), st.booleans())
def test_random_bytes_are_never_plausible_and_never_an_error(messages, ip_header):
    assert not read(*messages, ip_header=ip_header).plausible.any()


@given(st.lists(st.tuples(st.integers(0, 15), st.binary(max_size=90)), min_size=1, max_size=12), st.data())
def test_a_checksum_is_valid_if_the_sum_is_all_ones(rows, data):
    messages = []
    for words, body in rows:
        whole = struct.pack(">H", rfc1071(b"\0\0" + body)) + body if data.draw(st.booleans()) else body
        messages.append((4 * words, bytes(4 * words) + whole))
    table = np.full((len(messages), 100), 0xA5, np.uint8)
    for row, (_, message) in enumerate(messages):
        table[row, : min(100, len(message))] = np.frombuffer(message[:100], np.uint8)

    is_valid = has_valid_checksum(
        table, np.array([start for start, _ in messages]), np.array([len(message) for _, message in messages])
    )

    assert is_valid.tolist() == [
        start < len(message) <= 100 and rfc1071(message[start:]) == 0 for start, message in messages
    ]
