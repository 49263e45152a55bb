"""A report as a mail under 200 KB: HTML without images, scripts or style sheets, and plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from monitor.environment import is_loopback
from monitor.reports.contents.report import PathReport, Report
from monitor.reports.formats import pdf
from monitor.reports.formats.page import HEADS
from monitor.reports.formats.sparklines import text
from monitor.reports.formats.view import View, view_of
from monitor.reports.models import WeeklyReport
from monitor.reports.numbers import Numbers
from probes.free_text import cleaned

MOST_PATHS = 60
MOST_LINES = 25
SPARKLINE_DAYS = 14

Format = Literal["html", "pdf"]

STYLES = {
    "th": "padding:3px 10px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd;font-weight:normal",
    "head": "padding:3px 10px 3px 0;text-align:left;border-bottom:2px solid #888;font-weight:normal;color:#555",
    "h2": "font-size:17px;margin:26px 0 6px",
    "h3": "font-size:14px;margin:14px 0 4px",
    "note": "color:#555;font-size:12px",
    "bars": "font-family:monospace;color:#555;font-size:11px;white-space:nowrap",
}


def message(report: Report, numbers: Numbers, *, to: str, format_: Format, unsubscribe: str) -> EmailMultiAlternatives:
    """Compose the mail to a recipient; with `pdf` the whole report is attached."""
    view = _shortened(view_of(report, numbers))
    made = EmailMultiAlternatives(
        subject=cleaned(f"{view.title}, {view.name}"),
        body=render_to_string("reports/mail.txt", {"view": view, **_links(report, unsubscribe)}),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[to],
        headers={"List-Unsubscribe": f"<{unsubscribe}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
    )
    made.attach_alternative(html(report, numbers, unsubscribe, has_attachment=format_ == "pdf"), "text/html")
    if format_ == "pdf":
        made.attach(f"{report.period}.pdf", pdf.render(report, numbers), "application/pdf")
    return made


def html(report: Report, numbers: Numbers, unsubscribe: str, *, has_attachment: bool = False) -> str:
    view = _shortened(view_of(report, numbers))
    most = sorted(zip(report.paths, view.rows, strict=True), key=lambda pair: _trouble(pair[0]))[:MOST_PATHS]
    rows = [
        (row, _bars(row.loss_days), _bars(row.rtt_days_ms)) for _, row in sorted(most, key=lambda pair: pair[0].name)
    ]
    left_out = len(report.paths) - len(rows)
    context = {
        "view": view,
        "rows": rows,
        "heads": HEADS,
        "styles": STYLES,
        **_links(report, unsubscribe),
        "left_out": numbers.count(left_out) if left_out else "",
        "has_attachment": has_attachment,
    }
    return "\n".join(line for line in render_to_string("reports/mail.html", context).splitlines() if line.strip())


def _links(report: Report, unsubscribe: str) -> dict[str, object]:
    has_page = report.scope.kind == "mesh" and WeeklyReport.objects.filter(week=str(report.period)).exists()
    return {
        "unsubscribe": unsubscribe,
        "has_links": not is_loopback(settings.PUBLIC_URL),
        "page": f"{settings.PUBLIC_URL}{reverse('report', args=[report.period])}" if has_page else "",
    }


def _bars(values: Sequence[float | None]) -> str:
    return text(values[-SPARKLINE_DAYS:])


def _trouble(path: PathReport) -> tuple[bool, float]:
    """Sort by loss, highest first, then without data, then without loss."""
    return path.sent > 0 and path.lost == 0, -(path.lost / path.sent) if path.sent else 0.0


def _shortened(view: View) -> View:
    return replace(
        view,
        changes=view.changes[:MOST_LINES],
        budgets=view.budgets[:MOST_LINES],
        promised=view.promised[:MOST_LINES],
        incidents=tuple(
            replace(incident, paths=incident.paths[:MOST_LINES]) for incident in view.incidents[:MOST_LINES]
        ),
        routes=view.routes[:MOST_LINES],
        responses=view.responses[:MOST_LINES],
        aggregates=view.aggregates[:MOST_LINES],
        coverage=view.coverage[:MOST_LINES],
        throughput_only=view.throughput_only[:MOST_LINES],
        sparkline_days=SPARKLINE_DAYS,
        notices=(*view.notices, *_left_out(view)),
    )


def _left_out(view: View) -> tuple[str, ...]:
    lists = (
        view.changes,
        view.budgets,
        view.promised,
        view.incidents,
        view.routes,
        view.responses,
        view.aggregates,
        view.coverage,
        view.throughput_only,
    )
    if not any(len(lines) > MOST_LINES for lines in lists):
        return ()
    return (f"Lists show their first {MOST_LINES} entries; the PDF format lists all.",)
