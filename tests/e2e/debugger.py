"""Holds a process like a debugger: for its supervisor it is not stopped, and is therefore not restarted."""

from __future__ import annotations

import ctypes
import os

PTRACE_ATTACH = 16
PTRACE_DETACH = 17
_libc = ctypes.CDLL(None, use_errno=True)


def hold(pid: int) -> None:
    """Hold the main thread of a process until this thread releases it, or ends."""
    _ptrace(PTRACE_ATTACH, pid)
    os.waitpid(pid, 0)


def let_go(pid: int) -> None:
    _ptrace(PTRACE_DETACH, pid)


def _ptrace(request: int, pid: int) -> None:
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
