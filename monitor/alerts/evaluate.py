"""One evaluation of all alert rules: what was measured goes in, incidents are opened, extended and closed.

In: what mesh.toml says of the rules, and one `Sweep` of what is known of all measured paths. Out: changes of incidents,
and who is to be told. `findings` and `look_at` are pure in time: a backtest calls them for moments of the past.
Paths that are bad together are one incident, if one cause explains them (`causes`). An incident closes when all that
was found is over, or no longer looked for. No data neither opens nor closes what other rules found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from monitor.agents.health import agent_reports
from monitor.alerts.alone import alone
from monitor.alerts.detect import causes, judged
from monitor.alerts.detect.causes import Held
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.shares import Shares
from monitor.alerts.detect.snapshot import Baselines, Sweep, look
from monitor.alerts.detect.sources import STORED, Source
from monitor.alerts.incidents import lifecycle, queries, quiet
from monitor.alerts.incidents.quiet import QuietPaths
from monitor.alerts.models import Incident, State
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import Work
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import LossRule, Rule
from monitor.mesh.models import Kind
from monitor.mesh.queries import MeasuredPath, alerts, measured_paths

LAST_HOUR = timedelta(hours=1)
COUNTED = timedelta(days=1)
"""At least as far back as any window of counts reaches."""
RETIRED = "retired, no longer measured"
_KEY = 0x50_4E_44_4E_45_56_41_4C
"""Any number that nobody else locks in this database."""
SWITCHED_OFF = "mesh.toml no longer asks for this rule here"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one evaluation changed."""

    opened: int
    closed: int


@dataclass(frozen=True, slots=True)
class Scope:
    """Which rules hold where: the paths in use, and of each rule its settings on each path that has it."""

    pinged: dict[int, MeasuredPath]
    tested: dict[int, MeasuredPath]
    settings: dict[str, dict[int, Rule]]

    def path(self, path_id: int, rule: str) -> MeasuredPath | None:
        return (self.tested if rule == "throughput" else self.pinged).get(path_id)


def evaluate(now: datetime, baselines: Baselines | None = None) -> Evaluation:
    """Apply the rules to what is stored at `now` (aware UTC). Who is told is written down; `notify.deliver` sends it.

    `baselines` may be those of the same hour, which are then not asked for again. Where another evaluation is under
    way that one changes incidents, and this one nothing.
    """
    with alone(_KEY) as is_alone:
        if not is_alone:
            return Evaluation(opened=0, closed=0)
        done = _evaluate(now, baselines)
        freshness.note(Work.EVALUATION, now)
        return done


def _evaluate(now: datetime, baselines: Baselines | None) -> Evaluation:
    scope = scope_now()
    lasting = queries.lasting_incidents()
    watched = {row.path_id for incident in lasting for row in incident.paths.all()}
    every, counted_since = scope.pinged | scope.tested, now - COUNTED
    sweep = replace(
        look_at(now, scope, judged.read(), watched, baselines),
        troubles=agent_troubles(now),
        ended_s=queries.ended_s(counted_since),
        maintained_s=quiet.maintained_s(counted_since, now, every),
    )
    quiet_paths = quiet.at(now, every)
    found = [one for one in findings(sweep, scope) if one.path_id not in quiet_paths.in_maintenance]
    _note(lasting, found, sweep, now)
    closed = _close_over(lasting, sweep, scope, quiet_paths, now)
    judged.write(sweep.trips.judged_s)
    opened = _open_and_tell(quiet_paths, now)
    return Evaluation(opened, closed)


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
    source: Source = STORED,
) -> Sweep:
    """The sweep of all paths of the scope."""
    losses = {path_id: cast("LossRule", rule) for path_id, rule in scope.settings["loss"].items()}
    return look(now, scope.pinged, scope.tested, losses, judged_s, watched, baselines, source)


def findings(sweep: Sweep, scope: Scope, names: Iterable[str] = RULES) -> list[Finding]:
    """All that fires, of these rules."""
    return [
        replace(finding, severity=alert_rules.severity_of(name, scope.settings[name][finding.path_id]))
        for name in names
        for finding in RULES[name].judge(sweep, scope.settings[name])
    ]


def agent_troubles(now: datetime) -> dict[str, tuple[str, ...]]:
    """What was wrong in the last hour with the agents of sites, or their machines; sites where nothing was are left
    out."""
    reports = agent_reports(now)
    return {one.site: troubles for one in reports if (troubles := one.troubles(now - LAST_HOUR))}


def _note(lasting: list[Incident], found: list[Finding], sweep: Sweep, now: datetime) -> None:
    """Bring what no lasting incident has yet to the incident of its cause."""
    held = [_held(incident) for incident in lasting]
    counted: dict[str, Shares] = {}
    for cause in causes.of(found, held, sweep):
        trouble = causes.trouble_of(cause.findings[0].rule)
        if trouble not in counted:
            counted[trouble] = _shares(trouble, found, held, sweep)
        of_cause = {finding.path_id for finding in cause.findings}
        of_cause |= {path_id for one in held if one.cause in {cause.label} | cause.merged for path_id, _ in one.keys}
        if cause.merged:
            lifecycle.merge(cause.merged, cause.label, now)
        lifecycle.find(cause.label, cause.findings, now, cause.because, counted[trouble].of(of_cause))


def _shares(trouble: str, found: list[Finding], held: list[Held], sweep: Sweep) -> Shares:
    """How many paths have this trouble, where."""
    bad = {finding.path_id for finding in found if causes.trouble_of(finding.rule) == trouble}
    bad |= {path_id for one in held for path_id, rule in one.keys if causes.trouble_of(rule) == trouble}
    if trouble == causes.THROUGHPUT:
        return Shares(sweep.tested_paths, bad, frozenset())
    return Shares(
        sweep.paths, bad, causes.without_bursts(sweep) - bad if trouble == causes.ROUND_TRIPS else frozenset()
    )


def _open_and_tell(quiet_paths: QuietPaths, now: datetime) -> int:
    """Open what has been pending for long enough, and tell of what nobody was told; returns how many opened."""
    opened = 0
    for incident in queries.untold_incidents():
        if incident.state == State.PENDING:
            if not lifecycle.confirm(incident.pk, now):
                continue
            opened += 1
        if not quiet_paths.silences(row.path_id for row in incident.paths.all() if not row.is_over):
            lifecycle.tell(incident.pk, now)
    return opened


def _close_over(lasting: list[Incident], sweep: Sweep, scope: Scope, quiet_paths: QuietPaths, now: datetime) -> int:
    """End the incidents of which everything is over; returns how many that were open have ended."""
    closed = 0
    for incident in lasting:
        rows = [row for row in incident.paths.all() if not row.is_over]
        reasons = {
            (row.path_id, row.rule): why_over(row.path_id, str(row.path), row.rule, row.figures, sweep, scope)
            for row in rows
        }
        over = [reason for reason in reasons.values() if reason is not None]
        if len(over) == len(reasons):
            is_silenced = quiet_paths.silences(row.path_id for row in rows)
            ended = lifecycle.close(
                incident.pk, list(reasons), "; ".join(dict.fromkeys(over)), now, is_silenced=is_silenced
            )
            closed += ended and incident.state != State.PENDING
    return closed


def _held(incident: Incident) -> Held:
    return Held(incident.cause, frozenset((row.path_id, row.rule) for row in incident.paths.all() if not row.is_over))


def why_over(path_id: int, path: str, rule: str, figures: Mapping[str, Any], sweep: Sweep, scope: Scope) -> str | None:
    """Why what `rule` found on a path, with these figures, no longer keeps its incident open; None while it does."""
    if scope.path(path_id, rule) is None:
        return f"{path}: {RETIRED}"
    if rule not in RULES or path_id not in scope.settings[rule]:
        return f"{path}: {SWITCHED_OFF}"
    reason = RULES[rule].over(path_id, figures, sweep)
    return None if reason is None else f"{path}: {reason}"
