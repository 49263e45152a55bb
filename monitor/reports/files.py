"""Files of reports: their paths, and writing them atomically, as HTML or PDF by suffix.

Celery's reports of the whole mesh are in the folder `settings.REPORT_DIR`, `2026-W47.html` and `2026-W47.pdf`; those of
a site or a group end with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from django.conf import settings

from monitor.mesh.models import Measurement
from monitor.reports.contents.collect import collect
from monitor.reports.contents.compose import compose
from monitor.reports.contents.report import Report, ReportScope
from monitor.reports.formats import page, pdf
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from probes.private_files import replace_privately
from probes.quantities import counted

SUFFIXES = (".html", ".pdf")
WRITTEN_AT_MINUTE = 15
"""Minute of the hour at which the worker writes last week's report, where it is missing; in `monitor.celery`."""
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True, order=True)
class WrittenReport:
    week: Week
    path: Path

    @property
    def pdf(self) -> Path | None:
        """The PDF of the same report, if it exists."""
        beside = self.path.with_suffix(".pdf")
        return beside if beside.exists() else None


def report_path(period: Period, scope: ReportScope, suffix: str = ".html") -> Path:
    """The path of a report's file, which need not exist."""
    of = "" if scope.kind == "mesh" else f"-{scope.kind}-{scope.name}"
    return Path(settings.REPORT_DIR) / f"{period}{of}{suffix}"


def written_reports() -> list[WrittenReport]:
    """The existing weekly reports of the whole mesh, newest week first."""
    reports = []
    for path in Path(settings.REPORT_DIR).glob("*-W??.html"):
        try:
            reports.append(WrittenReport(Week.parse(path.stem), path))
        except ValueError:
            continue  # somebody else's file
    return sorted(reports, reverse=True)


def due_report(now: datetime) -> Period | None:
    """Last week, if its report of the whole mesh is missing and something was scheduled in it."""
    period = Period.of_week(Week.containing(now, _UTC).before, _UTC)
    if all(report_path(period, ReportScope(), suffix).exists() for suffix in SUFFIXES):
        return None
    return period if Measurement.objects.filter(started_at__lt=period.until).exists() else None


def next_report_at(now: datetime) -> datetime:
    """When the worker writes the next report of the whole mesh: within the hour if it is due, else on Monday."""
    if due_report(now) is not None:
        this_hour = now.replace(minute=WRITTEN_AT_MINUTE, second=0, microsecond=0)
        return this_hour if this_hour >= now else this_hour + timedelta(hours=1)
    return Period.of_week(Week.containing(now, _UTC), _UTC).until + timedelta(minutes=WRITTEN_AT_MINUTE)


def write_report(
    scope: ReportScope,
    period: Period,
    now: datetime,
    numbers: Numbers,
    path: Path | None = None,
    show: Callable[[str], None] = lambda _: None,
    *,
    before_data: bool = True,
) -> tuple[Report, list[Path]]:
    """Write the report to `path`, in the format of its suffix, or as HTML and PDF to its default place. Returns it and
    the files, which are none of a period before the first data unless `before_data`. `show` is called with each step.

    Raises OSError, and `monitor.reports.contents.collect.UnknownScope`.
    """
    show(f"{period}: loading measurements")
    material = collect(scope, period, now)
    show(f"{period}: computing {counted(len(material.paths), 'path')}")
    report = compose(material, numbers)
    if not before_data and report.is_empty and (report.data_since is None or report.data_since >= period.until):
        return report, []
    paths = [path] if path is not None else [report_path(period, scope, suffix) for suffix in SUFFIXES]
    for file in paths:
        show(f"{period}: writing {file.name}")
        _write(file, as_bytes(report, numbers, file.suffix))
    return report, paths


def as_bytes(report: Report, numbers: Numbers, suffix: str) -> bytes:
    """The content of the report as a file with this suffix."""
    return pdf.render(report, numbers) if suffix == ".pdf" else page.render(report, numbers).encode()


def _write(target: Path, content: bytes) -> None:
    """Write a file that only its owner can read: a report names sites, providers and their troubles."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with replace_privately(target, part) as file:
            file.write(content)
    finally:
        part.unlink(missing_ok=True)
