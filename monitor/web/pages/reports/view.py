"""Stored weekly reports, as HTML or PDF."""

from __future__ import annotations

from csp.constants import HEADER
from csp.utils import build_policy
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from monitor.reports.files import written_reports
from monitor.web.request import policy


@require_safe
def report(request: HttpRequest, name: str) -> HttpResponse:
    """A weekly report as it was written; with `.pdf` behind its name, as a PDF."""
    for written in written_reports():
        if name == f"{written.week}.pdf" and written.pdf is not None:
            return HttpResponse(written.pdf.read_bytes(), content_type="application/pdf")
        if str(written.week) == name:
            response = HttpResponse(written.path.read_bytes(), content_type="text/html; charset=utf-8")
            response.headers[HEADER] = build_policy(policy.STORED_DOCUMENT)
            return response
    raise Http404(f"There is no report {name}; `manage.py report weekly` writes last week's.")
