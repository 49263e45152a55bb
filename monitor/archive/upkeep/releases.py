"""Compare a database's migrations with this release's, to refuse later releases before writing."""

from __future__ import annotations

from pkgutil import iter_modules

from django.apps import apps
from django.db import OperationalError, connection
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

# Application and name.
Migration = tuple[str, str]


class LaterRelease(Exception):
    """The database is from a later release; the message has its migrations and ways out."""


def compare_migrations(applied: frozenset[Migration]) -> tuple[list[Migration], list[Migration]]:
    """Return applied migrations of later releases, and unapplied migrations of this release.

    A migration with all its `replaces` applied counts as applied; unknown migrations with a known number were replaced
    earlier.
    """
    here = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    replaced = {key: frozenset(migration.replaces) for key, migration in here.items() if migration.replaces}
    newest: dict[str, int] = {}
    for app, name in here.keys() | frozenset().union(*replaced.values()):
        newest[app] = max(newest.get(app, 0), _number(name))
    later = {(app, name) for app, name in applied if _number(name) > newest.get(app, 0)}
    missing = here.keys() - applied - {key for key, keys in replaced.items() if keys <= applied}
    return sorted(later), sorted(missing)


def later_migrations() -> list[Migration]:
    applied = frozenset(MigrationRecorder(connection).applied_migrations())
    # Loading all migrations takes a third of a second; their names suffice as a rule.
    return compare_migrations(applied)[0] if applied - _names_here() else []


def require_no_later_release() -> None:
    """Raise `LaterRelease` if there is one; database errors are left to the caller's first query."""
    try:
        later = later_migrations()
    except OperationalError:
        return
    if later:
        raise LaterRelease(later_release_text(later))


def end_at_a_later_release(program: str) -> None:
    """Exit a starting server where the database is from a later release."""
    try:
        require_no_later_release()
    except LaterRelease as error:
        # Not an `Exception`: Celery logs these in signal receivers, and goes on.
        raise SystemExit(f"{program}: {error}") from error
    finally:
        connection.close()  # a server forks its workers


def later_release_text(later: list[Migration]) -> str:
    others = f" and {len(later) - 1} more" if len(later) > 1 else ""
    return (
        f"the database is from a later release: it has the migration {'.'.join(later[-1])}{others}, which this release "
        "does not have. Nothing was changed. Install that release again, or restore the backup from before the upgrade "
        'into an empty database (docs/upgrade.md, "Going back")'
    )


def _number(name: str) -> int:
    """Number of a migration; of a squashed migration, its last replaced number."""
    return MigrationAutodetector.parse_number(name) or 0


def _names_here() -> set[Migration]:
    return {
        (config.label, module.name)
        for config in apps.get_app_configs()
        for module in iter_modules([f"{config.path}/migrations"])
    }
