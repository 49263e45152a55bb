"""Uptime of sites by UTC hour or day; no record means no incident, or nothing planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.archive.statements import check_period, records, run_statement


class UptimeStep(StrEnum):
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class IncidentShare:
    """Seconds with an open incident in a step, added over a site's paths."""

    site_id: int
    at: datetime
    incident_s: float
    paths: int


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    site_id: int
    at: datetime
    planned: int
    measured: float


@dataclass(frozen=True, slots=True)
class SiteStart:
    """Time since which a site is measured, from or to it."""

    site_id: int
    since: datetime


def measured_since() -> dict[int, datetime]:
    return {row.site_id: row.since for row in records(SiteStart, *run_statement("measured_since"))}


def incident_shares(
    step: UptimeStep, since: datetime, until: datetime, now: datetime, over_at: Mapping[int, datetime]
) -> list[IncidentShare]:
    """Site steps with an open incident; `over_at` are ends of incidents waiting to be closed."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "now": now}
    ends = {"over_ids": list(over_at), "over_at": list(over_at.values())}
    return records(IncidentShare, *run_statement("incident_shares", {"tier": step.value}, **parameters, **ends))


def measured_shares(step: UptimeStep, since: datetime, until: datetime, now: datetime) -> list[MeasuredShare]:
    """Site steps with a planned burst; the running step ends at its last whole hour."""
    check_period(since, until)
    parameters = {"step": step.value, "since": since, "until": until, "now": now}
    return records(MeasuredShare, *run_statement("measured_shares", **parameters))
