"""Keeps the log of a process small while the process writes to it.

The process has the file open for appending, and nobody tells it to open another: what is in the file is copied to
`NAME.log.1`, the one before becomes `NAME.log.2`, and the file is emptied. A line that is written between the last read
and the emptying, some microseconds, is lost. Nothing stands between the process and its file, so that a supervisor that
is killed or stopped keeps no process from writing.
"""

from __future__ import annotations

import os
from pathlib import Path

LARGEST_BYTES = 2_000_000
KEPT = 2
"""With the file itself 6 MB for each process: days of warnings, or what led up to a fault that fills it."""
COPIED_AT_ONCE = 1 << 16


def rotate(log: Path, largest_bytes: int = LARGEST_BYTES, kept: int = KEPT) -> bool:
    """Empty the log if it is too large, after a copy of its newest `largest_bytes`; whether it was.

    Raises `OSError` where it cannot be copied, as on a full disk. It is emptied all the same: room is wanted then.
    """
    try:
        if log.stat().st_size <= largest_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(kept, 1, -1):
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
    left_bytes = 2 * largest_bytes  # whoever writes faster than we read must not keep us here
    try:
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            while left_bytes > 0 and (block := os.read(source, COPIED_AT_ONCE)):
                target.write(block)
                left_bytes -= len(block)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
