"""The windows over which rules pool what was counted: from five minutes to the running hour and twelve before it.

In: a sweep. Out: sums over each window, and how often there is something new to look at, which is what a rule has to
allow for that keeps to a rate of false alarms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.snapshot import Sweep

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RECENT_WINDOWS = (1, 2, 3, 4, 6, 9, 12)
"""Steps of the last hour, five minutes each."""

HOUR_WINDOWS = (2, 3, 4, 6, 9, 13)
"""Hours, the running one included."""

WINDOWS = len(RECENT_WINDOWS) + len(HOUR_WINDOWS)

LOOKS_A_CYCLE = 2
"""A window is another one when a cycle comes in at its new end, and when one leaves it at the old end."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums over the windows by the names of `sweeps.COUNTS`, of shape (paths, windows) or of one path (windows,), and
    how long each window is."""

    sums: Mapping[str, Floats]
    lasting_s: tuple[float, ...]


def pooled(sweep: Sweep, names: Iterable[str], row: int | slice = slice(None)) -> Windows:
    """These counts over all windows, of all paths or of one."""

    def sums(name: str) -> Floats:
        recent = sweep.recent[name][row].cumsum(axis=-1)[..., [steps - 1 for steps in RECENT_WINDOWS]]
        hourly = sweep.hourly[name][row].cumsum(axis=-1)[..., [hours - 1 for hours in HOUR_WINDOWS]]
        return np.concatenate([recent, hourly], axis=-1)

    lasting = [steps * sweep.step_s for steps in RECENT_WINDOWS]
    lasting += [(hours - 1) * 3600.0 + sweep.running_hour_s for hours in HOUR_WINDOWS]
    return Windows({name: sums(name) for name in names}, tuple(lasting))


def unjudged(sweep: Sweep, rule: str, lasting_s: Sequence[float]) -> Bools:
    """Which of these windows have nothing of the time before the last incident ended in which `rule` had the path, or
    before maintenance did; of shape (paths, windows). What has had its incident opens no other."""
    settled_s = np.full(len(sweep.paths), -np.inf)
    of_rule = ((path_id, ended_s) for (path_id, name), ended_s in sweep.ended_s.items() if name == rule)
    for path_id, at_s in chain(of_rule, sweep.maintained_s.items()):
        if path_id in sweep.rows:
            settled_s[sweep.rows[path_id]] = max(settled_s[sweep.rows[path_id]], at_s)
    return np.asarray(lasting_s) <= (sweep.now.timestamp() - settled_s)[:, np.newaxis]


def looks_an_hour(sweep: Sweep) -> Floats:
    """How often the windows of each path are other ones."""
    return LOOKS_A_CYCLE * 3600.0 / sweep.every_s
