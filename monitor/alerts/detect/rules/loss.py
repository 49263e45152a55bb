"""Loss above a threshold, from packet counts in windows from half of `window_s` to half a day.

Fires if the Clopper-Pearson bound is above it (Boole's inequality over windows) and three bursts lost packets: an
interruption hits only two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.alerts.detect.rules.finding import LOSSY, NOT_FIRED, AlertRule, Effect, LateResults, RuleFinding
from monitor.alerts.detect.rules.windows import (
    CLEAR_SHARE,
    WINDOWS,
    FiredLevel,
    Windows,
    clearing,
    looks_an_hour,
    pooled,
    unjudged,
)
from monitor.alerts.detect.snapshot import RECENT_S, Snapshot
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting
from monitor.archive.queries.paths import LossWindow
from monitor.arrays import Floats
from monitor.mesh.document.alert_rules import HOLDS_A_CYCLE, OpenRatio, RuleSettings, WaitS
from probes.toml.keys import meaning

ALARMS_AN_HOUR = 1e-4
# Tests in each evaluation: all windows, and the window of `window_s`.
COMPARISONS = WINDOWS + 1

COUNTS = ("bursts", "lossy", "sent", "received")
# Of the lower bound in texts.
CONFIDENCE = 0.95

MIN_LOSSY_BURSTS_TO_FIRE = 3
CLEAR_SHARE_OF_THRESHOLD = 0.5
PACKETS_ENOUGH_TO_BE_PAST = 100
# Probability of error for findings of an old version, which did not store it.
BEFORE_LOOKS_COUNTED = 0.05


@dataclass(frozen=True, slots=True)
class LossCounts:
    window_s: float
    counted_s: float  # part of the window that was counted
    sent: int
    lost: int
    lossy_bursts: int
    threshold_ratio: float
    chance: float  # of as much loss if the true loss is the threshold
    together: float  # packets lost per loss event (`binomial.clustering`)

    def fires(self, most_chance: float) -> bool:
        """Whether the loss is significantly above the threshold, with at most this probability of error."""
        return self.lossy_bursts >= MIN_LOSSY_BURSTS_TO_FIRE and self.chance <= most_chance

    @property
    def is_low(self) -> bool:
        return self.lost <= CLEAR_SHARE_OF_THRESHOLD * self.threshold_ratio * self.sent

    @property
    def lower_ratio(self) -> float:
        """Lower bound of the true loss with CONFIDENCE; NaN if nothing was sent."""
        return float(binomial.lower_bound(self.lost, self.sent, CONFIDENCE))


def chances(bursts: ArrayLike, lossy: ArrayLike, sent: ArrayLike, lost: ArrayLike, threshold_ratio: float) -> Floats:
    """Probability of as many lost packets at the threshold; 1 if no more than expected. Arrays broadcast."""
    columns = [np.asarray(column, dtype=np.float64) for column in (bursts, lossy, sent, lost)]
    of, had, packets, missing = np.broadcast_arrays(*columns)
    probabilities = np.ones(of.shape)
    above = missing > threshold_ratio * packets
    together = binomial.clustering(of[above], had[above], packets[above], missing[above])
    probabilities[above] = binomial.at_least(missing[above] / together, packets[above] / together, threshold_ratio)
    return probabilities


def loss_window(
    counts: Iterable[float], threshold_ratio: float, window_s: float, counted_s: float | None = None
) -> LossCounts:
    """The window of these `COUNTS` with its probability; `counted_s` defaults to the whole window."""
    bursts, lossy, sent, received = counts
    lost = sent - received
    chance = float(chances(bursts, lossy, sent, lost, threshold_ratio))
    together = float(binomial.clustering(bursts, lossy, sent, lost)) if lost else 1.0
    length_s = window_s if counted_s is None else counted_s
    return LossCounts(window_s, length_s, round(sent), round(lost), round(lossy), threshold_ratio, chance, together)


class LossRule(RuleSettings, frozen=True, kw_only=True):
    """Loss is significantly above `above_ratio`, over half of `window_s` or longer; resolved after `window_s`."""

    above_ratio: Annotated[OpenRatio, meaning("Loss, lost over sent, above which an incident opens.")] = 0.01
    window_s: Annotated[
        WaitS,
        HOLDS_A_CYCLE,
        meaning("Loss must last half as long at least; without it for this time the incident is resolved."),
    ] = 600


def _judged_period(figures: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    if "until" not in figures:
        return None  # of an old version, which did not store it
    until = datetime.fromisoformat(figures["until"])
    return until - timedelta(seconds=_counted_s(figures)), until


def _counted_s(figures: Mapping[str, Any]) -> float:
    """The time counted; figures of old versions have only the window's length."""
    return float(figures.get("counted_s", figures["window_s"]))


def _correct(figures: Mapping[str, Any], counted: LossWindow) -> str | None:
    counts = (counted.bursts, counted.lossy_bursts, counted.sent, counted.received)
    late = loss_window(counts, figures["threshold_ratio"], figures["window_s"], _counted_s(figures))
    holds = late.fires(figures.get("most_chance", BEFORE_LOOKS_COUNTED))
    # Hourly rollups, the source of longer windows, lag a little behind the bursts.
    is_as_found = (late.sent, late.lost) == (figures["sent"], figures["lost"])
    if is_as_found or (holds and figures["window_s"] > RECENT_S):
        return None
    outcome = "still above threshold" if holds else NOT_FIRED
    return f"with late results {describe(late, datetime.fromisoformat(figures['until']))}, {outcome}"


class Threshold(AlertRule):
    name = "loss"
    settings = LossRule
    words = "loss"
    began_by = LOSSY
    effect = Effect.LOSS
    is_by_direction = True
    late_results = LateResults(_judged_period, _correct)

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        rules = by_setting.distinct(settings)
        path_ids, of_rule = np.array(list(settings)), by_setting.each(settings, rules.index)
        windows = pooled(snapshot, COUNTS)
        allowed = ALARMS_AN_HOUR * snapshot.alarm_shares / (looks_an_hour(snapshot) * COMPARISONS)
        return [
            finding
            for number, rule in enumerate(cast("list[LossRule]", rules))
            for finding in self._above(
                rule, path_ids[of_rule == number], self._windows_of(rule, windows, snapshot), allowed, snapshot
            )
        ]

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row, path = snapshot.rows[path_id], snapshot.paths[path_id]
        # Findings of old versions have a `clear_s` of an hour at most.
        fired_s = max(float(figures.get("clear_s", 0.0)), float(figures["window_s"]))
        windows = self._lengths(row, fired_s, snapshot)
        sent, threshold_ratio = windows.sums["sent"], float(figures["threshold_ratio"])
        lost = sent - windows.sums["received"]
        judged = _judged_period(figures)
        fired = FiredLevel(
            0.0 if judged is None else judged[1].timestamp(),
            fired_s,
            figures["lost"] / figures["sent"],
            float(figures["sent"]),
            float(figures.get("together", 1.0)),
        )
        is_low = lost <= CLEAR_SHARE_OF_THRESHOLD * threshold_ratio * sent
        place = clearing(windows, is_low, lost, sent, fired, path, snapshot.now)
        if place is None:
            return None
        counts = (float(windows.sums[name][place]) for name in COUNTS)
        length_s = windows.lasting_s[place], windows.counted_s[place]
        return describe_clear(loss_window(counts, threshold_ratio, *length_s), snapshot.now)

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        return float(cast("LossRule", settings).window_s)

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        return cast("LossRule", settings).above_ratio > float(figures["threshold_ratio"])

    def windows_s(self, settings: Mapping[int, RuleSettings]) -> set[float]:
        return {float(cast("LossRule", rule).window_s) for rule in by_setting.distinct(settings)}

    @staticmethod
    def _lengths(row: int, window_s: float, snapshot: Snapshot) -> Windows:
        all_lengths, own = pooled(snapshot, COUNTS, row), snapshot.newest_counts(window_s, row)
        if own.window_s < window_s:
            return all_lengths
        sums = {name: np.append(all_lengths.sums[name], own.counts[name]) for name in COUNTS}
        return Windows(sums, (*all_lengths.lasting_s, own.window_s), (*all_lengths.counted_s, own.counted_s))

    @staticmethod
    def _is_past(finding: RuleFinding, least_s: float, snapshot: Snapshot) -> bool:
        window_s = max(least_s, min(float(finding.figures["window_s"]), snapshot.recent_s))
        newest = snapshot.newest_counts(window_s, snapshot.rows[finding.path_id])
        counts = (float(newest.counts[name]) for name in COUNTS)
        window = loss_window(counts, float(finding.figures["threshold_ratio"]), newest.window_s)
        enough = min(CLEAR_SHARE * finding.figures["sent"], PACKETS_ENOUGH_TO_BE_PAST)
        return window.sent >= enough and window.is_low

    @staticmethod
    def _windows_of(rule: LossRule, windows: Windows, snapshot: Snapshot) -> Windows:
        own = snapshot.newest_counts(rule.window_s)
        others = [
            place for place, lasting_s in enumerate(windows.lasting_s) if rule.window_s / 2 <= lasting_s != own.window_s
        ]
        sums = {name: np.column_stack([own.counts[name], windows.sums[name][:, others]]) for name in COUNTS}
        lasting_s, counted = ([of[place] for place in others] for of in (windows.lasting_s, windows.counted_s))
        return Windows(sums, (own.window_s, *lasting_s), (own.counted_s, *counted))

    def _above(
        self, rule: LossRule, path_ids: NDArray[np.int64], windows: Windows, allowed: Floats, snapshot: Snapshot
    ) -> list[RuleFinding]:
        rows = by_setting.rows_of(path_ids.tolist(), snapshot.rows)
        bursts, lossy, sent, received = (windows.sums[name][rows] for name in COUNTS)
        of_rows = chances(bursts, lossy, sent, sent - received, rule.above_ratio)
        of_rows[(lossy < MIN_LOSSY_BURSTS_TO_FIRE) | ~unjudged(snapshot, self.name, windows.lasting_s)[rows]] = 1.0
        strongest = of_rows.argmin(axis=1)
        findings = []
        for place in np.flatnonzero(of_rows.min(axis=1) <= allowed[rows]).tolist():
            window = int(strongest[place])
            counts = (float(column[place, window]) for column in (bursts, lossy, sent, received))
            proof = loss_window(counts, rule.above_ratio, windows.lasting_s[window], windows.counted_s[window])
            findings.append(
                self._finding(int(path_ids[place]), proof, float(allowed[rows[place]]), rule.window_s, snapshot)
            )
        return [finding for finding in findings if not self._is_past(finding, rule.window_s, snapshot)]

    def _finding(
        self, path_id: int, proof: LossCounts, most_chance: float, clear_s: float, snapshot: Snapshot
    ) -> RuleFinding:
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=describe(proof, snapshot.now),
            since=snapshot.now - timedelta(seconds=proof.counted_s),
            figures={
                "window_s": proof.window_s,
                "counted_s": proof.counted_s,
                "clear_s": max(clear_s, proof.window_s),
                "until": snapshot.now.isoformat(),
                "sent": proof.sent,
                "lost": proof.lost,
                "together": proof.together,
                "loss_lower_ratio": proof.lower_ratio,
                "threshold_ratio": proof.threshold_ratio,
                "chance": proof.chance,
                "most_chance": most_chance,
            },
        )


def describe(proof: LossCounts, until: datetime) -> str:
    """As in `loss 3.5% (40 of 1,140 packets in 1 h to 2026-11-21 10:05 UTC; at least 2.7% with 95% confidence),
    threshold 1%`."""
    return (
        f"loss {shown.loss(proof.lost, proof.sent)} ({_counts(proof, until)}; at least "
        f"{shown.percent(proof.lower_ratio)} with {shown.percent(CONFIDENCE)} confidence), "
        f"threshold {shown.percent(proof.threshold_ratio)}"
    )


def describe_clear(counted: LossCounts, until: datetime) -> str:
    """The figures of a path that is clear: `loss 0.18% (2 of 1,140 packets in 10 min to …)`."""
    return f"loss {shown.loss(counted.lost, counted.sent)} ({_counts(counted, until)})"


def _counts(counted: LossCounts, until: datetime) -> str:
    return (
        f"{shown.count(counted.lost)} of {shown.count(counted.sent)} packets in "
        f"{shown.duration(counted.counted_s)} to {until:%Y-%m-%d %H:%M:%S} UTC"
    )
