"""Written reports: weekly mesh reports in the database, all reports as HTML or PDF in `settings.REPORT_DIR`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction

from monitor.mesh.models import Measurement
from monitor.reports.contents.collect import collect
from monitor.reports.contents.compose import compose
from monitor.reports.contents.report import Report, ReportScope
from monitor.reports.formats import page, pdf
from monitor.reports.models import WeeklyReport, WeeklyReportFile
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from probes.private_files import replace_privately
from probes.quantities import counted

HTML, PDF = SUFFIXES = (".html", ".pdf")
# Minute of the hour at which `monitor.celery` lets the worker write last week's report, if missing.
WRITTEN_AT_MINUTE = 15
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A weekly report of the whole mesh in these formats."""

    week: Week
    suffixes: frozenset[str]

    @property
    def pdf_name(self) -> str | None:
        return f"{self.week}{PDF}" if PDF in self.suffixes else None

    def content(self, suffix: str) -> bytes:
        row = WeeklyReportFile.objects.filter(report=str(self.week), suffix=suffix).first()
        if row is not None:
            return bytes(row.content)
        return (Path(settings.REPORT_DIR) / f"{self.week}{suffix}").read_bytes()


def report_path(period: Period, scope: ReportScope, suffix: str = HTML) -> Path:
    """Path of a report's file, which need not exist."""
    of = "" if scope.kind == "mesh" else f"-{scope.kind}-{scope.name}"
    return Path(settings.REPORT_DIR) / f"{period}{of}{suffix}"


def written_reports() -> list[WrittenReport]:
    """Weekly mesh reports, newest first."""
    suffixes = {Week.parse(name): set(SUFFIXES) for name in WeeklyReport.objects.values_list("week", flat=True)}
    for path in Path(settings.REPORT_DIR).glob("*-W??.*"):
        try:
            week = Week.parse(path.stem)
        except ValueError:
            continue  # somebody else's file
        if path.suffix in SUFFIXES:
            suffixes.setdefault(week, set()).add(path.suffix)
    written = (WrittenReport(week, frozenset(each)) for week, each in suffixes.items() if HTML in each)
    return sorted(written, key=lambda report: report.week, reverse=True)


def due_report(now: datetime) -> Period | None:
    """Last week, if its mesh report is missing and something was scheduled."""
    period = Period.of_week(Week.containing(now, _UTC).before, _UTC)
    if WeeklyReport.objects.filter(week=str(period)).exists():
        return None
    if all(report_path(period, ReportScope(), suffix).exists() for suffix in SUFFIXES):
        return None
    return period if Measurement.objects.filter(started_at__lt=period.until).exists() else None


def next_report_at(now: datetime) -> datetime:
    """When the worker writes the next report of the whole mesh."""
    if due_report(now) is not None:
        this_hour = now.replace(minute=WRITTEN_AT_MINUTE, second=0, microsecond=0)
        return this_hour if this_hour >= now else this_hour + timedelta(hours=1)
    return Period.of_week(Week.containing(now, _UTC), _UTC).until + timedelta(minutes=WRITTEN_AT_MINUTE)


def make_report(
    scope: ReportScope,
    period: Period,
    now: datetime,
    numbers: Numbers,
    show: Callable[[str], None] = lambda _: None,
) -> Report:
    """Compute a report, calling `show` with each step. Raises `monitor.reports.contents.collect.UnknownScope`."""
    show(f"{period}: loading measurements")
    material = collect(scope, period, now)
    show(f"{period}: computing {counted(len(material.paths), 'path')}")
    return compose(material, numbers)


def write_report(
    report: Report,
    now: datetime,
    numbers: Numbers,
    path: Path | None = None,
    show: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write a report to `path`, or as HTML and PDF to the default place, weekly mesh reports also to the database;
    returns the files. Raises OSError."""
    scope, period = report.scope, report.period
    if path is not None:
        targets = {path: as_bytes(report, numbers, path.suffix)}
    else:
        targets = {report_path(period, scope, suffix): as_bytes(report, numbers, suffix) for suffix in SUFFIXES}
        if scope.kind == "mesh" and period.week is not None:
            _store(str(period), {target.suffix: content for target, content in targets.items()}, now)
    for target, content in targets.items():
        show(f"{period}: writing {target.name}")
        _write(target, content)
    return list(targets)


def precedes_data(report: Report) -> bool:
    """Whether a report is empty because it precedes the first data."""
    return report.is_empty and report.period.precedes(report.data_since)


def no_data_words(period: Period, data_since: datetime | None) -> str:
    if data_since is None:
        return f"no data in {period.words}, and none in any other week yet"
    return (
        f"no data in {period.words}; data begin {data_since.astimezone(period.zone):%Y-%m-%d %H:%M} {period.zone.key}"
    )


def as_bytes(report: Report, numbers: Numbers, suffix: str) -> bytes:
    return pdf.render(report, numbers) if suffix == PDF else page.render(report, numbers).encode()


def _store(week: str, contents: dict[str, bytes], now: datetime) -> None:
    with transaction.atomic():
        report, _ = WeeklyReport.objects.update_or_create(week=week, defaults={"written_at": now})
        for suffix, content in contents.items():
            WeeklyReportFile.objects.update_or_create(report=report, suffix=suffix, defaults={"content": content})


def _write(target: Path, content: bytes) -> None:
    # Write a file readable only by its owner: reports name sites and troubles.
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with replace_privately(target, part) as file:
            file.write(content)
    finally:
        part.unlink(missing_ok=True)
