"""Evaluate a rule on round trips, and on each direction of the paths whose directions STAMP tests count.

In: a snapshot with the counts and delays of each direction. Out: a finding at most for each path, so that a loss that
shows in the round trips and in a direction opens a single incident. It is that of the direction where a single one
fires, since it says which way; that of the round trips where they fire alone, or with both directions. Of a rule on
counts each of the three has a share of the false alarms (`Snapshot.alarm_shares`), so that together they have no more
than a path without STAMP tests; a rise of the delay fires in a direction only if neither a clock nor the other
direction can be behind it (`analysis.changes.one_way`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.alerts.detect.rules.finding import AlertRule, RuleFinding
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis.directions import LostDirection
from monitor.mesh.document.alert_rules import RuleSettings

DIRECTION = "direction"
"""The figure of a finding of a direction: `forward` or `reverse`."""
NOT_COUNTED = "direction no longer counted by STAMP"


def judge(rule: AlertRule, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
    """The findings of a rule, one at most for each path of `settings`."""
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
    """Why a finding is over, as `AlertRule.over`; a finding of a direction by the counts of that direction."""
    direction = figures.get(DIRECTION)
    if direction is None:
        return rule.over(path_id, figures, snapshot)
    if direction not in snapshot.directions or path_id not in snapshot.directions[direction].paths:
        return NOT_COUNTED
    reason = rule.over(path_id, figures, snapshot.of_direction(direction))
    return None if reason is None else f"{way_text(path, direction)}: {reason}"


def way_text(path: str, direction: str) -> str:
    """The direction of a path in words: `cern → slac by STAMP`; `path` is its name."""
    source, _, destination = path.partition(" → ")
    ends = (source, destination) if direction == LostDirection.FORWARD else (destination, source)
    return f"{' → '.join(ends)} by STAMP"


def _improbability(finding: RuleFinding) -> float:
    """Orders the findings of a rule, the surest first: by the probability, or the evidence."""
    chance = finding.figures.get("chance")
    return -float(finding.figures["evidence_nats"]) if chance is None else float(chance)


def _of_direction(finding: RuleFinding, direction: str, snapshot: Snapshot) -> RuleFinding:
    return replace(
        finding,
        sentence=f"one way, {way_text(finding.path, direction)}: {finding.sentence}",
        figures={**finding.figures, DIRECTION: direction},
    )
