"""Completeness by site and day: measured out of scheduled, and received out of measured.

A skipped sequence number is a dropped or lost result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from monitor.archive.statements import records, run_statement

# 128 results a second in 90 days, the longest retention of a spool; larger gaps are errors in the number.
LARGEST_GAP = 10**9


@dataclass(frozen=True, slots=True)
class SiteDay:
    """Results delivered for a UTC day, rejected included, and missing results."""

    site_id: int
    day: date
    delivered: int
    missing: int

    @property
    def completeness_ratio(self) -> float | None:
        numbers = self.delivered + self.missing
        return None if numbers == 0 else self.delivered / numbers


@dataclass(frozen=True, slots=True)
class SiteCoverage:
    """Bursts scheduled (since the agent's first report) and measured on a UTC day; the current day to its last whole
    hour."""

    site_id: int
    day: date
    bursts_planned: int
    bursts_measured: int
    bursts_during_test: int = 0  # all packets sent during throughput tests

    @property
    def coverage_ratio(self) -> float | None:
        return None if self.bursts_planned == 0 else min(1.0, self.bursts_measured / self.bursts_planned)


def by_site_and_day(since: date, until: date, *, site_ids: Sequence[int] | None = None) -> list[SiteDay]:
    """Site days in [since, until) with results, by site and day."""
    _check_days(since, until)
    parameters = {
        "since": since,
        "until": until,
        "site_ids": None if site_ids is None else list(site_ids),
        "largest_gap": LARGEST_GAP,
    }
    return records(SiteDay, *run_statement("completeness", **parameters))


def coverage_by_site_and_day(since: date, until: date, now: datetime) -> list[SiteCoverage]:
    """Site days in [since, until) with bursts scheduled or measured."""
    _check_days(since, until)
    parameters = {"since": _midnight(since), "until": _midnight(until), "now": now}
    return records(SiteCoverage, *run_statement("coverage", **parameters))


def planned_bursts(since: datetime, until: datetime, *, path_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Bursts by (path_id, packet_bytes) with cycles beginning in [since, until), after the agent's first report."""
    parameters = {"since": since, "until": until, "path_ids": list(path_ids)}
    _, rows = run_statement("planned_of_paths", **parameters)
    return {(path_id, packet_bytes): count for path_id, packet_bytes, count in rows}


def days_of_sites(since: date, until: date, now: datetime) -> list[tuple[SiteDay, SiteCoverage]]:
    """Delivery and coverage by site and day; 0 where either is missing."""
    delivered = {(day.site_id, day.day): day for day in by_site_and_day(since, until)}
    covered = {(day.site_id, day.day): day for day in coverage_by_site_and_day(since, until, now)}
    return [
        (delivered.get(key) or SiteDay(*key, 0, 0), covered.get(key) or SiteCoverage(*key, 0, 0))
        for key in sorted(delivered.keys() | covered.keys())
    ]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _check_days(since: date, until: date) -> None:
    if since > until:
        raise ValueError(f"the period ends, {until.isoformat()}, before it begins, {since.isoformat()}")
