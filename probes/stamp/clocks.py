"""The error bound of this host's clock by chrony, else by adjtimex.

Root dispersion and half of the root delay (RFC 5905, section 11.1), for chrony plus the remaining correction.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess

from probes.stamp.spec import ClockBound

STA_UNSYNC = 0x40
TIME_ERROR = 5
CHRONY_TIMEOUT_S = 1.0
CHRONY_FIELDS = 14
CORRECTION, ROOT_DELAY, ROOT_DISPERSION, LEAP_STATUS = 4, 10, 11, 13
NOT_SYNCHRONISED = "Not synchronised"
MS_PER_S = 1000.0
MS_PER_US = 0.001


class _Timex(ctypes.Structure):
    """`struct timex` of adjtimex(2) on 64-bit Linux."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


def own_clock() -> ClockBound | None:
    """State of this host's clock; None if unknown."""
    return _chrony() or _kernel()


def _kernel() -> ClockBound | None:
    try:
        call = ctypes.CDLL(None, use_errno=True).adjtimex
    except AttributeError:
        return None
    state = _Timex()
    answer: int = call(ctypes.byref(state))
    if answer < 0:
        return None
    return from_adjtimex(answer, state.status, state.maxerror)


def from_adjtimex(answer: int, status: int, maxerror_us: int) -> ClockBound:
    """Bound from adjtimex(2); an unsynchronised clock has none."""
    is_synchronised = answer != TIME_ERROR and not status & STA_UNSYNC
    return ClockBound(
        is_synchronised=is_synchronised,
        error_ms=max(0, maxerror_us) * MS_PER_US if is_synchronised else None,
        source="kernel",
    )


def _chrony() -> ClockBound | None:
    program = shutil.which("chronyc")
    if program is None:
        return None
    try:
        ended = subprocess.run(
            [program, "-c", "tracking"], capture_output=True, text=True, timeout=CHRONY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return from_chrony(ended.stdout)


def from_chrony(line: str) -> ClockBound | None:
    """Bound from `chronyc -c tracking`; None for other lines."""
    columns = line.strip().split(",")
    if len(columns) < CHRONY_FIELDS:
        return None
    try:
        error_s = abs(float(columns[CORRECTION])) + float(columns[ROOT_DELAY]) / 2 + float(columns[ROOT_DISPERSION])
    except ValueError:
        return None
    is_synchronised = columns[LEAP_STATUS] != NOT_SYNCHRONISED
    return ClockBound(
        is_synchronised=is_synchronised, error_ms=error_s * MS_PER_S if is_synchronised else None, source="chrony"
    )
