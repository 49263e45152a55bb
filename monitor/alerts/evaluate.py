"""Evaluate all alert rules: open, extend and close incidents by the newest measurements, and queue notifications."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from django.db import transaction

from monitor.agents.health import agent_reports
from monitor.agents.problems import AgentProblem, ProblemKind
from monitor.alerts.advisory_lock import advisory_lock
from monitor.alerts.closing import close_ended, reopen_bad
from monitor.alerts.detect import causes, route_places, rtt_progress, suspects, troubles
from monitor.alerts.detect.damage import severity_by_figures
from monitor.alerts.detect.past.baselines import Baselines, baselines_at, baselines_since
from monitor.alerts.detect.response_runs import take_responses
from monitor.alerts.detect.rules import by_direction
from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.detect.snapshot import Key, Snapshot, baselines_of, take_directions, take_snapshot
from monitor.alerts.detect.sources import STORED, Source
from monitor.alerts.evidence import titles
from monitor.alerts.incidents import lasting_state, levels, lifecycle, queries, quiet
from monitor.alerts.incidents.own_present import (
    load_present,
    over_since,
    own_present,
    shown_by_tracks,
)
from monitor.alerts.incidents.own_track import is_bad_now
from monitor.alerts.incidents.past_times import incident_times
from monitor.alerts.incidents.quiet import QuietPaths
from monitor.alerts.models import Incident, IncidentState, JudgedDelays
from monitor.alerts.other_paths import OtherPaths
from monitor.alerts.scope import RuleScope, scope_now
from monitor.alerts.track_limits import limits_of, medians_of_snapshot
from monitor.archive.periods import start_of
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.queries import MeasuredPath
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.read import PresentPath, suspected_losses

LAST_HOUR = timedelta(hours=1)
# At least the length of the longest window of counts.
COUNTED = timedelta(days=1)
# A pending incident waits this long if its newest packets are likely from after its end.
LONGEST_WAIT = timedelta(seconds=60)
# After another incident begins; by then the tracks tell whether this incident had ended before.
TOLD_OVER = timedelta(minutes=10)
NO_TIMES: Mapping[int, float] = MappingProxyType({})
# Key of the advisory lock: unique in this database.
_KEY = 0x50_4E_44_4E_45_56_41_4C


@dataclass(frozen=True, slots=True)
class Evaluation:
    opened: int
    closed: int


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
        reopen_bad(now)
        suspected = suspected_losses()
        _add_to_incidents(lasting, present, firing, snapshot, suspected, source)
        _update_shares(lasting, firing, snapshot, suspected)
        closed = close_ended(lasting, present, snapshot, scope, quiet_paths)
        rtt_progress.write(snapshot.trips.judged_s)
        rtt_progress.write(snapshot.delays_judged_s, JudgedDelays)
        opened = _open_and_tell(quiet_paths, now)
        titles.update_titles(queries.lasting_or_among(lasting), now)
    return Evaluation(opened, closed)


def stored_baselines(now: datetime, paths: Mapping[int, MeasuredPath]) -> Baselines:
    hour = start_of("hour", now)
    places = {path_id: path.place for path_id, path in paths.items()}
    return baselines_at(hour, STORED, incident_times(baselines_since(hour), hour, places))


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
    keys_of = {incident.cause: incident.keys for incident in lasting_incidents}
    began_at = {incident.cause: incident.began_at for incident in lasting if incident.began_at is not None}
    onsets_s = lasting_state.onsets_s(firing, lasting, seen, present) if firing else {}
    groups = causes.find_causes(firing, lasting_incidents, seen, lost_at_s, cut_s, onsets_s)
    for group in groups or causes.rejudge(lasting_incidents, seen, onsets_s):
        new = [finding.key for finding in group.findings]
        own = {group.label, *group.merged} & keys_of.keys()
        earlier = frozenset[Key]().union(*(keys_of[cause] for cause in own)) - group.moved.keys()
        if group.merged:
            lifecycle.merge(group.merged, group.label, now, group.because)
        if group.moved:
            levels.end_before(lasting, group.moved, present)
            lasting_state.move_away(lasting, group, now)
        if new:
            onset = min((began_at[cause] for cause in {group.label, *group.merged} & began_at.keys()), default=None)
            shares = others.shares(new, sorted(earlier), onset)
            # Findings of other times may be another group of the same cause.
            keys_of[group.label] = earlier.union(new)
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
