"""One evaluation of the alert rules: what was measured goes in, incidents are opened, extended and closed.

In: the loss rule of the mesh, the pooled counts of its window from `archive.queries`, the paths that are being pinged.
Out: changes of incidents and their notifications. A mesh without `[alerts.loss]` has no loss rule: nothing opens, and
what is open closes. Paths between the same two hosts share one incident, since each round trip crosses both
directions; it closes when all of its paths are clear or no longer pinged. No data neither opens nor closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts import incidents, notify, queries, rules
from monitor.alerts.incidents import Finding
from monitor.alerts.models import Incident, IncidentPath
from monitor.alerts.rules import Evidence, Verdict
from monitor.archive.queries import loss_windows
from monitor.mesh.document import LossRule
from monitor.mesh.models import Kind, Path
from monitor.mesh.queries import loss_rule

RULE_REMOVED = "mesh.toml has no [alerts.loss] any more"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one evaluation changed."""

    opened: int
    closed: int
    notified: int


@dataclass(frozen=True, slots=True)
class PingedPath:
    """A path in use: its name for people, and the unordered pair of its hosts, which is the cause of its loss."""

    path_id: int
    name: str
    cause: str


def evaluate(now: datetime) -> Evaluation:
    """Apply the rules to what is stored at `now` (aware UTC), then send the notifications that are due."""
    rule = loss_rule()
    opened, closed = (0, _close_all(RULE_REMOVED, now)) if rule is None else _apply(rule, now)
    return Evaluation(opened, closed, notify.deliver(now))


def _apply(rule: LossRule, now: datetime) -> tuple[int, int]:
    paths = _pinged_paths()
    windows = loss_windows(now - timedelta(seconds=rule.window_s), now)
    evidence = {one.path_id: one for one in rules.judge(windows, rule) if one.path_id in paths}
    open_now = _open_incidents()
    return _open_firing(open_now, paths, evidence, now), _close_over(open_now, paths, evidence, now)


def _open_firing(
    open_now: list[Incident], paths: Mapping[int, PingedPath], evidence: Mapping[int, Evidence], now: datetime
) -> int:
    known = {(one.cause, row.path_id) for one in open_now for row in one.paths.all()}
    new: dict[str, list[Finding]] = defaultdict(list)
    for path_id, found in evidence.items():
        path = paths[path_id]
        if found.verdict is Verdict.FIRING and (path.cause, path_id) not in known:
            new[path.cause].append(Finding(path.name, found))
    return sum(incidents.open_or_extend(rules.NAME, cause, findings, now) for cause, findings in new.items())


def _close_over(
    open_now: list[Incident], paths: Mapping[int, PingedPath], evidence: Mapping[int, Evidence], now: datetime
) -> int:
    closed = 0
    for incident in open_now:
        reasons = {row.path_id: _why_over(row, paths, evidence, now) for row in incident.paths.all()}
        over = [reason for reason in reasons.values() if reason is not None]
        if len(over) == len(reasons):
            closed += incidents.close(incident.pk, reasons, "; ".join(over), now)
    return closed


def _why_over(
    row: IncidentPath, paths: Mapping[int, PingedPath], evidence: Mapping[int, Evidence], now: datetime
) -> str | None:
    """Why this path no longer keeps its incident open; None while it does."""
    if row.path_id not in paths:
        return f"{row.path}: retired, no longer pinged"
    found = evidence.get(row.path_id)
    if found is None or not found.is_clear(row.sent):
        return None
    return f"{row.path}: {rules.describe_clear(found, now)}"


def _close_all(closing: str, now: datetime) -> int:
    return sum(
        incidents.close(incident.pk, [row.path_id for row in incident.paths.all()], closing, now)
        for incident in _open_incidents()
    )


def _open_incidents() -> list[Incident]:
    return [incident for incident in queries.open_incidents() if incident.rule == rules.NAME]


def _pinged_paths() -> dict[int, PingedPath]:
    rows = (
        Path.objects.filter(
            retired_at__isnull=True, measurements__retired_at__isnull=True, measurements__test__kind=Kind.PING
        )
        .values_list("id", "source__name", "destination__name")
        .distinct()
    )
    return {path_id: PingedPath(path_id, f"{a} → {b}", " ↔ ".join(sorted((a, b)))) for path_id, a, b in rows}
