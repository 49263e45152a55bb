"""The stored title, times and link of an incident, wherever it is named."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.incidents.gravest import of_gravest_rule
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures as shown


def link(incident_id: int) -> str:
    return f"{settings.PUBLIC_URL}/incidents/{incident_id}/"


def figure_text(rule: str, figures: Mapping[str, Any]) -> str:
    """The figure of a finding in short: `loss 2.1%`, `RTT 45.2 ms (was 20.1 ms)`."""
    words = _words(rule, figures)
    if "lost" in figures and "sent" in figures:
        return f"{words} {shown.loss(figures['lost'], figures['sent'])}"
    if "hits" in figures and "of" in figures:
        was = shown.loss(round(figures["base_hits"]), round(figures["base_of"]))
        unit = rule_of(rule).unit_of_hits
        return f"{words} {shown.loss(round(figures['hits']), round(figures['of']))}{unit} (was {was})"
    if "after_ms" in figures:
        name, of_ms = ("was", "before_ms") if "before_ms" in figures else ("limit", "limit_ms")
        return f"{words} {shown.milliseconds(figures['after_ms'])} ({name} {shown.milliseconds(figures[of_ms])})"
    if "after_bps" in figures:
        return f"{words} {shown.bit_rate(figures['after_bps'])} (was {shown.bit_rate(figures['before_bps'])})"
    return words


def _words(rule: str, figures: Mapping[str, Any]) -> str:
    words, figure_words = rule_of(rule).words, rule_of(rule).figure_words
    return f"{words}, {figure_words}" if figure_words and "after_ms" in figures else words


def headline(incident: Incident) -> str:
    """The incident's title as stored by `evidence.titles` at the last evaluation."""
    return incident.title or incident.summary


def worst_finding(incident: Incident) -> IncidentPath | None:
    """First finding of the gravest rule; None without findings."""
    rows = of_gravest_rule(incident)
    return min(rows, key=lambda row: (row.added_at, row.pk)) if rows else None


def _is_unreachable(row: IncidentPath) -> bool:
    return rule_of(row.rule).effect is Effect.UNREACHABLE


def since(incident: Incident) -> datetime:
    """The begin by bursts, else by the rules; a loss begins at its detection, as its rules date only windows."""
    if incident.began_at is not None:
        return incident.began_at
    rows = [row for row in incident.paths.all() if rule_of(row.rule).effect is not Effect.LOSS]
    silent = [row for row in rows if _is_unreachable(row) and not row.is_over]
    return min((row.since for row in silent or rows), default=incident.opened_at)


def over_words(number: int, over: int) -> str:
    """Words after a count of open incidents: `, 1 of them over`, `, both over`; empty if none is."""
    if not over:
        return ""
    if over < number:
        return f", {over} of them over"
    return {1: ", over", 2: ", both over"}.get(number, ", all over")


def until(incident: Incident) -> datetime | None:
    """When it ended: its last bad burst, or its resolution if unknown; None while it lasts."""
    if incident.closed_at is None:
        return None
    return max(min(incident.ended_at or incident.closed_at, incident.closed_at), since(incident))


def lasted_s(incident: Incident, now: datetime) -> float:
    """Duration in seconds from the onset to the end, even if still to be closed, or to `now`."""
    return max(((until(incident) or incident.over_since or now) - since(incident)).total_seconds(), 0.0)


def period(incident: Incident, word: str = "since") -> str:
    """`since 2026-11-21 10:00 UTC`, `since about …` or `detected …`; once over `from 2026-11-21 10:00 to 10:14 UTC`."""
    began, ended = since(incident), until(incident)
    if ended is None and not _is_dated(incident):
        return f"detected {incident.opened_at:%Y-%m-%d %H:%M} UTC"
    if ended is None:
        return f"{word} {about(incident)}{began:%Y-%m-%d %H:%M} UTC"
    day = "" if ended.astimezone(UTC).date() == began.astimezone(UTC).date() else "%Y-%m-%d "
    clock = shown.clock_format(began, ended)
    return f"from {about(incident)}{began.strftime(f'%Y-%m-%d {clock}')} to {ended.strftime(f'{day}{clock}')} UTC"


def _is_dated(incident: Incident) -> bool:
    """Whether the onset is known; for a loss only by its evidence."""
    effects = [rule_of(row.rule).effect for row in incident.paths.all()]
    return incident.began_at is not None or Effect.LOSS not in effects


def about(incident: Incident) -> str:
    """`about ` before an onset that is not known to the minute, otherwise empty."""
    return "about " if (incident.began_within_s or 0.0) >= 60.0 else ""


def duration_text(incident: Incident, now: datetime) -> str:
    lasted = lasted_s(incident, now)
    return shown.time_so_far(lasted) if incident.closed_at is None else shown.duration(lasted)
