"""A backup taken during deliveries, restored elsewhere: the same rows to the last bit, with nothing left to do."""

import errno
import os
import socket
import subprocess
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from monitor.archive.models import ReceivedBatch
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.upkeep import backup
from monitor.archive.upkeep.backup import BackupContents, BackupError
from monitor.stack import postgres
from monitor.stack.postgres import PostgresError, client_program
from tests.db.archive.test_archive_hypertables import has_timescaledb
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.db.scratch import manage, own_dsn, piped, rows, scratch_database
from tests.deliveries import store

pytestmark = pytest.mark.django_db(transaction=True)
SUMMARIES = [f"{result}_{tier}" for result in ("burst", "throughput") for tier in ("hour", "day", "month", "year")]
TABLES = ["burst", "throughput_test", "received_batch", "refused_result", "delivered_day", "dirty_hour", *SUMMARIES]
FIRST_BATCHES, RESULTS = 20, 50


@pytest.fixture
def mesh():
    """Twenty batches of three days, with losses, tests and refusals, and all their summaries."""
    mesh = make_mesh()
    for number in range(1, FIRST_BATCHES + 1):
        at = HOUR - timedelta(hours=3 * number)
        results = [
            delivered(
                (mesh.slac_cern, mesh.slac_anl)[n % 2],
                burst(10.1 + n / 3, None if n % 7 == 0 else 11.7 / (n + 1), at=at + timedelta(minutes=n)),
                number * 100 + n,
            )
            for n in range(RESULTS)
        ]
        tests = [delivered(mesh.slac_cern, throughput(1e8 / number, at=at), number * 100 + 98)]
        refused = [delivered(99999, burst(1.0), number * 100 + 99)]
        store(mesh.slac.pk, batch(*results, *tests, *refused, number=number), NOW)
    while roll_up(NOW):
        continue
    merge_all(NOW)
    return mesh


@pytest.fixture
def scratch():
    with scratch_database() as dsn:
        yield dsn


@pytest.fixture
def delivering(mesh):
    """Results are delivered, on another connection, during the whole test."""
    stop, errors = threading.Event(), []

    def deliver():
        number = FIRST_BATCHES
        try:
            while not stop.wait(0.05):
                number += 1
                at = NOW - timedelta(days=40) + timedelta(minutes=number)
                results = [
                    delivered(mesh.slac_cern, burst(float(n), at=at + timedelta(milliseconds=n)), number * 100 + n)
                    for n in range(RESULTS)
                ]
                store(mesh.slac.pk, batch(*results, number=number), NOW)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the test must see it
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=deliver)
    thread.start()
    while ReceivedBatch.objects.count() < FIRST_BATCHES + 3:
        assert not errors
    yield
    stop.set()
    thread.join(60)
    assert not errors


def content(dsn, table, condition="TRUE"):
    """All rows as text: PostgreSQL writes floats so that they are parsed to the same bits."""
    return [text for (text,) in rows(dsn, f"SELECT t::text FROM {table} AS t WHERE {condition} ORDER BY t::text")]


@pytest.mark.timescale
def test_a_backup_during_deliveries_restores_the_same_rows(mesh, delivering, scratch, tmp_path, capsys):
    file = tmp_path / "soundings.dump"
    call_command("archive", "backup", "--out", str(file))
    report = capsys.readouterr().out

    status, output, complained = manage(scratch, "archive", "restore", str(file))

    assert (status, output) == (0, "restored\n"), complained
    assert report.startswith(f"{file}: ")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    # A batch is stored with all of its results or not at all, and none is missing in between.
    [(newest, batches)] = rows(scratch, "SELECT max(number), count(*) FROM received_batch")
    assert newest == batches > FIRST_BATCHES
    assert rows(scratch, "SELECT count(*) FROM burst") == [(RESULTS * batches,)]
    old = "measured_at > '2026-02-20Z'"
    assert len(content(own_dsn(), "burst", old)) == RESULTS * FIRST_BATCHES
    assert content(scratch, "burst", old) == content(own_dsn(), "burst", old)
    for table in [*SUMMARIES, "throughput_test", "refused_result"]:
        assert content(scratch, table) == content(own_dsn(), table) != []


@pytest.mark.timescale
def test_a_restored_database_recomputes_the_same_summaries(mesh, scratch, tmp_path):
    file = tmp_path / "soundings.dump"
    call_command("archive", "backup", "--out", str(file))
    assert manage(scratch, "archive", "restore", str(file))[0] == 0
    restored = {table: content(scratch, table) for table in TABLES}

    assert restored == {table: content(own_dsn(), table) for table in TABLES}
    assert manage(scratch, "migrate", "--check", "--skip-checks")[0] == 0
    status, output, _ = manage(scratch, "archive", "recompute", "--from", "2026-03-01", "--to", "2026-03-15")
    assert (status, output) == (0, "recomputed: 40 hours, 6 days, 2 months, 2 years\n")
    assert {table: content(scratch, table) for table in TABLES} == restored
    indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef"
    assert rows(scratch, indexes) == rows(own_dsn(), indexes)


@pytest.mark.timescale
def test_chunks_are_restored_as_chunks_that_accept_results(mesh, scratch, tmp_path):
    file = tmp_path / "soundings.dump"
    call_command("archive", "backup", "--out", str(file))
    assert manage(scratch, "archive", "restore", str(file))[0] == 0

    if has_timescaledb():
        chunks = "SELECT hypertable_name, num_chunks FROM timescaledb_information.hypertables ORDER BY 1"
        assert rows(scratch, chunks) == rows(own_dsn(), chunks)
        assert dict(rows(scratch, chunks))["burst"] == 3
    columns = "path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms"
    # A day that had no chunk before.
    values = "7, '2020-01-01Z', 9, 'no_route', 0, 0, 0, 0, FALSE, '{}'"
    assert rows(scratch, f"INSERT INTO burst ({columns}) VALUES ({values}) RETURNING path_id") == [(7,)]


def test_backup_and_restore_work_through_pipes(mesh, scratch):
    dumped = piped({"SOUNDINGS_DATABASE_URL": own_dsn()}, "archive", "backup", "--out", "-")

    done = piped({"SOUNDINGS_DATABASE_URL": scratch}, "archive", "restore", "-", stdin=dumped.stdout)

    assert (done.returncode, done.stderr) == (0, b"")
    assert content(scratch, "burst_day") == content(own_dsn(), "burst_day") != []


@pytest.mark.timescale
def test_only_an_empty_database_can_be_restored_into(mesh, tmp_path):
    file = tmp_path / "soundings.dump"
    call_command("archive", "backup", "--out", str(file))

    with pytest.raises(CommandError, match=r" not empty.* \d+ tables.* createdb"):
        call_command("archive", "restore", str(file))


@pytest.mark.parametrize("broken", ["missing", "cut", "text"])
def test_a_file_that_is_no_complete_backup_changes_nothing(mesh, scratch, tmp_path, broken):
    file = tmp_path / "soundings.dump"
    if broken == "cut":
        call_command("archive", "backup", "--out", str(file))
        file.write_bytes(file.read_bytes()[:-3000])
    elif broken == "text":
        file.write_text("--\n-- PostgreSQL database dump\n--\n\n" + "SET row_security = off;\n" * 300)

    status, output, complained = manage(scratch, "archive", "restore", str(file))

    assert (status, output) == (1, "")
    expected = {
        "missing": "no such file",
        "cut": "could not ",
        "text": "text format dump",
    }
    assert expected[broken] in complained
    assert rows(scratch, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_a_backup_of_another_program_is_refused(scratch, tmp_path):
    file = tmp_path / "other.dump"
    pg_dump = client_program("pg_dump", connection.pg_version // 10_000)
    subprocess.run([pg_dump, "--format=custom", f"--file={file}", f"--dbname={scratch}"], check=True)

    with pytest.raises(BackupError, match="has no tables of Soundings"):
        backup.contents(file)


def test_a_database_without_our_tables_is_not_backed_up(scratch, tmp_path):
    status, _, errors = manage(scratch, "archive", "backup", "--out", str(tmp_path / "soundings.dump"))

    assert (status, "has no tables of Soundings" in errors) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_backup_keeps_the_last_good_backup(tmp_path, monkeypatch):
    file = tmp_path / "soundings.dump"
    file.write_bytes(b"yesterday's")
    monkeypatch.setattr(backup, "_target", lambda: f"{own_dsn()} dbname=nowhere")

    with pytest.raises(CommandError, match=r'pg_dump: error: .*database "nowhere" does not exist'):
        call_command("archive", "backup", "--out", str(file), "--force")

    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == b"yesterday's"


def test_a_file_is_replaced_with_force_only(tmp_path):
    file = tmp_path / "soundings.dump"
    file.write_bytes(b"precious")
    file.chmod(0o644)

    with pytest.raises(CommandError, match=r"already exists; .*--force"):
        call_command("archive", "backup", "--out", str(file))
    assert file.read_bytes() == b"precious"
    call_command("archive", "backup", "--out", str(file), "--force")

    assert backup.contents(file).migrations
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["default", "forced"])
@pytest.mark.parametrize("kind", ["device", "link", "dangling link", "folder", "fifo", "socket"])
def test_a_file_that_is_not_regular_is_never_replaced(tmp_path, kind, force):
    precious, name = tmp_path / "precious", tmp_path / "soundings.dump"
    precious.write_bytes(b"precious")
    if kind == "device":
        name = Path(os.devnull)
    elif kind == "fifo":
        os.mkfifo(name)
    elif kind == "folder":
        name.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(name))
    else:
        name.symlink_to(precious if kind == "link" else tmp_path / "nowhere")
    before = name.lstat()

    with pytest.raises(CommandError, match="not a regular file"):
        call_command("archive", "backup", "--out", str(name), *force)

    after = name.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert precious.read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize("name", ["", ".", "..", "/"])
def test_a_backup_without_a_name_asks_for_a_file(name):
    with pytest.raises(CommandError, match="is a folder"):
        call_command("archive", "backup", "--out", name)


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_created_meanwhile_is_kept(tmp_path, monkeypatch, hard_links):
    part, file = tmp_path / "part", tmp_path / "soundings.dump"
    part.write_bytes(b"dump")
    file.write_bytes(b"precious")
    if not hard_links:
        monkeypatch.setattr(backup.os, "link", _no_hard_links)

    with pytest.raises(BackupError, match="already exists"):
        backup._give_name(part, file, force=False)
    assert file.read_bytes() == b"precious"
    file.unlink()
    backup._give_name(part, file, force=False)
    assert file.read_bytes() == b"dump"


def _no_hard_links(*_):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_a_missing_folder_is_named(mesh, tmp_path):
    with pytest.raises(CommandError, match=r"nowhere/soundings\.dump: No such file or directory"):
        call_command("archive", "backup", "--out", str(tmp_path / "nowhere" / "soundings.dump"))


HERE = BackupContents(
    server_major=17, dumper_major=17, timescaledb=None, migrations=frozenset({("archive", "0001_initial")})
)
UNFIT = {
    "from a later release": (
        replace(HERE, migrations=frozenset({("archive", "0999_later")})),
        r"from a later release.* archive\.0999_later",
    ),
    "from a newer server": (
        replace(HERE, server_major=99),
        r"from PostgreSQL 99,.* this server is 1\d\.\d+;.* 99 or later",
    ),
    "from another TimescaleDB": (
        replace(HERE, timescaledb="2.0.1"),
        r"needs TimescaleDB 2\.0\.1, this server has .*installed and preloaded",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_incompatible_backup_is_refused_without_changes(case, monkeypatch, tmp_path):
    state, message = UNFIT[case]
    monkeypatch.setattr(backup, "contents", lambda file: state)
    monkeypatch.setattr(backup, "_require_empty", lambda: None)
    if has_timescaledb() and state.timescaledb:
        message = r"from TimescaleDB 2\.0\.1, this database .*restore.* ALTER EXTENSION timescaledb UPDATE"

    with pytest.raises(BackupError, match=message):
        backup.restore(tmp_path / "soundings.dump", lambda: None)


def test_a_missing_program_is_named_with_its_package(monkeypatch, tmp_path):
    with pytest.raises(PostgresError, match=r"pg_dump of PostgreSQL 99 .*needed.* of 18"):
        client_program("pg_dump", 99)
    monkeypatch.setattr(postgres.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgres, "PACKAGED", tmp_path)
    monkeypatch.setattr(postgres.shutil, "which", lambda name: None)
    with pytest.raises(PostgresError, match=r"none at all.* install postgresql-client-18"):
        client_program("pg_dump", 18)


def test_a_data_folder_is_backed_up_and_restored_offline(tmp_path):
    """As on a single machine, where the database runs only under `manage.py up`."""
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    old, new, file = tmp_path / "old", tmp_path / "new", tmp_path / "soundings.dump"
    first = piped({"SOUNDINGS_DATA": str(old)}, "archive", "backup", "--out", str(file))
    assert (first.returncode, b"no database" in first.stderr) == (1, True)
    with postgres.running(old / "postgres", print):
        url = postgres.local_url(old / "postgres")
        assert manage(url, "migrate", "-v0", "--skip-checks")[0] == 0
        with psycopg.connect(url) as server:
            server.execute("INSERT INTO dirty_hour VALUES (7, '2026-03-14T12:00Z', '2026-03-14T12:01Z')")

    dumped = piped({"SOUNDINGS_DATA": str(old)}, "archive", "backup", "--out", str(file))
    restored = piped({"SOUNDINGS_DATA": str(new)}, "archive", "restore", str(file))

    assert (dumped.returncode, restored.returncode) == (0, 0), dumped.stderr + restored.stderr
    with postgres.running(new / "postgres", print):
        assert rows(postgres.local_url(new / "postgres"), "SELECT path_id FROM dirty_hour") == [(7,)]
