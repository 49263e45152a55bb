"""First page below its cells: ended incidents, agents, weekly reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.agents.late_agents import is_late
from monitor.alerts.incidents.queries import recent_incidents
from monitor.archive.queries.operation.deliveries import AgentContact, RefusedReport, agent_contacts, newest_refused
from monitor.mesh.models import Site
from monitor.reports.files import next_report_at, written_reports

CLOSED_INCIDENTS = 5
REFUSED_SHOWN = 20
# Of more agents only those with a problem have a row, up to as many.
MOST_AGENTS = 20


@dataclass(frozen=True, slots=True)
class AgentRow:
    """The contact is None if the site never reported."""

    site: Site
    contact: AgentContact | None
    is_late: bool
    refused: int

    @property
    def has_problem(self) -> bool:
        return self.contact is None or self.is_late or self.contact.dropped > 0 or self.refused > 0


def below_grid(now: datetime, open_incidents: int) -> dict[str, Any]:
    contacts = agent_contacts()
    refused = newest_refused(REFUSED_SHOWN)
    agents = _agent_rows(contacts, refused, now)
    problems = [row for row in agents if row.has_problem]
    reports = written_reports()
    recent = recent_incidents(CLOSED_INCIDENTS + open_incidents)
    return {
        "contacts": contacts,
        "closed_incidents": [incident for incident in recent if incident.closed_at][:CLOSED_INCIDENTS],
        "agents": agents if len(agents) <= MOST_AGENTS else problems[:MOST_AGENTS],
        "agent_count": len(agents),
        "agent_problems": len(problems),
        "refused": refused,
        "reports": reports,
        "next_report_at": None if reports else next_report_at(now),
    }


def _agent_rows(contacts: list[AgentContact], refused: list[RefusedReport], now: datetime) -> list[AgentRow]:
    heard = {contact.site_id: contact for contact in contacts}
    counts = Counter(report.site_id for report in refused)
    sites = Site.objects.in_use().filter(has_agent=True)
    return [
        AgentRow(site, contact, contact is not None and is_late(now - contact.received_at), counts[site.id])
        for site in sites
        for contact in (heard.get(site.id),)
    ]
