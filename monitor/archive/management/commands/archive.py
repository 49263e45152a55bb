"""`manage.py archive`: what the archive holds and what waits, and computing summaries anew."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from monitor.archive import queries
from monitor.archive.rollups import recompute
from monitor.archive.trouble import now_known

TIME_HELP = "where the period begins, as in 2026-03-14 or 2026-03-14T12:00, UTC unless it says otherwise"


class Command(BaseCommand):
    help = "Tell what the archive holds, or compute summaries anew."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        commands.add_parser("status", help="tables with their sizes, oldest and newest burst, hours without summary")
        anew = commands.add_parser("recompute", help="compute the summaries of a period anew from what they are of")
        anew.add_argument("--from", dest="since", type=_time, required=True, metavar="TIME", help=TIME_HELP)
        anew.add_argument("--to", dest="until", type=_time, required=True, metavar="TIME", help="its end, likewise")
        anew.add_argument("--path", dest="path_ids", type=int, action="append", metavar="ID", help="only this path")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "recompute":
            self._recompute(options["since"], options["until"], options["path_ids"])
        else:
            self._status()

    def _recompute(self, since: datetime, until: datetime, path_ids: list[int] | None) -> None:
        if since >= until:
            raise CommandError(f"--to {until:%Y-%m-%dT%H:%M}: is not after --from {since:%Y-%m-%dT%H:%M}", returncode=2)
        done: Counter[str] = Counter()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, transient=True, console=Console(stderr=True)) as shown:
            task = shown.add_task("looking for raw results")
            for step in recompute(since, until, timezone.now(), path_ids):
                done[step.what] += step.count
                shown.update(task, description=", ".join(f"{count:,} {what}" for what, count in done.items()))
        summaries = {what: done[what] for what in ("hours", "days", "months", "years")}
        self.stdout.write("computed anew: " + ", ".join(f"{count:,} {what}" for what, count in summaries.items()))

    def _status(self) -> None:
        self.stdout.write(f"{'table':16}{'rows, about':>14}{'MB':>10}  chunks")
        for table in queries.table_sizes():
            chunks = str(table.chunks) if table.chunks else "-"
            self.stdout.write(f"{table.name:16}{table.row_estimate:>14,}{table.total_bytes / 1e6:>10,.1f}  {chunks}")
        span = queries.span()
        self.stdout.write(f"bursts from {_moment(span.oldest_at)} to {_moment(span.newest_at)}")
        self.stdout.write(_waiting(span, timezone.now()))
        self.stdout.write(f"{span.refused} results refused")
        for trouble in now_known():
            self.stdout.write(f"nothing can be stored: {trouble.kind}, last seen at {_moment(trouble.at)}")


def _time(text: str) -> datetime:
    """An ISO 8601 date or time; UTC unless it says otherwise."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f'"{text}" is not a time; write it as in 2026-03-14 or 2026-03-14T12:00') from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _waiting(span: queries.Span, now: datetime) -> str:
    if span.dirty_since is None:
        return "every hour has its summary"
    waiting_s = (now - span.dirty_since).total_seconds()
    return f"{span.dirty_hours} hours wait for their summary, the longest for {waiting_s:.0f} s"
