"""Celery's entry to the reports; when it runs is in `monitor.celery`."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from celery import shared_task
from django.utils import timezone

from monitor.reports.contents.report import ReportScope
from monitor.reports.files import SUFFIXES, report_path, write_report
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from monitor.reports.sending import send_due

UTC = ZoneInfo("UTC")


@shared_task(name="reports.weekly")
def write_last_week() -> None:
    """Last week's report of the whole mesh, to its place in the data folder, unless it is there already."""
    now = timezone.now()
    period = Period.of_week(Week.containing(now, UTC).before, UTC)
    if not all(report_path(period, ReportScope(), suffix).exists() for suffix in SUFFIXES):
        write_report(ReportScope(), period, now, Numbers())


@shared_task(name="reports.send")
def send_reports() -> int:
    """Mail due reports. Returns how many mails were accepted."""
    return send_due(timezone.now())
