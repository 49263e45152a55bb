"""`manage.py archive`: status of the archive, recomputation of summaries, backup and restore."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection
from django.utils import timezone

from monitor import environment
from monitor.archive.cold import days
from monitor.archive.cold.files import ColdFileError
from monitor.archive.ingest.checks import CLOCK_SKEW, EARLIEST
from monitor.archive.rollup.recompute import recompute
from monitor.archive.upkeep import backup
from monitor.archive.upkeep.status import status
from monitor.archive.upkeep.status_text import cold_text, status_lines, trouble_lines
from monitor.archive.upkeep.trouble import current_trouble
from monitor.database_errors import reported_to_user
from monitor.progress import progress
from monitor.stack import access, postgres
from probes.commands.own_command import MANAGE
from probes.commands.subcommands import add_subcommand, moment
from probes.quantities import counted
from probes.supervision.supervise import StartError

TIME_HELP = "start of the period, as in 2026-03-14 or 2026-03-14T12:00; default time zone UTC"
STANDARD = Path("-")


class Command(BaseCommand):
    help = "Show status, recompute rollups, back up, restore."
    # No system checks: `status` shows their messages, and a restore starts without tables.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        status_parser = add_subcommand(commands, "status", "show sizes, backlog, missing results and problems")
        status_parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
        status_parser.add_argument("--all", action="store_true", dest="complete", help="show all tables and sites")
        recompute_parser = add_subcommand(commands, "recompute", "recompute the rollups of a period from raw data")
        recompute_parser.add_argument(
            "--from", dest="since", type=moment, required=True, metavar="TIME", help=TIME_HELP
        )
        recompute_parser.add_argument(
            "--to", dest="until", type=moment, required=True, metavar="TIME", help="end of the period, likewise"
        )
        recompute_parser.add_argument(
            "--path", dest="path_ids", type=int, action="append", metavar="ID", help="only this path"
        )
        backup_parser = add_subcommand(commands, "backup", "back up the whole database into a file, without downtime")
        backup_parser.add_argument(
            "--out", dest="file", type=Path, required=True, metavar="FILE", help="- for standard output"
        )
        backup_parser.add_argument("--force", action="store_true", help="replace FILE where it is a regular file")
        cold_parser = add_subcommand(commands, "cold", "show the old bursts that are in files")
        cold_parser.add_argument("--verify", action="store_true", help="read each file whole, and name damaged ones")
        restore_parser = add_subcommand(commands, "restore", "restore a backup into an empty database")
        restore_parser.add_argument(
            "file", type=Path, metavar="FILE", help="file written by backup; - for standard input"
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            with reported_to_user():
                self._run(action, options)
        except (backup.BackupError, ColdFileError, postgres.PostgresError, StartError) as error:
            raise CommandError(str(error)) from error

    def _run(self, action: str, options: dict[str, Any]) -> None:
        match action:
            case "recompute":
                self._recompute(options["since"], options["until"], options["path_ids"])
            case "backup":
                self._back_up(options["file"], force=options["force"])
            case "cold":
                self._cold(verify=options["verify"])
            case "restore":
                self._restore(options["file"])
            case _:
                self._status(as_json=options["as_json"], complete=options["complete"])

    def _recompute(self, since: datetime, until: datetime, path_ids: list[int] | None) -> None:
        if since >= until:
            raise CommandError(f"--to {until:%Y-%m-%dT%H:%M}: is not after --from {since:%Y-%m-%dT%H:%M}", returncode=2)
        now = timezone.now()
        # No result is older or younger, and each day of the period is a query.
        since = max(since, EARLIEST)
        until = max(since, min(until, now + CLOCK_SKEW))
        done: Counter[str] = Counter()
        with progress("searching for raw results") as show:
            for step in recompute(since, until, now, path_ids):
                done[step.what] += step.count
                show(", ".join(f"{count:,} {unit}" for unit, count in done.items()))
        summaries = [counted(done[f"{unit}s"], unit) for unit in ("hour", "day", "month", "year")]
        self.stdout.write("recomputed: " + ", ".join(summaries))

    def _back_up(self, file: Path, *, force: bool) -> None:
        if file != STANDARD:
            backup.require_free_name(file, force=force)
        with _whole_database(self._report, must_exist=True), progress("backing up") as show:
            if file == STANDARD:
                backup.back_up_into(sys.stdout.buffer)
                self._tell_cold(f"copy {settings.COLD_BURSTS or 'their folder'} as well")
                return
            backup.back_up(file, lambda size_bytes: show(f"backing up: {size_bytes / 1e6:,.1f} MB"), force=force)
            self._tell_cold(f"copy {settings.COLD_BURSTS or 'their folder'} as well")
        self.stdout.write(f"{file}: {file.stat().st_size / 1e6:,.1f} MB")

    def _cold(self, *, verify: bool) -> None:
        cold = days.totals()
        if not cold.files:
            self.stdout.write(
                "no bursts in files" if settings.COLD_BURSTS else "no bursts in files, and no folder for them"
            )
            return
        self.stdout.write(f"{settings.COLD_BURSTS or 'no folder set'}: {cold_text(cold)}")
        if not verify:
            return
        reasons = []
        with progress("reading") as show:
            for file, reason in days.damages():
                show(f"reading: {file.day}")
                if reason is not None:
                    reasons.append(reason)
        self.stdout.writelines(f"{reason}\n" for reason in reasons)
        if reasons:
            raise CommandError(
                f"{counted(len(reasons), 'file')} of {cold.files} missing or damaged; copy from a backup"
            )
        self.stdout.write("all files are as they were written")

    def _tell_cold(self, end: str) -> None:
        cold = days.totals()
        if cold.files:
            self.stderr.write(f"not in it: {cold_text(cold)}; {end}")

    def _restore(self, file: Path) -> None:
        if file != STANDARD and not file.is_file():
            raise CommandError(f"{file}: no such file")
        with (
            _whole_database(self._report),
            _as_file(file) as readable,
            progress("restoring") as show,
        ):
            missing = backup.restore(readable, lambda: show("restoring"))
            if not missing:
                self._tell_cold(f"`{MANAGE} archive cold --verify` tells whether they are there")
        self.stdout.write("restored")
        if missing:
            migrations = counted(len(missing), "migration")
            self.stdout.write(f"the backup is from an earlier release: run {MANAGE} migrate ({migrations} to apply)")

    def _report(self, line: str) -> None:
        self.stderr.write(line)

    def _status(self, *, as_json: bool, complete: bool) -> None:
        try:
            report = status(timezone.now())
        except OperationalError:
            # Troubles are stored outside the database, so they can be shown while it is down.
            self.stdout.writelines(f"{line}\n" for line in trouble_lines(current_trouble()))
            raise
        if as_json:
            self.stdout.write(msgspec.json.encode(report).decode())
        else:
            self.stdout.writelines(f"{line}\n" for line in status_lines(report, complete=complete))


@contextmanager
def _whole_database(report: Callable[[str], None], *, must_exist: bool = False) -> Iterator[None]:
    """Run the data folder's server, unless SOUNDINGS_DATABASE_URL names another."""
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
    # Copies standard input, since a backup is read twice.
    if file != STANDARD:
        yield file
        return
    settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=settings.DATA_DIR, prefix="restore-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)
