"""A fall of the measured throughput: a rank test of a path's newest tests against those before, per path and family.

The number of tests it takes follows from the power of the test: with hourly tests and forty before, a fall by half is
significant after four. Besides being significant, the median must be below `below_ratio` of the median before. It is
over when the median of the last three tests is back above half way, or after a week at the new level.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np

from monitor.alerts.detect.rules.finding import AlertRule, Effect, RuleFinding, Trouble
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.mesh.document.alert_rules import OpenRatio, RuleSettings
from probes.toml.keys import meaning

ALARMS_AN_HOUR = 2e-5
CLEAR_TESTS = 3
CLEAR_SHARE_OF_FALL = 0.5
NEW_NORMAL_AFTER = timedelta(days=7)


class ThroughputRule(RuleSettings, frozen=True, kw_only=True):
    """The newest tests are significantly slower than those before, and their median is below `below_ratio` of
    theirs."""

    below_ratio: Annotated[OpenRatio, meaning("Ratio to the baseline median below which an incident opens.")] = 0.85


class ThroughputDrop(AlertRule):
    """A significant fall of the measured throughput."""

    name = "throughput"
    settings = ThroughputRule
    words = "throughput"
    trouble = Trouble.THROUGHPUT
    effect = Effect.LOW_THROUGHPUT

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.tested_paths:
            return []
        falls = ranks.falls(snapshot.tests_bps)
        every_s = np.array([path.every_s for path in snapshot.tested_paths.values()], dtype=np.float64)
        ratio = falls.newest_median / falls.before_median
        ids = list(snapshot.tested_paths)
        findings = []
        for row in np.flatnonzero(falls.chance <= ALARMS_AN_HOUR * every_s / 3600.0).tolist():
            rule = cast("ThroughputRule | None", settings.get(ids[row]))
            if rule is not None and ratio[row] < rule.below_ratio:
                findings.append(self._finding(snapshot, ids[row], row, falls))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        before, after = float(figures["before_bps"]), float(figures["after_bps"])
        row = snapshot.test_rows[path_id]
        last = snapshot.tests_bps[row, -CLEAR_TESTS:]
        fired_s = datetime.fromisoformat(figures["found"]).timestamp()
        if np.isnan(last).any() or not snapshot.tested_at_s[row, -CLEAR_TESTS] >= fired_s:
            return None
        level = float(np.median(last))
        if level >= after + CLEAR_SHARE_OF_FALL * (before - after):
            return f"throughput {shown.bit_rate(level)}, median of the last {CLEAR_TESTS} tests"
        if snapshot.now.timestamp() - fired_s >= NEW_NORMAL_AFTER.total_seconds():
            return f"throughput {shown.bit_rate(level)} for a week: accepted as the new baseline"
        return None

    def _finding(self, snapshot: Snapshot, path_id: int, row: int, falls: ranks.FallTests) -> RuleFinding:
        path, count = snapshot.tested_paths[path_id], int(falls.count[row])
        before, after = float(falls.before_median[row]), float(falls.newest_median[row])
        since = datetime.fromtimestamp(float(snapshot.tested_at_s[row, -count]), UTC)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=(
                f"throughput {shown.bit_rate(after)} over IPv{path.family}, median of the last {count} tests since "
                f"{since:%Y-%m-%d %H:%M} UTC, was {shown.bit_rate(before)} in the {int(falls.before[row])} before"
            ),
            since=since,
            figures={
                "before_bps": before,
                "after_bps": after,
                "tests": count,
                "tests_before": int(falls.before[row]),
                "chance": float(falls.chance[row]),
                "found": snapshot.now.isoformat(),
            },
        )


THROUGHPUT = ThroughputDrop()
