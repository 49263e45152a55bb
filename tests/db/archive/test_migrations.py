"""Migrations of a full database do not block deliveries: they wait for a lock for at most a second, and do not touch
large tables while they hold a lock. docs/migrations.md has the rules tested here."""

import os
import subprocess
import sys
import threading

import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.core.management.commands import migrate as django_migrate
from django.db import connection, migrations, models, transaction
from django.db.migrations.state import ProjectState
from psycopg.conninfo import conninfo_to_dict

from monitor.archive.management.commands import migrate
from monitor.archive.models import Burst
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh, throughput
from tests.db.migration_locks import LARGE, READ, WRITTEN, under_lock
from tests.db.scratch import TOP, execute, own_dsn, piped, rows, scratch_database
from tests.deliveries import store
from tests.e2e.stack import wait_for
from tests.facts import lacks
from tests.postgres import superuser_url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timescale]
ROWS = 500
WITH_PLANTED = "tests.db.planted_migration.settings"
TABLES_MADE = {
    "auth": "0012_alter_user_first_name_max_length",
    "mesh": "0001_squashed_0014_tables",
    "archive": "0001_squashed_0034_tables",
    "agents": "0001_initial",
    "alerts": "0001_squashed_0017_incidents",
}
"""The migrations that make the large tables; every later migration keeps the rules."""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
VALUES = {
    "intervals": """jsonb '[{"start_s": 0, "end_s": 1, "transferred_bytes": 9, "throughput_bps": 72}]'""",
    "ends_at": "timestamptz '2026-01-01Z' + (n + 0.5) * interval '1 hour'",
    "integer": "n",
    "smallint": "1",
    "bigint": "n",
    "real": "1",
    "double precision": "1",
    "boolean": "FALSE",
    "text": "'text ' || n",
    "date": "date '2026-01-01' + n",
    "timestamp with time zone": "timestamptz '2026-01-01Z' + n * interval '1 hour'",
    "jsonb": "'{}'::jsonb",
    "ARRAY": "'{}'",
    "int8multirange": "'{[1,10]}'::int8multirange",
}


@pytest.fixture
def full():
    """A database with rows in every large table, before any later migration."""
    with scratch_database() as dsn:
        migrated(dsn, *(f"{app}.{name}" for app, name in TABLES_MADE.items()))
        there = {table for (table,) in rows(dsn, TABLES)}
        for table in there & set(LARGE):
            fill(dsn, table)
        yield dsn


def fill(dsn, table):
    """Insert this many rows, with any values that the columns accept."""
    columns = rows(
        dsn,
        "SELECT column_name, data_type, udt_name FROM information_schema.columns "
        f"WHERE table_name = '{table}' AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
    )
    names = ", ".join(name for name, _, _ in columns)
    values = ", ".join(VALUES.get(name) or VALUES.get(data_type) or VALUES[udt] for name, data_type, udt in columns)
    # Rows may precede the rows that they refer to, which only a superuser may allow.
    execute(
        superuser_url(conninfo_to_dict(dsn)["dbname"]),
        f"SET session_replication_role = replica; INSERT INTO {table} ({names}) SELECT {values} "
        f"FROM generate_series(1, {ROWS}) AS n",
    )


def migrated(dsn, *targets):
    """The output of `migration_locks`."""
    environment = {**os.environ, "SOUNDINGS_DATABASE_URL": dsn, "DJANGO_SETTINGS_MODULE": WITH_PLANTED}
    command = [sys.executable, "-m", "tests.db.migration_locks", *targets]
    done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_migration_touches_large_tables_under_a_lock(full):
    output_lines = migrated(full)

    assert {"planted_migration.0001_column: good", "planted_migration.0002_rows: good"} <= set(output_lines)
    assert [line for line in output_lines if not line.endswith(": good")] == []
    environment = {"SOUNDINGS_DATABASE_URL": full, "DJANGO_SETTINGS_MODULE": WITH_PLANTED}
    assert piped(environment, "migrate", "--check", "--skip-checks").returncode == 0


@pytest.fixture
def delivering(full):
    """Bursts are written all the time, each in its own transaction; returns how many so far."""
    stop, written, errors = threading.Event(), [], []
    columns = "path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms"
    values = "1, timestamptz '2026-06-01Z' + %s * interval '1 ms', 9, 'x', 0, 0, 0, 0, FALSE, '{}'"

    def write():
        try:
            with psycopg.connect(full, autocommit=True) as server:
                while not stop.wait(0.01):  # without a pause they take two thirds of the test's processor time
                    server.execute(f"INSERT INTO burst ({columns}) VALUES ({values})", [len(written)])
                    written.append(True)
        except psycopg.Error as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    yield lambda: len(written)
    stop.set()
    thread.join(60)
    assert errors == []
    assert rows(full, "SELECT count(*) FROM burst") == [(ROWS + len(written),)]


def test_a_migration_yields_to_deliveries_and_is_retried(full, delivering):
    """A session reads a table for long, like pg_dump; a migration needs it; deliveries must not queue behind both."""
    environment = {
        **os.environ,
        "SOUNDINGS_DATABASE_URL": full,
        "DJANGO_SETTINGS_MODULE": WITH_PLANTED,
    }
    command = [sys.executable, "manage.py", "migrate", "-v0", "--skip-checks"]
    with psycopg.connect(full) as reader:
        for (table,) in rows(full, TABLES):
            reader.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
        with subprocess.Popen(
            command, cwd=TOP, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as migrating:
            first_attempt = next(line for line in migrating.stderr if line.startswith("attempt"))
            before = delivering()
            wait_for(lambda: delivering() > before, 60, "bursts are written while the migration waits")
            reader.rollback()
            _, rest = migrating.communicate(timeout=240)

    assert lacks(first_attempt, "attempt 1 of 10:", "lock timeout", "rolled back") == []
    assert migrating.returncode == 0, rest
    assert rows(full, "SELECT count(planted) FROM burst") == [(0,)]
    assert piped(environment, "migrate", "--check", "--skip-checks").returncode == 0


def test_a_migration_without_its_lock_names_likely_holders(monkeypatch):
    monkeypatch.setattr(migrate, "ATTEMPTS", 2)
    monkeypatch.setattr(migrate, "PAUSE_S", 0.0)

    def wants_bursts(self, *args, **options):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE burst IN ACCESS EXCLUSIVE MODE")

    monkeypatch.setattr(django_migrate.Command, "handle", wants_bursts)
    with psycopg.connect(own_dsn()) as reader:
        reader.execute("SELECT FROM burst LIMIT 1")

        with pytest.raises(CommandError, match=r"each of 2 attempts: .*Retry .*no backup .*no long query"):
            call_command("migrate", verbosity=0)

    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_another_error_of_a_migration_is_not_retried(monkeypatch):
    calls = []

    def fails(self, *args, **options):
        calls.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(5)")

    monkeypatch.setattr(django_migrate.Command, "handle", fails)

    with pytest.raises(Exception, match="statement timeout"):
        call_command("migrate", verbosity=0)

    assert calls == [1]


# --- the check of the rules can fail


def touched_rows_of(*operations):
    """The result of the check for a migration of these operations on the current tables; it is rolled back."""
    Burst.objects.bulk_create(
        Burst(path_id=n, measured_at=NOW, packet_bytes=9, outcome="x", sent=0, received=0, duplicates=0, reordered=0,
              during_test=False, rtts_ms=[])
        for n in range(ROWS)
    )  # fmt: skip
    state = ProjectState.from_apps(apps)

    def work():
        nonlocal state
        with connection.schema_editor(atomic=False) as editor:
            for operation in operations:
                before, state = state, state.clone()
                operation.state_forwards("archive", state)
                operation.database_forwards("archive", editor, before, state)

    with transaction.atomic():
        locks = under_lock(work)
        transaction.set_rollback(True)
    return locks


def update_all(of_then, editor):
    of_then.get_model("archive", "Burst").objects.update(sent=1)


@pytest.mark.parametrize(
    "operations",
    [
        [migrations.AddIndex("burst", models.Index(fields=["outcome"], name="by_outcome"))],
        [
            migrations.RunSQL("DROP VIEW limited.burst"),
            migrations.AlterField("burst", "waited", models.BigIntegerField()),
        ],
        [migrations.AddConstraint("burst", models.CheckConstraint(condition=models.Q(sent__gte=0), name="sent"))],
        [
            migrations.AddField("burst", "more", models.IntegerField(null=True)),
            migrations.RunPython(update_all),
        ],
    ],
    ids=["an index", "a rewrite", "a constraint", "rows after a column"],
)
def test_reading_all_bursts_under_a_lock_is_detected(operations):
    assert touched_rows_of(*operations)["burst"] >= ROWS


@pytest.mark.parametrize(
    "operations",
    [
        [migrations.AddField("burst", "more", models.IntegerField(null=True))],
        [migrations.AddField("burst", "more", models.IntegerField(db_default=0))],
        [migrations.RemoveIndex("burst", "burst_by_time")],
        [migrations.RemoveField("burst", "detail")],
        [migrations.RunPython(update_all)],
    ],
    ids=["a column", "a column with a default", "no index", "a column less", "rows without a lock"],
)
def test_changing_only_the_catalogue_or_only_rows_is_allowed(operations):
    assert touched_rows_of(*operations) == {}


def test_the_tables_of_a_delivery_are_those_that_it_locks():
    mesh = make_mesh()
    slot = mesh.slot(mesh.slac_cern)
    results = [
        delivered(mesh.slac_cern, burst(1.0), 1),
        delivered(mesh.slac_cern, throughput(1e6), 2, slot_id=slot.pk),
        delivered(99999, burst(1.0), 3),
    ]
    locked = set()

    def note(execute_query, sql, params, many, context):
        answer = execute_query(sql, params, many, context)
        with connection.connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_locks INNER JOIN pg_class ON pg_class.oid = relation "
                "WHERE pid = pg_backend_pid() AND relkind = 'r' AND relnamespace = current_schema()::regnamespace"
            )
            locked.update(name for (name,) in cursor.fetchall())
        return answer

    with connection.execute_wrapper(note):
        store(mesh.slac.pk, batch(*results), NOW)

    assert locked
    assert locked <= {*WRITTEN, *READ}
