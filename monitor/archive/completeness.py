"""How much of what sites measured has come: results by site and day, and those that their numbers show to be missing.

In: days. Out: frozen records from what ingest noted. Each result has a number in the spool of its agent, without gaps;
a number that never came, though later ones did, belongs to a result that the agent had to drop, or lost. What was
planned and never measured is not told here, since it has no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from django.db import connection

from monitor.archive.statements import statement


@dataclass(frozen=True, slots=True)
class SiteDay:
    """What a site delivered of a UTC day, refused results included, and what is missing."""

    site_id: int
    day: date
    delivered: int
    missing: int

    @property
    def completeness_ratio(self) -> float:
        """From 0 to 1. A day without any result has no record, and so no ratio."""
        return self.delivered / (self.delivered + self.missing)


def by_site_and_day(since: date, until: date, *, site_ids: Sequence[int] | None = None) -> list[SiteDay]:
    """Each site and day in [since, until) of which results have come, by site and day."""
    if since > until:
        raise ValueError(f"the period ends, {until.isoformat()}, before it begins, {since.isoformat()}")
    asked = {"since": since, "until": until, "site_ids": None if site_ids is None else list(site_ids)}
    with connection.cursor() as cursor:
        cursor.execute(statement("completeness"), asked)
        return [SiteDay(*row) for row in cursor.fetchall()]
