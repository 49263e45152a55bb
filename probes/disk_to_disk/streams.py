"""Data over several TCP streams at once, from memory or a file to memory or a file; each stream has its own stretch.

In: connected sockets. Out: bytes by stream. A stream ends when its sender closes its half. What a sender says that it
sent and a receiver that it got is compared by who calls. Raises `PeerGone`, `OutOfTime`, and `OSError` of the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from probes.contract import Deadline
from probes.disk_to_disk.conversation import PeerGone
from probes.disk_to_disk.disk import BLOCK_BYTES, OutOfTime, write_at

SENT_AT_ONCE_BYTES = 2**18

Work = Callable[[int, socket.socket], int]


def stretches(file_bytes: int, streams: int) -> list[tuple[int, int]]:
    """Where each stream's part of a file begins and ends."""
    bounds = [number * file_bytes // streams for number in range(streams + 1)]
    return list(itertools.pairwise(bounds))


def run_all(connections: Sequence[socket.socket], work: Work, deadline: Deadline) -> tuple[int, ...]:
    """What `work` gives for each stream. Where one fails, or time is over, all are cut."""
    with ThreadPoolExecutor(len(connections), thread_name_prefix="stream") as pool:
        futures = [pool.submit(work, number, one) for number, one in enumerate(connections)]
        done, running = wait(futures, timeout=deadline.remaining_s, return_when=FIRST_EXCEPTION)
        if running:
            for one in connections:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for future in done:
            future.result()
        if running:
            raise OutOfTime("the streams had not ended when the time of the test was over")
    return tuple(future.result() for future in futures)


def send_memory(connection: socket.socket, until: Deadline) -> int:
    """Send until then."""
    block = memoryview(os.urandom(SENT_AT_ONCE_BYTES))
    sent = 0
    with _of_peer():
        while not until.passed:
            sent += connection.send(block)
        connection.shutdown(socket.SHUT_WR)
    return sent


def send_file(connection: socket.socket, descriptor: int, stretch: tuple[int, int], until: Deadline) -> int:
    """Send a stretch of a file, or as much of it as there is time for."""
    buffer = memoryview(bytearray(SENT_AT_ONCE_BYTES))
    offset, end = stretch
    while offset < end and not until.passed:
        count = os.preadv(descriptor, [buffer[: end - offset]], offset)
        if count == 0:
            break
        with _of_peer():
            connection.sendall(buffer[:count])
        offset += count
    with _of_peer():
        connection.shutdown(socket.SHUT_WR)
    return offset - stretch[0]


def receive_memory(connection: socket.socket) -> int:
    """Take what comes, and keep nothing."""
    buffer = bytearray(BLOCK_BYTES)
    received = 0
    while count := _receive(connection, memoryview(buffer)):
        received += count
    return received


def receive_file(connection: socket.socket, descriptor: int, stretch: tuple[int, int]) -> int:
    """Write what comes into its stretch of a file; more than fits there is not taken."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    offset, end = stretch
    while count := _receive(connection, buffer):
        if count > end - offset:
            raise PeerGone("the sender sent more than its stretch of the file")
        write_at(descriptor, buffer[:count], offset)
        offset += count
    return offset - stretch[0]


def _receive(connection: socket.socket, buffer: memoryview) -> int:
    with _of_peer():
        return connection.recv_into(buffer)


@contextlib.contextmanager
def _of_peer() -> Iterator[None]:
    """Errors of the connection, so that they are not taken for those of the disk."""
    try:
        yield
    except OSError as error:
        raise PeerGone(f"a stream broke: {error}") from error
