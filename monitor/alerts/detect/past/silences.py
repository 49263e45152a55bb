"""Since when the newest requests of paths have had no reply. Only time with requests counts as silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.archive.queries.for_alerts import Columns
from monitor.archive.queries.recent import fresh_s

# The next request follows a reply within this many cycles, unless the agent was away.
NEXT_CYCLES = 1.5
# More than there are packet sizes.
_SIZES = 2**17


@dataclass(frozen=True, slots=True)
class Silence:
    """The newest requests of a path, all lost; times in seconds since the epoch."""

    since_s: float  # last answered burst if `has_answered`, else first lost request
    until_s: float  # newest lost request
    cycles: int
    has_answered: bool  # a request followed the last reply in the next cycle


def silences_of(bursts: Columns, every_s: Mapping[int, float]) -> dict[int, Silence]:
    """The silences by path, from bursts sorted by path and time."""
    path_id, at_s, is_answered = bursts["path_id"], bursts["at_s"], bursts["answered"] > 0
    if not len(path_id):
        return {}
    ids = path_id.astype(np.int64).tolist()
    cycle_s = np.array([every_s[number] for number in ids])
    longest_gap_s = np.array([fresh_s(every_s[number]) for number in ids])
    is_first = np.append(True, path_id[1:] != path_id[:-1])
    gap_s = np.append(0.0, np.diff(at_s))
    starts = is_first | np.append(False, is_answered[:-1]) | (gap_s > longest_gap_s)
    firsts = np.maximum.accumulate(np.where(starts, np.arange(len(path_id)), 0))
    lasts = np.flatnonzero(np.append(is_first[1:], True) & ~is_answered)
    cycles = _cycles(bursts, firsts)
    silences = {}
    for last in lasts.tolist():
        first = int(firsts[last])
        has_answered = not is_first[first] and is_answered[first - 1] and gap_s[first] <= NEXT_CYCLES * cycle_s[first]
        since_s = float(at_s[first - 1 if has_answered else first])
        silences[int(path_id[last])] = Silence(since_s, float(at_s[last]), int(cycles[first]), bool(has_answered))
    return silences


def _cycles(bursts: Columns, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    keys, counts = np.unique(firsts * _SIZES + bursts["packet_bytes"].astype(np.int64), return_counts=True)
    cycles = np.zeros(len(firsts), dtype=np.int64)
    np.maximum.at(cycles, keys // _SIZES, counts)
    return cycles
