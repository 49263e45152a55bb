import ctypes
import socket
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.packets.icmp.kernel import CONTROL_WORDS, IOVEC, MMSGHDR, KernelSendBatch, read_controls

STAMP = (1, 37, struct.pack("=6q", 1_700_000_000, 123_456_789, 0, 0, 0, 0))
TTL = (0, 2, struct.pack("=i", 57))
HOP_LIMIT = (41, 52, struct.pack("=i", 58))


def send_error(key: int, *, code: int = 42, origin: int = 4, info: int = 0) -> tuple[int, int, bytes]:
    return (0, 11, struct.pack("=IBBBxII16x", code, origin, 0, 0, info, key))


def scm_timestamping(kernel_ns: int, hardware_ns: int) -> tuple[int, int, bytes]:
    """Three timespecs: the kernel's timestamp, an obsolete field, and the interface's timestamp (timestamping.rst)."""
    seconds, nanoseconds = divmod(kernel_ns, 10**9)
    return (1, 37, struct.pack("=6q", seconds, nanoseconds, 0, 0, *divmod(hardware_ns, 10**9)))


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


def test_control_messages_are_parsed_in_any_order():
    controls = read(packed(STAMP, TTL), packed(TTL, STAMP), packed(HOP_LIMIT), packed(STAMP, send_error(77)), b"")

    assert controls.stamp_ns.tolist() == [1_700_000_000_123_456_789] * 2 + [0, 1_700_000_000_123_456_789, 0]
    assert controls.hop_limit.tolist() == [57, 57, 58, -1, -1]
    assert controls.key.tolist() == [-1, -1, -1, 77, -1]


@pytest.mark.parametrize("other", [{"code": 113}, {"origin": 2}, {"info": 1}])
def test_an_error_that_is_no_send_stamp_gives_no_key(other):
    assert read(packed(STAMP, send_error(77, **other))).key.tolist() == [-1]


def test_control_messages_of_other_kinds_are_skipped():
    controls = read(packed((1, 29, bytes(16)), (41, 37, bytes(48)), TTL))

    assert (controls.stamp_ns[0], controls.hop_limit[0]) == (0, 57)


def test_a_control_message_longer_than_the_buffer_is_not_read():
    assert read(packed(TTL, STAMP), cut=1).stamp_ns.tolist() == [0]


@given(st.lists(st.binary(max_size=8 * CONTROL_WORDS), min_size=1, max_size=8))
def test_invalid_control_messages_are_no_error(rows):
    assert len(read(*rows).key) == len(rows)


def test_the_constants_are_those_of_the_kernel_headers():
    assert (socket.IP_TTL, socket.IPV6_HOPLIMIT, socket.IPPROTO_IPV6) == (2, 52, 41)


@given(st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), min_size=1, max_size=6))
def test_the_kernels_stamp_is_the_first_the_nics_the_third(given_ns):
    controls = read(*[packed(TTL, scm_timestamping(*stamps)) for stamps in given_ns])

    assert list(zip(controls.stamp_ns.tolist(), controls.hardware_ns.tolist(), strict=True)) == given_ns


@pytest.mark.parametrize("length", range(48))
def test_a_truncated_stamp_gives_no_stamp(length):
    level, kind, data = scm_timestamping(1_700_000_000_123_456_789, 5_000_000_007)

    controls = read(packed((level, kind, data[:length])))

    assert controls.stamp_ns.tolist() == [1_700_000_000_123_456_789 if length >= 16 else 0]
    assert controls.hardware_ns.tolist() == [0]


@given(st.integers(0, 2**32 - 1))
def test_the_number_of_a_send_stamp_is_unsigned(key):
    assert read(packed(STAMP, send_error(key))).key.tolist() == [key]


@pytest.mark.parametrize(("level", "kind", "origin"), [(0, 11, 2), (41, 25, 3)])
def test_an_icmp_error_has_its_type_code_word_and_offender(level, kind, origin):
    """`struct sock_extended_err` (ip(7)): errno, origin, type, code, padding, info, data; followed by the offender."""
    offender = bytes(range(1, 29))
    error = struct.pack("=IBBBxII", 113, origin, 3, 4, 2**32 - 1, 0) + offender

    controls = read(packed(STAMP, (level, kind, error)), packed(STAMP, send_error(5)))

    assert (controls.error_origin[0], controls.error_type[0], controls.error_code[0]) == (origin, 3, 4)
    assert controls.error_info[0] == 2**32 - 1
    assert controls.offender[0].tobytes() == offender
    assert controls.key.tolist() == [-1, 5]
    assert (controls.error_origin[1], controls.offender[1].any()) == (0, False)


@given(
    st.lists(
        st.sampled_from([(STAMP,), (TTL, STAMP), (STAMP, TTL), (HOP_LIMIT,), (STAMP, send_error(9)), ()]), min_size=1
    )
)
def test_rows_of_a_batch_are_parsed_as_they_would_be_alone(layouts):
    rows = [packed(*layout) for layout in layouts]

    together = read(*rows)

    for row, data in enumerate(rows):
        alone = read(data)
        for name in ("stamp_ns", "hardware_ns", "key", "hop_limit", "error_origin"):
            assert getattr(together, name)[row] == getattr(alone, name)[0]


MESSAGE = st.tuples(
    st.sampled_from([(1, 37), (0, 2), (0, 11), (41, 25), (41, 52), (0, 8), (255, 255)]), st.binary(max_size=64)
)


@settings(max_examples=300)
@given(st.lists(st.lists(MESSAGE, max_size=3), min_size=1, max_size=6), st.integers(0, 40))
def test_known_messages_with_any_data_are_no_error(rows, cut):
    data = [packed(*((level, kind, data) for (level, kind), data in row))[: 8 * CONTROL_WORDS] for row in rows]
    cut = min(cut, *(len(row) for row in data))

    controls = read(*data, cut=cut)

    assert ((controls.key >= -1) & (controls.key < 2**32)).all()
    assert set(controls.error_origin.tolist()) <= {0, 2, 3}


@pytest.mark.parametrize(("name_bytes", "level", "kind"), [(16, socket.IPPROTO_IP, 2), (28, socket.IPPROTO_IPV6, 52)])
def test_each_message_of_a_batch_has_its_own_ttl(name_bytes, level, kind):
    batch = KernelSendBatch(-1, np.zeros((1, 28), np.uint8), name_bytes, 3, 8, b"", with_hop_limits=True)
    batch.set_hop_limits(np.array([1, 255]))

    rows = batch._control.view(np.uint8).reshape(3, -1)
    # cmsg(3): length 8, level 4, type 4, data.
    assert [struct.unpack("=qiii", row[:20].tobytes()) for row in rows[:2]] == [
        (20, level, kind, 1),
        (20, level, kind, 255),
    ]


def test_a_batch_without_ttls_has_no_control_messages():
    batch = KernelSendBatch(-1, np.zeros((1, 28), np.uint8), 16, 3, 8, b"")

    assert batch._headers["control"].tolist() == batch._headers["control_length"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("flags", "extension_at"), [(0, 136), (1, 0)])
def test_malformed_extensions_of_an_error_are_left_out(flags, extension_at):
    about = struct.pack("=IBBBxIHBx", 113, 2, 11, 0, 0, 136, flags)
    control = np.zeros((1, CONTROL_WORDS), np.int64)
    message = struct.pack("=qii", 16 + len(about), socket.IPPROTO_IP, 11) + about
    control[0].view(np.uint8)[: len(message)] = np.frombuffer(message, np.uint8)

    assert read_controls(control, np.array([len(message)])).extension_at.tolist() == [extension_at]
