"""Rotate the log of a running process by copying and truncating it.

Lines written in between, within microseconds, are lost.
"""

from __future__ import annotations

import os
from pathlib import Path

LARGEST_BYTES = 2_000_000
# 6 MB per process with the log itself: days of warnings, or the beginning of a flood.
COPIES = 2
CHUNK_BYTES = 1 << 16


def rotate(log: Path, largest_bytes: int = LARGEST_BYTES, copies: int = COPIES) -> bool:
    """Truncate a too large log after copying its last `largest_bytes`; returns whether it did.

    Raises `OSError` if it cannot be copied; truncated even then.
    """
    try:
        if log.stat().st_size <= largest_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(copies, 1, -1):
        if _copy_of(log, number - 1).exists():
            _copy_of(log, number - 1).replace(_copy_of(log, number))
    with log.open("r+b", buffering=0) as file:
        try:
            _copy_newest(file.fileno(), _copy_of(log, 1), largest_bytes)
        finally:
            file.truncate(0)
    return True


def _copy_of(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")


def _copy_newest(source: int, copy: Path, largest_bytes: int) -> None:
    os.lseek(source, max(0, os.fstat(source).st_size - largest_bytes), os.SEEK_SET)
    left_bytes = 2 * largest_bytes  # bounds the loop if the process writes faster than we read
    try:
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            while left_bytes > 0 and (block := os.read(source, CHUNK_BYTES)):
                target.write(block)
                left_bytes -= len(block)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
