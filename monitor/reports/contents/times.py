"""Moments of a report in its time zone, and pauses of the alert evaluation, as text."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.upkeep.freshness import EvaluationPause
from monitor.reports.contents.report import Report
from monitor.reports.numbers import Numbers


def short_moment(at: datetime, report: Report) -> str:
    """As in `Mon 23 Nov 01:10`."""
    return f"{at.astimezone(report.period.zone):%a %d %b %H:%M}"


def pause_words(pause: EvaluationPause, report: Report, numbers: Numbers) -> str:
    """As in `Alert rules were not evaluated from Mon 23 Nov 01:10 to Mon 23 Nov 03:25 (2.3 h).`"""
    since = max(pause.since, report.period.since)
    if pause.until is None:
        return f"Alert rules have not been evaluated since {short_moment(since, report)}."
    until = min(pause.until, report.until)
    begin, end = short_moment(since, report), short_moment(until, report)
    length = numbers.duration((until - since).total_seconds())
    return f"Alert rules were not evaluated from {begin} to {end} ({length})."
