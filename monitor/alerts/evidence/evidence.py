"""The evidence of an incident: what pages, tickets and messages show. `evidence` puts together what was kept at its
opening, what the incident itself says, and while it lasts what the last hour was like.

In: an incident with its paths (`alerts.queries`), and the moment. Out: an `Evidence`. At most two questions to the
database, neither of more than an hour of raw bursts. How facts are gathered is in `monitor.alerts.evidence.gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.detect.shares import Share
from monitor.alerts.evidence.facts import (
    AgentFacts,
    Began,
    Direction,
    Facts,
    Failure,
    Figures,
    OwnTest,
    PathFacts,
    RouterSaid,
    TestVerdict,
)
from monitor.alerts.evidence.gather import gravest_first, kept, now_of
from monitor.alerts.evidence.likely import likely
from monitor.alerts.models import Incident
from monitor.analysis import figures as shown

__all__ = ["AgentEvidence", "Began", "Direction", "Evidence", "Figures", "PathEvidence", "Share", "evidence"]


@dataclass(frozen=True, slots=True)
class PathEvidence:
    """A path of the incident with what was found on it, and its figures there and back."""

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
    """The agent of a site, in words. Without `troubles` nothing was wrong with it."""

    site: str
    is_source: bool
    text: str
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. `gathered_at` is None, and the rest empty, for the seconds until it has been gathered."""

    incident_id: int
    gathered_at: datetime | None
    began: Began | None
    began_text: str
    paths: tuple[PathEvidence, ...]
    paths_left_out: int
    shares: tuple[Share, ...]
    own_tests: tuple[OwnTest, ...]
    agents: tuple[AgentEvidence, ...]
    routers: tuple[RouterSaid, ...]
    failures: tuple[Failure, ...]
    verdicts: tuple[TestVerdict, ...]
    likely: str


def evidence(incident: Incident, now: datetime) -> Evidence:
    """The evidence of an incident as it can be shown now."""
    facts = kept(incident)
    rows = gravest_first(incident.paths.all())
    rules = [row.rule for row in rows if not row.is_over] or [row.rule for row in rows] or [incident.rule]
    cause = likely(facts, rules)
    shares = tuple(Share(**one) for one in incident.shares)
    if facts is None:
        return Evidence(incident.pk, None, None, "", (), 0, shares, (), (), (), (), (), cause)
    if incident.closed_at is None:
        facts = now_of(facts, now)
    sentences: dict[int, list[str]] = {}
    for row in rows:
        sentences.setdefault(row.path_id, []).append(row.sentence)
    paths = tuple(_path(one, sentences) for one in facts.paths)
    shown_ids = {one.path_id for path in paths for one in (path.there, path.back) if one is not None}
    return Evidence(
        incident_id=incident.pk,
        gathered_at=facts.gathered_at,
        began=facts.began,
        began_text="" if facts.began is None else began_text(facts.began),
        paths=paths,
        paths_left_out=len(sentences.keys() - shown_ids),
        shares=shares,
        own_tests=facts.own_tests,
        agents=tuple(_agent(one, facts) for one in facts.agents),
        routers=facts.routers,
        failures=facts.failures,
        verdicts=facts.verdicts,
        likely=cause,
    )


def began_text(began: Began) -> str:
    """As in `2026-11-21 10:00:12 UTC, surely between 09:58:12 and 10:01:12 (95%; bursts with loss on slac → cern)`."""
    at = f"{began.at:%Y-%m-%d %H:%M:%S} UTC"
    if began.earliest is None or began.latest is None:
        return f"{at}, as {began.of} saw it on {began.path}"
    days = "" if began.earliest.date() == began.latest.date() == began.at.date() else "%Y-%m-%d "
    earliest, latest = (one.strftime(f"{days}%H:%M:%S") for one in (began.earliest, began.latest))
    return f"{at}, after {earliest} and by {latest} with 95% confidence ({began.of}, {began.path})"


def _path(one: PathFacts, sentences: dict[int, list[str]]) -> PathEvidence:
    of_back = [] if one.back is None else [f"{one.back.name}: {text}" for text in sentences.get(one.back.path_id, ())]
    return PathEvidence(
        path_id=one.path_id,
        name=one.name,
        source_address=one.source_address,
        destination_address=one.destination_address,
        family=one.family,
        findings=(*sentences.get(one.path_id, ()), *of_back),
        there=one.there,
        back=one.back,
    )


def _agent(one: AgentFacts, facts: Facts) -> AgentEvidence:
    if one.delivered_at is None:
        return AgentEvidence(
            one.site, one.is_source, f"agent of {one.site}: has never delivered anything", one.troubles
        )
    ago = shown.duration(max((facts.gathered_at - one.delivered_at).total_seconds(), 0.0))
    troubles = _listed(one.troubles) or "nothing wrong with it is known"
    return AgentEvidence(
        one.site, one.is_source, f"agent of {one.site}: delivered {ago} before; {troubles}", one.troubles
    )


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
