"""Data over parallel TCP streams, from memory or file to memory or file; each stream carries its own byte range.

In: connected sockets. Out: bytes per stream. A stream ends when its sender shuts down its side. The caller compares
sent and received bytes. Raises `ConnectionLost`, `StepTimeout`, and `OSError` of the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from probes.contract import Deadline
from probes.disk_to_disk.control_connection import ConnectionLost
from probes.disk_to_disk.disk import BLOCK_BYTES, StepTimeout, write_at

SEND_BLOCK_BYTES = 2**18

Work = Callable[[int, socket.socket], int]


def byte_ranges(file_bytes: int, streams: int) -> list[tuple[int, int]]:
    """Divide a file among streams: the start and end of each part."""
    bounds = [number * file_bytes // streams for number in range(streams + 1)]
    return list(itertools.pairwise(bounds))


def run_all(connections: Sequence[socket.socket], work: Work, deadline: Deadline) -> tuple[int, ...]:
    """Run `work` on all streams in parallel; returns its results. On an error or timeout all streams are shut down."""
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
    """Send random data until the deadline; returns the bytes sent."""
    block = memoryview(os.urandom(SEND_BLOCK_BYTES))
    sent = 0
    with _connection_errors():
        while not until.passed:
            sent += connection.send(block)
        connection.shutdown(socket.SHUT_WR)
    return sent


def send_file(connection: socket.socket, descriptor: int, byte_range: tuple[int, int], until: Deadline) -> int:
    """Send a byte range of a file until the deadline; returns the bytes sent."""
    buffer = memoryview(bytearray(SEND_BLOCK_BYTES))
    offset, end = byte_range
    while offset < end and not until.passed:
        count = os.preadv(descriptor, [buffer[: end - offset]], offset)
        if count == 0:
            break
        with _connection_errors():
            connection.sendall(buffer[:count])
        offset += count
    with _connection_errors():
        connection.shutdown(socket.SHUT_WR)
    return offset - byte_range[0]


def receive_memory(connection: socket.socket) -> int:
    """Receive and discard data; returns the bytes received."""
    buffer = bytearray(BLOCK_BYTES)
    received = 0
    while count := _receive(connection, memoryview(buffer)):
        received += count
    return received


def receive_file(connection: socket.socket, descriptor: int, byte_range: tuple[int, int]) -> int:
    """Receive data into a byte range of a file; returns the bytes received. More data than fit are refused."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    offset, end = byte_range
    while count := _receive(connection, buffer):
        if count > end - offset:
            raise ConnectionLost("the sender sent more than the stream's part of the file")
        write_at(descriptor, buffer[:count], offset)
        offset += count
    return offset - byte_range[0]


def _receive(connection: socket.socket, buffer: memoryview) -> int:
    with _connection_errors():
        return connection.recv_into(buffer)


@contextlib.contextmanager
def _connection_errors() -> Iterator[None]:
    """Convert an `OSError` of the connection, so that it is not taken for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise ConnectionLost(f"a stream failed: {error}") from error
