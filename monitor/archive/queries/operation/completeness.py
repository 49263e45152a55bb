"""Completeness by site and day: measured out of scheduled, and received out of measured.

In: days. Out: frozen records from ingest's notes and the mesh's schedule. Sequence numbers in an agent's spool have no
gaps, so a number that never arrived although later numbers did belongs to a result that the agent dropped or lost.
Scheduled measurements that never ran have no number; coverage counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from monitor.archive.statements import records, run_statement

LARGEST_GAP = 10**9
"""Results at 128 a second in 90 days, the longest retention of a spool. A number further ahead is an error in the
number and counts no missing results."""


@dataclass(frozen=True, slots=True)
class SiteDay:
    """Results that a site delivered for a UTC day, rejected results included, and missing results."""

    site_id: int
    day: date
    delivered: int
    missing: int

    @property
    def completeness_ratio(self) -> float | None:
        """From 0 to 1; None where nothing was delivered and nothing is missing."""
        numbers = self.delivered + self.missing
        return None if numbers == 0 else self.delivered / numbers


@dataclass(frozen=True, slots=True)
class SiteCoverage:
    """Bursts scheduled for a site on a UTC day from its agent's first report on, packet sizes apart, and bursts
    measured: `bursts_during_test` of them had all packets sent during throughput tests. The current day counts until
    its last whole hour."""

    site_id: int
    day: date
    bursts_planned: int
    bursts_measured: int
    bursts_during_test: int = 0

    @property
    def coverage_ratio(self) -> float | None:
        """From 0 to 1; None where nothing was scheduled."""
        return None if self.bursts_planned == 0 else min(1.0, self.bursts_measured / self.bursts_planned)


def by_site_and_day(since: date, until: date, *, site_ids: Sequence[int] | None = None) -> list[SiteDay]:
    """Each site and day in [since, until) with delivered results, by site and day."""
    _check_days(since, until)
    parameters = {
        "since": since,
        "until": until,
        "site_ids": None if site_ids is None else list(site_ids),
        "largest_gap": LARGEST_GAP,
    }
    return records(SiteDay, *run_statement("completeness", **parameters))


def coverage_by_site_and_day(since: date, until: date, now: datetime) -> list[SiteCoverage]:
    """Each site and day in [since, until) with bursts scheduled or measured, by site and day."""
    _check_days(since, until)
    parameters = {"since": _midnight(since), "until": _midnight(until), "now": now}
    return records(SiteCoverage, *run_statement("coverage", **parameters))


def planned_bursts(since: datetime, until: datetime, *, path_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Number of bursts of each (path_id, packet_bytes) scheduled with cycles that begin in [since, until), from the
    first report of the path's agent on."""
    parameters = {"since": since, "until": until, "path_ids": list(path_ids)}
    _, rows = run_statement("planned_of_paths", **parameters)
    return {(path_id, packet_bytes): count for path_id, packet_bytes, count in rows}


def days_of_sites(since: date, until: date, now: datetime) -> list[tuple[SiteDay, SiteCoverage]]:
    """Delivery and coverage of each site and day that has either, by site and day; 0 where a record is missing."""
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
