"""A fall of the measured throughput: a notice at the second low test, and its proof by a rank test.

docs/method/planted.md counts the notice's false alarms. Over when three later tests are half back, or after a week.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np

from monitor.alerts.detect.rules.finding import ACCEPTED, AlertRule, Effect, RuleFinding, Trouble
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.arrays import Floats
from monitor.mesh.document.alert_rules import OpenRatio, RuleSettings, RuleSeverity
from probes.toml.keys import meaning

ALARMS_AN_HOUR = 2e-5
CLEAR_TESTS = 3
CLEAR_SHARE_OF_FALL = 0.5
NEW_NORMAL_AFTER = timedelta(days=7)

DROP_TESTS = 2
# Chosen by counting: docs/method/planted.md.
DROP_BEFORE = 48
LEAST_BEFORE = 8


class DropRule(RuleSettings, frozen=True, kw_only=True):
    """Two consecutive tests are below `below_ratio` of the lowest of the 48 before."""

    severity: RuleSeverity = "notice"

    below_ratio: Annotated[OpenRatio, meaning("Ratio to the lowest test before below which an incident opens.")] = 0.5


class ThroughputRule(RuleSettings, frozen=True, kw_only=True):
    """The newest tests are significantly slower than before, their median below `below_ratio` of the earlier median."""

    below_ratio: Annotated[OpenRatio, meaning("Ratio to the baseline median below which an incident opens.")] = 0.85


class _Fall(AlertRule):
    words = "throughput"
    trouble = Trouble.THROUGHPUT
    effect = Effect.LOW_THROUGHPUT

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row = snapshot.test_rows[path_id]
        fired_s = datetime.fromisoformat(figures["found"]).timestamp()
        if not snapshot.tested_at_s[row, -CLEAR_TESTS] >= fired_s:  # NaN is not
            return None
        level = _middle(snapshot.tests_bps[row, -CLEAR_TESTS:])
        if _is_back(level, figures):
            return f"throughput {shown.bit_rate(level)}, median of the last {CLEAR_TESTS} tests"
        if snapshot.now.timestamp() - fired_s >= NEW_NORMAL_AFTER.total_seconds():
            return f"throughput {shown.bit_rate(level)} for a week: {ACCEPTED}"
        return None

    def _finding(
        self, snapshot: Snapshot, path_id: int, newest: int, before_bps: float, why: str, **figures: float
    ) -> RuleFinding:
        """`why` follows the middle rate of the newest tests and its change from `before_bps`."""
        row, path = snapshot.test_rows[path_id], snapshot.tested_paths[path_id]
        # The newest test alone may be back already.
        after_bps = _middle(snapshot.tests_bps[row, -newest:])
        since = datetime.fromtimestamp(float(snapshot.tested_at_s[row, -newest]), UTC)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=(
                f"throughput {shown.bit_rate(after_bps)} over IPv{path.family}, "
                f"{_change(after_bps / before_bps)} from {shown.bit_rate(before_bps)}; {why}, since "
                f"{since:%Y-%m-%d %H:%M} UTC"
            ),
            since=since,
            figures={
                "before_bps": before_bps,
                "after_bps": after_bps,
                "tests": newest,
                "found": snapshot.now.isoformat(),
                **figures,
            },
        )


class ThroughputDrop(_Fall):
    """A sudden fall that two tests show."""

    name = "throughput_drop"
    settings = DropRule

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.tested_paths:
            return []
        rates, ids, findings = snapshot.usual_tests_bps, list(snapshot.tested_paths), []
        before = rates[:, -DROP_TESTS - DROP_BEFORE : -DROP_TESTS]
        lowest = np.fmin.reduce(before, axis=1, initial=np.inf)
        is_known = (~np.isnan(before)).sum(axis=1) >= LEAST_BEFORE
        highest = rates[:, -DROP_TESTS:].max(axis=1)  # NaN with fewer tests
        for row in np.flatnonzero(is_known & (highest < lowest)).tolist():
            rule = cast("DropRule | None", settings.get(ids[row]))
            if rule is not None and highest[row] < rule.below_ratio * lowest[row]:
                tests = int((~np.isnan(before[row])).sum())
                why = (
                    f"{DROP_TESTS} tests in a row below {shown.percent(rule.below_ratio)} of the lowest of the {tests} "
                    f"before, {shown.bit_rate(float(lowest[row]))}"
                )
                usual = _middle(before[row])
                findings.append(self._finding(snapshot, ids[row], DROP_TESTS, usual, why, tests_before=tests))
        return findings


class ThroughputFall(_Fall):
    name = "throughput"
    settings = ThroughputRule

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.tested_paths:
            return []
        rates = snapshot.usual_tests_bps
        falls = ranks.falls(rates)
        every_s = np.array([path.every_s for path in snapshot.tested_paths.values()], dtype=np.float64)
        ratio = falls.newest_median / falls.before_median
        ids = list(snapshot.tested_paths)
        findings = []
        for row in np.flatnonzero(falls.chance <= ALARMS_AN_HOUR * every_s / 3600.0).tolist():
            rule = cast("ThroughputRule | None", settings.get(ids[row]))
            if rule is None or ratio[row] >= rule.below_ratio:
                continue
            count, before = int(falls.count[row]), int(falls.before[row])
            usual = _middle(rates[row, -count - ranks.MOST_BEFORE : -count])
            why = f"the last {count} tests are significantly lower than the {before} before"
            finding = self._finding(
                snapshot, ids[row], count, usual, why, tests_before=before, chance=float(falls.chance[row])
            )
            if not _is_back(_middle(snapshot.tests_bps[row, -CLEAR_TESTS:]), finding.figures):
                findings.append(finding)
        return findings


def _is_back(level_bps: float, figures: Mapping[str, Any]) -> bool:
    before, after = float(figures["before_bps"]), float(figures["after_bps"])
    return level_bps >= after + CLEAR_SHARE_OF_FALL * (before - after)


def _change(ratio: float) -> str:
    return f"{ratio - 1.0:+.0%}".replace("-", "\u2212")


def _middle(rates_bps: Floats) -> float:
    # The median, of two middle rates the lower: a measured rate.
    ordered = np.sort(rates_bps[~np.isnan(rates_bps)])
    return float(ordered[(len(ordered) - 1) // 2])


THROUGHPUT = ThroughputFall()
THROUGHPUT_DROP = ThroughputDrop()
