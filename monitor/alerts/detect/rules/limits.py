"""Median, 95th percentile or minimum RTT above an absolute limit, off until mesh.toml sets `above_ms`.

Counted like lost packets (`binomial.clustering`); at the limit a path alarms once in 10,000 hours at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from msgspec import Meta

from monitor.alerts.detect.past.recent_bursts import RecentBursts
from monitor.alerts.detect.rules.finding import AlertRule, BurstLevel, RuleFinding
from monitor.alerts.detect.rules.loss import ALARMS_AN_HOUR, MIN_LOSSY_BURSTS_TO_FIRE, chances
from monitor.alerts.detect.rules.windows import bursts_to_clear, settled_s
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.arrays import Floats
from monitor.mesh.document.alert_rules import DAY_S, LeastSchedule, LimitSettings, RuleSettings
from probes.toml.keys import meaning

# Numbers of newest bursts; 22 are the fewest that prove a median with a cycle a minute.
BURSTS = np.array([7, 14, 22, 28])

# Fewest that prove a median when a day, over which RTTs are read, has this many.
LEAST_BURSTS = 15

LimitMs = Annotated[
    float, Meta(ge=0.001, le=60_000), meaning("RTT above which an incident opens; without it the rule is off.")
]


class MedianRule(LimitSettings, frozen=True, kw_only=True):
    """The median RTT is significantly above `above_ms`."""

    schedule: ClassVar[LeastSchedule | None] = LeastSchedule(
        f"{LEAST_BURSTS} cycles within a day", DAY_S / (LEAST_BURSTS - 1)
    )
    above_ms: LimitMs | None = None

    @property
    def limit(self) -> float | None:
        return self.above_ms


class P95Rule(MedianRule, frozen=True, kw_only=True):
    """The 95th percentile of the RTT is significantly above `above_ms`."""

    schedule = None


class MinimumRule(MedianRule, frozen=True, kw_only=True):
    """The minimum RTT of the bursts is significantly above `above_ms`."""


@dataclass(frozen=True, slots=True)
class LimitProof:
    """Counts above a limit in the newest `bursts`."""

    bursts: int
    hits: int
    trials: int  # bursts or replies
    chance: float


class RttLimit(AlertRule):
    """A rule on an RTT figure: at most a `share` of bursts or replies may be above."""

    usual_cause = "The RTT was as high before: a long route, a queue that lasts, or a limit too strict for this path."

    def __init__(self, name: str, settings: type[RuleSettings], words: str, figure: str | None, share: float) -> None:
        """With a `figure` of `rtt_windows` the rule counts bursts; with None, replies."""
        self.name = name
        self.settings = settings
        self.words = words
        self._figure = figure
        self._share = share
        self.needs_rtts = figure is None
        self.began_by = None if figure is None else BurstLevel(figure)

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings = []
        for path_id, rule in settings.items():
            limit_ms = cast("MedianRule", rule).above_ms
            bursts = snapshot.trips.bursts_of(path_id)
            if limit_ms is None or bursts is None:
                continue
            first = int(np.searchsorted(bursts.at_s, settled_s(snapshot, path_id, self.name)))
            newest = bursts.part(first, len(bursts.at_s)).newest(int(BURSTS.max()))
            proof = self._proof(newest, limit_ms, snapshot.paths[path_id].every_s)
            if proof is not None:
                findings.append(self._finding(snapshot, path_id, newest.newest(proof.bursts), limit_ms, proof))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        bursts = snapshot.trips.bursts_of(path_id)
        least = bursts_to_clear(int(figures["bursts"]), snapshot.paths[path_id].every_s)
        if bursts is None or len(bursts.at_s) < least:
            return None
        newest, limit_ms = bursts.newest(int(figures["bursts"])), float(figures["limit_ms"])
        hits, trials = self._counts(newest, limit_ms)
        if hits.sum() > self._share * trials.sum():
            return None
        value = shown.milliseconds(self._value_ms(newest))
        return f"{self.words} {value} in {len(newest.at_s)} bursts, limit {shown.milliseconds(limit_ms)}"

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        return (cast("MedianRule", settings).above_ms or 0.0) > figures["limit_ms"]

    def _proof(self, bursts: RecentBursts, limit_ms: float, every_s: float) -> LimitProof | None:
        hits, trials = self._counts(bursts, limit_ms)
        if (hits > 0).sum() < MIN_LOSSY_BURSTS_TO_FIRE:
            return None
        counts = np.minimum(BURSTS, len(hits))
        had, above, of = (column[::-1].cumsum()[counts - 1] for column in (hits > 0, hits, trials))
        allowed = ALARMS_AN_HOUR / (3600.0 / every_s * len(BURSTS))
        of_counts = np.where(had < MIN_LOSSY_BURSTS_TO_FIRE, 1.0, chances(counts, had, of, above, self._share))
        best = int(of_counts.argmin())
        if of_counts[best] > allowed:
            return None
        return LimitProof(int(counts[best]), int(above[best]), int(of[best]), float(of_counts[best]))

    def _counts(self, bursts: RecentBursts, limit_ms: float) -> tuple[Floats, Floats]:
        if self._figure is not None:
            is_above = bursts.values_ms[self._figure] > limit_ms
            return is_above.astype(np.float64), np.ones(len(is_above))
        with np.errstate(invalid="ignore"):
            above = (bursts.rtts_ms > limit_ms).sum(axis=1)
        return above.astype(np.float64), (~np.isnan(bursts.rtts_ms)).sum(axis=1).astype(np.float64)

    def _value_ms(self, bursts: RecentBursts) -> float:
        if self._figure is not None:
            return float(np.median(bursts.values_ms[self._figure]))
        return float(np.nanquantile(bursts.rtts_ms, 1.0 - self._share))

    def _finding(
        self, snapshot: Snapshot, path_id: int, bursts: RecentBursts, limit_ms: float, proof: LimitProof
    ) -> RuleFinding:
        hits, _ = self._counts(bursts, limit_ms)
        since = datetime.fromtimestamp(float(bursts.at_s[np.flatnonzero(hits)[0]]), UTC)
        until = datetime.fromtimestamp(float(bursts.at_s[-1]), UTC)
        value_ms, unit = self._value_ms(bursts), "replies" if self._figure is None else "bursts"
        above = f"{shown.count(proof.hits)} of {shown.count(proof.trials)} {unit}"
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=(
                f"{self.words} {shown.milliseconds(value_ms)}, limit {shown.milliseconds(limit_ms)} "
                f"({above} above it in {proof.bursts} bursts to {until:%Y-%m-%d %H:%M} UTC)"
            ),
            since=since,
            figures={
                "value_ms": value_ms,
                "limit_ms": limit_ms,
                "bursts": proof.bursts,
                "above": proof.hits,
                "counted": proof.trials,
                "chance": proof.chance,
            },
        )


RTT_MEDIAN = RttLimit("rtt_median", MedianRule, "median RTT", "median", 0.5)
RTT_P95 = RttLimit("rtt_p95", P95Rule, "95th percentile RTT", None, 0.05)
RTT_MINIMUM = RttLimit("rtt_minimum", MinimumRule, "minimum RTT", "minimum", 0.5)
