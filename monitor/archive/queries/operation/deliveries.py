"""Last report of each agent, and recently rejected results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import records, run_statement


@dataclass(frozen=True, slots=True)
class AgentContact:
    """Newest batch of a site's agent, with backlog and total dropped results."""

    site_id: int
    received_at: datetime
    agent_version: str
    queued: int
    dropped: int


@dataclass(frozen=True, slots=True)
class RefusedReport:
    site_id: int
    sequence: int
    refused_at: datetime
    reason: str


def agent_contacts() -> list[AgentContact]:
    return records(AgentContact, *run_statement("agent_contacts"))


def newest_refused(limit: int = 20) -> list[RefusedReport]:
    return records(RefusedReport, *run_statement("newest_refused", limit=limit))
