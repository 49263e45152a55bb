"""A report as a self-contained HTML file, without external styles, scripts or images."""

from __future__ import annotations

from django.template.loader import render_to_string

from monitor.reports.contents.report import Report
from monitor.reports.formats.sparklines import svg_path
from monitor.reports.formats.view import view_of
from monitor.reports.numbers import Numbers

SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 84, 14

HEADS = {
    "changes": ("change", "path", "figure", "eight weeks before", "this period", "p", "p, corrected"),
    "levels": ("target", "met on", "share"),
    "budgets": ("path", "figure", "target", "actual", "error budget used"),
    "promised": ("path", "promised", "result", "evidence"),
    "extremes": ("path", "loss", "RTT"),
    "verdicts": ("bottleneck", "paths", "example"),
    "under_load": ("path", "idle RTT, median", "under load, median", "95th percentile", "loss under load"),
    "responses": (
        "path",
        "test",
        "request, response",
        "latency, median",
        "95th percentile",
        "transactions/s",
        "runs measured",
    ),
    "aggregates": ("test", "shape", "sum, median", "least to most", "fairness (Jain), median", "complete runs"),
    "directions": ("path", "loss forward", "loss reverse", "lost"),
    "routes": ("path", "changed", "effect", "route"),
    "coverage": ("test", "outcome", "count", "share"),
}


def render(report: Report, numbers: Numbers) -> str:
    view = view_of(report, numbers)
    rows = [
        (
            row,
            svg_path(row.loss_days, SPARKLINE_WIDTH, SPARKLINE_HEIGHT),
            svg_path(row.rtt_days_ms, SPARKLINE_WIDTH, SPARKLINE_HEIGHT),
        )
        for row in view.rows
    ]
    return render_to_string("reports/page.html", {"view": view, "rows": rows, "heads": HEADS})
