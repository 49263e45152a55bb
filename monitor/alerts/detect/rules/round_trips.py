"""Rises of the RTT: sudden (rtt), in its variation (jitter), or slow over days (rtt_drift).

Found by change points (`monitor.analysis.changes`) or a rank test; one-way delays exclude clocks
(`analysis.changes.one_way`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from monitor.alerts.detect.delay_windows import CLOCK_HI, CLOCK_LO, DELAYS, OTHER, level_ms
from monitor.alerts.detect.past.recent_bursts import RecentBursts
from monitor.alerts.detect.rtt_windows import WINDOWS_AT_ONCE, TripWindows
from monitor.alerts.detect.rules.finding import ACCEPTED, AlertRule, BurstLevel, RuleFinding
from monitor.alerts.detect.rules.windows import bursts_to_clear, settled_s
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting, ranks
from monitor.analysis.changes import detector, one_way
from monitor.analysis.changes.detector import AFTER, BEFORE, RttChange
from monitor.analysis.changes.least_rise import least_rise_ms
from monitor.analysis.changes.one_way import OtherDirection
from monitor.arrays import Floats, Ints
from monitor.mesh.document.alert_rules import DAY_S, LeastSchedule, RiseMs, RuleSettings, RuleSeverity
from probes.toml.keys import meaning

CLEAR_SHARE_OF_RISE = 0.5
# The minimum rise that mesh.toml accepts: a smaller rise never alarms.
LEAST_TO_ASK_MS = 0.1

# Nats, two more than for round trips: each direction is another series in which noise may change.
LEAST_EVIDENCE_ONE_WAY = 9.0

# A median that rose by less than this share of the minimum rise is not tested for a slow rise.
LEAST_SHARE_OF_SHIFT = 0.5

MIDDLE = (0.25, 0.75)
# This many bursts in the middle of a rise make it slow.
LEAST_BETWEEN = 4

# RTTs are read a day back: this many bursts, and the intervals between them.
SCHEDULE = LeastSchedule(f"{BEFORE + AFTER} cycles within a day", DAY_S / (BEFORE + AFTER - 1))

NEW_NORMAL_AFTER = timedelta(days=1)
NEW_NORMAL_AFTER_DRIFT = timedelta(days=7)
# For a single test per day: a false alarm in 100,000 path-hours.
DRIFT_CHANCE_A_DAY = 24 * 1e-5


class RoundTripRule(RuleSettings, frozen=True, kw_only=True):
    """RTT has risen suddenly; `every_change` takes any significant step."""

    schedule = SCHEDULE
    least_rise_ms: Annotated[RiseMs, meaning("Minimum rise of the RTT.")] = 6.0
    least_rise_ratio: Annotated[
        float,
        Meta(ge=0.01, le=100),
        meaning("Minimum rise as a share of the baseline; the lower of the two minima counts."),
    ] = 0.08
    every_change: Annotated[bool, meaning("Report every significant step, falls included.")] = False


class JitterRule(RuleSettings, frozen=True, kw_only=True):
    """Jitter has risen suddenly, by at least `least_rise_ms`."""

    schedule = SCHEDULE
    severity: RuleSeverity = "notice"

    least_rise_ms: Annotated[RiseMs, meaning("Minimum rise of the jitter.")] = 6.0


class DriftRule(RuleSettings, frozen=True, kw_only=True):
    """RTT of whole days has risen slowly, by at least `least_rise_ms`."""

    severity: RuleSeverity = "notice"

    least_rise_ms: Annotated[RiseMs, meaning("Minimum rise of the daily median RTT.")] = 6.0


class RttStep(AlertRule):
    """A sudden rise of any of the `watched` figures of `rtt_windows`; texts give the first."""

    is_by_direction = True

    def __init__(
        self,
        name: str,
        settings: type[RuleSettings],
        watched: tuple[str, ...],
        words: str,
        usual_cause: str | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self._watched = watched
        self.words = words
        self.began_by = BurstLevel(watched[0])
        self.usual_cause = usual_cause

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings: dict[int, RuleFinding] = {}
        for window, figure, change in self.raised(snapshot, settings):
            path_id = int(snapshot.trips.path_id[window])
            if path_id not in findings:
                findings[path_id] = self._finding(snapshot, path_id, window, figure, change)
        if "minimum" in self._watched and not snapshot.is_one_way:
            for path_id, finding in self._slow(snapshot, settings):
                findings.setdefault(path_id, finding)
        return list(findings.values())

    def _slow(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> Iterator[tuple[int, RuleFinding]]:
        trips, bursts = snapshot.trips, snapshot.trips.bursts
        windows, places = trips.with_gaps()
        least_ms = min(
            (cast("RoundTripRule", rule).least_rise_ms for rule in by_setting.distinct(settings)), default=np.inf
        )
        for figure in self._watched:
            values_ms = bursts.values_ms[figure][places]
            rows = np.flatnonzero(_rises(values_ms) >= LEAST_SHARE_OF_SHIFT * least_ms)
            for number, change in detector.apart(values_ms[rows]).items():
                row = int(rows[number])
                window, path_id = int(windows[row]), int(trips.path_id[windows[row]])
                rule, at_s = cast("RoundTripRule | None", settings.get(path_id)), bursts.at_s[places[row]]
                if rule is None or change.shift_ms < rule.least_rise_ms:
                    continue
                if at_s[0] > settled_s(snapshot, path_id, self.name):
                    yield path_id, self._finding(snapshot, path_id, window, figure, change, places[row])

    def raised(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> Iterator[tuple[int, str, RttChange]]:
        """Yield each change in new bursts that exceeds the limits of `settings`, with its window and figure."""
        asks_for_every_change = any(getattr(rule, "every_change", False) for rule in by_setting.distinct(settings))
        for figure in self._watched:
            for window, change in _raised(snapshot.trips, figure, with_falls=asks_for_every_change):
                rule = settings.get(int(snapshot.trips.path_id[window]))
                if rule is None:
                    continue
                if not snapshot.is_one_way:
                    if _is_asked_for(change, rule):
                        yield window, figure, change
                    continue
                if change.evidence < LEAST_EVIDENCE_ONE_WAY:
                    continue
                levels = _with_levels(snapshot.trips, window, figure, change)
                if _is_asked_for(levels, rule) and _is_alone(snapshot.trips, window, figure):
                    yield window, figure, levels

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        before, after = float(figures["before_ms"]), float(figures["after_ms"])
        since = datetime.fromisoformat(figures["since"])
        bursts = snapshot.trips.bursts_of(path_id)
        if bursts is None or len(bursts.at_s) < bursts_to_clear(AFTER, snapshot.paths[path_id].every_s):
            return None
        newest = level_ms(bursts.newest(AFTER).values_ms, figures["figure"])
        level = float(np.median(newest))
        if _is_back(level, before, after):
            return f"{self.words} {shown.milliseconds(_level_since_end(newest, before, after))} again"
        if snapshot.now - since >= NEW_NORMAL_AFTER:
            return f"{self.words} {shown.milliseconds(level)} for a day: {ACCEPTED}"
        return None

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        return AFTER * every_s if figures["figure"] in ("median", "minimum") else None

    def _finding(
        self,
        snapshot: Snapshot,
        path_id: int,
        window: int,
        figure: str,
        change: RttChange,
        slow: Ints | None = None,
    ) -> RuleFinding:
        """`slow` are the places of the bursts that show a slow rise."""
        of = snapshot.trips.window(window)
        times_s = (float(of.at_s[BEFORE - 1]), float(of.at_s[BEFORE]))
        minima_ms, values_ms = of.values_ms["minimum"], of.values_ms[figure]
        if slow is not None:
            times_s = _slow_since(snapshot.trips.bursts, figure, slow)
            minima_ms, values_ms = (snapshot.trips.bursts.values_ms[name][slow] for name in ("minimum", figure))
        earliest, at = (datetime.fromtimestamp(seconds, UTC) for seconds in times_s)
        ttl_before, ttl_after = _usual(of.ttl[:BEFORE]), _usual(of.ttl[BEFORE:])
        floor, rise_ms = _rise(minima_ms), _rise(values_ms)
        why, delay = "", ""
        if "minimum" in self._watched:
            why = _cause(floor, rise_ms, ttl_before, ttl_after)
            delay = f"delay {rise_ms:+.1f} ms, " if snapshot.is_one_way else ""
        is_slow = slow is not None and _has_levels_between(snapshot.trips.bursts.values_ms[figure], slow, change)
        rose = ", rose slowly" if is_slow else ""
        sentence = (
            f"{delay}{self.words} {shown.milliseconds(change.after_ms)}{rose} since {at:%Y-%m-%d %H:%M} UTC, was "
            f"{shown.milliseconds(change.before_ms)}{why}"
        )
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=sentence,
            since=at,
            figures={
                "figure": figure,
                "before_ms": change.before_ms,
                "after_ms": change.after_ms,
                "rise_ms": rise_ms,
                "minimum_rise_ms": floor,
                "is_slow": is_slow,
                "evidence_nats": change.evidence,
                "since": at.isoformat(),
                "not_before": earliest.isoformat(),
                "ttl_before": ttl_before,
                "ttl_after": ttl_after,
            },
        )


class RttDrift(AlertRule):
    """A slow rise of the median RTT, over whole days."""

    name = "rtt_drift"
    settings = DriftRule
    words = "RTT"

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.paths:
            return []
        least_ms = min(cast("DriftRule", rule).least_rise_ms for rule in by_setting.distinct(settings))
        days = snapshot.daily_rtts_ms
        risen_ms = np.fmax.reduce(days, axis=1, initial=-np.inf) - np.fmin.reduce(days, axis=1, initial=np.inf)
        rows = np.flatnonzero(risen_ms >= least_ms)  # all others cannot have risen by so much
        falls = ranks.falls(-days[rows])
        rise = falls.before_median - falls.newest_median  # of negative values
        ids = list(snapshot.paths)
        findings = []
        for place in np.flatnonzero(falls.chance <= DRIFT_CHANCE_A_DAY).tolist():
            path_id = ids[rows[place]]
            rule = cast("DriftRule | None", settings.get(path_id))
            if rule is not None and rise[place] >= rule.least_rise_ms:
                before_ms, after_ms = -float(falls.before_median[place]), -float(falls.newest_median[place])
                findings.append(self._finding(snapshot, path_id, int(falls.count[place]), before_ms, after_ms))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        before, after = float(figures["before_ms"]), float(figures["after_ms"])
        newest = float(snapshot.daily_rtts_ms[snapshot.rows[path_id], -1])
        if not np.isnan(newest) and newest <= before + CLEAR_SHARE_OF_RISE * (after - before):
            return f"median RTT of yesterday {shown.milliseconds(newest)}"
        if snapshot.now - datetime.fromisoformat(figures["found"]) >= NEW_NORMAL_AFTER_DRIFT:
            return f"median RTT unchanged for a week: {ACCEPTED}"
        return None

    def _finding(self, snapshot: Snapshot, path_id: int, days: int, before_ms: float, after_ms: float) -> RuleFinding:
        since = snapshot.now - timedelta(days=days)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=(
                f"median RTT {shown.milliseconds(after_ms)} over the last {days} days, was "
                f"{shown.milliseconds(before_ms)} before"
            ),
            since=since,
            figures={"before_ms": before_ms, "after_ms": after_ms, "days": days, "found": snapshot.now.isoformat()},
        )


def _is_back(value: Floats | float, before: float, after: float) -> NDArray[np.bool_]:
    return np.asarray((after - value) * np.sign(after - before) >= CLEAR_SHARE_OF_RISE * abs(after - before))


def _level_since_end(newest: Floats, before: float, after: float) -> float:
    """Median of the bursts since the level came back, or of all that are back."""
    is_back = _is_back(newest, before, after)
    since_end = newest[len(newest) - int(np.argmin(is_back[::-1])) :] if not is_back.all() else newest
    # A median of bursts before and after the end may lie where no burst was.
    values = since_end if len(since_end) else newest[is_back]
    return float(np.median(values if len(values) else newest))


def _with_levels(trips: TripWindows, window: int, figure: str, change: RttChange) -> RttChange:
    levels = level_ms(trips.window(window).values_ms, figure)
    return replace(change, before_ms=float(np.median(levels[:BEFORE])), after_ms=float(np.median(levels[BEFORE:])))


def _is_alone(trips: TripWindows, window: int, figure: str) -> bool:
    """Whether this direction's figure changed, not a clock or the other direction."""
    values_ms = trips.window(window).values_ms
    other, change_ms = values_ms[f"{OTHER}{figure}"], _rise(values_ms[figure])
    both = values_ms[figure] + other
    sides_ms = (other[:BEFORE], other[BEFORE:], both[:BEFORE], both[BEFORE:])
    if figure not in DELAYS:
        return not one_way.moved_along(OtherDirection(*sides_ms, change_ms))
    lowest, highest = values_ms[CLOCK_LO], values_ms[CLOCK_HI]
    sides = (lowest[:BEFORE], highest[BEFORE:]) if change_ms >= 0.0 else (lowest[BEFORE:], highest[:BEFORE])
    clock_ms = float(np.median(sides[1]) - np.median(sides[0]))
    clock_ms = np.inf if np.isnan(clock_ms) else clock_ms
    return one_way.is_alone(OtherDirection(*sides_ms, change_ms, clock_ms))


def _is_asked_for(change: RttChange, rule: RuleSettings) -> bool:
    limits = cast("RoundTripRule | JitterRule", rule)
    if not isinstance(limits, RoundTripRule):
        return change.shift_ms >= limits.least_rise_ms
    least_ms = least_rise_ms(limits.least_rise_ms, limits.least_rise_ratio, change.before_ms)
    return limits.every_change or change.shift_ms >= float(least_ms)


def _raised(trips: TripWindows, figure: str, *, with_falls: bool) -> Iterator[tuple[int, RttChange]]:
    for first in range(0, len(trips.ends), WINDOWS_AT_ONCE):
        windows_ms = trips.values_ms(figure, slice(first, first + WINDOWS_AT_ONCE))
        windows = np.flatnonzero(with_falls | (_rises(windows_ms) > LEAST_TO_ASK_MS))
        if len(windows):
            changes = detector.raised(windows_ms[windows])
            yield from ((first + int(windows[row]), change) for row, change in changes.items())


def _rises(windows_ms: Floats) -> Floats:
    return np.asarray(np.median(windows_ms[:, BEFORE:], axis=1) - np.median(windows_ms[:, :BEFORE], axis=1))


def _has_levels_between(values_ms: Floats, places: Ints, change: RttChange) -> bool:
    risen = (values_ms[places[BEFORE - 1] + 1 : places[-1] + 1] - change.before_ms) / (
        change.after_ms - change.before_ms
    )
    return int(((risen > MIDDLE[0]) & (risen < MIDDLE[1])).sum()) >= LEAST_BETWEEN


def _slow_since(bursts: RecentBursts, figure: str, places: Ints) -> tuple[float, float]:
    """Times of the last burst before a slow rise, and the first entirely after."""
    end, newest = int(places[BEFORE - 1]), int(places[-1])
    later_ms = bursts.values_ms[figure][end + 1 : newest + 1]
    as_before = np.flatnonzero(later_ms <= bursts.values_ms[figure][places[:BEFORE]].max())
    first = min(end + 1 + (int(as_before[-1]) + 1 if len(as_before) else 0), newest)
    return float(bursts.at_s[end]), float(bursts.at_s[first])


def _rise(values_ms: Floats) -> float:
    return float(np.median(values_ms[BEFORE:]) - np.median(values_ms[:BEFORE]))


def _usual(ttl: Floats) -> int | None:
    """The TTL of most replies; None if no reply has a TTL."""
    ttls, counts = np.unique(ttl[~np.isnan(ttl)], return_counts=True)
    return int(ttls[counts.argmax()]) if len(ttls) else None


def _cause(floor_ms: float, rise_ms: float, ttl_before: int | None, ttl_after: int | None) -> str:
    if ttl_before is not None and ttl_after is not None and ttl_before != ttl_after:
        return f"; the TTL of replies went from {ttl_before} to {ttl_after}: another route"
    if floor_ms >= CLEAR_SHARE_OF_RISE * rise_ms:
        return "; the minimum rose as well: a longer route, or a queue that never empties"
    return f"; the minimum rose by {shown.milliseconds(max(floor_ms, 0.0))} only: a queue"


RTT = RttStep("rtt", RoundTripRule, ("median", "minimum"), "RTT")
JITTER = RttStep(
    "jitter", JitterRule, ("jitter",), "jitter", "A queue that fills and empties: RTTs vary more than before."
)
DRIFT = RttDrift()
