"""What has become more frequent on a path than it was: lossy bursts, replies out of order, duplicates.

The newest bursts, in windows from five minutes to the running hour and twelve before it, against the path's 28 days
before those; where the same hours of the week are proven to be worse, against them. The test and its rate of false
alarms are in `monitor.analysis.alarms.rises`. Besides being proven, a rise must matter: `least_rise_ratio`, of packets
for loss, of bursts for the others.

A path is well again when its ratio is at most half way from the baseline to what fired, in at least half as many bursts
as had fired or a hundred, over a window as long as the one that fired, from half an hour to an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.rules.finding import Finding
from monitor.alerts.sweep import RECENT_STEPS, Sweep
from monitor.analysis import figures as shown
from monitor.analysis.alarms import rises
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import AppearanceRule, RegressionRule

Floats = NDArray[np.float64]

RECENT_WINDOWS = (1, 2, 3, 4, 6, 9, 12)
"""Steps of the last hour, five minutes each."""

HOUR_WINDOWS = (2, 3, 4, 6, 9, 13)
"""Hours, the running one included."""

LEAST_BASE_BURSTS = 100
"""A path with fewer has no past to compare with."""

LOOKS_A_CYCLE = 2
"""A window is another one when a cycle comes in at its new end, and when one leaves it at the old end."""

CLEAR_SHARE_OF_BURSTS = 0.5
BURSTS_ENOUGH_TO_CLEAR = 100
LEAST_STEPS_TO_CLEAR = 6
CLEAR_SHARE_OF_RISE = 0.5


@dataclass(frozen=True, slots=True)
class _Windows:
    """Sums over the windows, of shape (paths, windows), and how long each window is."""

    bursts: Floats
    events: Floats
    hits: Floats
    of: Floats
    lasting_s: tuple[float, ...]


class Rise:
    """One kind of event. People read its ratio in packets where it is loss, else in bursts."""

    def __init__(self, name: str, event: str, alarms_an_hour: float, words: str) -> None:
        self.name = name
        self._event = event
        self.alarms_an_hour = alarms_an_hour
        self._words = words

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        if not settings or not sweep.paths:
            return []
        windows, base = self._windows(sweep), sweep.baseline
        events, bursts = base[self._event], base["bursts"]
        if self._event == "lossy":
            events, bursts = rises.seasonal(events, bursts, base["season_lossy"], base["season_bursts"])
        scatter = rises.dispersion(
            base[f"{self._event}_squares"], base[f"hours_{self._event}"], base["hours_bursts"], base["hours"]
        )
        looks = LOOKS_A_CYCLE * 3600.0 / sweep.every_s
        hit, chances = rises.proven(windows.events, windows.bursts, events, bursts, scatter, looks, self.alarms_an_hour)
        ratios = _ratio(windows.hits, windows.of)
        rise = ratios - self._base_ratio(sweep)[:, np.newaxis]
        least = np.full(len(sweep.paths), np.inf)
        for path_id, rule in settings.items():
            least[sweep.rows[path_id]] = cast("RegressionRule | AppearanceRule", rule).least_rise_ratio
        hit &= (rise >= least[:, np.newaxis]) & (base["bursts"] >= LEAST_BASE_BURSTS)[:, np.newaxis]
        strongest = np.where(hit, chances, np.inf).argmin(axis=1)
        ids = list(sweep.paths)
        return [
            self._finding(sweep, ids[row], row, int(strongest[row]), windows, float(chances[row, strongest[row]]))
            for row in np.flatnonzero(hit.any(axis=1)).tolist()
        ]

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        row = sweep.rows[path_id]
        steps = int(np.clip(np.ceil(figures["window_s"] / sweep.step_s), LEAST_STEPS_TO_CLEAR, RECENT_STEPS))
        hits, of = (float(column[row, :steps].sum()) for column in self._ratio_columns(sweep.recent))
        bursts = float(sweep.recent["bursts"][row, :steps].sum())
        if bursts < min(CLEAR_SHARE_OF_BURSTS * figures["bursts"], BURSTS_ENOUGH_TO_CLEAR):
            return None
        ratio, base, fired = hits / max(of, 1.0), float(figures["base_ratio"]), float(figures["ratio"])
        if ratio > base + CLEAR_SHARE_OF_RISE * (fired - base):
            return None
        return f"{self._words} {self._shown(hits, of)} in {shown.duration(steps * sweep.step_s)}"

    def _finding(self, sweep: Sweep, path_id: int, row: int, window: int, of: _Windows, chance: float) -> Finding:
        hits, number = float(of.hits[row, window]), float(of.of[row, window])
        base_hits, base_of = (float(column[row]) for column in self._ratio_columns(sweep.baseline))
        lasting_s = of.lasting_s[window]
        sentence = (
            f"{self._words} {self._shown(hits, number)} in {shown.duration(lasting_s)} to "
            f"{sweep.now:%Y-%m-%d %H:%M} UTC, was {self._shown(base_hits, base_of)}; "
            f"the chance of that without a change is {chance:.0e}"
        )
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=sweep.paths[path_id].name,
            sentence=sentence,
            since=sweep.now - timedelta(seconds=lasting_s),
            figures={
                "window_s": lasting_s,
                "hits": hits,
                "of": number,
                "ratio": hits / max(number, 1.0),
                "bursts": float(of.bursts[row, window]),
                "base_hits": base_hits,
                "base_of": base_of,
                "base_ratio": base_hits / max(base_of, 1.0),
                "chance": chance,
            },
        )

    def _windows(self, sweep: Sweep) -> _Windows:
        def sums(name: str) -> Floats:
            recent = sweep.recent[name].cumsum(axis=1)[:, [steps - 1 for steps in RECENT_WINDOWS]]
            hourly = sweep.hourly[name].cumsum(axis=1)[:, [hours - 1 for hours in HOUR_WINDOWS]]
            return np.concatenate([recent, hourly], axis=1)

        lasting = [steps * sweep.step_s for steps in RECENT_WINDOWS]
        lasting += [(hours - 1) * 3600.0 + sweep.running_hour_s for hours in HOUR_WINDOWS]
        names = ("bursts", self._event, "sent", "received")
        of = {name: sums(name) for name in names}
        hits, number = self._ratio_columns(of)
        return _Windows(of["bursts"], of[self._event], hits, number, tuple(lasting))

    def _ratio_columns(self, of: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        if self._event == "lossy":
            return of["sent"] - of["received"], of["sent"]
        return of[self._event], of["bursts"]

    def _base_ratio(self, sweep: Sweep) -> Floats:
        return _ratio(*self._ratio_columns(sweep.baseline))

    def _shown(self, hits: float, of: float) -> str:
        unit = "packets" if self._event == "lossy" else "bursts"
        return f"{shown.loss(round(hits), round(of))} ({shown.count(round(hits))} of {shown.count(round(of))} {unit})"


def _ratio(hits: Floats, of: Floats) -> Floats:
    return hits / np.maximum(of, 1.0)


LOSS_REGRESSION = Rise("loss_regression", "lossy", 1e-4, "loss")
REORDERING = Rise("reordering", "reordered", 1e-5, "replies out of order in")
DUPLICATES = Rise("duplicates", "duplicated", 1e-5, "duplicates in")
