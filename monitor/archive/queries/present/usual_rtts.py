"""Usual RTT of paths at an hour of the day."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.archive.statements import run_statement

DAYS = 7


def usual_rtts(hour: datetime) -> dict[int, float]:
    """Median of hourly median RTTs in ms, in this hour of the DAYS days before. A query."""
    hours = [hour - timedelta(days=days) for days in range(1, DAYS + 1)]
    _, rows = run_statement("usual_rtts", hours=hours)
    return dict(rows)
