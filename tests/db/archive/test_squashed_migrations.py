"""A database from before 0.1.0 goes on with the squashed migrations, if it has all that they replace."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from monitor.archive.management.commands.migrate import LAST_UNSQUASHED
from monitor.archive.upkeep.releases import compare_migrations

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
SQUASHED = MigrationLoader(None).replacements


def forget(*keys):
    for app, name in keys:
        MigrationRecorder(connection).record_unapplied(app, name)


def recorded():
    return set(MigrationRecorder(connection).applied_migrations())


def test_a_database_with_all_replaced_migrations_has_none_to_run():
    forget(*SQUASHED)
    assert {key for migration in SQUASHED.values() for key in migration.replaces} <= recorded()
    output = StringIO()

    call_command("migrate", stdout=output)

    assert "No migrations to apply" in output.getvalue()
    assert "not yet reflected in a migration" not in output.getvalue()
    assert SQUASHED.keys() <= recorded()


@pytest.mark.parametrize("key", sorted(SQUASHED), ids=".".join)
def test_a_database_without_some_of_them_is_refused(key):
    missing = SQUASHED[key].replaces[-1]
    forget(*SQUASHED, missing)
    before = recorded()

    with pytest.raises(CommandError, match=rf"without migration {'.'.join(missing)}; .* {LAST_UNSQUASHED}"):
        call_command("migrate", verbosity=0)

    assert recorded() == before


def test_a_backup_of_that_time_can_be_restored():
    before = frozenset(recorded() - SQUASHED.keys())
    replaced = SQUASHED["archive", "0002_reporting"].replaces[-1]

    assert compare_migrations(before) == ([], [])
    assert compare_migrations(before - {replaced}) == ([], [("archive", "0002_reporting")])
    assert compare_migrations(before | {("archive", "0999_later")}) == ([("archive", "0999_later")], [])
