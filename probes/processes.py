"""Reads process information from /proc: descendants of a process, and whether it is stopped. Linux only.

Processes that end during the scan are left out.
"""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
STOPPED = "T"
"""proc_pid_stat(5): stopped by a signal. A stop by a debugger is `t` and does not count."""


def descendants(pid: int) -> list[int]:
    """Pids of all descendants of a process; each after its parent."""
    pids: list[int] = []
    unread = [pid]
    while unread:
        children = _children(unread.pop())
        pids += children
        unread += children
    return pids


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal, such as SIGSTOP."""
    try:
        # The program name is in parentheses and may contain any character.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == STOPPED
    except (OSError, IndexError):
        return False


def _children(pid: int) -> list[int]:
    try:
        return [
            int(word)
            for thread in (PROC / str(pid) / "task").iterdir()
            for word in (thread / "children").read_text().split()
        ]
    except OSError:
        return []
