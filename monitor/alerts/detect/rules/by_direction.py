"""Evaluate a rule on round trips and on each direction counted by STAMP, with at most a finding a path.

The three share a count rule's false alarms (`Snapshot.alarm_shares`); delay rises exclude clocks
(`analysis.changes.one_way`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.alerts.detect.rules.finding import AlertRule, RuleFinding
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis.directions import LostDirection
from monitor.mesh.document.alert_rules import RuleSettings

# Figure of a direction's finding: `forward` or `reverse`.
DIRECTION = "direction"
NOT_COUNTED = "direction no longer counted by STAMP"


def judge(rule: AlertRule, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
    findings = {finding.path_id: finding for finding in rule.judge(snapshot, settings)}
    if not rule.is_by_direction:
        return list(findings.values())
    one_way: dict[int, list[RuleFinding]] = {}
    for direction, counts in snapshot.directions.items():
        of_paths = {path_id: settings[path_id] for path_id in counts.paths.keys() & settings.keys()}
        for finding in rule.judge(snapshot.of_direction(direction), of_paths):
            one_way.setdefault(finding.path_id, []).append(_of_direction(finding, direction, snapshot))
    for path_id, of_path in one_way.items():
        if len(of_path) == 1 or path_id not in findings:
            findings[path_id] = min(of_path, key=_improbability)
    return list(findings.values())


def over(rule: AlertRule, path_id: int, path: str, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
    """As `AlertRule.over`; a finding of a direction by the counts of that direction."""
    direction = figures.get(DIRECTION)
    if direction is None:
        return rule.over(path_id, figures, snapshot)
    if direction not in snapshot.directions or path_id not in snapshot.directions[direction].paths:
        return NOT_COUNTED
    reason = rule.over(path_id, figures, snapshot.of_direction(direction))
    return None if reason is None else f"{way_text(path, direction)}: {reason}"


def way_text(path: str, direction: str) -> str:
    """Direction of a path in words: `cern → slac by STAMP`; `path` is its name."""
    source, _, destination = path.partition(" → ")
    ends = (source, destination) if direction == LostDirection.FORWARD else (destination, source)
    return f"{' → '.join(ends)} by STAMP"


def _improbability(finding: RuleFinding) -> float:
    chance = finding.figures.get("chance")
    return -float(finding.figures["evidence_nats"]) if chance is None else float(chance)


def _of_direction(finding: RuleFinding, direction: str, snapshot: Snapshot) -> RuleFinding:
    return replace(
        finding,
        sentence=f"one way, {way_text(finding.path, direction)}: {finding.sentence}",
        figures={**finding.figures, DIRECTION: direction},
    )
