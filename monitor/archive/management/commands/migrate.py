"""`manage.py migrate` as Django's, with a lock timeout of a second and retries, so that deliveries never wait long.

See docs/migrations.md.
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
# Last commit with every migration replaced in 0.1.0.
LAST_UNSQUASHED = "66c2004eb8fafbdd9d690953a7504b677a0b1683"


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
        """Print Django's lines, and before a long migration its duration."""
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
    """Raises `CommandError` where only some replaced migrations were applied."""
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
