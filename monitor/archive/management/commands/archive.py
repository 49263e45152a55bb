"""`manage.py archive status`: what the archive holds, how large it is, and what waits."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from monitor.archive import queries


class Command(BaseCommand):
    help = "Tell what the archive holds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        commands.add_parser("status", help="tables with their sizes, oldest and newest burst, hours without summary")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{'table':16}{'rows, about':>14}{'MB':>10}  chunks")
        for table in queries.table_sizes():
            chunks = str(table.chunks) if table.chunks else "-"
            self.stdout.write(f"{table.name:16}{table.row_estimate:>14,}{table.total_bytes / 1e6:>10,.1f}  {chunks}")
        span = queries.span()
        self.stdout.write(f"bursts from {_moment(span.oldest_at)} to {_moment(span.newest_at)}")
        self.stdout.write(_waiting(span, timezone.now()))
        self.stdout.write(f"{span.refused} results refused")


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _waiting(span: queries.Span, now: datetime) -> str:
    if span.dirty_since is None:
        return "every hour has its summary"
    waiting_s = (now - span.dirty_since).total_seconds()
    return f"{span.dirty_hours} hours wait for their summary, the longest for {waiting_s:.0f} s"
