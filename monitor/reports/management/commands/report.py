"""`manage.py report weekly`: write the report of a week and print where it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from monitor.reports.files import report_path, write_weekly
from monitor.reports.weeks import Week


def _week(text: str) -> Week:
    try:
        return Week.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class Command(BaseCommand):
    help = "Writes the report of a week as one HTML file and prints its path."

    def add_arguments(self, parser: CommandParser) -> None:
        reports = parser.add_subparsers(dest="report", required=True, metavar="REPORT")
        weekly = reports.add_parser("weekly", help="the mesh in one ISO week, Monday to Monday UTC")
        weekly.add_argument("--week", type=_week, help="the ISO week, as in 2026-W47; default: the last whole week")
        weekly.add_argument("--out", type=Path, metavar="FILE", help="where to write; default: DATA/reports/WEEK.html")

    def handle(self, *args: Any, week: Week | None, out: Path | None, **options: Any) -> None:
        now = timezone.now()
        chosen = Week.of(now).before if week is None else week
        if chosen.since > now:
            raise CommandError(f"{chosen} begins {chosen.since:%Y-%m-%d} UTC; choose a week that has begun")
        try:
            written = write_weekly(chosen, now, out)
        except OSError as error:
            target = report_path(chosen) if out is None else out
            raise CommandError(
                f"cannot write {target}: {error.strerror} ({error.filename}); give another place with --out"
            ) from error
        self.stdout.write(str(written))
