"""Moves data over parallel TCP streams, between memory or files.

Streams take blocks from a shared position, as in GridFTP's extended block mode (GFD.20, MODE E). The caller compares
sent and received bytes. Raises `ConnectionLost`, `StepTimeout`, and `OSError` of the disk.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final

from probes.contract import Deadline
from probes.disk_to_disk.disk import BLOCK_BYTES, StepTimeout, write_at
from probes.transfers.control_connection import ConnectionLost

SEND_BLOCK_BYTES = 2**18
SMALLEST_BLOCK_BYTES = 2**16
# A block's maximum part of a stream's mean share before and after it: slower streams then finish with the others.
BLOCK_SHARE = 16
# Offset and length of the data that follow.
BLOCK_HEADER: Final = struct.Struct("!QI")

Work = Callable[[int, socket.socket], int]


class FilePart:
    """A part of a file that several streams take from start to end. Thread-safe."""

    def __init__(self, start: int, end: int, streams: int = 1) -> None:
        self.start, self.position, self.end = start, start, end
        self._streams = streams
        self._lock = threading.Lock()

    def take(self, count: int) -> tuple[int, int]:
        """Take `count` bytes or the rest; return start and end."""
        with self._lock:
            start = self.position
            self.position = min(start + count, self.end)
            return start, self.position

    def take_block(self) -> tuple[int, int]:
        """Take a block: small first and last, large in between, which costs less CPU."""
        share = min(self.position - self.start, self.end - self.position) // (BLOCK_SHARE * self._streams)
        return self.take(max(SMALLEST_BLOCK_BYTES, min(share, BLOCK_BYTES)))


def divide(file_bytes: int, streams: int, *, in_blocks: bool) -> list[FilePart]:
    """Return each stream's part: the whole file in blocks, or a fixed part."""
    if in_blocks:
        return [FilePart(0, file_bytes, streams)] * streams
    bounds = [number * file_bytes // streams for number in range(streams + 1)]
    return [FilePart(start, end) for start, end in itertools.pairwise(bounds)]


def taken_ranges(parts: Sequence[FilePart]) -> list[tuple[int, int]]:
    """Start and end of the data taken of each part."""
    return [(part.start, part.position) for part in dict.fromkeys(parts)]


def run_all(connections: Sequence[socket.socket], work: Work, deadline: Deadline) -> tuple[int, ...]:
    """Run `work` on all streams in parallel; an error or timeout shuts all down."""
    with ThreadPoolExecutor(len(connections), thread_name_prefix="stream") as pool:
        futures = [pool.submit(work, number, connection) for number, connection in enumerate(connections)]
        done, running = wait(futures, timeout=deadline.remaining_s, return_when=FIRST_EXCEPTION)
        if running:
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for future in done:
            future.result()
        if running:
            raise StepTimeout("the streams did not finish within the time of the test")
    return tuple(future.result() for future in futures)


def send_memory(connection: socket.socket, until: Deadline) -> int:
    """Send random data; return the bytes sent."""
    block = memoryview(os.urandom(SEND_BLOCK_BYTES))
    sent = 0
    with _connection_errors():
        while not until.passed:
            sent += connection.send(block)
        connection.shutdown(socket.SHUT_WR)
    return sent


def send_file(connection: socket.socket, descriptor: int, part: FilePart, until: Deadline, *, in_blocks: bool) -> int:
    """Take data until the deadline and send all of it; return the bytes sent."""
    header_bytes = BLOCK_HEADER.size if in_blocks else 0
    buffer = memoryview(bytearray(header_bytes + BLOCK_BYTES))
    sent = 0
    while not until.passed:
        offset, end = part.take_block()
        if offset == end:
            break
        # Otherwise the buffer of a stream that has become slow holds megabytes which the others could carry.
        with contextlib.suppress(OSError):  # not everywhere available
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, end - offset)
        while offset < end:
            count = os.preadv(descriptor, [buffer[header_bytes : header_bytes + end - offset]], offset)
            if count == 0:
                raise OSError(errno.EIO, "the file is shorter than it was written")
            if in_blocks:
                BLOCK_HEADER.pack_into(buffer, 0, offset, count)
            with _connection_errors():
                connection.sendall(buffer[: header_bytes + count])
            offset += count
            sent += count
    with _connection_errors():
        connection.shutdown(socket.SHUT_WR)
    return sent


def receive_memory(connection: socket.socket) -> int:
    buffer = bytearray(BLOCK_BYTES)
    received = 0
    while count := _receive(connection, memoryview(buffer)):
        received += count
    return received


def receive_file(connection: socket.socket, descriptor: int, part: FilePart) -> int:
    """Receive data into a part; return the bytes. Raises `ConnectionLost` for excess data."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    received = 0
    while count := _receive(connection, buffer):
        start, end = part.take(count)
        if end - start < count:
            raise ConnectionLost("the sender sent more than the stream's part of the file")
        write_at(descriptor, buffer[:count], start)
        received += count
    return received


def receive_blocks(connection: socket.socket, descriptor: int, file: FilePart) -> int:
    """Receive blocks into a file; return the bytes.

    Refuses data outside; blocks that overlap leave a gap, which the checksum finds.
    """
    header, buffer = memoryview(bytearray(BLOCK_HEADER.size)), memoryview(bytearray(BLOCK_BYTES))
    received = 0
    while count := _fill(connection, header):
        offset, length = BLOCK_HEADER.unpack(header)
        if count < len(header):
            raise ConnectionLost("a stream ended within a block")
        start, end = file.take(length)
        if not 0 < length <= len(buffer) or offset + length > file.end or end - start < length:
            raise ConnectionLost(f"the sender sent {length:,} bytes at {offset:,}, beyond the file or twice")
        if _fill(connection, buffer[:length]) < length:
            raise ConnectionLost("a stream ended within a block")
        write_at(descriptor, buffer[:length], offset)
        received += length
    return received


def _fill(connection: socket.socket, buffer: memoryview) -> int:
    filled = 0
    while filled < len(buffer) and (count := _receive(connection, buffer[filled:])):
        filled += count
    return filled


def _receive(connection: socket.socket, buffer: memoryview) -> int:
    with _connection_errors():
        return connection.recv_into(buffer)


@contextlib.contextmanager
def _connection_errors() -> Iterator[None]:
    """Convert an `OSError` of the connection, to distinguish it from the disk's."""
    try:
        yield
    except OSError as error:
        raise ConnectionLost(f"a stream failed: {error}") from error
