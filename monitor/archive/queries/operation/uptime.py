"""Uptime of sites by UTC hour or day: time with open incidents on their paths, and measurements received.

In: a period and its steps. Out: records for each site and step; a site without a record had no incident, or nothing was
planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.archive.statements import check_period, records, run_statement


class UptimeStep(StrEnum):
    """Steps of uptime."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class IncidentShare:
    """Seconds with an open incident in a step, added over the paths of a site, and the number of its paths."""

    site_id: int
    at: datetime
    incident_s: float
    paths: int


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    """Bursts planned and measured by a site in a step."""

    site_id: int
    at: datetime
    planned: int
    measured: float


@dataclass(frozen=True, slots=True)
class SiteStart:
    """When a site began to be measured, from it or to it."""

    site_id: int
    since: datetime


def measured_since() -> dict[int, datetime]:
    """When each site began to be measured; sites that never were are left out."""
    return {row.site_id: row.since for row in records(SiteStart, *run_statement("measured_since"))}


def incident_shares(
    step: UptimeStep, since: datetime, until: datetime, now: datetime, over_at: Mapping[int, datetime]
) -> list[IncidentShare]:
    """Each site and step of [since, until) with an open incident on a path of the site; `over_at` are the ends of open
    incidents that are over and wait to be closed."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "now": now}
    ends = {"over_ids": list(over_at), "over_at": list(over_at.values())}
    return records(IncidentShare, *run_statement("incident_shares", {"tier": step.value}, **parameters, **ends))


def measured_shares(step: UptimeStep, since: datetime, until: datetime, now: datetime) -> list[MeasuredShare]:
    """Each site and step of [since, until) with a planned burst; the running step counts to its last whole hour."""
    check_period(since, until)
    parameters = {"step": step.value, "since": since, "until": until, "now": now}
    return records(MeasuredShare, *run_statement("measured_shares", **parameters))
