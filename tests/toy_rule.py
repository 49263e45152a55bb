"""An alert rule from outside the tree: fewer bursts within an hour than `least_bursts`. This module is all of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, cast

from msgspec import Meta

from monitor.alerts.detect.rules.finding import AlertRule, RuleFinding, Trouble
from monitor.alerts.detect.snapshot import Snapshot
from monitor.mesh.document.alert_rules import RuleSettings, RuleSeverity
from probes.toml.keys import meaning


class FewBurstsRule(RuleSettings, frozen=True, kw_only=True):
    """Fewer bursts than `least_bursts` were measured within an hour."""

    severity: RuleSeverity = "critical"

    least_bursts: Annotated[
        int, Meta(ge=1, le=3600), meaning("Bursts within an hour below which an incident opens.")
    ] = 30


class FewBursts(AlertRule):
    name = "few_bursts"
    settings = FewBurstsRule
    words = "few bursts"
    usual_cause = "The host is too busy to measure."

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings = []
        for path_id, rule in settings.items():
            bursts = self._bursts(path_id, snapshot)
            if bursts < cast("FewBurstsRule", rule).least_bursts:
                name, since = snapshot.paths[path_id].name, snapshot.now - timedelta(hours=1)
                findings.append(RuleFinding(self.name, path_id, name, f"{bursts} bursts", since, {"bursts": bursts}))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        bursts = self._bursts(path_id, snapshot)
        return f"{bursts} bursts" if bursts > figures["bursts"] else None

    @staticmethod
    def _bursts(path_id: int, snapshot: Snapshot) -> int:
        return int(snapshot.recent["bursts"][snapshot.rows[path_id]].sum())


class FewTests(FewBursts):
    """The same for throughput tests, to show which paths such a rule evaluates."""

    name = "few_tests"
    trouble = Trouble.THROUGHPUT
