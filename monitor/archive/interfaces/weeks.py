"""Summarize interface weeks once over, and again after late readings, while all readings are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from monitor.archive.periods import week_of
from monitor.archive.statements import statement
from monitor.environment import LONGEST_DAYS

AT_ONCE = 50
# After its end a week has nearly all that agents deliver in time.
LATE = timedelta(hours=1)
WEEK = timedelta(days=7)


def summarize(now: datetime) -> int:
    """Summarize up to `AT_ONCE` weeks; return their number."""
    # 0 days keep for ever.
    kept = now - timedelta(days=settings.RETENTION_DAYS["interfaces"] or LONGEST_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(
            statement("summarize_interface_weeks"),
            {"before": week_of(now - LATE), "since": week_of(kept) + WEEK, "most": AT_ONCE},
        )
        return cursor.rowcount
