"""Gather and store the evidence of incidents, since raw bursts may expire before anybody reads it.

In: an incident with its paths, and the moment. Out: `Facts`, kept in `IncidentEvidence`. At most 23 questions to the
database for an incident, however many paths it has, and a few more where they are traced or have STAMP tests: its
gravest paths (`onsets.PATHS_IN_DETAIL`) are looked at, in both directions.

- Before is the day up to the earliest moment at which it may have begun, without earlier incidents (`earlier_times`),
  after is from the likeliest moment on, a day at most. Bursts between the two are in neither.
- What was before is kept as it was first seen; after is gathered again when the incident grows or reopens, and while it
  is open (`queries.without_evidence`, `gravest.with_turned_outage`): the first minutes show less than the first hour.

It runs as a task of its own: an error here neither stops nor delays the evaluation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
from django.db import Error, transaction

from monitor.agents.health import AgentReport, agent_reports
from monitor.agents.problems import ProblemKind
from monitor.alerts.detect import packet_times
from monitor.alerts.detect.packet_times import NO_SPACING
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
    VERSION,
    AgentFacts,
    Beginning,
    Deliveries,
    Direction,
    Facts,
    FailedBurst,
    PathFacts,
    RouterErrors,
    TestVerdict,
    as_json,
    from_json,
    with_before_of,
)
from monitor.alerts.evidence.likely_cause import cause_place, likely_cause
from monitor.alerts.evidence.one_way.collect import collect_one_way
from monitor.alerts.evidence.one_way.outage import with_proven_cut
from monitor.alerts.evidence.path_tests import own_tests, path_tests, tests_of_incidents, with_newer_tests
from monitor.alerts.evidence.routes.collect import collect_routes
from monitor.alerts.evidence.routes.returns import with_returns
from monitor.alerts.evidence.stated import LikelyCause
from monitor.alerts.incidents import gravest, queries
from monitor.alerts.incidents.earlier_times import earlier_times
from monitor.alerts.incidents.gravest import gravest_first, has_no_reply, unanswered_since, with_turned_outage
from monitor.alerts.incidents.own_present import track_of
from monitor.alerts.models import Incident, IncidentEvidence, IncidentPath
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.archive.queries.around import BurstColumns, bursts_around, icmp_errors, newest_addresses
from monitor.archive.queries.paths import newest_failures
from monitor.archive.queries.throughput.series import throughput_series
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.models import Path
from monitor.present import read
from monitor.present.read import PresentPath
from monitor.present.track import Signal

log = logging.getLogger("monitor.alerts")

INCIDENTS_PER_RUN = 20
LOOK_BACK = timedelta(days=30)


def gather_due(now: datetime) -> int:
    """Gather evidence for incidents that have none, or that since grew, reopened, had a throughput test, or became an
    outage or ceased to be; returns for how many."""
    done = 0
    due = {incident.pk: incident for incident in queries.without_evidence(now - LOOK_BACK, now, INCIDENTS_PER_RUN)}
    others = [incident for incident in queries.open_incidents() if incident.pk not in due]
    for incident in [*with_turned_outage(others), *with_newer_tests(others)]:
        due[incident.pk] = incident
    for incident in list(due.values())[:INCIDENTS_PER_RUN]:
        try:
            store_facts(incident, now)
            done += 1
        except (Error, ValueError, KeyError):  # a failure must not keep the others from their evidence
            log.exception("evidence of incident %d: gathering failed, will be retried", incident.pk)
    return done


def store_facts(incident: Incident, now: datetime) -> Facts:
    """Gather and store the facts of an incident; figures from before its beginning are kept from the first time."""
    earlier = stored_facts(incident)
    facts = collect_facts(incident, now, _kept_beginning(incident, earlier))
    if earlier is not None:
        facts = with_before_of(facts, earlier)
    if earlier is not None and not incident.reopenings:
        if not facts.routes:
            facts = replace(facts, routes=earlier.routes)  # the traces may have expired by now
        if not facts.one_way:
            facts = replace(facts, one_way=earlier.one_way)
        facts = with_proven_cut(facts, earlier)
    if earlier is not None and incident.closed_at is not None:
        # After its end all agents deliver again.
        facts = replace(facts, deliveries=earlier.deliveries)
    if earlier is not None and facts.ended_at is not None:
        facts = replace(facts, agents=earlier.agents, agents_at=earlier.agents_at or earlier.gathered_at)
    if earlier is not None and _says_less(facts, earlier, incident):
        agents_at = earlier.agents_at or earlier.gathered_at
        facts = replace(
            earlier, gathered_at=now, tests_seen=facts.tests_seen, ended_at=facts.ended_at, agents_at=agents_at
        )
    facts = replace(facts, routes=with_returns(facts.routes, incident, now))
    with transaction.atomic():
        IncidentEvidence.objects.update_or_create(
            incident_id=incident.pk, defaults={"version": VERSION, "gathered_at": now, "facts": as_json(facts)}
        )
        cause = stated_cause(facts, incident)
        incident.toward, incident.toward_by = cause.direction_name, cause.toward_by if cause.direction_name else ""
        Incident.objects.filter(pk=incident.pk).update(
            toward=incident.toward,
            toward_by=incident.toward_by,
        )
        if incident.closed_at is not None and facts.ended_at is not None:
            # Only then: an evaluation may have resolved it meanwhile, with its end.
            incident.ended_at = facts.ended_at
            Incident.objects.filter(pk=incident.pk).update(ended_at=incident.ended_at)
    return facts


def stated_cause(facts: Facts | None, incident: Incident) -> LikelyCause:
    """The likely cause of an incident by these facts, and by its findings that lasted when they were gathered."""
    rows = gravest_first(incident.paths.all())
    if facts is not None and not ending.is_over(incident):
        facts = replace(facts, ended_at=None)  # good bursts after the last bad one prove no end yet
    lasting = [row.rule for row in rows if not row.is_over or (facts is not None and _is_in(facts, row))]
    rules = lasting or [row.rule for row in rows] or [incident.rule]
    return likely_cause(facts, rules, cause_place(incident.cause))


def _is_in(facts: Facts, row: IncidentPath) -> bool:
    """Whether the facts are of a time with this finding that is over now, or of the whole of an incident that is."""
    return facts.ended_at is not None or row.ended_at is None or row.ended_at > facts.gathered_at


def _says_less(facts: Facts, earlier: Facts, incident: Incident) -> bool:
    """Whether facts of the same paths name no cause any more: towards its end an incident is diluted by good bursts."""
    if {path.path_id for path in facts.paths} != {path.path_id for path in earlier.paths}:
        return False
    rules = [row.rule for row in gravest_first(incident.paths.all())]
    return (
        not likely_cause(facts, rules, incident.cause).is_certain
        and likely_cause(earlier, rules, incident.cause).is_certain
    )


def stored_facts(incident: Incident) -> Facts | None:
    """The stored facts of an incident; None if there are none yet."""
    row = IncidentEvidence.objects.filter(incident_id=incident.pk).first()
    return None if row is None else from_json(row.facts, row.version)


def _kept_beginning(incident: Incident, earlier: Facts | None) -> Beginning | None:
    """The beginning by the bursts as first seen: later bursts, those of the end above all, would blur it."""
    if earlier is None or incident.reopenings or earlier.began is None or earlier.began.earliest is None:
        return None
    return earlier.began


def collect_facts(incident: Incident, now: datetime, began: Beginning | None = None) -> Facts:
    """Gather the facts of an incident at `now`: by its findings that are not over; by all once the paths are normal.

    `began` is its beginning if that has been told from bursts already."""
    every = list(incident.paths.all())
    tests_seen = tests_of_incidents([incident]).get(incident.pk, 0)  # before the tests are read: none is overlooked
    rows = [row for row in every if not row.is_over] or every
    facts = _collect(incident, gravest_first(rows), tests_seen, now, began)
    if facts.ended_at is None or len(rows) == len(every):
        return facts
    return _collect(incident, gravest_first(every), tests_seen, now, began)


def _burst_of(moment: Beginning, pairs: Sequence[PathPair], bursts: BurstColumns) -> datetime:
    """The first burst of the figures since a beginning: of its path, that in which the trouble may have begun."""
    path_ids = [pair.path.pk for pair in pairs if str(pair.path) == moment.path]
    until = moment.latest if moment.is_outage and moment.latest is not None else moment.at
    own_s = bursts.at_s[np.isin(bursts.path_id, path_ids) & (bursts.at_s <= until.timestamp())]
    return datetime.fromtimestamp(float(own_s.max()), UTC) if len(own_s) else moment.at


def _collect(
    incident: Incident, rows: Sequence[IncidentPath], tests_seen: int, now: datetime, began: Beginning | None
) -> Facts:
    pairs = path_pairs(rows)
    until = min(now, incident.closed_at or now)
    since = min(row.since for row in rows)
    path_ids = sorted({path_id for pair in pairs for path_id in pair.path_ids})
    before = bursts_around(path_ids, since - LONGEST_RAW, since)
    after_since = max(since, until - LONGEST_RAW)
    after = bursts_around(path_ids, after_since, max(until, after_since))
    spacings = packet_times.spacings(path_ids)
    both = episode.concatenate_bursts(before, after)
    paths = [path for pair in pairs for path in (pair.path, pair.back) if path is not None]
    earlier = earlier_times(incident, paths, since)
    usual = earlier.usual(both)
    present = read.load(path_ids)
    moment = onset_of(incident, present) or began or onset_of_untracked(rows[0], until)
    # The period before ends where the interval of the onset begins, unless the trouble began within that burst.
    burst_at = _burst_of(moment, pairs, both)
    was_until = burst_at if moment.earliest is None else min(moment.earliest, burst_at)
    is_since = max(burst_at, until - LONGEST_RAW)
    ended_at, is_until = ending.end_of_figures(rows, path_ids, usual, is_since, until)
    addresses = (
        newest_addresses(path_ids, was_until - LONGEST_RAW, was_until),
        newest_addresses(path_ids, is_since, is_until),
    )

    unanswered = {row.path_id for row in rows if has_no_reply(incident, row)}
    was_outage = gravest.was_outage(incident)

    def direction(path: Path) -> Direction:
        spacing = spacings.get(path.pk, NO_SPACING)
        cut = cut_at_outage(both, path.pk, spacing, moment)
        own, own_since = (both, is_since) if cut is None else (cut.bursts, max(cut.began, until - LONGEST_RAW))
        replied_at, again_at = _silence_of(present.get(path.pk), is_since)
        own_end = _end_of(present.get(path.pk), rows[0])
        own_until = min(is_until, own_end) if own_end is not None and own_end > own_since else is_until
        was_since, addresses_of = since - LONGEST_RAW, [of.get(path.pk) for of in addresses]
        if cut is None:
            was = episode.figures(
                usual, path.pk, was_since, was_until, addresses_of[0], spacing=spacing, sent_before=was_until
            )
        else:
            was = episode.figures(earlier.usual(own), path.pk, was_since, cut.began, addresses_of[0], spacing=spacing)
        if again_at is not None:
            own_until = max(again_at if cut is None else cut.ended or again_at, own_since)
        period = path.pk, own_since, own_until, addresses_of[1]
        is_now = episode.figures(own, *period, is_since_onset=True, spacing=spacing)
        is_unanswered = path.pk in unanswered or (again_at is not None and was_outage)
        answered_at = is_now.answered_at if replied_at is None else replied_at
        is_now = replace(is_now, until=again_at or is_now.until, answered_at=answered_at, is_unanswered=is_unanswered)
        return Direction(path.pk, str(path), was, is_now)

    reports = agent_reports(now)
    names = {path.pk: str(path) for path in paths}
    hosts = {host for pair in pairs for host in (pair.path.source_id, pair.path.destination_id)}
    facts = Facts(
        gathered_at=now,
        began=moment,
        paths=tuple(
            PathFacts(
                path_id=pair.path.pk,
                name=str(pair.path),
                source_address=pair.path.source.address,
                destination_address=pair.path.destination.address,
                family=pair.path.family,
                there=direction(pair.path),
                back=None if pair.back is None else direction(pair.back),
                source_site=pair.path.source.site.name,
                destination_site=pair.path.destination.site.name,
            )
            for pair in pairs
        ),
        own_tests=own_tests(sorted(hosts), is_since, is_until),
        agents=_agents(pairs, is_since, reports),
        routers=tuple(
            RouterErrors(names[error.path_id], error.name, error.router, error.count)
            for error in icmp_errors(path_ids, is_since, is_until)
        ),
        failures=tuple(
            FailedBurst(names[failure.path_id], failure.at, failure.outcome, failure.detail)
            for failure in newest_failures(is_since, is_until, path_ids)
        ),
        verdicts=_verdicts(pairs, after_since, until),
        tests=path_tests(paths, is_since, max(is_until, is_since), earlier),
        tests_seen=tests_seen,
        deliveries=_deliveries(reports, since, now),
        ended_at=ended_at,
        answered_by=None if ended_at is None else ending.first_reply(rows),
        unanswered_since=unanswered_since(incident),
    )
    facts = replace(facts, one_way=collect_one_way(facts.paths, earlier.stretches(before)))
    return replace(facts, routes=collect_routes(facts, since, max(is_until, since)))


def _end_of(path: PresentPath | None, row: IncidentPath) -> datetime | None:
    """When the last trouble of a path ended by its track of the signal of a finding: others end at other times."""
    track = track_of(row, path)
    return None if track is None or track.end is None else datetime.fromtimestamp(track.end.at_s, UTC)


def _silence_of(path: PresentPath | None, since: datetime) -> tuple[datetime | None, datetime | None]:
    """The last reply before the newest outage of a path that had not ended at this time, None where it is not known;
    and the first after it, None while it lasts, or where the path has lost packets since."""
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
    """The deliveries of all agents that delivered in the hour before `since`, or later."""
    at = [report.accepted_at for report in reports if report.accepted_at >= since - LEAST_SEARCH]
    silent = [accepted_at for accepted_at in at if (now - accepted_at).total_seconds() >= SILENT_S]
    return Deliveries(len(at), len(silent), max(silent)) if silent else None


def _agents(pairs: Sequence[PathPair], since: datetime, every: Sequence[AgentReport]) -> tuple[AgentFacts, ...]:
    """The agents of the sites of these paths, sources first."""
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
    """The bottleneck of the newest test of the first path whose throughput fell."""
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
