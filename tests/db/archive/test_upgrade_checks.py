"""`manage.py check` before an upgrade: pending migrations with their duration, disk space, versions of the agents."""

import psycopg
import pytest
import sqlparse
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.executor import MigrationExecutor
from psycopg.conninfo import conninfo_to_dict

from monitor.agents.system_checks import version_messages
from monitor.archive.upkeep.migration_estimates import (
    LEAST_S,
    ROWS_PER_S,
    PendingMigration,
    _rows_read,
    pending_migrations,
)
from monitor.archive.upkeep.server import Disk
from monitor.archive.upkeep.upgrade_checks import check_upgrade, pending_messages
from tests.db import planted_migration
from tests.db.scratch import manage, piped, scratch_database
from tests.facts import lacks
from tests.postgres import superuser_url

COUNTS = {"slot": 3_000_000, "burst": 900_000_000, "incident": 12, "host": 0}
INDEX = models.Index(fields=["lead"], name="again")


class FakeExecutor:
    """The state of the project with all migrations, for a migration that is none of them."""

    def __init__(self):
        self.loader = self
        self._state = MigrationExecutor(None).loader.project_state()

    def project_state(self, _):
        return self._state


def rows_read(*operations, counts=COUNTS):
    migration = migrations.Migration("9999_planted", "mesh")
    migration.operations = list(operations)
    return _rows_read(migration, counts, FakeExecutor())


@pytest.mark.parametrize(
    ("operation", "tables"),
    [
        (AddIndexConcurrently("slot", INDEX), {"slot"}),
        (migrations.AddIndex("slot", INDEX), {"slot"}),
        (migrations.AddField("slot", "planted", models.IntegerField(null=True)), set()),
        (migrations.RunSQL("CREATE INDEX CONCURRENTLY again ON burst (path_id)"), {"burst"}),
        (migrations.RunSQL(["-- Of slot.\nSET lock_timeout = 0", "UPDATE incident SET began_at = NULL"]), {"incident"}),
        (migrations.RunSQL("ALTER TABLE burst ADD CONSTRAINT a CHECK (sent > 0) NOT VALID"), set()),
        (migrations.RunSQL("ALTER TABLE burst VALIDATE CONSTRAINT a"), {"burst"}),
        (migrations.RunSQL("ALTER TABLE burst ADD COLUMN planted integer"), set()),
        (migrations.RunSQL("CREATE VIEW planted AS SELECT * FROM burst JOIN slot ON TRUE"), set()),
        (
            migrations.RunSQL(
                "CREATE FUNCTION f() RETURNS trigger AS $$ BEGIN UPDATE burst SET sent = 0; RETURN NULL; END $$ "
                "LANGUAGE plpgsql"
            ),
            set(),
        ),
        (migrations.RunSQL("UPDATE host SET name = ''"), set()),
    ],
)
def test_the_rows_that_a_migration_reads_are_those_of_its_tables(operation, tables):
    assert rows_read(operation) == {table: COUNTS[table] for table in tables}


def test_python_on_tables_that_exist_has_no_estimate():
    run = migrations.RunPython(migrations.RunPython.noop)

    assert rows_read(run) is None
    assert rows_read(migrations.CreateModel("Planted", fields=[]), run) == {}


def test_messages_have_duration_reason_and_the_lack_of_space():
    pending = [
        PendingMigration(("archive", "0098_quick"), {}),
        PendingMigration(("archive", "0099_index"), {"burst": 900_000_000}),
    ]

    plenty, little = Disk(10**13, 10**12), Disk(10**13, 10**9)
    [about] = pending_messages(pending, plenty)
    _, lack = pending_messages(pending, little)

    assert lacks(about.msg, "2 migrations", "about 2 h 30 min", "archive.0099_index", "900,000,000 rows of burst") == []
    assert "0098_quick" not in about.msg
    assert (lack.id, lack.is_serious()) == ("archive.E003", True)
    assert lacks(lack.msg, "45.0 GB", "1.0 GB free") == []
    assert list(pending_messages([], little)) == []
    assert pending[1].estimate_s == pytest.approx(LEAST_S + 900_000_000 / ROWS_PER_S)


def test_an_unknown_duration_is_said():
    [about] = pending_messages([PendingMigration(("mesh", "0099_python"), None)], None)

    assert lacks(about.msg, "of unknown duration", "mesh.0099_python") == []


def test_agents_that_would_be_refused_are_named():
    versions = {"cern": "0.1.0", "fnal": "0.0.9", "kek": "0.2.0", "slac": "what"}

    older, newer = version_messages(versions, "0.1.0")

    assert lacks(older.msg, "fnal (0.0.9)", "slac (what)") == []
    assert "cern" not in older.msg
    assert lacks(newer.msg, "newer than this centre", "kek (0.2.0)") == []
    assert list(version_messages({"cern": "0.1.0"}, "0.1.0")) == []


@pytest.mark.django_db
def test_a_migrated_database_has_nothing_to_say():
    assert (pending_migrations(), check_upgrade(["default"]), check_upgrade()) == ([], [], [])


def test_no_statement_is_parsed_for_a_new_database(monkeypatch):
    monkeypatch.setattr(sqlparse, "format", lambda *_, **__: pytest.fail("parses a statement"))
    operations = (migrations.RunSQL("UPDATE burst SET sent = 1"), migrations.RunPython(migrations.RunPython.noop))

    assert rows_read(*operations, counts={}) == {}


@pytest.mark.django_db(transaction=True)
def test_check_and_migrate_say_how_long_pending_migrations_take():
    with scratch_database() as dsn:
        assert manage(dsn, "migrate", "-v0", "--skip-checks")[1:] == ("", "")
        with psycopg.connect(superuser_url(conninfo_to_dict(dsn)["dbname"])) as server:
            server.execute("UPDATE pg_class SET reltuples = 6e6 WHERE relname = 'burst'")
        planted = {"SOUNDINGS_DATABASE_URL": dsn, "DJANGO_SETTINGS_MODULE": f"{planted_migration.__name__}.settings"}

        checked = piped(planted, "check")
        migrated = piped(planted, "migrate", "-v0", "--skip-checks")
        afterwards = piped(planted, "check")

    facts = ("planted_migration.0002_rows", "about 1 min", "6,000,000 rows of burst")
    assert [done.returncode for done in (checked, migrated, afterwards)] == [0, 0, 0]
    assert lacks(checked.stderr.decode(), "(archive.I002)", "2 migrations to apply", *facts, "archive backup") == []
    assert lacks(migrated.stdout.decode(), *facts, "deliveries pass") == []
    assert migrated.stdout.count(b"\n") == 1
    assert b"to apply" not in afterwards.stderr
