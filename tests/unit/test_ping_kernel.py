import ctypes
import socket
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.ping.kernel import CONTROL_WORDS, IOVEC, MMSGHDR, read_controls

STAMP = (1, 37, struct.pack("=6q", 1_700_000_000, 123_456_789, 0, 0, 0, 0))
TTL = (0, 2, struct.pack("=i", 57))
HOP_LIMIT = (41, 52, struct.pack("=i", 58))


def send_error(key: int, *, code: int = 42, origin: int = 4, info: int = 0) -> tuple[int, int, bytes]:
    return (0, 11, struct.pack("=IBBBxII16x", code, origin, 0, 0, info, key))


def packed(*messages: tuple[int, int, bytes]) -> bytes:
    """Control messages as cmsg(3) lays them out: length 8, level 4, type 4, data, padded to 8."""
    return b"".join(
        struct.pack("=qii", 16 + len(data), level, kind) + data + bytes(-len(data) % 8)
        for level, kind, data in messages
    )


def read(*rows: bytes, cut: int = 0):
    control = np.zeros((len(rows), CONTROL_WORDS), np.int64)
    for row, data in enumerate(rows):
        control[row].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    return read_controls(control, np.array([len(data) - cut for data in rows]))


def test_the_structures_have_the_sizes_of_the_64_bit_abi():
    assert (IOVEC.itemsize, MMSGHDR.itemsize, ctypes.sizeof(ctypes.c_size_t)) == (16, 64, 8)
    assert MMSGHDR["header"].fields["control_length"][1] == 40
    assert MMSGHDR.fields["length"][1] == 56


def test_control_messages_are_found_in_any_order():
    controls = read(packed(STAMP, TTL), packed(TTL, STAMP), packed(HOP_LIMIT), packed(STAMP, send_error(77)), b"")

    assert controls.stamp_ns.tolist() == [1_700_000_000_123_456_789] * 2 + [0, 1_700_000_000_123_456_789, 0]
    assert controls.hop_limit.tolist() == [57, 57, 58, -1, -1]
    assert controls.key.tolist() == [-1, -1, -1, 77, -1]


@pytest.mark.parametrize("other", [{"code": 113}, {"origin": 2}, {"info": 1}])
def test_an_error_that_is_no_send_stamp_gives_no_key(other):
    assert read(packed(STAMP, send_error(77, **other))).key.tolist() == [-1]


def test_a_message_of_another_kind_is_passed_over():
    controls = read(packed((1, 29, bytes(16)), (41, 37, bytes(48)), TTL))

    assert (controls.stamp_ns[0], controls.hop_limit[0]) == (0, 57)


def test_a_message_that_reaches_beyond_its_end_is_not_read():
    assert read(packed(TTL, STAMP), cut=1).stamp_ns.tolist() == [0]


@given(st.lists(st.binary(max_size=8 * CONTROL_WORDS), min_size=1, max_size=8))
def test_garbage_ends_the_walk_and_is_no_error(rows):
    assert len(read(*rows).key) == len(rows)


def test_the_constants_are_those_of_the_kernel_headers():
    assert (socket.IP_TTL, socket.IPV6_HOPLIMIT, socket.IPPROTO_IPV6) == (2, 52, 41)
