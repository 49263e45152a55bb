"""Collect the facts of an incident from the archive: at most 23 queries, and a few more with traces or STAMP tests.

The period before is the day up to the earliest begin; the period after is at most a day from the likeliest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from monitor.agents.health import AgentReport, agent_reports
from monitor.agents.problems import ProblemKind
from monitor.alerts.detect import packet_times
from monitor.alerts.detect.packet_times import NO_SPACING, Spacing
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.evidence import ending, episode
from monitor.alerts.evidence.agent_causes import SILENT_S
from monitor.alerts.evidence.dating.onsets import (
    LEAST_SEARCH,
    PathPair,
    onset_of,
    onset_of_untracked,
    path_pairs,
)
from monitor.alerts.evidence.dating.outage_columns import cut_at_outage
from monitor.alerts.evidence.facts import (
    AgentFacts,
    Beginning,
    Deliveries,
    Direction,
    Facts,
    FailedBurst,
    PathFacts,
    RouterErrors,
    TestVerdict,
)
from monitor.alerts.evidence.one_way.collect import collect_one_way
from monitor.alerts.evidence.path_tests import own_tests, path_tests, tests_of_incidents
from monitor.alerts.evidence.routes.collect import collect_routes
from monitor.alerts.incidents import gravest
from monitor.alerts.incidents.earlier_times import EarlierTimes, earlier_times
from monitor.alerts.incidents.gravest import gravest_first, has_no_reply, unanswered_since
from monitor.alerts.incidents.own_present import track_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.archive.queries.around import BurstColumns, bursts_around, icmp_errors, newest_addresses
from monitor.archive.queries.paths import newest_failures
from monitor.archive.queries.throughput.series import throughput_series
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.models import Path
from monitor.present import read
from monitor.present.read import PresentPath
from monitor.present.track import Signal


def collect_facts(incident: Incident, now: datetime, began: Beginning | None = None) -> Facts:
    """Gather the facts of an incident by its lasting findings, or by all once its trouble ended."""
    every = list(incident.paths.all())
    tests_seen = tests_of_incidents([incident]).get(incident.pk, 0)  # before the tests are read: none is overlooked
    rows = [row for row in every if not row.is_over] or every
    facts = _collect(incident, gravest_first(rows), tests_seen, now, began)
    if facts.ended_at is None or len(rows) == len(every):
        return facts
    return _collect(incident, gravest_first(every), tests_seen, now, began)


@dataclass(frozen=True, slots=True)
class _Period:
    """The periods before and during an incident, with their bursts."""

    incident: Incident
    rows: Sequence[IncidentPath]
    pairs: Sequence[PathPair]
    paths: Sequence[Path]
    path_ids: Sequence[int]
    present: Mapping[int, PresentPath]
    earlier: EarlierTimes
    before: BurstColumns
    every: BurstColumns
    usual: BurstColumns  # without the times of earlier incidents
    spacings: Mapping[int, Spacing]
    began: Beginning
    since: datetime
    after_since: datetime
    was_until: datetime
    is_since: datetime
    is_until: datetime
    until: datetime
    ended_at: datetime | None


def _period(incident: Incident, rows: Sequence[IncidentPath], now: datetime, began: Beginning | None) -> _Period:
    pairs = path_pairs(rows)
    paths = [path for pair in pairs for path in (pair.path, pair.back) if path is not None]
    path_ids = sorted({path.pk for path in paths})
    until = min(now, incident.closed_at or now)
    since = min(row.since for row in rows)
    after_since = max(since, until - LONGEST_RAW)
    before = bursts_around(path_ids, since - LONGEST_RAW, since)
    every = episode.concatenate_bursts(before, bursts_around(path_ids, after_since, max(until, after_since)))
    earlier = earlier_times(incident, paths, since)
    usual = earlier.usual(every)
    present = read.load(path_ids)
    moment = onset_of(incident, present) or began or onset_of_untracked(rows[0], until)
    # The period before ends where the interval of the onset begins, unless the trouble began within that burst.
    burst_at = _burst_of(moment, pairs, every)
    is_since = max(burst_at, until - LONGEST_RAW)
    ended_at, is_until = ending.end_of_figures(rows, path_ids, usual, is_since, until)
    return _Period(
        incident=incident,
        rows=rows,
        pairs=pairs,
        paths=paths,
        path_ids=path_ids,
        present=present,
        earlier=earlier,
        before=before,
        every=every,
        usual=usual,
        spacings=packet_times.spacings(path_ids),
        began=moment,
        since=since,
        after_since=after_since,
        was_until=burst_at if moment.earliest is None else min(moment.earliest, burst_at),
        is_since=is_since,
        is_until=is_until,
        until=until,
        ended_at=ended_at,
    )


def _burst_of(moment: Beginning, pairs: Sequence[PathPair], bursts: BurstColumns) -> datetime:
    path_ids = [pair.path.pk for pair in pairs if str(pair.path) == moment.path]
    until = moment.latest if moment.is_outage and moment.latest is not None else moment.at
    own_s = bursts.at_s[np.isin(bursts.path_id, path_ids) & (bursts.at_s <= until.timestamp())]
    return datetime.fromtimestamp(float(own_s.max()), UTC) if len(own_s) else moment.at


def _collect(
    incident: Incident, rows: Sequence[IncidentPath], tests_seen: int, now: datetime, began: Beginning | None
) -> Facts:
    of = _period(incident, rows, now, began)
    reports = agent_reports(now)
    names = {path.pk: str(path) for path in of.paths}
    hosts = {host for pair in of.pairs for host in (pair.path.source_id, pair.path.destination_id)}
    facts = Facts(
        gathered_at=now,
        began=of.began,
        paths=_path_facts(of),
        own_tests=own_tests(sorted(hosts), of.is_since, of.is_until),
        agents=_agents(of.pairs, of.is_since, reports),
        routers=tuple(
            RouterErrors(names[error.path_id], error.name, error.router, error.count)
            for error in icmp_errors(of.path_ids, of.is_since, of.is_until)
        ),
        failures=tuple(
            FailedBurst(names[failure.path_id], failure.at, failure.outcome, failure.detail)
            for failure in newest_failures(of.is_since, of.is_until, of.path_ids)
        ),
        verdicts=_verdicts(of.pairs, of.after_since, of.until),
        tests=path_tests(of.paths, of.is_since, max(of.is_until, of.is_since), of.earlier),
        tests_seen=tests_seen,
        deliveries=_deliveries(reports, of.since, now),
        ended_at=of.ended_at,
        answered_by=None if of.ended_at is None else ending.first_reply(rows),
        unanswered_since=unanswered_since(incident),
    )
    facts = replace(facts, one_way=collect_one_way(facts.paths, of.earlier.stretches(of.before)))
    return replace(facts, routes=collect_routes(facts, of.since, max(of.is_until, of.since)))


def _path_facts(of: _Period) -> tuple[PathFacts, ...]:
    directions = _directions(of)
    return tuple(
        PathFacts(
            path_id=pair.path.pk,
            name=str(pair.path),
            source_address=pair.path.source.address,
            destination_address=pair.path.destination.address,
            family=pair.path.family,
            there=directions[pair.path.pk],
            back=None if pair.back is None else directions[pair.back.pk],
            source_site=pair.path.source.site.name,
            destination_site=pair.path.destination.site.name,
        )
        for pair in of.pairs
    )


def _directions(of: _Period) -> dict[int, Direction]:
    """Figures of each path before and since the beginning; an outage within a burst is cut by packets."""
    was_addresses = newest_addresses(of.path_ids, of.was_until - LONGEST_RAW, of.was_until)
    addresses = newest_addresses(of.path_ids, of.is_since, of.is_until)
    unanswered = {row.path_id for row in of.rows if has_no_reply(of.incident, row)}
    was_outage, was_since, directions = gravest.was_outage(of.incident), of.since - LONGEST_RAW, {}
    for path in of.paths:
        spacing, was_address = of.spacings.get(path.pk, NO_SPACING), was_addresses.get(path.pk)
        replied_at, again_at = _silence_of(of.present.get(path.pk), of.is_since)
        cut = cut_at_outage(of.every, path.pk, spacing, of.began)
        if cut is None:
            own, own_since = of.every, of.is_since
            was = episode.figures(
                of.usual, path.pk, was_since, of.was_until, was_address, spacing=spacing, sent_before=of.was_until
            )
        else:
            own, own_since = cut.bursts, max(cut.began, of.until - LONGEST_RAW)
            was = episode.figures(of.earlier.usual(own), path.pk, was_since, cut.began, was_address, spacing=spacing)
        own_end = _end_of(of.present.get(path.pk), of.rows[0])
        own_until = min(of.is_until, own_end) if own_end is not None and own_end > own_since else of.is_until
        if again_at is not None:
            own_until = max(again_at if cut is None else cut.ended or again_at, own_since)
        period = path.pk, own_since, own_until, addresses.get(path.pk)
        since = episode.figures(own, *period, is_since_onset=True, spacing=spacing)
        since = replace(
            since,
            until=again_at or since.until,
            answered_at=since.answered_at if replied_at is None else replied_at,
            is_unanswered=path.pk in unanswered or (again_at is not None and was_outage),
        )
        directions[path.pk] = Direction(path.pk, str(path), was, since)
    return directions


def _end_of(path: PresentPath | None, row: IncidentPath) -> datetime | None:
    track = track_of(row, path)
    return None if track is None or track.end is None else datetime.fromtimestamp(track.end.at_s, UTC)


def _silence_of(path: PresentPath | None, since: datetime) -> tuple[datetime | None, datetime | None]:
    """Last reply before the newest outage and first after it, None if unknown."""
    track = None if path is None else path.track(Signal.LOSS)
    if track is None:
        return None, None
    for silent, later in [*pairwise((*track.segments, None))][::-1]:
        if silent is not None and silent.state == DEAD and (later is None or later.since.at_s > since.timestamp()):
            replied_at = datetime.fromtimestamp(silent.since.at_s, UTC) if silent.since.is_bounded else None
            is_over = later is not None and later.state == CLEAN
            return replied_at, datetime.fromtimestamp(later.since.at_s, UTC) if later and is_over else None
    return None, None


def _deliveries(reports: Sequence[AgentReport], since: datetime, now: datetime) -> Deliveries | None:
    at = [report.accepted_at for report in reports if report.accepted_at >= since - LEAST_SEARCH]
    silent = [accepted_at for accepted_at in at if (now - accepted_at).total_seconds() >= SILENT_S]
    return Deliveries(len(at), len(silent), max(silent)) if silent else None


def _agents(pairs: Sequence[PathPair], since: datetime, every: Sequence[AgentReport]) -> tuple[AgentFacts, ...]:
    sites: dict[str, bool] = {}
    for path in [pair.path for pair in pairs]:
        sites[path.source.site.name] = True
        if path.destination.site.has_agent:
            sites.setdefault(path.destination.site.name, False)
    reports = {report.site: report for report in every}

    def of(site: str, is_source: bool) -> AgentFacts:
        report = reports.get(site)
        if report is None:
            return AgentFacts(site, is_source, None, ())
        problems = report.problems(since)
        return AgentFacts(
            site,
            is_source,
            report.accepted_at,
            tuple(problem.text for problem in problems),
            tuple(problem.text for problem in problems if problem.kind.disturbs_measurements),
            tuple(problem.text for problem in problems if problem.kind is ProblemKind.CLOCK),
        )

    return tuple(
        of(site, is_source) for site, is_source in sorted(sites.items(), key=lambda item: (not item[1], item[0]))
    )


def _verdicts(pairs: Sequence[PathPair], since: datetime, until: datetime) -> tuple[TestVerdict, ...]:
    tested = next(
        (pair.path for pair in pairs if any(rule_of(row.rule).trouble.needs_tests for row in pair.rows)), None
    )
    if tested is None:
        return ()
    tests = [
        test for test in throughput_series(tested.pk, since, until) if test.throughput_bps is not None and test.sentence
    ]
    return tuple(
        TestVerdict(str(tested), test.at, test.throughput_bps or 0.0, test.sentence or "", test.verdict)
        for test in tests[-1:]
    )
