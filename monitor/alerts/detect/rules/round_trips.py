"""Round trips that rose: suddenly (rtt), in their variation (jitter), or slowly over days (rtt_drift).

A sudden rise is what `monitor.analysis.changes` raises on the median or on the minimum of each burst, where both
quartiles rose by `least_rise_ms` or more, or by `least_rise_ratio` of what was before and a millisecond; with
`every_change`, any change that is raised, falls too. If the minimum rose with the median the path itself has become
longer, as after a change of route; if the median alone rose, packets wait in a queue. Variation is judged in the same
way by the mean difference of one round trip to the next. A drift is proven by ranks: the medians of the last whole days
against those of the days before them.

A sudden change is over when the level of the last 14 bursts has come back by half of it, and after a day at the new
level, which then is the normal one. A drift is over when the newest whole day is back by half of the rise, or after a
week.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.snapshot import Sweep
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.analysis.changes import detector
from monitor.analysis.changes.detector import AFTER, BEFORE, Change
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import DriftRule, JitterRule, RoundTripRule

Floats = NDArray[np.float64]

CLEAR_SHARE_OF_RISE = 0.5
LEAST_TO_ASK_MS = 0.1
"""The least rise that mesh.toml can ask for: what rose by less alarms nobody."""

LEAST_BY_RATIO_MS = 1.0
"""What the detector can prove at all: a rise of less is no share of anything."""

NEW_NORMAL_AFTER = timedelta(days=1)
NEW_NORMAL_AFTER_DRIFT = timedelta(days=7)
DRIFT_CHANCE_A_DAY = 24 * 1e-5
"""One look a day: a false alarm in 100,000 path-hours."""


class Step:
    """A sudden rise of one or more of the figures of `alerts.trips`, the first of which people read."""

    def __init__(self, name: str, watched: tuple[str, ...], words: str) -> None:
        self.name = name
        self._watched = watched
        self._words = words

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        found: dict[int, Finding] = {}
        for window, figure, change in self.raised(sweep, settings):
            path_id = int(sweep.trips.path_id[window])
            if path_id not in found:
                found[path_id] = self._finding(sweep, path_id, window, figure, change)
        return list(found.values())

    def raised(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> Iterator[tuple[int, str, Change]]:
        """All changes that are asked for, of all new bursts: the window, the figure that changed, and the change."""
        asks_for_every_change = any(getattr(rule, "every_change", False) for rule in settings.values())
        for figure in self._watched:
            for window, change in _raised(sweep.trips.values_ms[figure], with_falls=asks_for_every_change):
                rule = settings.get(int(sweep.trips.path_id[window]))
                if rule is not None and _is_asked_for(change, rule):
                    yield window, figure, change

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        before, after = float(figures["before_ms"]), float(figures["after_ms"])
        since = datetime.fromisoformat(figures["since"])
        levels = sweep.trips.levels.get(path_id)
        if levels is None or len(levels[figures["figure"]]) < AFTER:
            return None
        level = float(np.median(levels[figures["figure"]]))
        if (after - level) * np.sign(after - before) >= CLEAR_SHARE_OF_RISE * abs(after - before):
            return f"{self._words} {shown.milliseconds(level)} again"
        if sweep.now - since >= NEW_NORMAL_AFTER:
            return f"{self._words} {shown.milliseconds(level)}, for a day now: this is the normal level from here on"
        return None

    def _finding(self, sweep: Sweep, path_id: int, window: int, figure: str, change: Change) -> Finding:
        at = datetime.fromtimestamp(float(sweep.trips.at_s[window, BEFORE]), UTC)
        earliest = datetime.fromtimestamp(float(sweep.trips.at_s[window, BEFORE - 1]), UTC)
        ttl_before, ttl_after = _usual(sweep.trips.ttl[window, :BEFORE]), _usual(sweep.trips.ttl[window, BEFORE:])
        floor = _rise(sweep.trips.values_ms["minimum"][window])
        why = _cause(floor, change.after_ms - change.before_ms, ttl_before, ttl_after) if self.name == "rtt" else ""
        sentence = (
            f"{self._words} {shown.milliseconds(change.after_ms)} since {at:%Y-%m-%d %H:%M} UTC, was "
            f"{shown.milliseconds(change.before_ms)}{why}"
        )
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=sweep.paths[path_id].name,
            sentence=sentence,
            since=at,
            figures={
                "figure": figure,
                "before_ms": change.before_ms,
                "after_ms": change.after_ms,
                "minimum_rise_ms": floor,
                "evidence_nats": change.evidence,
                "since": at.isoformat(),
                "not_before": earliest.isoformat(),
                "ttl_before": ttl_before,
                "ttl_after": ttl_after,
            },
        )


class Drift:
    """A slow rise of the median round trip, over whole days."""

    name = "rtt_drift"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        if not settings or not sweep.paths:
            return []
        least_ms = min(cast("DriftRule", rule).least_rise_ms for rule in settings.values())
        days = sweep.daily_rtts_ms
        risen_ms = np.fmax.reduce(days, axis=1, initial=-np.inf) - np.fmin.reduce(days, axis=1, initial=np.inf)
        rows = np.flatnonzero(risen_ms >= least_ms)  # all others cannot have risen by so much
        falls = ranks.falls(-days[rows])
        rise = falls.before_median - falls.newest_median  # of negative values
        ids = list(sweep.paths)
        found = []
        for place in np.flatnonzero(falls.chance <= DRIFT_CHANCE_A_DAY).tolist():
            path_id = ids[rows[place]]
            rule = cast("DriftRule | None", settings.get(path_id))
            if rule is not None and rise[place] >= rule.least_rise_ms:
                before_ms, after_ms = -float(falls.before_median[place]), -float(falls.newest_median[place])
                found.append(self._finding(sweep, path_id, int(falls.count[place]), before_ms, after_ms))
        return found

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        before, after = float(figures["before_ms"]), float(figures["after_ms"])
        newest = float(sweep.daily_rtts_ms[sweep.rows[path_id], -1])
        if not np.isnan(newest) and newest <= before + CLEAR_SHARE_OF_RISE * (after - before):
            return f"median round trip of yesterday {shown.milliseconds(newest)}"
        if sweep.now - datetime.fromisoformat(figures["found"]) >= NEW_NORMAL_AFTER_DRIFT:
            return "the median round trip has been so for a week: this is the normal level from here on"
        return None

    def _finding(self, sweep: Sweep, path_id: int, days: int, before_ms: float, after_ms: float) -> Finding:
        since = sweep.now - timedelta(days=days)
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=sweep.paths[path_id].name,
            sentence=(
                f"median round trip {shown.milliseconds(after_ms)} over the last {days} days, was "
                f"{shown.milliseconds(before_ms)} before"
            ),
            since=since,
            figures={"before_ms": before_ms, "after_ms": after_ms, "days": days, "found": sweep.now.isoformat()},
        )


def _is_asked_for(change: Change, rule: alert_rules.Rule) -> bool:
    """Whether the rule is about a change of this size."""
    asked = cast("RoundTripRule | JitterRule", rule)
    if not isinstance(asked, RoundTripRule):
        return change.shift_ms >= asked.least_rise_ms
    by_ratio = max(asked.least_rise_ratio * change.before_ms, LEAST_BY_RATIO_MS)
    return asked.every_change or change.shift_ms >= min(asked.least_rise_ms, by_ratio)


def _raised(windows_ms: Floats, *, with_falls: bool) -> Iterator[tuple[int, Change]]:
    """The changes that the windows prove. Where falls do not matter, only what rose is asked about."""
    rise_ms = np.median(windows_ms[:, BEFORE:], axis=1) - np.median(windows_ms[:, :BEFORE], axis=1)
    windows = np.flatnonzero(with_falls | (rise_ms > LEAST_TO_ASK_MS))
    if len(windows):
        yield from ((int(windows[row]), change) for row, change in detector.raised(windows_ms[windows]).items())


def _rise(values_ms: Floats) -> float:
    return float(np.median(values_ms[BEFORE:]) - np.median(values_ms[:BEFORE]))


def _usual(ttl: Floats) -> int | None:
    """The TTL that most replies had; None where no reply had one."""
    known, counts = np.unique(ttl[~np.isnan(ttl)], return_counts=True)
    return int(known[counts.argmax()]) if len(known) else None


def _cause(floor_ms: float, rise_ms: float, ttl_before: int | None, ttl_after: int | None) -> str:
    """What the minimum and the TTL say of a rise of the median."""
    if ttl_before is not None and ttl_after is not None and ttl_before != ttl_after:
        return f"; the TTL of replies went from {ttl_before} to {ttl_after}: another route"
    if floor_ms >= CLEAR_SHARE_OF_RISE * rise_ms:
        return "; the minimum rose as well: a longer route, or a queue that never empties"
    return f"; the minimum rose by {shown.milliseconds(max(floor_ms, 0.0))} only: a queue"


RTT = Step("rtt", ("median", "minimum"), "round trip")
JITTER = Step("jitter", ("jitter",), "difference of one round trip to the next")
DRIFT = Drift()
