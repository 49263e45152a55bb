"""A fall of the TCP throughput estimated (Mathis) from ping loss and RTT of whole days, by an exact rank test.

Without loss it is a lower bound; it covers paths without tests. Clears half way back, or after a week.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np

from monitor.alerts.detect.rules.finding import ACCEPTED, AlertRule, Effect, RuleFinding
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting, ranks
from monitor.mesh.document.alert_rules import OpenRatio, RuleSettings, RuleSeverity
from probes.toml.keys import meaning

# For a single test per day: a false alarm in 100,000 path-hours.
CHANCE_A_DAY = 24 * 1e-5

CLEAR_SHARE_OF_FALL = 0.5
NEW_NORMAL_AFTER = timedelta(days=7)


class EstimateRule(RuleSettings, frozen=True, kw_only=True):
    """The estimate from whole days is significantly lower, its median below `below_ratio` of the baseline median."""

    severity: RuleSeverity = "notice"

    below_ratio: Annotated[OpenRatio, meaning("Ratio to the baseline median below which an incident opens.")] = 0.5


class EstimateDrop(AlertRule):
    """A significant fall of the estimated throughput."""

    name = "estimate"
    settings = EstimateRule
    words = "estimated throughput"
    effect = Effect.LOW_THROUGHPUT

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.paths:
            return []
        widest = max(rule.below_ratio for rule in cast("list[EstimateRule]", by_setting.distinct(settings)))
        rows = np.flatnonzero(ranks.may_have_fallen(snapshot.daily_estimates_bps, widest))
        falls = ranks.falls(snapshot.daily_estimates_bps[rows])
        ratio = falls.newest_median / falls.before_median
        ids = list(snapshot.paths)
        findings = []
        for place in np.flatnonzero(falls.chance <= CHANCE_A_DAY).tolist():
            path_id = ids[rows[place]]
            rule = cast("EstimateRule | None", settings.get(path_id))
            if rule is not None and ratio[place] < rule.below_ratio:
                findings.append(self._finding(snapshot, path_id, place, falls))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        before, after = float(figures["before_bps"]), float(figures["after_bps"])
        newest = float(snapshot.daily_estimates_bps[snapshot.rows[path_id], -1])
        if not np.isnan(newest) and newest >= after + CLEAR_SHARE_OF_FALL * (before - after):
            return f"estimated throughput of yesterday {shown.bit_rate(newest)}"
        if snapshot.now - datetime.fromisoformat(figures["found"]) >= NEW_NORMAL_AFTER:
            return f"estimated throughput unchanged for a week: {ACCEPTED}"
        return None

    def _finding(self, snapshot: Snapshot, path_id: int, place: int, falls: ranks.FallTests) -> RuleFinding:
        path, days = snapshot.paths[path_id], int(falls.count[place])
        before, after = float(falls.before_median[place]), float(falls.newest_median[place])
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=(
                f"Mathis (Reno) estimate {shown.bit_rate(after)} over IPv{path.family}, median of the last {days} "
                f"days, was {shown.bit_rate(before)} in the {int(falls.before[place])} days before"
            ),
            since=snapshot.now - timedelta(days=days),
            figures={
                "before_bps": before,
                "after_bps": after,
                "days": days,
                "days_before": int(falls.before[place]),
                "chance": float(falls.chance[place]),
                "found": snapshot.now.isoformat(),
            },
        )


ESTIMATE = EstimateDrop()
