"""`manage.py archive`: status of the archive, recomputation of summaries, backup and restore."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError, connection
from django.utils import timezone
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from monitor import environment
from monitor.archive.bounds import Bound
from monitor.archive.rollup.recompute import recompute
from monitor.archive.upkeep import backup
from monitor.archive.upkeep.status import DAYS_OF_COMPLETENESS, ArchiveStatus, status
from monitor.archive.upkeep.trouble import DatabaseTrouble, current_trouble
from monitor.stack import access, postgres
from probes.supervise import StartError

TIME_HELP = "start of the period, as in 2026-03-14 or 2026-03-14T12:00; default time zone UTC"
STANDARD = Path("-")


class Command(BaseCommand):
    help = "Show status, recompute rollups, back up, restore."
    # No system checks: `status` shows their messages, and a restore starts without tables.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        status_parser = commands.add_parser("status", help="show sizes, backlog, missing results and problems")
        status_parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
        recompute_parser = commands.add_parser("recompute", help="recompute the rollups of a period from raw data")
        recompute_parser.add_argument("--from", dest="since", type=_time, required=True, metavar="TIME", help=TIME_HELP)
        recompute_parser.add_argument(
            "--to", dest="until", type=_time, required=True, metavar="TIME", help="end of the period, likewise"
        )
        recompute_parser.add_argument(
            "--path", dest="path_ids", type=int, action="append", metavar="ID", help="only this path"
        )
        backup_parser = commands.add_parser("backup", help="back up the whole database into a file, without downtime")
        backup_parser.add_argument(
            "--out", dest="file", type=Path, required=True, metavar="FILE", help="- for standard output"
        )
        backup_parser.add_argument("--force", action="store_true", help="replace FILE where it is a regular file")
        restore_parser = commands.add_parser("restore", help="restore a backup into an empty database")
        restore_parser.add_argument(
            "file", type=Path, metavar="FILE", help="file written by backup; - for standard input"
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            match action:
                case "recompute":
                    self._recompute(options["since"], options["until"], options["path_ids"])
                case "backup":
                    self._back_up(options["file"], force=options["force"])
                case "restore":
                    self._restore(options["file"])
                case _:
                    self._status(as_json=options["as_json"])
        except (backup.BackupError, postgres.PostgresError, StartError) as error:
            raise CommandError(str(error)) from error
        except OperationalError as error:
            raise CommandError(
                f"the database cannot be used: {_first_line(error)}; "
                "start it with manage.py up, or set SOUNDINGS_DATABASE_URL"
            ) from error
        except ProgrammingError as error:
            raise CommandError(
                f"the database schema is out of date: {_first_line(error)}; run manage.py migrate"
            ) from error

    def _recompute(self, since: datetime, until: datetime, path_ids: list[int] | None) -> None:
        if since >= until:
            raise CommandError(f"--to {until:%Y-%m-%dT%H:%M}: is not after --from {since:%Y-%m-%dT%H:%M}", returncode=2)
        done: Counter[str] = Counter()
        with _progress("searching for raw results") as show:
            for step in recompute(since, until, timezone.now(), path_ids):
                done[step.what] += step.count
                show(", ".join(f"{count:,} {unit}" for unit, count in done.items()))
        summaries = {unit: done[unit] for unit in ("hours", "days", "months", "years")}
        self.stdout.write("recomputed: " + ", ".join(f"{count:,} {unit}" for unit, count in summaries.items()))

    def _back_up(self, file: Path, *, force: bool) -> None:
        if file != STANDARD:
            backup.require_free_name(file, force=force)
        with _whole_database(self._report, must_exist=True), _progress("backing up") as show:
            if file == STANDARD:
                backup.back_up_into(sys.stdout.buffer)
                return
            backup.back_up(file, lambda size_bytes: show(f"backing up: {size_bytes / 1e6:,.1f} MB"), force=force)
        self.stdout.write(f"{file}: {file.stat().st_size / 1e6:,.1f} MB")

    def _restore(self, file: Path) -> None:
        if file != STANDARD and not file.is_file():
            raise CommandError(f"{file}: no such file")
        with (
            _whole_database(self._report),
            _as_file(file) as readable,
            _progress("restoring") as show,
        ):
            missing = backup.restore(readable, lambda: show("restoring"))
        self.stdout.write("restored")
        if missing:
            self.stdout.write(
                f"the backup is from an earlier release: run manage.py migrate ({len(missing)} migrations to apply)"
            )

    def _report(self, line: str) -> None:
        self.stderr.write(line)

    def _status(self, *, as_json: bool) -> None:
        try:
            report = status(timezone.now())
        except OperationalError:
            # Troubles are stored outside the database, so they can be shown while it is down.
            self.stdout.writelines(f"{line}\n" for line in _troubles(current_trouble()))
            raise
        if as_json:
            self.stdout.write(msgspec.json.encode(report).decode())
        else:
            self.stdout.writelines(f"{line}\n" for line in _lines(report))


@contextmanager
def _progress(activity: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on a terminal; yields the function that changes its text."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task(activity)
        yield lambda text: shown.update(task, description=text)


@contextmanager
def _whole_database(report: Callable[[str], None], *, must_exist: bool = False) -> Iterator[None]:
    """Start the server of the data folder as superuser meanwhile; a server that SOUNDINGS_DATABASE_URL names is not
    started here."""
    if environment.read("SOUNDINGS_DATABASE_URL"):
        yield
        return
    directory = settings.DATA_DIR / "postgres"
    if must_exist and not (directory / "cluster" / "PG_VERSION").exists():
        raise CommandError(f"{directory}: no database found; set SOUNDINGS_DATA or SOUNDINGS_DATABASE_URL")
    with postgres.running(directory, report) as cluster:
        if not cluster.distribution.has_timescaledb:
            yield
            return
        # TimescaleDB's own tables can be read and written by a superuser only.
        with _as_superuser(directory):
            yield
        cluster.give_to_application()


@contextmanager
def _as_superuser(directory: Path) -> Iterator[None]:
    """Connect Django to the data folder's server as superuser."""
    ours = connection.settings_dict
    options = {**ours["OPTIONS"], "passfile": str(access.passfile(directory, access.SUPERUSER))}
    connection.close()
    connection.settings_dict = {**ours, "USER": access.SUPERUSER, "OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = ours


@contextmanager
def _as_file(file: Path) -> Iterator[Path]:
    """Yield the file itself, or a copy of standard input, since a backup is read twice."""
    if file != STANDARD:
        yield file
        return
    settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=settings.DATA_DIR, prefix="restore-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _time(text: str) -> datetime:
    """Parse an ISO 8601 date or time; default time zone UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f'"{text}" is not a time; write it as in 2026-03-14 or 2026-03-14T12:00') from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _lines(report: ArchiveStatus) -> Iterator[str]:
    spans = {table.name: table.chunk_interval for table in report.hypertables}
    yield f"{'table':27}{'rows (est.)':>14}{'per day':>11}{'MB':>10}{'per day':>9}  {'chunks':24}retention"
    for table in report.tables:
        span = spans.get(table.name)
        chunks = "-" if span is None else f"{table.chunks}, next spans {span.total_seconds() / 3600:g} h"
        rows = f"{table.row_estimate:>14,}{_signed(table.rows_per_day, 0):>11}"
        size = f"{table.total_bytes / 1e6:>10,.1f}{_signed(_megabytes(table.bytes_per_day), 1):>9}"
        yield f"{table.name:27}{rows}{size}  {chunks:24}{_bound(report.bounds.get(table.name))}"
    yield f"bursts from {_moment(report.span.oldest_at)} to {_moment(report.span.newest_at)}"
    yield from _waiting(report)
    yield from _deliveries(report)
    yield from _server(report)
    yield from _troubles(report.troubles)
    for problem in report.problems:
        yield f"{problem.level} {problem.id}: {problem.message}"
        yield f"    {problem.hint}"


def _waiting(report: ArchiveStatus) -> Iterator[str]:
    if not any(pending.tier == "hour" for pending in report.waiting):
        yield "no pending hour rollups"
    for pending in report.waiting:
        waiting_s = (report.at - pending.since).total_seconds()
        yield f"pending {pending.tier} rollups: {pending.summaries:,}, the oldest for {waiting_s:.0f} s"


def _deliveries(report: ArchiveStatus) -> Iterator[str]:
    for site in report.completeness:
        ratio = site.delivered / max(1, site.delivered + site.missing)
        missing = f"{site.missing:,} missing" if site.missing else "none missing"
        results = f"{site.delivered:,} results in {DAYS_OF_COMPLETENESS} days"
        yield f"{site.site}: {results}, {missing} ({ratio:.2%} complete)"
    if not report.refused:
        yield "no results rejected"
    for rejected in report.refused:
        yield f"{rejected.site}: {rejected.refused:,} results rejected, the last at {_moment(rejected.newest_at)}:"
        yield f"    {rejected.newest_reason}"


def _server(report: ArchiveStatus) -> Iterator[str]:
    server = report.server
    timescaledb = "without TimescaleDB"
    if server.timescaledb is not None:
        timescaledb = f"with TimescaleDB {server.timescaledb}, licence {server.timescaledb_licence}"
    yield f"PostgreSQL {server.version} {timescaledb}; {server.max_connections} connections"
    space = "its disk is on another machine"
    if report.disk is not None:
        space = f"{report.disk.free_bytes / 1e9:,.1f} of {report.disk.total_bytes / 1e9:,.1f} GB of its disk free"
    yield f"the database takes {server.database_bytes / 1e6:,.1f} MB; {space}"
    yield _growth(report)


def _growth(report: ArchiveStatus) -> str:
    """Growth and time until the disk is full, as a line of text."""
    bytes_per_day = report.growth.bytes_per_day
    if bytes_per_day is None:
        return "growth unknown yet; sizes are recorded hourly"
    grows = f"growth {bytes_per_day / 1e6:,.1f} MB/day (last week)"
    if report.disk is None:
        return f"{grows}; time until disk full unknown"
    if report.growth.disk_lasts_days is None:
        return f"{grows}; disk does not fill up at that rate"
    return f"{grows}; disk full in {report.growth.disk_lasts_days:,.0f} days"


def _bound(bound: Bound | None) -> str:
    """Retention of a table, as text."""
    if bound is None:
        return "not a table of Soundings"
    if bound.key is None:
        return f"bounded by {bound.text}"
    days = settings.RETENTION_DAYS[bound.key]
    return f"{days:,} days: {bound.text}" if days else f"kept forever ({bound.variable}=0)"


def _megabytes(size: float | None) -> float | None:
    return None if size is None else size / 1e6


def _signed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:+,.{digits}f}"


def _troubles(troubles: Sequence[DatabaseTrouble]) -> Iterator[str]:
    for trouble in troubles:
        yield f"nothing can be stored: {trouble.kind}, last seen at {_moment(trouble.at)}"


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
