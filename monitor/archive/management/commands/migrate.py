"""`manage.py migrate` as Django's, with a lock timeout so that deliveries never wait long.

A statement that needs an exclusive table lock waits for running readers, and deliveries queue behind it. It waits at
most a second; on timeout its migration is rolled back, deliveries proceed, and it is retried. docs/migrations.md says
what a migration may do while it holds the lock. A migration that takes long is announced with its duration.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import LockNotAvailable

from monitor.archive.upkeep import chunks
from monitor.archive.upkeep.migration_estimates import pending_migrations
from monitor.archive.upkeep.releases import require_no_later_release

LOCK_TIMEOUT_S = 1
ATTEMPTS = 10
PAUSE_S = 1.0
LAST_UNSQUASHED = "66c2004eb8fafbdd9d690953a7504b677a0b1683"
"""Last commit with every migration that those of 0.1.0 replace."""


class Command(migrate.Command):
    help = "Bring the database schema up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        database = options["database"]
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, FALSE)", [f"{LOCK_TIMEOUT_S}s"])
        try:
            require_no_later_release()
            _require_squashed_migrations(connections[database])
            self._long = {migration.key: migration for migration in pending_migrations() if migration.is_long}
            self._try(*args, **options)
        finally:
            with connections[database].cursor() as cursor:
                cursor.execute("RESET lock_timeout")
        if options["app_label"] is None and not options["check_unapplied"] and not options["plan"]:
            chunks.choose()

    def migration_progress_callback(self, action: str, migration: Migration | None = None, fake: bool = False) -> None:
        """Django's line of each migration; before a long one its duration, also where all else is silent."""
        if action == "apply_start" and migration is not None and not fake:
            long = self._long.get((migration.app_label, migration.name))
            if long is not None:
                self.stdout.write(f"{long.text()}; deliveries pass meanwhile")
                self.stdout.flush()
        super().migration_progress_callback(action, migration, fake)

    def _try(self, *args: Any, **options: Any) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
                what = str(error).partition("\n")[0]
            self.stderr.write(f"attempt {attempt} of {ATTEMPTS}: {what}; rolled back, retrying")
            time.sleep(PAUSE_S)
        raise CommandError(
            f"a table was in use in each of {ATTEMPTS} attempts: {what}; earlier migrations are applied. "
            "Retry when no backup and no long query runs; SELECT pid, query FROM pg_stat_activity lists them"
        )


def _require_squashed_migrations(connection: BaseDatabaseWrapper) -> None:
    """Raises `CommandError` in a database that has earlier migrations, and not all that those of today replace."""
    applied = MigrationRecorder(connection).applied_migrations().keys()
    loader = MigrationLoader(None)
    # Django records what a migration replaces with it.
    recorded_with = {name for key in applied & loader.replacements.keys() for name in loader.replacements[key].replaces}
    earlier_apps = {app for app, _ in applied - loader.disk_migrations.keys() - recorded_with}
    for migration in loader.replacements.values():
        missing = sorted(set(migration.replaces) - applied)
        if missing and migration.app_label in earlier_apps:
            raise CommandError(
                f"the database is from a version before 0.1.0, without migration {'.'.join(missing[0])}; check out "
                f"commit {LAST_UNSQUASHED}, run its migrate, and retry"
            )
