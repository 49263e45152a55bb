"""`manage.py site list`: the sites with the state of their agents, as a table or as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from monitor.analysis import figures
from monitor.mesh.models import Site
from monitor.web.pages.sites.load import SiteCard, load_sites

HEADINGS = ("site", "state", "last report", "version", "backlog", "problem")


def site_rows(now: datetime) -> list[dict[str, Any]]:
    """An object for each site in use, worst agents first; null without an agent or report."""
    cards = [_row(card, now) for card in load_sites(now).cards]
    others = Site.objects.in_use().filter(has_agent=False).order_by("name")
    absent = dict.fromkeys(("state", "last_report_at", "last_report_ago_s", "version", "backlog"))
    return [*cards, *({"site": site.name, "has_agent": False, **absent, "problems": []} for site in others)]


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _row(card: SiteCard, now: datetime) -> dict[str, Any]:
    report = card.report
    return {
        "site": card.site.name,
        "has_agent": True,
        "state": card.state.word,
        "last_report_at": None if report is None else (now - report.accepted_ago).isoformat().replace("+00:00", "Z"),
        "last_report_ago_s": None if report is None else report.accepted_ago.total_seconds(),
        "version": None if report is None else report.agent_version,
        "backlog": None if report is None else report.queued,
        "problems": [finding.text for finding in card.findings],
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if not row["has_agent"]:
        return (row["site"], "no agent", "–", "–", "–", "")
    ago_s, backlog = row["last_report_ago_s"], row["backlog"]
    return (
        row["site"],
        row["state"],
        "never" if ago_s is None else f"{figures.duration(ago_s)} ago",
        row["version"] or "–",
        "–" if backlog is None else f"{backlog:,}",
        "" if not row["problems"] else row["problems"][0],
    )
