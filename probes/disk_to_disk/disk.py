"""Measures local disk rates: sequential write with fsync, and sequential read.

Pages are dropped before (posix_fadvise, DONTNEED); caches of disk and controller are not visible. Raises `OSError`.
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
from probes.threads import ProbeThread

BLOCK_BYTES = 2**20
FLUSH_EVERY_S = 0.05
SYNC_FILE_RANGE_WRITE = 2
MAP_SHARED, PROT_READ = 1, 1
MAP_FAILED = ctypes.c_void_p(-1).value


class StepTimeout(ProbeError):
    """A step did not finish within its slot."""


@cache
def _libc() -> ctypes.CDLL:
    # Load system calls that Python lacks; not every system has them.
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(3 * [ctypes.c_int]), ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return library


@dataclass(frozen=True, slots=True)
class ByteRate:
    moved_bytes: int
    seconds: float

    @property
    def rate_bps(self) -> float | None:
        """Bits per second; None without bytes or seconds."""
        return self.moved_bytes * 8 / self.seconds if self.moved_bytes > 0 and self.seconds > 0 else None


def measure_write(descriptor: int, size_bytes: int, deadline: Deadline) -> ByteRate:
    """Write distinct blocks, and fsync. Raises `StepTimeout`."""
    block = bytearray(os.urandom(BLOCK_BYTES))
    began_s = time.monotonic()
    with background_flush(descriptor):
        for offset in range(0, size_bytes, BLOCK_BYTES):
            _check_deadline(deadline, f"writing {size_bytes:,} bytes", offset)
            block[:8] = offset.to_bytes(8)
            write_at(descriptor, memoryview(block)[: size_bytes - offset], offset)
    os.fsync(descriptor)
    return ByteRate(size_bytes, time.monotonic() - began_s)


def measure_read(descriptor: int, deadline: Deadline) -> tuple[ByteRate, float | None]:
    """Read a file; return its rate and the share cached before. Raises `StepTimeout`."""
    cached = cached_ratio(descriptor)
    buffer = bytearray(BLOCK_BYTES)
    began_s, offset = time.monotonic(), 0
    while count := os.preadv(descriptor, [buffer], offset):
        offset += count
        _check_deadline(deadline, "reading the file", offset)
    return ByteRate(offset, time.monotonic() - began_s), cached


def drop_page_cache(descriptor: int) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_ratio(descriptor: int) -> float | None:
    """Share of a file's pages in the page cache (mincore(2)); None if not available."""
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


def file_digest(descriptor: int, byte_ranges: Iterable[tuple[int, int]], deadline: Deadline) -> str:
    """SHA-256 over byte ranges (start, end), read from disk."""
    drop_page_cache(descriptor)
    checksum = hashlib.sha256()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    for offset, end in byte_ranges:
        while offset < end:
            count = os.preadv(descriptor, [buffer[: end - offset]], offset)
            if count == 0:
                break
            checksum.update(buffer[:count])
            offset += count
            _check_deadline(deadline, "reading for the checksum", offset)
    return checksum.hexdigest()


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all data: a single pwrite(2) may write less."""
    while data:
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


@contextmanager
def background_flush(descriptor: int) -> Iterator[None]:
    """Flush a file continuously within the context.

    By default Linux buffers a tenth of the memory first.
    """
    ended = threading.Event()

    def flush() -> None:
        # If the file system does not support it, fsync writes everything.
        while not ended.wait(FLUSH_EVERY_S) and _libc().sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE) == 0:
            pass

    thread = ProbeThread(target=flush, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.finish()


def _check_deadline(deadline: Deadline, step: str, done_bytes: int) -> None:
    if deadline.passed:
        raise StepTimeout(
            f"out of time while {step}, after {done_bytes:,} bytes; reduce file_bytes or allow a longer duration_s"
        )
