"""Mark hours summarized before there were 5-minute minima, newest first, an hour of all paths at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

from monitor.archive.models import KeptSince
from monitor.archive.periods import start_of
from monitor.archive.statements import statement

KEY = "slot_minima"
# Daily congestion takes 14 days, a report 14 days to the end of its week.
NEEDED = timedelta(days=15)
HOUR = timedelta(hours=1)


def mark_earlier_hour(now: datetime) -> bool:
    """Mark the newest hour without minima dirty; False if none is left."""
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
