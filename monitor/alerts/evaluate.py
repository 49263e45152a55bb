"""Evaluate all alert rules: open, extend and close incidents by the newest measurements, and queue notifications."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db import transaction

from monitor.agents.health import agent_reports
from monitor.agents.problems import AgentProblem, ProblemKind
from monitor.alerts.advisory_lock import advisory_lock
from monitor.alerts.detect import causes, route_places, rtt_progress, suspects, troubles
from monitor.alerts.detect.damage import severity_by_figures
from monitor.alerts.detect.past.baselines import Baselines, baselines_at, baselines_since
from monitor.alerts.detect.response_runs import take_responses
from monitor.alerts.detect.rules import by_direction
from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import LIMIT_CHANGED, NEW_NORMAL, RuleFinding, Trouble
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.detect.snapshot import Snapshot, baselines_of, take_directions, take_snapshot
from monitor.alerts.detect.sources import STORED, Source
from monitor.alerts.evidence import ending, titles
from monitor.alerts.incidents import lasting_state, levels, lifecycle, queries, quiet
from monitor.alerts.incidents.lifecycle import REOPEN_S
from monitor.alerts.incidents.own_present import (
    is_still_bad,
    load_present,
    over_since,
    own_present,
    shown_by_tracks,
    track_of,
)
from monitor.alerts.incidents.own_track import is_bad_now, normal_since
from monitor.alerts.incidents.past_times import incident_times
from monitor.alerts.incidents.quiet import QuietPaths
from monitor.alerts.models import Incident, IncidentPath, IncidentState, JudgedDelays
from monitor.alerts.other_paths import OtherPaths
from monitor.alerts.track_limits import limits_of, medians_of_snapshot
from monitor.archive.periods import start_of
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.mesh.models import KindName
from monitor.mesh.queries import MeasuredPath, alerts, intervals_s, measured_paths
from monitor.present.follow import Follower
from monitor.present.read import PresentPath, suspected_losses
from monitor.present.track import Condition

LAST_HOUR = timedelta(hours=1)
# At least the length of the longest window of counts.
COUNTED = timedelta(days=1)
# A pending incident waits this long if its newest packets are likely from after its end.
LONGEST_WAIT = timedelta(seconds=60)
# After another incident begins; by then the tracks tell whether this incident had ended before.
TOLD_OVER = timedelta(minutes=10)
RETIRED = "retired, no longer measured"
NO_TIMES: Mapping[int, float] = MappingProxyType({})
# Key of the advisory lock: unique in this database.
_KEY = 0x50_4E_44_4E_45_56_41_4C
SWITCHED_OFF = "rule removed from mesh.toml"
NORMAL_SINCE = "normal since"


@dataclass(frozen=True, slots=True)
class Evaluation:
    opened: int
    closed: int


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The paths in use, and the settings of each rule by path."""

    pinged: dict[int, MeasuredPath]
    tested: dict[int, MeasuredPath]
    settings: dict[str, Mapping[int, RuleSettings]]
    one_way: dict[int, MeasuredPath] = field(default_factory=dict)  # with STAMP tests, at their interval `every_s`
    answered: dict[int, MeasuredPath] = field(default_factory=dict)  # with request-response tests

    @property
    def every(self) -> dict[int, MeasuredPath]:
        return self.pinged | self.tested | self.answered

    def path(self, path_id: int, rule: str) -> MeasuredPath | None:
        """The path, if it has the tests that the rule evaluates."""
        by_kind = {KindName.THROUGHPUT: self.tested, KindName.REQUEST_RESPONSE: self.answered}
        return by_kind.get(rule_of(rule).trouble.measured_by, self.pinged).get(path_id)


def evaluate(
    now: datetime,
    baselines: Baselines | None = None,
    scope: RuleScope | None = None,
    source: Source = STORED,
    follower: Follower | None = None,
) -> Evaluation:
    """Apply the rules to the archive at `now` (aware UTC) and queue notifications, which `notify.deliver` sends.

    Does nothing while another evaluation holds the advisory lock.
    """
    with advisory_lock(_KEY) as is_alone:
        if not is_alone:
            return Evaluation(opened=0, closed=0)
        follower = follower or Follower()
        try:
            done = _evaluate(now, baselines, scope or scope_now(), source, follower)
        except BaseException:
            follower.restart()
            raise
        freshness.note(RecurringWork.EVALUATION, now)
        return done


def _evaluate(
    now: datetime, baselines: Baselines | None, scope: RuleScope, source: Source, follower: Follower
) -> Evaluation:
    lasting = queries.lasting_incidents()
    watched = {row.path_id for incident in lasting for row in incident.paths.all()}
    every, counted_since = scope.every, now - COUNTED
    problems = agent_problems(now)
    delays_judged_s = rtt_progress.read(JudgedDelays) if scope.one_way else {}
    if baselines is None or baselines.hour != start_of("hour", now):
        baselines = stored_baselines(now, every)
    snapshot = replace(
        snapshot_at(now, scope, rtt_progress.read(), watched, baselines, source, delays_judged_s),
        troubles=_texts(problems, lambda kind: True),
        measuring_troubles=_texts(problems, lambda kind: kind.disturbs_measurements),
        ended_s=queries.ended_s(counted_since),
        maintained_s=quiet.maintained_s(counted_since, now, every),
    )
    quiet_paths = quiet.quiet_paths_at(now, every)
    firing = [finding for finding in findings(snapshot, scope) if finding.path_id not in quiet_paths.in_maintenance]
    limits = limits_of(scope.settings, lasting, snapshot, quiet_paths.in_maintenance, firing)
    # All that a page shows of one moment is written at once.
    with transaction.atomic():
        follower.follow(now, limits, medians_of_snapshot(snapshot))
        present = load_present(lasting, {finding.path_id for finding in firing})
        firing = shown_by_tracks(firing, present)
        levels.update_levels(lasting, present, snapshot, scope.settings)
        _reopen_bad(now)
        suspected = suspected_losses()
        _add_to_incidents(lasting, present, firing, snapshot, suspected, source)
        _update_shares(lasting, firing, snapshot, suspected)
        closed = _close_ended(lasting, present, snapshot, scope, quiet_paths)
        rtt_progress.write(snapshot.trips.judged_s)
        rtt_progress.write(snapshot.delays_judged_s, JudgedDelays)
        opened = _open_and_tell(quiet_paths, now)
        titles.update_titles(queries.lasting_or_among(lasting), now)
    return Evaluation(opened, closed)


def stored_baselines(now: datetime, paths: Mapping[int, MeasuredPath]) -> Baselines:
    hour = start_of("hour", now)
    places = {path_id: path.place for path_id, path in paths.items()}
    return baselines_at(hour, STORED, incident_times(baselines_since(hour), hour, places))


def scope_now() -> RuleScope:
    rules = alerts()
    measured = {kind: measured_paths(kind) for kind in dict.fromkeys(trouble.measured_by for trouble in Trouble)}
    places = {kind: {path_id: path.place for path_id, path in of_kind.items()} for kind, of_kind in measured.items()}
    settings = {
        name: alert_rules.settings_for(rules, name, places[rule.trouble.measured_by]) for name, rule in RULES.items()
    }
    pinged, tested = measured[KindName.PING], measured[KindName.THROUGHPUT]
    one_way = {
        path_id: replace(pinged[path_id], every_s=every_s)
        for path_id, every_s in intervals_s(KindName.STAMP).items()
        if path_id in pinged
    }
    return RuleScope(pinged, tested, settings, one_way, measured[KindName.REQUEST_RESPONSE])


def snapshot_at(
    now: datetime,
    scope: RuleScope,
    judged_s: Mapping[int, float],
    watched: Iterable[int] = (),
    baselines: Baselines | None = None,
    source: Source = STORED,
    delays_judged_s: Mapping[int, float] = NO_TIMES,
) -> Snapshot:
    """Take the snapshot of all paths of the scope; `delays_judged_s` is for one-way delays."""
    windows_s = set[float]().union(*(rule_of(name).windows_s(of_paths) for name, of_paths in scope.settings.items()))
    with_rtts = any(rule_of(name).needs_rtts and of_paths for name, of_paths in scope.settings.items())
    baselines = baselines_of(now, baselines, source)
    snapshot = replace(
        take_snapshot(
            now, scope.pinged, scope.tested, windows_s, judged_s, watched, baselines, source, with_rtts=bool(with_rtts)
        ),
        directions=take_directions(now, scope.one_way, windows_s, delays_judged_s, watched, baselines, source),
        responses=take_responses(now, scope.answered, baselines.responses, source, baselines.times),
    )
    on_paths = list(scope.settings.get(ROUTE_CHANGE.name, ()))
    return replace(snapshot, route_effects=source.route_effects(on_paths, now)) if on_paths else snapshot


def findings(snapshot: Snapshot, scope: RuleScope, names: Iterable[str] = RULES) -> list[RuleFinding]:
    """Evaluate these rules with the severities of mesh.toml."""
    return [
        replace(finding, severity=severity_by_figures(scope.settings[name][finding.path_id], finding.figures))
        for name in names
        for finding in by_direction.judge(RULES[name], snapshot, scope.settings[name])
    ]


def agent_problems(now: datetime) -> dict[str, tuple[AgentProblem, ...]]:
    """Problems of agents and their machines in the last hour, by site."""
    return {report.site: report.problems(now - LAST_HOUR) for report in agent_reports(now)}


def _texts(
    problems: Mapping[str, tuple[AgentProblem, ...]], which: Callable[[ProblemKind], bool]
) -> dict[str, tuple[str, ...]]:
    texts = {
        site: tuple(problem.text for problem in of_site if which(problem.kind)) for site, of_site in problems.items()
    }
    return {site: of_site for site, of_site in texts.items() if of_site}


def _add_to_incidents(
    lasting: list[Incident],
    present: Mapping[int, PresentPath],
    firing: list[RuleFinding],
    snapshot: Snapshot,
    suspected: Collection[int],
    source: Source,
) -> None:
    now = snapshot.now
    lasting_incidents = [lasting_state.of_incident(incident, now) for incident in lasting]
    others = OtherPaths(firing, lasting, snapshot, suspected)
    keys = troubles.lasting_keys(lasting_incidents)
    seen = route_places.with_routes(suspects.with_trips(snapshot, firing, keys, source), firing, keys)
    lost_at_s = lasting_state.lost_at_s(firing, lasting_incidents, present)
    cut_s = lasting_state.cut_s(firing, lasting_incidents, present, now)
    by_cause = {incident.cause: incident for incident in lasting_incidents}
    began_at = {incident.cause: incident.began_at for incident in lasting if incident.began_at is not None}
    onsets_s = lasting_state.onsets_s(firing, lasting, seen, present) if firing else {}
    groups = causes.find_causes(firing, lasting_incidents, seen, lost_at_s, cut_s, onsets_s)
    for group in groups or causes.rejudge(lasting_incidents, seen, onsets_s):
        new = [finding.key for finding in group.findings]
        earlier = [
            key
            for cause in {group.label, *group.merged} & by_cause.keys()
            for key in by_cause[cause].keys - group.moved.keys()
        ]
        if group.merged:
            lifecycle.merge(group.merged, group.label, now, group.because)
        if group.moved:
            levels.end_before(lasting, group.moved, present)
            lasting_state.move_away(lasting, group, now)
        if new:
            onset = min((began_at[cause] for cause in {group.label, *group.merged} & began_at.keys()), default=None)
            shares = others.shares(new, earlier, onset)
            lifecycle.add_findings(group.label, group.findings, now, group.because, shares)


def _update_shares(
    lasting: list[Incident], firing: list[RuleFinding], snapshot: Snapshot, suspected: Collection[int]
) -> None:
    """Recount the other paths of lasting incidents, unless a newer trouble would count as theirs."""
    taken = {(row.path_id, row.rule) for incident in lasting for row in incident.paths.all() if not row.is_over}
    if any((finding.path_id, finding.rule) not in taken for finding in firing):
        return
    others = OtherPaths(firing, lasting, snapshot, suspected)
    newest = sorted((incident.began_at or incident.opened_at, incident.pk) for incident in lasting)[-2:]
    for incident in lasting:
        rows = [row for row in incident.paths.all() if not row.is_over]
        if not rows or incident.over_since is not None or not any(map(is_bad_now, rows)):
            continue
        if any(began_at > snapshot.now - TOLD_OVER for began_at, of in newest if of != incident.pk):
            continue
        keys = [(row.path_id, row.rule) for row in rows]
        levels.set_shares(incident, others.shares(keys, onset=incident.began_at))


def _open_and_tell(quiet_paths: QuietPaths, now: datetime) -> int:
    opened, untold = 0, queries.untold_incidents()
    present = load_present(incident for incident in untold if incident.is_pending)
    for incident in untold:
        if incident.state == IncidentState.PENDING:
            own = own_present(incident, present)
            over = over_since(own)
            may_be_over = bool(own) and over is None and all(path.condition <= Condition.AWAITED for path in own)
            if may_be_over and now - incident.opened_at < LONGEST_WAIT:
                continue  # newer packets will tell
            if not lifecycle.open_if_confirmed(incident.pk, now, over):
                continue
            opened += 1
        if not quiet_paths.silences(row.path_id for row in incident.paths.all() if not row.is_over):
            lifecycle.queue_notifications(incident.pk, now)
    return opened


def _close_ended(
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


def _reopen_bad(now: datetime) -> None:
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
