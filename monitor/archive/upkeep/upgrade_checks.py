"""Django system checks before an upgrade: release, pending migrations, and their disk space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from monitor.archive.upkeep.migration_estimates import PendingMigration, estimate_s, pending_migrations
from monitor.archive.upkeep.releases import later_migrations, later_release_text
from monitor.archive.upkeep.server import Disk, disk, server
from probes.commands.own_command import MANAGE
from probes.quantities import counted, duration_text


def check_upgrade(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Check the database's migrations; an empty database is no upgrade."""
    if "default" not in (databases or ()):
        return []
    try:
        if not MigrationRecorder(connection).applied_migrations():
            return []
        later = later_migrations()
        return [_later(later)] if later else list(pending_messages(pending_migrations(), disk(server())))
    except OperationalError:
        return []  # `check_database` says so


def pending_messages(pending: Sequence[PendingMigration], space: Disk | None) -> Iterator[CheckMessage]:
    if not pending:
        return
    whole_s = estimate_s(list(pending))
    duration = "of unknown duration" if whole_s is None else f"about {duration_text(max(whole_s, 1))}"
    yield checks.Info(
        "; ".join(
            [
                f"{counted(len(pending), 'migration')} to apply, {duration}",
                *(migration.text() for migration in pending if migration.is_long),
            ]
        ),
        hint=f"Back up with `{MANAGE} archive backup`, then `{MANAGE} migrate`; deliveries pass meanwhile.",
        id="archive.I002",
    )
    needed_bytes = sum(migration.least_bytes for migration in pending)
    if space is not None and needed_bytes > space.free_bytes:
        yield checks.Error(
            f"the migrations need about {needed_bytes / 1e9:.1f} GB, the disk of the database has "
            f"{space.free_bytes / 1e9:.1f} GB free",
            hint=f"Free space first, or go on nevertheless with `{MANAGE} migrate --skip-checks`.",
            id="archive.E003",
        )


def _later(later: list[tuple[str, str]]) -> CheckMessage:
    return checks.Error(later_release_text(later), id="archive.E004")
