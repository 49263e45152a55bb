"""The windows over which rules pool counts: from five minutes to the running hour and twelve before it.

In: a snapshot. Out: sums over each window, the window that can show that a finding is over, and the number of distinct
tests an hour, for which a rule with a bounded rate of false alarms has to correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import binomial
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.queries import MeasuredPath

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

RECENT_WINDOWS = (1, 2, 3, 4, 6, 9, 12)
"""Steps of the last hour, five minutes each."""

HOUR_WINDOWS = (2, 3, 4, 6, 9, 13)
"""Hours, the running one included."""

WINDOWS = len(RECENT_WINDOWS) + len(HOUR_WINDOWS)

LOOKS_A_CYCLE = 2
"""A window changes when a cycle enters it at the new end, and when a cycle leaves it at the old end."""


CLEAR_SHARE = 0.5
"""Share of the packets or bursts that fired which a window needs to clear."""

CLEAR_CHANCE = 1e-3
"""Maximum probability of so few events at the level that fired, for a window that clears."""

LONGEST_CLEAR_CHANCE = 0.05
CLEAR_SHARE_OF_SCHEDULE = 0.25
"""The longest window clears with less proof and with this share of its scheduled bursts: after a change to a slower
schedule no window holds half of the number that fired."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums over the windows by the names of `for_alerts.COUNTS`, of shape (paths, windows) or, of a single path,
    (windows,). `lasting_s` is the length of each window, by which windows are compared; `counted_s`, for texts, is the
    time that it counts: without the seconds that the newest step lacks."""

    sums: Mapping[str, Floats]
    lasting_s: tuple[float, ...]
    counted_s: tuple[float, ...]


def pooled(snapshot: Snapshot, names: Iterable[str], row: int | slice | Ints = slice(None)) -> Windows:
    """These counts over all windows, of all paths or of the path or paths in `row`."""

    def sums(name: str) -> Floats:
        recent = snapshot.recent[name][row].cumsum(axis=-1)[..., [steps - 1 for steps in RECENT_WINDOWS]]
        hourly = snapshot.hourly[name][row].cumsum(axis=-1)[..., [hours - 1 for hours in HOUR_WINDOWS]]
        return np.concatenate([recent, hourly], axis=-1)

    recent_s = tuple(steps * snapshot.step_s for steps in RECENT_WINDOWS)
    counted_s = tuple(lasting_s - snapshot.recent_lacking_s for lasting_s in recent_s)
    hours_s = tuple((hours - 1) * 3600.0 + snapshot.running_hour_s for hours in HOUR_WINDOWS)
    return Windows({name: sums(name) for name in names}, recent_s + hours_s, counted_s + hours_s)


@dataclass(frozen=True, slots=True)
class FiredLevel:
    """The level of events that fired: the end of its window in seconds since the epoch, its length, the events' share
    of the `trials` (bursts or packets), and the number of events that count as one because they come together."""

    until_s: float
    lasting_s: float
    ratio: float
    trials: float
    together: float = 1.0

    def chance_of_so_few(self, events: float, trials: float) -> float:
        """Probability of at most so many events if the level still were this."""
        independent, others = trials / self.together, (trials - events) / self.together
        if others < 1.0:
            return 1.0
        return float(1.0 - binomial.at_least(events / self.together + 1.0, independent, self.ratio))


def clearing(
    of: Windows, is_low: Bools, events: Floats, trials: Floats, fired: FiredLevel, path: MeasuredPath, now: datetime
) -> int | None:
    """The place of the window, of a single path, that shows that a finding is over; None if none does.

    It is as long as the window that fired, since a shorter one could miss a trouble that took the long one to prove, or
    begins after it. It is low, has half as many trials as fired, and so few events that the level that fired is
    improbable. All arrays have the shape (windows,); `of` needs `bursts`.
    """
    longest_s, since_fired_s = max(of.lasting_s), now.timestamp() - fired.until_s
    # How long the hours last depends on how much of the running hour is over.
    least_s = min(fired.lasting_s, longest_s)
    places = [place for place in np.argsort(of.lasting_s, kind="stable").tolist() if of.lasting_s[place] >= least_s]
    for number, place in enumerate(places):
        lasting_s = of.lasting_s[place]
        # A longer window that begins before could be low by the time before the trouble.
        if not is_low[place] or (number > 0 and lasting_s > since_fired_s):
            continue
        chance = fired.chance_of_so_few(float(events[place]), float(trials[place]))
        if trials[place] >= CLEAR_SHARE * fired.trials and chance <= CLEAR_CHANCE:
            return int(place)
        is_enough = of.sums["bursts"][place] >= CLEAR_SHARE_OF_SCHEDULE * lasting_s / path.every_s
        least_chance = fired.chance_of_so_few(0.0, float(trials[place]))
        if lasting_s == longest_s and is_enough and chance <= max(LONGEST_CLEAR_CHANCE, least_chance):
            return int(place)
    return None


def bursts_to_clear(fired: int, every_s: float) -> int:
    """The number of newest bursts of a path that show its RTT: as many as fired, or half of those of a day, which is as
    far back as RTTs are read; a schedule may have become slower since."""
    return min(fired, max(1, int(CLEAR_SHARE * LONGEST_RAW.total_seconds() / every_s)))


def settled_s(snapshot: Snapshot, path_id: int, rule: str) -> float:
    """The end of the last incident of `rule` on the path or of its last maintenance, in seconds since the epoch; data
    before it cannot fire. Minus infinity without either."""
    ended_s = snapshot.ended_s.get((path_id, rule), -np.inf)
    return max(ended_s, snapshot.maintained_s.get(path_id, -np.inf))


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
