"""Compute the minima of each 5 minutes of hours that were summarized before there were any, newest first.

In: the time since which they are complete, in `kept_since`, which the migration wrote. Out: marks in `dirty_hour`, an
hour of all paths at a time, so that new hours are never behind old ones; hours without raw bursts stay as they are.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

from monitor.archive.models import KeptSince
from monitor.archive.periods import start_of
from monitor.archive.statements import statement

KEY = "slot_minima"
NEEDED = timedelta(days=15)
"""Daily congestion takes 14 days, and a report those to the end of its week."""
HOUR = timedelta(hours=1)


def mark_earlier_hour(now: datetime) -> bool:
    """Mark the newest hour without minima dirty, for all paths with raw results in it. False if no hour is left to
    compute."""
    with transaction.atomic():
        kept = KeptSince.objects.select_for_update().filter(key=KEY).first()
        if kept is None:
            return False
        if kept.since <= start_of("hour", now) - NEEDED:
            KeptSince.objects.filter(key=KEY).delete()
            return False
        hour = kept.since - HOUR
        with connection.cursor() as cursor:
            parameters = {"path_ids": None, "since": hour, "until": kept.since, "now": now}
            cursor.execute(statement("mark_hours_with_raw"), parameters)
        KeptSince.objects.filter(key=KEY).update(since=hour)
    return True
