"""Processor time and memory of processes, from /proc. Not a benchmark of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Iterable[int], *, with_children: bool = True) -> float:
    """Processor time used by these processes, and by the children that they have waited for."""
    ticks = 0
    for pid in pids:
        try:
            figures = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += sum(map(int, figures[11 : 15 if with_children else 13]))
    return ticks / TICKS_PER_S


def descendants(pid: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    pids, left = [], [pid]
    while left:
        pids.append(left.pop())
        left += children.get(pids[-1], [])
    return pids


def resident_bytes(pids: Iterable[int]) -> int:
    """Proportional share of memory of these processes: pages that several share count once."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total
