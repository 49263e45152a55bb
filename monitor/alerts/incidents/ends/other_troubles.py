"""Whether a path whose finding is back to normal has another trouble, so that the path is not called so.

In: the lasting incidents with the levels of this evaluation, its findings and its snapshot. Out: `is_silent` and
`has_other_trouble` of the levels: the newest burst was lost as a whole, another incident has the path, open or pending,
or a loss is being checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

import msgspec

from monitor.alerts.detect import suspects
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.rules.loss import LossRule, Threshold
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents import recovery
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal_again, level_of
from monitor.alerts.models import Incident
from monitor.mesh.document.alert_rules import RuleSettings


def with_other_troubles(
    lasting: Sequence[Incident],
    firing: Sequence[RuleFinding],
    snapshot: Snapshot,
    settings: Mapping[str, Mapping[int, RuleSettings]],
) -> None:
    """Put both into the levels of these incidents, not stored yet. A query at most: of paths that lose packets without
    an incident of loss."""
    levels = [
        (incident, row, level)
        for incident in lasting
        for row in incident.paths.all()
        if (level := level_of(row)) is not None
    ]
    back = {row.path_id for _, row, _ in levels if row.is_over or is_normal_again(row)}
    silent = back & snapshot.silences.keys()
    incidents: dict[int, set[int]] = defaultdict(set)
    keys = set()
    for incident in lasting:
        for row in incident.paths.all():
            keys.add((row.path_id, row.rule))
            if not row.is_over and not is_normal_again(row):
                incidents[row.path_id].add(incident.pk)
    troubled = {finding.path_id for finding in firing if finding.key not in keys} | silent
    troubled |= _possible_losses(back - troubled - incidents.keys(), lasting, snapshot, settings)
    for incident, row, level in levels:
        is_back = row.is_over or is_normal_again(row)
        has_other = row.path_id in troubled or bool(incidents[row.path_id] - {incident.pk})
        marked = _marked(
            level,
            is_silent=is_back and not row.is_over and row.path_id in silent,
            has_other_trouble=is_back and has_other,
        )
        if marked != level:
            row.level = msgspec.to_builtins(marked)


def _marked(level: FindingLevel, *, is_silent: bool, has_other_trouble: bool) -> FindingLevel:
    """The level with these; an RTT without newer replies is not of now."""
    is_stale = level.is_stale or (is_silent and level.unit is LevelUnit.MILLISECONDS)
    return replace(level, is_silent=is_silent, has_other_trouble=has_other_trouble, is_stale=is_stale)


def _possible_losses(
    path_ids: Collection[int],
    lasting: Sequence[Incident],
    snapshot: Snapshot,
    settings: Mapping[str, Mapping[int, RuleSettings]],
) -> set[int]:
    """Those of these paths without a finding of loss whose loss is proven above the threshold of their rule."""
    ends_s = recovery.loss_ends_s(lasting)
    others = [path_id for path_id in path_ids if path_id in snapshot.rows and path_id not in ends_s]
    if not others:
        return set()
    rules = settings.get(Threshold.name, {})
    thresholds = {path_id: cast("LossRule", rule).above_ratio for path_id, rule in rules.items()}
    reverse = suspects.reverse_paths(snapshot.paths.values())
    return set(suspects.possible_losses(others, thresholds, snapshot, reverse, ends_s))
