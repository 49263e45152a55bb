"""Celery's entry to the reports; schedules are in `monitor.celery`."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.reports.contents.report import ReportScope
from monitor.reports.files import due_report, make_report, write_report
from monitor.reports.numbers import Numbers
from monitor.reports.sending import send_due
from monitor.standby_reads import prefer_standby


@shared_task(name="reports.weekly")
def write_last_week() -> None:
    """Write last week's mesh report, unless it exists or nothing was scheduled in that week."""
    now = timezone.now()
    period = due_report(now)
    if period is not None:
        with prefer_standby():
            report = make_report(ReportScope(), period, now, Numbers())
        write_report(report, now, Numbers())


@shared_task(name="reports.send")
def send_reports() -> int:
    """Mail due reports. Returns how many mails were accepted."""
    return send_due(timezone.now())
