"""Give freed memory back to the operating system; glibc keeps hundreds of megabytes."""

from __future__ import annotations

import ctypes
import time

EVERY_S = 5.0
_libc = ctypes.CDLL(None)
_given_back_s = -EVERY_S


def give_back() -> None:
    """Return freed memory, at most every `EVERY_S`, as it takes milliseconds; do nothing with another C library."""
    global _given_back_s
    now_s = time.monotonic()
    if now_s - _given_back_s >= EVERY_S and hasattr(_libc, "malloc_trim"):
        _given_back_s = now_s
        _libc.malloc_trim(0)
