"""How much of what was planned has been measured, and how much of what was measured has come, by site and day.

In: days. Out: frozen records from what ingest noted and the mesh planned. Each result has a number in the spool of its
agent, without gaps; a number that never came, though later ones did, belongs to a result that the agent had to drop, or
lost. What was planned and never measured has no number: coverage tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from monitor.archive.periods import start_of
from monitor.archive.statements import ask, records

LARGEST_GAP = 10**9
"""As many results as 128 a second make in 90 days, which is as long as a spool keeps any. A number that is further
ahead is a mistake in the number: it says nothing of results that never came."""


@dataclass(frozen=True, slots=True)
class SiteDay:
    """What a site delivered of a UTC day, refused results included, and what is missing."""

    site_id: int
    day: date
    delivered: int
    missing: int

    @property
    def completeness_ratio(self) -> float | None:
        """From 0 to 1; None where nothing has come and nothing is missing."""
        numbers = self.delivered + self.missing
        return None if numbers == 0 else self.delivered / numbers


@dataclass(frozen=True, slots=True)
class SiteCoverage:
    """How many bursts a site was to begin on a UTC day, packet sizes apart, and how many it measured, those during our
    own tests included. Of the running day, until its last whole hour."""

    site_id: int
    day: date
    bursts_planned: int
    bursts_measured: int

    @property
    def coverage_ratio(self) -> float | None:
        """From 0 to 1; None where nothing was planned."""
        return None if self.bursts_planned == 0 else min(1.0, self.bursts_measured / self.bursts_planned)


def by_site_and_day(since: date, until: date, *, site_ids: Sequence[int] | None = None) -> list[SiteDay]:
    """Each site and day in [since, until) of which results have come, by site and day."""
    _check_days(since, until)
    asked = {
        "since": since,
        "until": until,
        "site_ids": None if site_ids is None else list(site_ids),
        "largest_gap": LARGEST_GAP,
    }
    return records(SiteDay, *ask("completeness", **asked))


def coverage_by_site_and_day(since: date, until: date, now: datetime) -> list[SiteCoverage]:
    """Each site and day in [since, until) with bursts planned or measured, by site and day."""
    _check_days(since, until)
    asked = {"since": _midnight(since), "until": _midnight(until)}
    return records(SiteCoverage, *ask("coverage", **asked, hour=start_of("hour", now), today=start_of("day", now)))


def days_of_sites(since: date, until: date, now: datetime) -> list[tuple[SiteDay, SiteCoverage]]:
    """Both of each site and day that has either, by site and day; what there is no record of is 0."""
    delivered = {(one.site_id, one.day): one for one in by_site_and_day(since, until)}
    covered = {(one.site_id, one.day): one for one in coverage_by_site_and_day(since, until, now)}
    return [
        (delivered.get(key) or SiteDay(*key, 0, 0), covered.get(key) or SiteCoverage(*key, 0, 0))
        for key in sorted(delivered.keys() | covered.keys())
    ]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _check_days(since: date, until: date) -> None:
    if since > until:
        raise ValueError(f"the period ends, {until.isoformat()}, before it begins, {since.isoformat()}")
