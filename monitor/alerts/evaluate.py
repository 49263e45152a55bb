"""One evaluation of all alert rules: what was measured goes in, incidents are opened, extended and closed.

In: what mesh.toml says of the rules, and one `Sweep` of what is known of all measured paths. Out: changes of incidents
and their notifications. `findings` and `look_at` are pure in time: a backtest calls them for moments of the past.
Paths that are bad together are one incident, if one cause explains them (`causes`). An incident closes when all that
was found is over, or no longer looked for. No data neither opens nor closes what other rules found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from monitor.alerts import causes, incidents, judged, notify, queries, quiet
from monitor.alerts.models import Incident, IncidentPath, State
from monitor.alerts.quiet import QuietPaths
from monitor.alerts.rules.catalogue import RULES
from monitor.alerts.rules.finding import Finding
from monitor.alerts.sweep import Baselines, Sweep, look
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import LossRule, Rule
from monitor.mesh.models import Kind
from monitor.mesh.queries import MeasuredPath, alerts, measured_paths

RETIRED = "retired, no longer measured"
SWITCHED_OFF = "mesh.toml no longer asks for this rule here"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one evaluation changed."""

    opened: int
    closed: int
    notified: int


@dataclass(frozen=True, slots=True)
class Scope:
    """Which rules hold where: the paths in use, and of each rule its settings on each path that has it."""

    pinged: dict[int, MeasuredPath]
    tested: dict[int, MeasuredPath]
    settings: dict[str, dict[int, Rule]]

    def path(self, path_id: int, rule: str) -> MeasuredPath | None:
        return (self.tested if rule == "throughput" else self.pinged).get(path_id)


def evaluate(now: datetime, baselines: Baselines | None = None) -> Evaluation:
    """Apply the rules to what is stored at `now` (aware UTC), then send the notifications that are due.

    `baselines` may be those of the same hour, which are then not asked for again.
    """
    scope = scope_now()
    lasting = queries.lasting_incidents()
    watched = {row.path_id for incident in lasting for row in incident.paths.all()}
    sweep = look_at(now, scope, judged.read(), watched, baselines)
    quiet_paths = quiet.at(now, scope.pinged | scope.tested)
    found = [one for one in findings(sweep, scope) if one.path_id not in quiet_paths.in_maintenance]
    _note(lasting, found, sweep, now)
    closed = _close_over(lasting, sweep, scope, quiet_paths, now)
    judged.write(sweep.trips.judged_s)
    opened = _open_and_tell(quiet_paths, now)
    return Evaluation(opened, closed, notify.deliver(now))


def scope_now() -> Scope:
    """What mesh.toml asks for now."""
    asked, pinged, tested = alerts(), measured_paths(Kind.PING), measured_paths(Kind.THROUGHPUT)
    places = {path_id: path.place for path_id, path in pinged.items()}
    tested_places = {path_id: path.place for path_id, path in tested.items()}
    settings = {
        name: alert_rules.settings_for(asked, name, tested_places if name == "throughput" else places) for name in RULES
    }
    return Scope(pinged, tested, settings)


def look_at(
    now: datetime,
    scope: Scope,
    judged_s: Mapping[int, float],
    watched: Iterable[int] = (),
    baselines: Baselines | None = None,
) -> Sweep:
    """The sweep of all paths of the scope."""
    losses = {path_id: cast("LossRule", rule) for path_id, rule in scope.settings["loss"].items()}
    return look(now, scope.pinged, scope.tested, losses, judged_s, watched, baselines)


def findings(sweep: Sweep, scope: Scope, names: Iterable[str] = RULES) -> list[Finding]:
    """All that fires, of these rules."""
    return [finding for name in names for finding in RULES[name].judge(sweep, scope.settings[name])]


def _note(lasting: list[Incident], found: list[Finding], sweep: Sweep, now: datetime) -> None:
    """Bring what no lasting incident has yet to the incident of its cause."""
    for cause in causes.of(found, lasting, sweep):
        incidents.find(cause.label, cause.findings, now, cause.because)


def _open_and_tell(quiet_paths: QuietPaths, now: datetime) -> int:
    """Open what has been pending for long enough, and tell of what nobody was told; returns how many opened."""
    opened = 0
    for incident in queries.untold_incidents():
        if incident.state == State.PENDING:
            if not incidents.confirm(incident.pk, now):
                continue
            opened += 1
        if not quiet_paths.silences(row.path_id for row in incident.paths.all() if not row.is_over):
            incidents.tell(incident.pk, now)
    return opened


def _close_over(lasting: list[Incident], sweep: Sweep, scope: Scope, quiet_paths: QuietPaths, now: datetime) -> int:
    """End the incidents of which everything is over; returns how many that were open have ended."""
    closed = 0
    for incident in lasting:
        rows = [row for row in incident.paths.all() if not row.is_over]
        reasons = {(row.path_id, row.rule): _why_over(row, sweep, scope) for row in rows}
        over = [reason for reason in reasons.values() if reason is not None]
        if len(over) == len(reasons):
            is_silenced = quiet_paths.silences(row.path_id for row in rows)
            ended = incidents.close(
                incident.pk, list(reasons), "; ".join(dict.fromkeys(over)), now, is_silenced=is_silenced
            )
            closed += ended and incident.state != State.PENDING
    return closed


def _why_over(row: IncidentPath, sweep: Sweep, scope: Scope) -> str | None:
    """Why this finding no longer keeps its incident open; None while it does."""
    if scope.path(row.path_id, row.rule) is None:
        return f"{row.path}: {RETIRED}"
    if row.rule not in RULES or row.path_id not in scope.settings[row.rule]:
        return f"{row.path}: {SWITCHED_OFF}"
    reason = RULES[row.rule].over(row.path_id, row.figures, sweep)
    return None if reason is None else f"{row.path}: {reason}"
