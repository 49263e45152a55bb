"""Django's system checks of the database server: none for a good server, and each problem with its fix."""

import re
import subprocess
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.db import connection

from monitor.archive.upkeep import server as server_module
from monitor.archive.upkeep import system_checks
from monitor.archive.upkeep.server import Disk, disk, plain_tables, server
from monitor.archive.upkeep.system_checks import problems
from tests.db.archive.test_archive_hypertables import has_timescaledb
from tests.db.scratch import TOP, execute, manage, rows, scratch_database
from tests.facts import lacks
from tests.unit.test_compose import SERVICES

pytestmark = pytest.mark.timescale

CHECK = ("check", "--database", "default", "--tag", "database")
"""Other checks load all pages."""
GIGABYTE = 10**9
GOOD = server_module.Server(
    version_number=170_011,
    session_time_zone="UTC",
    default_time_zone="Etc/UTC",
    max_connections=50,
    cache_bytes=4 * 2**30,
    database_bytes=GIGABYTE,
    data_directory="/var/lib/postgresql/17/main",
    timescaledb="2.19.3",
    timescaledb_versions=["2.19.3"],
    preloads_timescaledb=True,
    timescaledb_licence="timescale",
)
PLAIN = replace(GOOD, timescaledb=None, timescaledb_versions=None, preloads_timescaledb=False, timescaledb_licence=None)
ROOM = Disk(total_bytes=100 * GIGABYTE, free_bytes=50 * GIGABYTE)


def ids(server_now, space=ROOM, plain=()):
    messages = list(problems(server_now, space, plain))
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


@pytest.mark.parametrize("good_server", [GOOD, PLAIN, replace(GOOD, version_number=180_004, timescaledb="2.30.2")])
def test_a_good_server_has_no_messages(good_server):
    assert ids(good_server) == []
    assert ids(good_server, space=None) == []


FAULTS = {
    "archive.E001": replace(GOOD, session_time_zone="Europe/Zurich"),
    "archive.W001": replace(GOOD, default_time_zone="Europe/Zurich"),
    "archive.W002": replace(GOOD, version_number=160_003),
    "archive.W003": replace(PLAIN, timescaledb_versions=["2.19.3"]),
    "archive.W005": replace(GOOD, timescaledb="2.18.2"),
    "archive.W007": replace(GOOD, max_connections=29),
    "archive.I001": replace(GOOD, timescaledb_licence="apache"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_problem_has_its_id(name):
    assert ids(FAULTS[name]) == [name]


@pytest.mark.parametrize("version", ["2.19.0", "2.30.9", "2.20.0-dev"])
def test_timescaledb_versions_from_first_to_last_are_tested(version):
    assert ids(replace(GOOD, timescaledb=version)) == []


@pytest.mark.parametrize("version", ["2.31.0", "3.0.0", "2.9.4"])
def test_other_timescaledb_versions_are_not_tested(version):
    assert ids(replace(GOOD, timescaledb=version)) == ["archive.W005"]


def test_an_unreadable_preload_setting_is_not_a_problem():
    """An ordinary user of PostgreSQL may not read it."""
    assert ids(replace(PLAIN, timescaledb_versions=["2.19.3"], preloads_timescaledb=None)) == []


def test_plain_tables_beside_timescaledb_are_named():
    [message] = problems(GOOD, ROOM, ["burst", "burst_hour"])

    assert message.id == "archive.W004"
    assert message.msg.endswith("burst, burst_hour")


@pytest.mark.parametrize(
    ("total_gb", "free_gb", "is_low"), [(100, 10, False), (100, 9.9, True), (5, 1.0, True), (5, 1.1, False)]
)
def test_a_disk_is_low_below_a_tenth_or_a_gigabyte(total_gb, free_gb, is_low):
    space = Disk(total_bytes=int(total_gb * GIGABYTE), free_bytes=int(free_gb * GIGABYTE))

    assert ids(GOOD, space) == (["archive.W006"] if is_low else [])


def test_compose_runs_tested_versions_of_both():
    release, _, postgresql = SERVICES["timescaledb"]["image"].partition(":")[2].partition("-pg")

    assert ids(replace(GOOD, timescaledb=release, version_number=int(postgresql) * 10_000)) == []


@pytest.mark.django_db
def test_the_tests_own_server_has_only_true_messages(capsys):
    expected = ["archive.I001"] if has_timescaledb() else []
    call_command("check", "--database", "default")
    output = capsys.readouterr()

    problem_ids = ids(server(), disk(server()), plain_tables(server()))

    assert [name for name in problem_ids if name != "archive.W006"] == expected
    assert ("(archive.I001)" in output.err) == has_timescaledb()
    assert plain_tables(server()) == []


@pytest.mark.django_db
def test_the_database_is_checked_only_if_requested(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert system_checks.check_database() == []


@pytest.mark.django_db
def test_the_disk_is_that_of_the_data_if_the_server_is_local():
    disk_problems = disk(server())
    if has_timescaledb():
        assert disk_problems is None  # its folder is in another root
        return
    folder = server().data_directory
    df_output = subprocess.run(
        ["df", "-B1", "--output=size", folder], capture_output=True, text=True, check=True
    ).stdout

    assert disk_problems.total_bytes == int(df_output.splitlines()[1])
    assert 0 < disk_problems.free_bytes <= disk_problems.total_bytes


@pytest.mark.django_db
def test_the_disk_of_a_remote_server_is_unknown(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "db.example.org")

    assert disk(server()) is None
    assert disk(replace(server(), data_directory=None)) is None


def test_an_unreachable_database_is_an_error_with_a_fix():
    status, _, errors = manage("postgresql://nobody@127.0.0.1:1/nothing", *CHECK)

    assert status == 1
    assert lacks(errors, "(archive.E002)", "database cannot be used") == []
    assert lacks(errors, "HINT: Start", "manage.py up", "--data DIR", "SOUNDINGS_DATA=DIR") == []


@pytest.mark.django_db(transaction=True)
def test_another_time_zone_and_plain_tables_are_detected():
    with scratch_database() as dsn:
        [(name,)] = rows(dsn, "SELECT current_database()")
        assert manage(dsn, "migrate", "-v0", "--skip-checks")[0] == 0
        execute(dsn, f"ALTER DATABASE {name} SET timezone TO 'Europe/Zurich'")
        if has_timescaledb():
            execute(dsn, "DROP TABLE capacity_result CASCADE")
            execute(dsn, "CREATE TABLE capacity_result (measured_at timestamptz)")

        status, _, errors = manage(dsn, *CHECK)

        if has_timescaledb():
            execute(dsn, "INSERT INTO capacity_result VALUES ('2026-03-14Z')")
            [convert] = re.findall(r"SELECT create_hypertable\(.*", (TOP / "docs" / "archive.md").read_text())
            execute(dsn, convert.replace("burst", "capacity_result"))
            assert "archive.W004" not in manage(dsn, *CHECK)[2]
            assert rows(dsn, "SELECT count(*) FROM capacity_result") == [(1,)]

    assert status == 0
    assert re.search(r"\(archive.W001\) .*Europe/Zurich", errors)
    assert ("(archive.W004)" in errors) == has_timescaledb()
    assert "archive.E001" not in errors
