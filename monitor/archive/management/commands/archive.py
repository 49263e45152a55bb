"""`manage.py archive`: how the archive is, computing summaries anew, the database into a file and back."""

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
from monitor.archive.upkeep.status import DAYS_OF_COMPLETENESS, Status, status
from monitor.archive.upkeep.trouble import Trouble, now_known
from monitor.stack import access, postgres
from probes.supervise import StartError

TIME_HELP = "where the period begins, as in 2026-03-14 or 2026-03-14T12:00, UTC unless it says otherwise"
STANDARD = Path("-")


class Command(BaseCommand):
    help = "Tell how the archive is, compute summaries anew, back the database up and restore it."
    # What is wrong with the database is among what `status` tells, and a restore begins without tables.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        told = commands.add_parser("status", help="what is there, what waits, what is missing, what is wrong")
        told.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
        anew = commands.add_parser("recompute", help="compute the summaries of a period anew from what they are of")
        anew.add_argument("--from", dest="since", type=_time, required=True, metavar="TIME", help=TIME_HELP)
        anew.add_argument("--to", dest="until", type=_time, required=True, metavar="TIME", help="its end, likewise")
        anew.add_argument("--path", dest="path_ids", type=int, action="append", metavar="ID", help="only this path")
        out = commands.add_parser("backup", help="write the whole database into a file, while everything runs on")
        out.add_argument("--out", dest="file", type=Path, required=True, metavar="FILE", help="- for standard output")
        out.add_argument("--force", action="store_true", help="replace FILE where it is a regular file")
        back = commands.add_parser("restore", help="put a backup into the database, which must be empty")
        back.add_argument("file", type=Path, metavar="FILE", help="what backup wrote; - for standard input")

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
                f"the database has not the right tables: {_first_line(error)}; run manage.py migrate"
            ) from error

    def _recompute(self, since: datetime, until: datetime, path_ids: list[int] | None) -> None:
        if since >= until:
            raise CommandError(f"--to {until:%Y-%m-%dT%H:%M}: is not after --from {since:%Y-%m-%dT%H:%M}", returncode=2)
        done: Counter[str] = Counter()
        with _progress("looking for raw results") as show:
            for step in recompute(since, until, timezone.now(), path_ids):
                done[step.what] += step.count
                show(", ".join(f"{count:,} {what}" for what, count in done.items()))
        summaries = {what: done[what] for what in ("hours", "days", "months", "years")}
        self.stdout.write("computed anew: " + ", ".join(f"{count:,} {what}" for what, count in summaries.items()))

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
            _as_file(file) as found,
            _progress("restoring") as show,
        ):
            missing = backup.restore(found, lambda: show("restoring"))
        self.stdout.write("restored; every summary and every result is as it was")
        if missing:
            self.stdout.write(f"it is from an earlier release: run manage.py migrate, {len(missing)} migrations wait")

    def _report(self, line: str) -> None:
        self.stderr.write(line)

    def _status(self, *, as_json: bool) -> None:
        try:
            found = status(timezone.now())
        except OperationalError:
            # What keeps results from being stored is told by those who found it, whether the database answers or not.
            self.stdout.writelines(f"{line}\n" for line in _troubles(now_known()))
            raise
        if as_json:
            self.stdout.write(msgspec.json.encode(found).decode())
        else:
            self.stdout.writelines(f"{line}\n" for line in _lines(found))


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str], None]]:
    """Something that turns on a terminal, and what changes its text."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task(what)
        yield lambda text: shown.update(task, description=text)


@contextmanager
def _whole_database(report: Callable[[str], None], *, must_exist: bool = False) -> Iterator[None]:
    """The server of the data folder runs meanwhile, and we may copy all of the database; one that
    SOUNDINGS_DATABASE_URL names is not ours to start."""
    if environment.read("SOUNDINGS_DATABASE_URL"):
        yield
        return
    directory = settings.DATA_DIR / "postgres"
    if must_exist and not (directory / "cluster" / "PG_VERSION").exists():
        raise CommandError(f"{directory}: no database is here; set SOUNDINGS_DATA or SOUNDINGS_DATABASE_URL")
    with postgres.running(directory, report) as cluster:
        if not cluster.distribution.has_timescaledb:
            yield
            return
        # TimescaleDB's own tables are a superuser's to read and to fill.
        with _as_superuser(directory):
            yield
        cluster.give_to_application()


@contextmanager
def _as_superuser(directory: Path) -> Iterator[None]:
    """Django's connection is the superuser's, of the server of the data folder."""
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
    """The file itself; a copy of standard input, since a backup is read twice."""
    if file != STANDARD:
        yield file
        return
    settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=settings.DATA_DIR, prefix="restore-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _time(text: str) -> datetime:
    """An ISO 8601 date or time; UTC unless it says otherwise."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f'"{text}" is not a time; write it as in 2026-03-14 or 2026-03-14T12:00') from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _lines(found: Status) -> Iterator[str]:
    spans = {table.name: table.chunk_interval for table in found.hypertables}
    yield f"{'table':27}{'rows, about':>14}{'a day':>11}{'MB':>10}{'a day':>9}  {'chunks':24}rows go"
    for table in found.tables:
        span = spans.get(table.name)
        chunks = "-" if span is None else f"{table.chunks}, the next of {span.total_seconds() / 3600:g} h"
        rows = f"{table.row_estimate:>14,}{_signed(table.rows_per_day, 0):>11}"
        size = f"{table.total_bytes / 1e6:>10,.1f}{_signed(_megabytes(table.bytes_per_day), 1):>9}"
        yield f"{table.name:27}{rows}{size}  {chunks:24}{_bound(found.bounds.get(table.name))}"
    yield f"bursts from {_moment(found.span.oldest_at)} to {_moment(found.span.newest_at)}"
    yield from _waiting(found)
    yield from _deliveries(found)
    yield from _server(found)
    yield from _troubles(found.troubles)
    for problem in found.problems:
        yield f"{problem.level} {problem.id}: {problem.message}"
        yield f"    {problem.hint}"


def _waiting(found: Status) -> Iterator[str]:
    if not any(one.tier == "hour" for one in found.waiting):
        yield "every hour has its summary"
    for one in found.waiting:
        waiting_s = (found.at - one.since).total_seconds()
        yield f"{one.tier}s that wait for their summary: {one.summaries:,}, the longest for {waiting_s:.0f} s"


def _deliveries(found: Status) -> Iterator[str]:
    for site in found.completeness:
        ratio = site.delivered / max(1, site.delivered + site.missing)
        missing = f"{site.missing:,} missing" if site.missing else "none missing"
        results = f"{site.delivered:,} results in {DAYS_OF_COMPLETENESS} days"
        yield f"{site.site}: {results}, {missing} ({ratio:.2%} complete)"
    if not found.refused:
        yield "no results refused"
    for of_site in found.refused:
        yield f"{of_site.site}: {of_site.refused:,} results refused, the last at {_moment(of_site.newest_at)}:"
        yield f"    {of_site.newest_reason}"


def _server(found: Status) -> Iterator[str]:
    of = found.server
    timescaledb = "without TimescaleDB"
    if of.timescaledb is not None:
        timescaledb = f"with TimescaleDB {of.timescaledb}, licence {of.timescaledb_licence}"
    yield f"PostgreSQL {of.version} {timescaledb}; {of.max_connections} connections"
    space = "the disk is not of this machine"
    if found.disk is not None:
        space = f"{found.disk.free_bytes / 1e9:,.1f} of {found.disk.total_bytes / 1e9:,.1f} GB of its disk are free"
    yield f"the database takes {of.database_bytes / 1e6:,.1f} MB; {space}"
    yield _growth(found)


def _growth(found: Status) -> str:
    """How fast it grows and what the disk lasts for, in one line."""
    bytes_per_day = found.growth.bytes_per_day
    if bytes_per_day is None:
        return "how fast it grows is not known yet; sizes are noted each hour"
    grows = f"it grew by {bytes_per_day / 1e6:,.1f} MB a day in the last week"
    if found.disk is None:
        return f"{grows}; how long its disk lasts cannot be told from this machine"
    if found.growth.disk_lasts_days is None:
        return f"{grows}; its disk lasts"
    return f"{grows}; at that its disk lasts for {found.growth.disk_lasts_days:,.0f} days"


def _bound(bound: Bound | None) -> str:
    """When rows of a table go, in words."""
    if bound is None:
        return "not a table of Soundings"
    if bound.key is None:
        return f"bounded by {bound.text}"
    days = settings.RETENTION_DAYS[bound.key]
    return f"{days:,} days: {bound.text}" if days else f"never, by {bound.variable}=0"


def _megabytes(size: float | None) -> float | None:
    return None if size is None else size / 1e6


def _signed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:+,.{digits}f}"


def _troubles(found: Sequence[Trouble]) -> Iterator[str]:
    for trouble in found:
        yield f"nothing can be stored: {trouble.kind}, last seen at {_moment(trouble.at)}"


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
