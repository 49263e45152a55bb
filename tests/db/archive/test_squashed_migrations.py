"""A database from before 0.1.0 goes on with the squashed migrations, if it has all that they replace."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from monitor.archive.management.commands.migrate import LAST_UNSQUASHED
from monitor.archive.upkeep.releases import compare_migrations, require_no_later_release
from tests.db.scratch import TOP

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
SQUASHED = MigrationLoader(None).replacements
REPLACED = {key for migration in SQUASHED.values() for key in migration.replaces}
REPLACED_EARLIER = [("archive", "0003_what_a_burst_says"), ("mesh", "0008_any_kind_of_test")]
"""Migrations that those of `REPLACED` had replaced; databases still name them."""


def forget(*keys):
    for app, name in keys:
        MigrationRecorder(connection).record_unapplied(app, name)


def remember(*keys):
    for app, name in keys:
        MigrationRecorder(connection).record_applied(app, name)


def recorded():
    return set(MigrationRecorder(connection).applied_migrations())


@pytest.mark.parametrize("earlier", [[], REPLACED_EARLIER], ids=["", "and those replaced before"])
def test_a_database_with_all_replaced_migrations_has_none_to_run(earlier):
    forget(*SQUASHED)
    remember(*earlier)
    assert recorded() >= REPLACED
    require_no_later_release()
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


def test_a_database_of_none_of_them_but_of_earlier_ones_is_refused():
    forget(*SQUASHED, *REPLACED)
    remember(*REPLACED_EARLIER)

    with pytest.raises(CommandError, match=rf"before 0.1.0, .* {LAST_UNSQUASHED}"):
        call_command("migrate", verbosity=0)


@pytest.mark.parametrize("later", [("archive", "0999_later"), ("archive", "0002_squashed_0999_later")], ids=".".join)
def test_a_backup_of_that_time_can_be_restored(later):
    before = frozenset(recorded() - SQUASHED.keys())
    squashed = ("archive", "0002_squashed_0034_reporting")
    replaced = SQUASHED[squashed].replaces[-1]

    assert compare_migrations(before) == ([], [])
    assert compare_migrations(before - {replaced}) == ([], [squashed])
    assert compare_migrations(before | {later}) == ([later], [])


def test_the_page_for_maintainers_names_the_same_commit():
    assert f"`{LAST_UNSQUASHED}`" in (TOP / "docs" / "migrations.md").read_text()
