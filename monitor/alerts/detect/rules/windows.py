"""The windows over which rules pool counts: from five minutes to the running hour and twelve before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import numpy as np

from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import binomial
from monitor.archive.statements import LONGEST_RAW
from monitor.arrays import Bools, Floats, Ints
from monitor.mesh.queries import MeasuredPath

# Steps of the last hour, five minutes each.
RECENT_WINDOWS = (1, 2, 3, 4, 6, 9, 12)

# Hours, the running hour included.
HOUR_WINDOWS = (2, 3, 4, 6, 9, 13)

WINDOWS = len(RECENT_WINDOWS) + len(HOUR_WINDOWS)

# A window changes when a cycle enters it at the new end, and when a cycle leaves it at the old end.
LOOKS_A_CYCLE = 2

# Share of the packets or bursts that fired which a window needs to clear.
CLEAR_SHARE = 0.5

# Maximum probability of so few events at the level that fired, for a window that clears.
CLEAR_CHANCE = 1e-3

LONGEST_CLEAR_CHANCE = 0.05
# Share of scheduled bursts for the longest window: after a slower schedule no window holds half of those that fired.
CLEAR_SHARE_OF_SCHEDULE = 0.25


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums of `for_alerts.COUNTS` over the windows, of shape (paths, windows), or (windows,) for a single path."""

    sums: Mapping[str, Floats]
    lasting_s: tuple[float, ...]  # full length, by which windows are compared
    counted_s: tuple[float, ...]  # for texts, without the seconds that the newest step lacks


def pooled(snapshot: Snapshot, names: Iterable[str], row: int | slice | Ints = slice(None)) -> Windows:
    """These counts over all windows, for all paths or those in `row`."""

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
    """The level of events with which a finding fired."""

    until_s: float  # end of its window, seconds since the epoch
    lasting_s: float  # length of its window
    ratio: float  # events per trial
    trials: float  # bursts or packets
    together: float = 1.0  # events that count as a single event

    def chance_of_so_few(self, events: float, trials: float) -> float:
        independent, others = trials / self.together, (trials - events) / self.together
        if others < 1.0:
            return 1.0
        return float(1.0 - binomial.at_least(events / self.together + 1.0, independent, self.ratio))


def clearing(
    of: Windows, is_low: Bools, events: Floats, trials: Floats, fired: FiredLevel, path: MeasuredPath, now: datetime
) -> int | None:
    """Place of a path's window that shows that a finding is over, or None; arrays have the shape (windows,)."""
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
    """Number of newest bursts that show a path's RTT: as many as fired, or half a day's."""
    return min(fired, max(1, int(CLEAR_SHARE * LONGEST_RAW.total_seconds() / every_s)))


def settled_s(snapshot: Snapshot, path_id: int, rule: str) -> float:
    """End of the path's last incident of `rule` or maintenance, in seconds since the epoch; else minus infinity."""
    ended_s = snapshot.ended_s.get((path_id, rule), -np.inf)
    return max(ended_s, snapshot.maintained_s.get(path_id, -np.inf))


def unjudged(snapshot: Snapshot, rule: str, lasting_s: Sequence[float]) -> Bools:
    """Mask, of shape (paths, windows), the windows that begin after the last incident of `rule` and maintenance."""
    settled_s = np.full(len(snapshot.paths), -np.inf)
    of_rule = ((path_id, ended_s) for (path_id, name), ended_s in snapshot.ended_s.items() if name == rule)
    for path_id, at_s in chain(of_rule, snapshot.maintained_s.items()):
        if path_id in snapshot.rows:
            settled_s[snapshot.rows[path_id]] = max(settled_s[snapshot.rows[path_id]], at_s)
    return np.asarray(lasting_s) <= (snapshot.now.timestamp() - settled_s)[:, np.newaxis]


def looks_an_hour(snapshot: Snapshot) -> Floats:
    """How often the windows of each path change, per hour."""
    return LOOKS_A_CYCLE * 3600.0 / snapshot.every_s
