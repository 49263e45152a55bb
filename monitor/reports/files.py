"""Where written reports lie: one HTML file for each week in the folder `settings.REPORT_DIR`.

A file appears whole or not at all. What is in it comes from `monitor.reports.weekly` and `monitor.reports.page`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings

from monitor.reports import page, weekly
from monitor.reports.weeks import Week


@dataclass(frozen=True, slots=True, order=True)
class WrittenReport:
    week: Week
    path: Path


def report_path(week: Week) -> Path:
    """The file of a week, whether it has been written or not."""
    return Path(settings.REPORT_DIR) / f"{week}.html"


def written_reports() -> list[WrittenReport]:
    """The reports that there are, newest week first."""
    found = []
    for path in Path(settings.REPORT_DIR).glob("*-W*.html"):
        try:
            found.append(WrittenReport(Week.parse(path.stem), path))
        except ValueError:
            continue  # somebody else's file
    return sorted(found, reverse=True)


def write_weekly(week: Week, now: datetime, path: Path | None = None) -> Path:
    """Write the report of `week` to `path`, else to its place; returns the path. Raises OSError."""
    target = report_path(week) if path is None else path
    html = page.render(weekly.collect(week, now))
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(html, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target
