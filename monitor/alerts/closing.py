"""Close findings and incidents that are over, and reopen those that are bad again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from monitor.alerts.detect.rules import by_direction
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import LIMIT_CHANGED, NEW_NORMAL
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.evidence import ending
from monitor.alerts.incidents import lasting_state, lifecycle, queries
from monitor.alerts.incidents.lifecycle import REOPEN_S
from monitor.alerts.incidents.own_present import is_still_bad, load_present, own_present, track_of
from monitor.alerts.incidents.own_track import normal_since
from monitor.alerts.incidents.quiet import QuietPaths
from monitor.alerts.models import Incident, IncidentPath, IncidentState
from monitor.alerts.scope import RuleScope
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath

RETIRED = "retired, no longer measured"
SWITCHED_OFF = "rule removed from mesh.toml"
NORMAL_SINCE = "normal since"


def close_ended(
    lasting: list[Incident],
    present: Mapping[int, PresentPath],
    snapshot: Snapshot,
    scope: RuleScope,
    quiet_paths: QuietPaths,
) -> int:
    """End findings that are over, and incidents without others; returns how many open incidents ended."""
    closed, now = 0, snapshot.now
    for incident in lasting:
        rows = [row for row in incident.paths.all() if not row.is_over]
        reasons = {
            (row.path_id, row.rule): _reason_for_end(row, present.get(row.path_id), snapshot, scope) for row in rows
        }
        over = {key: reason for key, reason in reasons.items() if reason is not None}
        if len(over) == len(reasons):
            is_silenced = quiet_paths.silences(row.path_id for row in rows)
            closing = [row.closing for row in incident.paths.all() if row.closing and row.is_over]
            closing = list(dict.fromkeys([*over.values(), *closing]))
            every = list(incident.paths.all())
            ended = lifecycle.close(
                incident.pk,
                list(reasons),
                "; ".join(closing),
                now,
                ended_at=None if incident.is_pending else incident.over_since or ending.end_of(incident, every, now),
                is_silenced=is_silenced,
            )
            closed += ended and incident.state != IncidentState.PENDING
        elif over:
            ended_rows = lifecycle.end_findings(incident.pk, over, now)
            for row in rows:
                row.is_over = row.pk in ended_rows
    return closed


def reopen_bad(now: datetime) -> None:
    """Reopen incidents that their tracks closed, if half of their paths are bad again."""
    lately = [row for row in queries.ended_since(now - timedelta(seconds=REOPEN_S)) if NORMAL_SINCE in row.closing]
    present = load_present(lately)
    for incident in lately:
        bad = {
            path.path_id for path in own_present(incident, present) if Condition.BAD <= path.condition <= Condition.DEAD
        }
        rows = [row for row in incident.paths.all() if row.path_id in bad]
        # A rule would need new proof; fewer than half of the paths are another trouble.
        if rows and 2 * len(bad) >= len(set(incident.path_ids)):
            lifecycle.add_findings(incident.cause, list(map(lasting_state.as_finding, rows)), now)


def _reason_for_end(row: IncidentPath, present: PresentPath | None, snapshot: Snapshot, scope: RuleScope) -> str | None:
    """As `reason_for_end`, or by the track: normal for the rule's wait, or level accepted."""
    path, reason = str(row.path), reason_for_end(row.path_id, str(row.path), row.rule, row.figures, snapshot, scope)
    track, rule = track_of(row, present), RULES.get(row.rule)
    settings = scope.settings.get(row.rule, {}).get(row.path_id)
    measured = scope.path(row.path_id, row.rule)
    if rule is None or settings is None or measured is None or track is None or not track.trouble:
        return reason
    wait_s = rule.wait_s(settings, row.figures, measured.every_s)
    if wait_s is None or (reason is not None and reason.endswith(NEW_NORMAL)):
        return reason
    over_at = normal_since(row)
    # Else the incident would be reopened at the next look, by the path's condition.
    if over_at is None or is_still_bad(row, present) or (snapshot.now - over_at).total_seconds() < wait_s:
        return None
    return f"{path}: {NORMAL_SINCE} {over_at:%Y-%m-%d %H:%M:%S} UTC"


def reason_for_end(
    path_id: int, path: str, rule: str, figures: Mapping[str, Any], snapshot: Snapshot, scope: RuleScope
) -> str | None:
    """Why a finding of `rule` no longer keeps its incident open; None while it does."""
    if scope.path(path_id, rule) is None:
        return f"{path}: {RETIRED}"
    if rule not in RULES or path_id not in scope.settings[rule]:
        return f"{path}: {SWITCHED_OFF}"
    if RULES[rule].is_allowed(figures, scope.settings[rule][path_id]):
        return f"{path}: {LIMIT_CHANGED}"
    reason = by_direction.over(RULES[rule], path_id, path, figures, snapshot)
    return None if reason is None else f"{path}: {reason}"
