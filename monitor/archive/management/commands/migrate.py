"""`manage.py migrate`, as Django's, but it never makes deliveries wait for long.

A statement that wants a table for itself waits for those who read it, and whoever delivers waits behind it. So it waits
a second at most; then its migration is undone as a whole, deliveries pass, and it is tried again. What a migration may
do once it has the table is in docs/migrations.md.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import LockNotAvailable

from monitor.archive.upkeep import chunks

LOCK_TIMEOUT_S = 1
ATTEMPTS = 10
PAUSE_S = 1.0
FORMER_APP = "api"
HEIRS = ("agents", "accounts")
"""These have the tables that `api` had before 0.1.0; a database of that time has them already."""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        database = options["database"]
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, FALSE)", [f"{LOCK_TIMEOUT_S}s"])
        try:
            _adopt_tables(connections[database])
            self._try(*args, **options)
        finally:
            with connections[database].cursor() as cursor:
                cursor.execute("RESET lock_timeout")
        if options["app_label"] is None and not options["check_unapplied"] and not options["plan"]:
            chunks.choose()

    def _try(self, *args: Any, **options: Any) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
                what = str(error).partition("\n")[0]
            self.stderr.write(f"attempt {attempt} of {ATTEMPTS}: {what}; undone, deliveries go on")
            time.sleep(PAUSE_S)
        raise CommandError(
            f"somebody has used a table in each of {ATTEMPTS} attempts: {what}; the migrations before it are done. "
            "Run it again when no backup and no long query runs: SELECT pid, query FROM pg_stat_activity shows them"
        )


def _adopt_tables(connection: BaseDatabaseWrapper) -> None:
    """Note that the heirs of a former app have its tables, in a database that was made before them."""
    recorder = MigrationRecorder(connection)
    if not recorder.has_table():
        return
    former = [name for app, name in recorder.applied_migrations() if app == FORMER_APP]
    for app in HEIRS if former else ():
        recorder.record_applied(app, "0001_initial")
    for name in former:
        recorder.record_unapplied(FORMER_APP, name)
