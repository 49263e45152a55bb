"""Since when the newest requests of paths have had no reply: `silences_of` takes the bursts of a few paths.

In: the measured bursts of each path since its last reply, or as far back as counts reach. Out: a `Silence` for each
path whose newest burst was lost as a whole. Only requests that were sent count: time without any is no silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.archive.queries.for_alerts import Columns
from monitor.archive.queries.recent import fresh_s

NEXT_CYCLES = 1.5
"""The next request follows a reply within so many cycles, unless the agent was away."""
_SIZES = 2**17
"""More than there are packet sizes."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The newest requests of a path, all lost: those of so many `cycles`, the newest at `until_s`.

    `since_s` is the last burst with a reply if a request followed it in the next cycle (`has_answered`). Otherwise the
    path is new, or nothing was sent before: it is the first of these requests. Times are seconds since the epoch.
    """

    since_s: float
    until_s: float
    cycles: int
    has_answered: bool


def silences_of(bursts: Columns, every_s: Mapping[int, float]) -> dict[int, Silence]:
    """The silences by path, of bursts by path and time. A gap as long as that after which a path has no newer data ends
    a silence: what was lost before it tells nothing of now."""
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
    """The bursts of the most frequent size of each run, at the place of its first burst: a cycle has one of each."""
    keys, counts = np.unique(firsts * _SIZES + bursts["packet_bytes"].astype(np.int64), return_counts=True)
    cycles = np.zeros(len(firsts), dtype=np.int64)
    np.maximum.at(cycles, keys // _SIZES, counts)
    return cycles
