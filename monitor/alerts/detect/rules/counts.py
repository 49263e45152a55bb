"""Events that became more frequent on a path: lossy bursts, reordered replies, duplicates.

Compares windows up to 13 hours with the 28 days before, or the same hours of the week
(`monitor.analysis.alarms.sequential`); clears at half the rise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np

from monitor.alerts.detect.past.baselines import BASELINE_DAYS
from monitor.alerts.detect.rules.finding import LOSSY, AlertRule, BadBursts, Effect, RuleFinding
from monitor.alerts.detect.rules.windows import (
    CLEAR_SHARE,
    FiredLevel,
    Windows,
    clearing,
    pooled,
    unjudged,
)
from monitor.alerts.detect.snapshot import RECENT_STEPS, Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting, rises, sequential
from monitor.analysis.alarms.sequential import EventCounts
from monitor.arrays import Bools, Floats
from monitor.mesh.document.alert_rules import DAY_S, LeastSchedule, RuleSettings, RuleSeverity, Share
from probes.toml.keys import meaning

# A path with fewer bursts has no baseline.
LEAST_BASE_BURSTS = 100
SCHEDULE = LeastSchedule(
    f"{LEAST_BASE_BURSTS} bursts within {BASELINE_DAYS} days", BASELINE_DAYS * DAY_S / LEAST_BASE_BURSTS, per_size=True
)

# A loss that was a regression must have been usual again for half an hour, the shortest window that clears.
WAIT_S = 1800.0
LEAST_STEPS_TO_CLEAR = 6
CLEAR_SHARE_OF_RISE = 0.5
BURSTS_ENOUGH_TO_BE_PAST = 100


class RegressionRule(RuleSettings, frozen=True, kw_only=True):
    """Loss has risen above the path's own baseline by at least `least_rise_ratio`."""

    schedule = SCHEDULE
    least_rise_ratio: Annotated[Share, meaning("Minimum rise of the loss above the baseline.")] = 0.001


class AppearanceRule(RuleSettings, frozen=True, kw_only=True):
    """Reordering or duplicates have become more frequent by at least this share of the bursts."""

    schedule = SCHEDULE
    severity: RuleSeverity = "notice"

    least_rise_ratio: Annotated[Share, meaning("Minimum rise of the share of bursts with such packets.")] = 0.02


class Rise(AlertRule):
    """A rule on the frequency of an event; texts count packets for loss, otherwise bursts."""

    def __init__(
        self,
        name: str,
        settings: type[RuleSettings],
        event: str,
        alarms_an_hour: float,
        words: str,
        began_by: BadBursts,
        effect: Effect | None = None,
        usual_cause: str | None = None,
        *,
        is_by_direction: bool = False,
    ) -> None:
        self.name = name
        self.settings = settings
        self._event = event
        self.alarms_an_hour = alarms_an_hour
        self.words = words
        self.began_by = began_by
        self.unit_of_hits = "" if event == "lossy" else " of bursts"
        self.effect = effect
        self.usual_cause = usual_cause
        self.is_by_direction = is_by_direction

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.paths:
            return []
        windows, base = pooled(snapshot, ("bursts", self._event, "sent", "received")), snapshot.baseline
        events, bursts = base[self._event], base["bursts"]
        if self._event == "lossy":
            events, bursts = rises.seasonal(events, bursts, base["season_lossy"], base["season_bursts"])
        scatter = rises.dispersion(
            base[f"{self._event}_squares"], base[f"hours_{self._event}"], base["hours_bursts"], base["hours"]
        )
        shares = snapshot.alarm_shares if self.is_by_direction else 1.0
        newest = EventCounts(windows.sums[self._event], windows.sums["bursts"])
        hit, evidence = sequential.detected(
            newest.divided(scatter[:, np.newaxis]),
            EventCounts(events, bursts).divided(scatter),
            (newest.events >= rises.LEAST_EVENTS) & unjudged(snapshot, self.name, windows.lasting_s),
            sequential.new_cycles(windows.lasting_s, snapshot.every_s),
            3600.0 / snapshot.every_s / (self.alarms_an_hour * shares),
        )
        rise = _ratio(*self._ratio_columns(windows.sums)) - _ratio(*self._ratio_columns(base))[:, np.newaxis]
        least = np.full(len(snapshot.paths), np.inf)
        least[by_setting.rows_of(settings, snapshot.rows)] = by_setting.each(
            settings, lambda rule: cast("RegressionRule | AppearanceRule", rule).least_rise_ratio
        )
        hit &= (rise >= least[:, np.newaxis]) & (base["bursts"] >= LEAST_BASE_BURSTS)[:, np.newaxis]
        strongest = np.where(hit, evidence, -np.inf).argmax(axis=1)
        ids, rows = list(snapshot.paths), np.flatnonzero(hit.any(axis=1))
        candidates = (
            self._finding(snapshot, ids[row], row, int(strongest[row]), windows, float(scatter[row]), evidence)
            for row in rows.tolist()
        )
        return [finding for finding in candidates if not self._is_past(finding.path_id, finding.figures, snapshot)]

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        return WAIT_S if self.effect is Effect.LOSS else None

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row, path = snapshot.rows[path_id], snapshot.paths[path_id]
        windows = pooled(snapshot, ("bursts", self._event, "sent", "received"), row)
        hits, of = self._ratio_columns(windows.sums)
        fired_s = max(float(figures["window_s"]), LEAST_STEPS_TO_CLEAR * snapshot.step_s)
        bursts = float(figures["bursts"])
        if "events" in figures:
            events, trials = windows.sums[self._event], windows.sums["bursts"]
            until_s = datetime.fromisoformat(figures["until"]).timestamp()
            # Of three lossy bursts in three the level is not 100%, at which a single burst without loss would clear.
            ratio = min(figures["events"] / bursts, (figures["events"] + 0.5) / (bursts + 1.0))
            fired = FiredLevel(until_s, fired_s, ratio, bursts, figures["dispersion"])
        else:  # of an old version, which stored the packets only
            events, trials = hits, of
            fired = FiredLevel(0.0, fired_s, float(figures["ratio"]), float(figures["of"]))
        place = clearing(windows, _are_low(hits, of, figures), events, trials, fired, path, snapshot.now)
        if place is None:
            return None
        figure = self._shown(float(hits[place]), float(of[place]))
        return f"{self.words} {figure} in {shown.duration(windows.counted_s[place])}"

    def _is_past(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> bool:
        if figures["window_s"] < LEAST_STEPS_TO_CLEAR * snapshot.step_s:
            # A longer window has fewer events because it begins before the trouble: only a proof counts.
            return self.over(path_id, figures, snapshot) is not None
        row = snapshot.rows[path_id]
        steps = int(np.clip(np.ceil(figures["window_s"] / snapshot.step_s), LEAST_STEPS_TO_CLEAR, RECENT_STEPS))
        hits, of = (column[row, :steps].sum() for column in self._ratio_columns(snapshot.recent))
        bursts = float(snapshot.recent["bursts"][row, :steps].sum())
        enough = min(CLEAR_SHARE * figures["bursts"], BURSTS_ENOUGH_TO_BE_PAST)
        return bool(bursts >= enough and _are_low(hits, of, figures))

    def _finding(
        self, snapshot: Snapshot, path_id: int, row: int, window: int, of: Windows, dispersion: float, evidence: Floats
    ) -> RuleFinding:
        chance = sequential.most_chance(float(evidence[row, window]))
        hits, number = (float(column[row, window]) for column in self._ratio_columns(of.sums))
        base_hits, base_of = (float(column[row]) for column in self._ratio_columns(snapshot.baseline))
        counted_s = of.counted_s[window]
        sentence = (
            f"{self.words} {self._shown(hits, number)} in {shown.duration(counted_s)} to "
            f"{snapshot.now:%Y-%m-%d %H:%M:%S} UTC, was {self._shown(base_hits, base_of)}; "
            f"probability by chance {chance:.0e}"
        )
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=sentence,
            since=snapshot.now - timedelta(seconds=counted_s),
            figures={
                "window_s": of.lasting_s[window],
                "counted_s": counted_s,
                "until": snapshot.now.isoformat(),
                "hits": hits,
                "of": number,
                "ratio": hits / max(number, 1.0),
                "bursts": float(of.sums["bursts"][row, window]),
                "events": float(of.sums[self._event][row, window]),
                "dispersion": dispersion,
                "base_hits": base_hits,
                "base_of": base_of,
                "base_ratio": base_hits / max(base_of, 1.0),
                "chance": chance,
            },
        )

    def _ratio_columns(self, of: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        if self._event == "lossy":
            return of["sent"] - of["received"], of["sent"]
        return of[self._event], of["bursts"]

    def _shown(self, hits: float, of: float) -> str:
        unit = "packets" if self._event == "lossy" else "bursts"
        return f"{shown.loss(round(hits), round(of))} ({shown.count(round(hits))} of {shown.count(round(of))} {unit})"


def _are_low(hits: Floats, of: Floats, figures: Mapping[str, Any]) -> Bools:
    base, fired = float(figures["base_ratio"]), float(figures["ratio"])
    return np.asarray(_ratio(hits, of) <= base + CLEAR_SHARE_OF_RISE * (fired - base))


def _ratio(hits: Floats, of: Floats) -> Floats:
    return hits / np.maximum(of, 1.0)


LOSS_REGRESSION = Rise(
    "loss_regression", RegressionRule, "lossy", 1e-4, "loss", LOSSY, Effect.LOSS, is_by_direction=True
)
REORDERING = Rise(
    "reordering",
    AppearanceRule,
    "reordered",
    1e-5,
    "replies out of order in",
    BadBursts("bursts with replies out of order", lambda bursts: bursts.reordered > 0),
    usual_cause="Packets of the same burst take routes of different length: parallel links, or per-packet load "
    "balancing.",
)
DUPLICATES = Rise(
    "duplicates",
    AppearanceRule,
    "duplicated",
    1e-5,
    "duplicates in",
    BadBursts("bursts with duplicates", lambda bursts: bursts.duplicates > 0),
    usual_cause="Packets are duplicated on the path: a switching loop, or a link that repeats frames.",
)
