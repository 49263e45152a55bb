"""Read a process's descendants, CPU time and stopped state from Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
# proc_pid_stat(5): stopped by a signal. A stop by a debugger is `t` and does not count.
STOPPED = "T"
# proc_pid_stat(5): utime, stime, cutime and cstime, counted from the state.
CPU_TIMES = slice(11, 15)


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
    return _stat(pid)[:1] == [STOPPED]


def cpu_time_s(pid: int) -> float:
    """CPU time of a process and its descendants, even after their end."""
    ticks = sum(int(field) for member in (pid, *descendants(pid)) for field in _stat(member)[CPU_TIMES])
    return ticks / os.sysconf("SC_CLK_TCK")


def machine_load() -> str:
    """The load average in words, such as "the machine is busy, load 7.4 on 2 CPUs"."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    return f"{'the machine is busy, ' if load > cpus else ''}load {load:.1f} on {cpus} CPU{'s' if cpus > 1 else ''}"


def _stat(pid: int) -> list[str]:
    try:
        # The program name is in parentheses and may contain any character.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _children(pid: int) -> list[int]:
    try:
        return [
            int(word)
            for thread in (PROC / str(pid) / "task").iterdir()
            for word in (thread / "children").read_text().split()
        ]
    except OSError:
        return []
