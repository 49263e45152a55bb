"""The streams of a disk-to-disk test: a file in blocks from a shared position, or in fixed parts, and memory."""

import itertools
import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Deadline
from probes.disk_to_disk import disk, scratch, streams
from probes.transfers.control_connection import ConnectionLost


def soon():
    return Deadline(10)


@pytest.fixture
def file(tmp_path):
    with scratch.scratch_file(str(tmp_path)) as descriptor:
        yield descriptor


@given(st.integers(0, 10**13), st.integers(1, 128))
def test_fixed_parts_cover_a_file_once(file_bytes, count):
    parts = [(part.start, part.end) for part in streams.divide(file_bytes, count, in_blocks=False)]

    assert len(parts) == count
    assert (parts[0][0], parts[-1][1]) == (0, file_bytes)
    assert all(part[1] == other[0] for part, other in itertools.pairwise(parts))
    assert max(end - start for start, end in parts) - min(end - start for start, end in parts) <= 1


@given(st.integers(0, 10**9), st.integers(1, 128))
def test_blocks_cover_a_file_once_and_are_small_at_its_ends(file_bytes, count):
    parts = streams.divide(file_bytes, count, in_blocks=True)
    blocks = list(itertools.takewhile(lambda block: block[0] < block[1], iter(parts[0].take_block, None)))

    assert [part is parts[0] for part in parts] == [True] * count
    assert [0, *(end for _, end in blocks)] == [*(start for start, _ in blocks), file_bytes]
    for start, end in blocks:
        assert end - start <= max(2**16, min(2**20, start / (16 * count), (file_bytes - start) / (16 * count)))


def transfer(content, file, count, until, *, in_blocks=True, run_receiver=lambda _, receive: receive()):
    """Send a file over streams to another file; the bytes sent and received by each stream, and the ranges of the file
    that either end takes for transferred."""
    sending, receiving = (streams.divide(len(content), count, in_blocks=in_blocks) for _ in range(2))
    pairs = [socket.socketpair() for _ in range(count)]
    received = []

    def receive(number, sock):
        receive_stream = streams.receive_blocks if in_blocks else streams.receive_file
        return run_receiver(number, lambda: receive_stream(sock, file, receiving[number]))

    receiver = threading.Thread(
        target=lambda: received.append(streams.run_all([there for _, there in pairs], receive, soon()))
    )
    receiver.start()
    with scratch.scratch_file("/dev/shm") as source:
        os.pwrite(source, content, 0)
        sent = streams.run_all(
            [here for here, _ in pairs],
            lambda number, sock: streams.send_file(sock, source, sending[number], until, in_blocks=in_blocks),
            soon(),
        )
    receiver.join()
    assert streams.taken_ranges(sending) == streams.taken_ranges(receiving)
    return sent, received[0], streams.taken_ranges(sending)


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_file_arrives_unchanged(file, count, in_blocks):
    content = os.urandom(2_000_003)

    sent, received, _ = transfer(content, file, count, soon(), in_blocks=in_blocks)

    assert sent == received
    assert sum(sent) == len(content)
    assert os.pread(file, len(content) + 1, 0) == content


@pytest.mark.parametrize("in_blocks", [True, False])
def test_after_the_deadline_nothing_is_sent(file, in_blocks):
    sent, received, _ = transfer(os.urandom(2_000_003), file, 4, Deadline(0), in_blocks=in_blocks)

    assert sent == received == (0, 0, 0, 0)


def test_a_file_that_is_too_short_is_an_error_of_the_disk(file):
    here, _there = socket.socketpair()

    with pytest.raises(OSError, match="shorter"):
        streams.send_file(here, file, streams.FilePart(0, 1000), soon(), in_blocks=True)


class PassesAfter:
    """A deadline that passes when it was asked `count` times."""

    def __init__(self, count):
        self.asked = iter([False] * count)

    @property
    def passed(self):
        return next(self.asked, True)


def test_at_the_deadline_the_first_blocks_have_arrived_whole(file):
    content = os.urandom(2_000_003)

    sent, received, ranges = transfer(content, file, 4, PassesAfter(11))

    arrived = 11 * streams.SMALLEST_BLOCK_BYTES  # of a small file all blocks are
    assert sent == received
    assert (sum(sent), ranges) == (arrived, [(0, arrived)])
    assert os.pread(file, len(content), 0) == content[:arrived]


def test_a_stalled_stream_leaves_its_share_to_the_other(file):
    """One stream is read only when the other has ended: no more than the buffer of its socket was sent on it."""
    content, ended = os.urandom(8_000_000), threading.Event()

    def in_turn(number, receive):
        if number == 0:
            assert ended.wait(10)
        received = receive()
        ended.set()
        return received

    (stalled, other), _, _ = transfer(content, file, 2, soon(), run_receiver=in_turn)

    here, there = socket.socketpair()
    with here, there:
        buffer_bytes = here.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert stalled <= buffer_bytes + streams.SMALLEST_BLOCK_BYTES < 1_000_000
    assert stalled + other == len(content)
    assert os.pread(file, len(content) + 1, 0) == content


def test_memory_is_sent_until_the_deadline():
    here, there = socket.socketpair()
    received = []
    receiver = threading.Thread(target=lambda: received.append(streams.receive_memory(there)))
    receiver.start()

    sent = streams.send_memory(here, Deadline(0.1))
    receiver.join()

    assert sent == received[0] > 0


def test_bytes_beyond_a_fixed_part_are_not_written(file):
    here, there = socket.socketpair()
    here.sendall(bytes(1001))
    here.close()

    with pytest.raises(ConnectionLost, match="more than the stream's part"):
        streams.receive_file(there, file, streams.FilePart(0, 1000))
    assert os.fstat(file).st_size <= 1000


def block(offset, data, length=None):
    """A block as on the wire: offset in eight bytes, length in four, big-endian."""
    return offset.to_bytes(8) + (len(data) if length is None else length).to_bytes(4) + data


def received_blocks(file, sent, part):
    """The bytes that a receiver accepts of a stream that carries `sent`."""
    here, there = socket.socketpair()
    with there:
        with here:
            here.sendall(sent)
        return streams.receive_blocks(there, file, part)


def test_blocks_are_written_at_their_offsets(file):
    received = received_blocks(file, block(3, b"def") + block(0, b"abc") + block(6, b"g"), streams.FilePart(0, 7))

    assert (received, os.pread(file, 100, 0)) == (7, b"abcdefg")


@pytest.mark.parametrize(
    ("offset", "length"), [(1000, 1), (999, 2), (0, 1001), (2**64 - 1, 1), (0, 2**32 - 1), (500, 0)]
)
def test_a_block_that_is_not_within_the_file_is_refused(file, offset, length):
    with pytest.raises(ConnectionLost, match=f"{length:,} bytes at {offset:,}"):
        received_blocks(file, block(offset, bytes(1001), length), streams.FilePart(0, 1000))
    assert os.fstat(file).st_size == 0


def test_a_block_larger_than_the_receivers_buffer_is_refused(file):
    with pytest.raises(ConnectionLost, match="bytes at 0"):
        received_blocks(file, block(0, bytes(1000), disk.BLOCK_BYTES + 1), streams.FilePart(0, 10**9))
    assert os.fstat(file).st_size == 0


def test_streams_carry_no_more_than_the_file_together(file):
    part = streams.FilePart(0, 1000)
    received_blocks(file, block(0, bytes(600)), part)

    with pytest.raises(ConnectionLost, match="500 bytes at 0"):
        received_blocks(file, block(0, bytes(500)), part)


@pytest.mark.parametrize("kept", [5, 12, 500])
def test_a_stream_that_ends_within_a_block_is_refused(file, kept):
    with pytest.raises(ConnectionLost, match="within a block"):
        received_blocks(file, block(0, bytes(1000))[:kept], streams.FilePart(0, 1000))
    assert os.fstat(file).st_size == 0


def test_a_failing_stream_ends_the_others():
    pairs = [socket.socketpair() for _ in range(2)]

    def work(number, sock):
        if number == 0:
            raise ConnectionLost("a stream failed")
        return streams.receive_memory(sock)

    with pytest.raises(ConnectionLost, match="a stream failed"):
        streams.run_all([there for _, there in pairs], work, soon())


def test_streams_that_do_not_end_in_time_are_closed():
    here, there = socket.socketpair()

    with pytest.raises(disk.StepTimeout):
        streams.run_all([there], lambda _, sock: streams.receive_memory(sock), Deadline(0.05))
    assert here.recv(1) == b"", "the other end sees it"


def test_a_disk_error_is_not_attributed_to_the_peer(tmp_path):
    here, there = socket.socketpair()
    here.sendall(bytes(1000))
    (tmp_path / "file").write_bytes(b"")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)

    with pytest.raises(OSError, match="Bad file descriptor"):
        streams.receive_file(there, descriptor, streams.FilePart(0, 1000))
    os.close(descriptor)
