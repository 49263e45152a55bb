"""Questions about deliveries: when each agent last reported, and which results were refused lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import ask, records


@dataclass(frozen=True, slots=True)
class AgentContact:
    """The newest batch of a site's agent: when it came, and how many results were still queued or ever dropped."""

    site_id: int
    received_at: datetime
    agent_version: str
    queued: int
    dropped: int


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """A result that was not stored, by its number in the spool of the site's agent, and why."""

    site_id: int
    sequence: int
    refused_at: datetime
    reason: str


def agent_contacts() -> list[AgentContact]:
    """The newest batch of each site that ever delivered one, by site."""
    return records(AgentContact, *ask("agent_contacts"))


def newest_refused(limit: int = 20) -> list[RefusedReport]:
    """The results refused last, newest first."""
    return records(RefusedReport, *ask("newest_refused", limit=limit))
