"""Processes as /proc shows them: those below a process, and whether a process is stopped. Linux only.

A process that ends while it is looked at is left out.
"""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
STOPPED = "T"
"""proc_pid_stat(5): stopped by a signal. A debugger's stop is `t`, and none of our business."""


def descendants(pid: int) -> list[int]:
    """Ids of the children of a process and of theirs; each after its parent."""
    found: list[int] = []
    unread = [pid]
    while unread:
        children = _children(unread.pop())
        found += children
        unread += children
    return found


def is_stopped(pid: int) -> bool:
    """Whether the process was stopped, as by SIGSTOP, and not continued."""
    try:
        # The name of the program stands in parentheses, and may have any character in it.
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
