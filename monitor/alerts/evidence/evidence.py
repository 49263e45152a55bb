"""Build the evidence of an incident for pages, tickets and messages.

At most two queries of an hour of raw bursts each, and one more after a route change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.alerts.detect.shares import Share
from monitor.alerts.evidence import episode
from monitor.alerts.evidence.facts import (
    TESTS,
    AgentFacts,
    Beginning,
    Direction,
    Facts,
    FailedBurst,
    HostTest,
    OneWayFacts,
    PathFacts,
    PeriodFigures,
    RouterErrors,
    TestVerdict,
)
from monitor.alerts.evidence.gather import stated_cause, stored_facts
from monitor.alerts.evidence.routes.returns import with_returns
from monitor.alerts.evidence.routes.traced import RouteFacts
from monitor.alerts.evidence.stated import LikelyCause
from monitor.alerts.incidents.gravest import gravest_first
from monitor.alerts.models import Incident
from monitor.analysis import figures as shown
from monitor.archive.queries.around import bursts_around

__all__ = [
    "AgentEvidence", "Beginning", "Direction", "Evidence", "LikelyCause", "PathEvidence", "PeriodFigures", "Share",
    "evidence",
]  # fmt: skip


NOW_S = 3600


@dataclass(frozen=True, slots=True)
class PathEvidence:
    """A path of the incident with its findings, and its figures in both directions."""

    path_id: int
    name: str
    source_address: str
    destination_address: str
    family: int
    findings: tuple[str, ...]
    there: Direction
    back: Direction | None


@dataclass(frozen=True, slots=True)
class AgentEvidence:
    site: str
    is_source: bool
    text: str
    troubles: tuple[str, ...]  # empty for a healthy agent


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an incident; until gathered, `gathered_at` is None and the rest empty."""

    incident_id: int
    gathered_at: datetime | None
    began: Beginning | None
    began_text: str
    paths: tuple[PathEvidence, ...]
    paths_left_out: int
    shares: tuple[Share, ...]
    own_tests: tuple[HostTest, ...]
    agents: tuple[AgentEvidence, ...]
    routers: tuple[RouterErrors, ...]
    failures: tuple[FailedBurst, ...]
    verdicts: tuple[TestVerdict, ...]
    likely: str  # sentence of `cause`
    cause: LikelyCause
    routes: tuple[RouteFacts, ...] = ()
    one_way: tuple[OneWayFacts, ...] = ()


def evidence(incident: Incident, now: datetime) -> Evidence:
    facts = stored_facts(incident)
    if facts is not None:
        facts = replace(facts, routes=with_returns(facts.routes, incident, now))
    rows = gravest_first(incident.paths.all())
    cause = stated_cause(facts, incident)
    shares = tuple(Share(**share, is_past=incident.closed_at is not None) for share in incident.shares)
    if facts is None:
        return Evidence(incident.pk, None, None, "", (), 0, shares, (), (), (), (), (), cause.sentence, cause)
    if incident.closed_at is None:
        facts = _with_last_hour(facts, now)
    sentences: dict[int, list[str]] = {}
    for row in rows:
        sentences.setdefault(row.path_id, []).append(row.sentence)
    paths = tuple(_path(path, sentences) for path in facts.paths)
    shown_ids = {direction.path_id for path in paths for direction in (path.there, path.back) if direction is not None}
    return Evidence(
        incident_id=incident.pk,
        gathered_at=facts.gathered_at,
        began=facts.began,
        began_text="" if facts.began is None else began_text(facts.began),
        paths=paths,
        paths_left_out=len(sentences.keys() - shown_ids),
        shares=shares,
        own_tests=facts.own_tests,
        agents=tuple(_agent(agent, facts) for agent in facts.agents),
        routers=facts.routers,
        failures=facts.failures,
        verdicts=facts.verdicts,
        likely=cause.sentence,
        cause=cause,
        routes=facts.routes,
        one_way=facts.one_way,
    )


def _with_last_hour(facts: Facts, now: datetime) -> Facts:
    """Add the last hour's figures, and late results since the onset: a single query."""
    path_ids = [
        direction.path_id for path in facts.paths for direction in (path.there, path.back) if direction is not None
    ]
    since = now - timedelta(seconds=NOW_S)
    bursts = bursts_around(path_ids, since, now)

    def with_now(direction: Direction) -> Direction:
        after, now_figures = direction.after, episode.figures(bursts, direction.path_id, since, now)
        if not after.bursts and after.since >= since:
            after = episode.figures(bursts, direction.path_id, after.since, now, after.address, is_since_onset=True)
        return replace(direction, after=after, now=now_figures)

    paths = (
        replace(path, there=with_now(path.there), back=None if path.back is None else with_now(path.back))
        for path in facts.paths
    )
    return replace(facts, paths=tuple(paths))


def began_text(began: Beginning) -> str:
    """As in `2026-11-21 10:00:12 UTC (95% CI 09:58:12–10:01:12; bursts with loss, slac → cern)`."""
    at = f"{began.at:%Y-%m-%d %H:%M:%S} UTC"
    if began.earliest is None or began.latest is None:
        return f"{at} (by {began.of} on {began.path})"
    days = "" if began.earliest.date() == began.latest.date() == began.at.date() else "%Y-%m-%d "
    if began.of == TESTS:
        earliest = began.earliest.strftime(f"{days}%H:%M:%S")
        return f"between {earliest} and {at}, from one throughput test to the next ({began.path})"
    earliest, latest = (moment.strftime(f"{days}%H:%M:%S") for moment in (began.earliest, began.latest))
    return f"{at} (95% CI {earliest}–{latest}; {began.of}, {began.path})"


def _path(path: PathFacts, sentences: dict[int, list[str]]) -> PathEvidence:
    of_back = (
        [] if path.back is None else [f"{path.back.name}: {text}" for text in sentences.get(path.back.path_id, ())]
    )
    return PathEvidence(
        path_id=path.path_id,
        name=path.name,
        source_address=path.source_address,
        destination_address=path.destination_address,
        family=path.family,
        findings=(*sentences.get(path.path_id, ()), *of_back),
        there=path.there,
        back=path.back,
    )


def _agent(agent: AgentFacts, facts: Facts) -> AgentEvidence:
    if agent.delivered_at is None:
        return AgentEvidence(agent.site, agent.is_source, f"agent of {agent.site}: never reported", agent.troubles)
    ago = shown.duration(max(((facts.agents_at or facts.gathered_at) - agent.delivered_at).total_seconds(), 0.0))
    troubles = _listed(agent.troubles) or "no problems reported"
    text = f"agent of {agent.site}: last report {ago} before this evidence; {troubles}"
    return AgentEvidence(agent.site, agent.is_source, text, agent.troubles)


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
