"""The windows over which rules pool counts: from five minutes to the running hour and twelve before it.

In: a snapshot. Out: sums over each window, and the number of distinct tests an hour, for which a rule with a bounded
rate of false alarms has to correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.snapshot import Snapshot

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RECENT_WINDOWS = (1, 2, 3, 4, 6, 9, 12)
"""Steps of the last hour, five minutes each."""

HOUR_WINDOWS = (2, 3, 4, 6, 9, 13)
"""Hours, the running one included."""

WINDOWS = len(RECENT_WINDOWS) + len(HOUR_WINDOWS)

LOOKS_A_CYCLE = 2
"""A window changes when a cycle enters it at the new end, and when a cycle leaves it at the old end."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums over the windows by the names of `for_alerts.COUNTS`, of shape (paths, windows) or, of a single path,
    (windows,), and the length of each window."""

    sums: Mapping[str, Floats]
    lasting_s: tuple[float, ...]


def pooled(snapshot: Snapshot, names: Iterable[str], row: int | slice = slice(None)) -> Windows:
    """These counts over all windows, of all paths or of the path in `row`."""

    def sums(name: str) -> Floats:
        recent = snapshot.recent[name][row].cumsum(axis=-1)[..., [steps - 1 for steps in RECENT_WINDOWS]]
        hourly = snapshot.hourly[name][row].cumsum(axis=-1)[..., [hours - 1 for hours in HOUR_WINDOWS]]
        return np.concatenate([recent, hourly], axis=-1)

    lasting = [steps * snapshot.step_s for steps in RECENT_WINDOWS]
    lasting += [(hours - 1) * 3600.0 + snapshot.running_hour_s for hours in HOUR_WINDOWS]
    return Windows({name: sums(name) for name in names}, tuple(lasting))


def unjudged(snapshot: Snapshot, rule: str, lasting_s: Sequence[float]) -> Bools:
    """A mask, of shape (paths, windows), of the windows that begin after the end of the last incident of `rule` on the
    path and of its last maintenance. Data before an incident's end cannot open another."""
    settled_s = np.full(len(snapshot.paths), -np.inf)
    of_rule = ((path_id, ended_s) for (path_id, name), ended_s in snapshot.ended_s.items() if name == rule)
    for path_id, at_s in chain(of_rule, snapshot.maintained_s.items()):
        if path_id in snapshot.rows:
            settled_s[snapshot.rows[path_id]] = max(settled_s[snapshot.rows[path_id]], at_s)
    return np.asarray(lasting_s) <= (snapshot.now.timestamp() - settled_s)[:, np.newaxis]


def looks_an_hour(snapshot: Snapshot) -> Floats:
    """How often the windows of each path change, per hour."""
    return LOOKS_A_CYCLE * 3600.0 / snapshot.every_s
