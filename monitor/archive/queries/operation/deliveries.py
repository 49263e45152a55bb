"""Deliveries: last report of each agent, and recently rejected results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import records, run_statement


@dataclass(frozen=True, slots=True)
class AgentContact:
    """Newest batch of a site's agent: arrival time, backlog and dropped results (total)."""

    site_id: int
    received_at: datetime
    agent_version: str
    queued: int
    dropped: int


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """A rejected result: sequence number and reason."""

    site_id: int
    sequence: int
    refused_at: datetime
    reason: str


def agent_contacts() -> list[AgentContact]:
    """Newest batch of each site that ever delivered, by site."""
    return records(AgentContact, *run_statement("agent_contacts"))


def newest_refused(limit: int = 20) -> list[RefusedReport]:
    """Most recently rejected results, newest first."""
    return records(RefusedReport, *run_statement("newest_refused", limit=limit))
