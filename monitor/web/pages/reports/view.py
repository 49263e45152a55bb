"""Stored weekly reports, as HTML or PDF."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from csp.constants import HEADER
from csp.utils import build_policy
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.accounts.read_limits import is_limited
from monitor.mesh.models import Mesh
from monitor.reports.contents.report import ReportScope
from monitor.reports.files import HTML, PDF, WrittenReport, as_bytes, make_report, next_report_at, written_reports
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period
from monitor.web.request import policy

TO_SUNDAY = timedelta(days=6)


@require_safe
def reports_page(request: HttpRequest) -> HttpResponse:
    reports = [(written, written.week.monday + TO_SUNDAY) for written in written_reports()]
    context = {
        "mesh": Mesh.objects.first(),
        "reports": reports,
        "next_report_at": None if reports else next_report_at(timezone.now()),
    }
    return render(request, "pages/reports/reports.html", context)


@require_safe
def report(request: HttpRequest, name: str) -> HttpResponse:
    """Return a stored report, as PDF for `.pdf`; for readers with limits it is written anew."""
    for written in written_reports():
        if name == written.pdf_name:
            return HttpResponse(_content(written, PDF), content_type="application/pdf")
        if str(written.week) == name:
            response = HttpResponse(_content(written, HTML), content_type="text/html; charset=utf-8")
            response.headers[HEADER] = build_policy(policy.STORED_DOCUMENT)
            return response
    raise Http404(f"There is no report {name}; /reports/ lists those that there are.")


def _content(written: WrittenReport, suffix: str) -> bytes:
    if not is_limited():
        return written.content(suffix)
    report = make_report(ReportScope(), Period.of_week(written.week, ZoneInfo("UTC")), timezone.now(), Numbers())
    return as_bytes(report, Numbers(), suffix)
