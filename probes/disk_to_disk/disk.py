"""What a disk alone can do: one file written from end to end until the disk has it, and read from end to end.

In: a descriptor of a file on that disk. Out: `Moved`, bytes and seconds. Reading drops the file's pages from the cache
first (posix_fadvise, DONTNEED); `cached_ratio` says how many stayed: all of them where the folder is in memory.
What a disk or a controller keeps in memory of its own is not known here. Raises `OSError`.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from probes.contract import Deadline, ProbeError

BLOCK_BYTES = 2**20
FLUSH_EVERY_S = 0.05
SYNC_FILE_RANGE_WRITE = 2
MAP_SHARED, PROT_READ = 1, 1
MAP_FAILED = ctypes.c_void_p(-1).value


class OutOfTime(ProbeError):
    """The slot was over before a step was."""


@cache
def _libc() -> ctypes.CDLL:
    """What Python has no function for. Asked for where it is used: another system has not all of it."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(3 * [ctypes.c_int]), ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return library


@dataclass(frozen=True, slots=True)
class Moved:
    """So many bytes in so many seconds."""

    moved_bytes: int
    seconds: float

    @property
    def rate_bps(self) -> float | None:
        """None where nothing was moved: 0 bit/s would be a figure."""
        return self.moved_bytes * 8 / self.seconds if self.moved_bytes > 0 and self.seconds > 0 else None


def write_alone(descriptor: int, size_bytes: int, deadline: Deadline) -> Moved:
    """Write a file of so many bytes, no two blocks alike, until the disk has it. Raises `OutOfTime`."""
    block = bytearray(os.urandom(BLOCK_BYTES))
    began_s = time.monotonic()
    with flushing(descriptor):
        for offset in range(0, size_bytes, BLOCK_BYTES):
            _in_time(deadline, f"writing {size_bytes:,} bytes", offset)
            block[:8] = offset.to_bytes(8)
            write_at(descriptor, memoryview(block)[: size_bytes - offset], offset)
    os.fsync(descriptor)
    return Moved(size_bytes, time.monotonic() - began_s)


def read_alone(descriptor: int, deadline: Deadline) -> tuple[Moved, float | None]:
    """Read a whole file, and the share of it that was in memory before. Raises `OutOfTime`."""
    cached = cached_ratio(descriptor)
    buffer = bytearray(BLOCK_BYTES)
    began_s, offset = time.monotonic(), 0
    while count := os.preadv(descriptor, [buffer], offset):
        offset += count
        _in_time(deadline, "reading the file", offset)
    return Moved(offset, time.monotonic() - began_s), cached


def drop_cached(descriptor: int) -> None:
    """Forget what memory holds of a file that the disk has."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_ratio(descriptor: int) -> float | None:
    """The share of a file's pages that are in memory (mincore(2)); None where the system does not tell."""
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes == 0:
        return None
    address = _libc().mmap(None, size_bytes, PROT_READ, MAP_SHARED, descriptor, 0)
    if address == MAP_FAILED:
        return None
    try:
        pages = ctypes.create_string_buffer(-(-size_bytes // mmap.PAGESIZE))
        if _libc().mincore(address, size_bytes, pages) != 0:
            return None
        return sum(page & 1 for page in pages.raw[: len(pages)]) / len(pages)
    finally:
        _libc().munmap(address, size_bytes)


def digest(descriptor: int, stretches: Iterable[tuple[int, int]], deadline: Deadline) -> str:
    """SHA-256 over these stretches of a file, each from an offset to another, as the disk has them."""
    drop_cached(descriptor)
    found = hashlib.sha256()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    for offset, end in stretches:
        while offset < end:
            count = os.preadv(descriptor, [buffer[: end - offset]], offset)
            if count == 0:
                break
            found.update(buffer[:count])
            offset += count
            _in_time(deadline, "reading for the checksum", offset)
    return found.hexdigest()


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """All of it: a write may take less than it is given."""
    while data:
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


@contextmanager
def flushing(descriptor: int) -> Iterator[None]:
    """Have the disk write while the context is open, as a tool for transfers would. Left alone, Linux gathers the first
    tenth of the memory before it begins, and the disk would start when the network is done."""
    ended = threading.Event()

    def flush() -> None:
        # Where the file system cannot, the whole is left to fsync.
        while not ended.wait(FLUSH_EVERY_S) and _libc().sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE) == 0:
            pass

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _in_time(deadline: Deadline, step: str, done_bytes: int) -> None:
    if deadline.passed:
        raise OutOfTime(
            f"no time was left after {step} for {done_bytes:,} bytes; ask for a smaller file_bytes or more time"
        )
