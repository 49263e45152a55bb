"""Old bursts move to Parquet files: not one is lost, doubled or changed, and the pages of a path still have them."""

import hashlib
import io
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pyarrow import parquet

from monitor.accounts import read_limits
from monitor.archive.cold import days, files
from monitor.archive.models import Burst, ColdFile
from monitor.archive.queries.paths import own_test_steps, path_series, raw_bursts
from monitor.archive.queries.throughput.under_load import loaded_series
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.upkeep import retention
from monitor.archive.upkeep.status import status
from probes.contract import Deadline
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
DAY = timedelta(days=1)
OLD = HOUR - 20 * DAY


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def folder(settings, tmp_path):
    settings.RETENTION_DAYS = {**dict.fromkeys(settings.RETENTION_DAYS, 0), "bursts": 100}
    settings.COLD_BURSTS, settings.COLD_BURSTS_DAYS = "", 10
    return tmp_path / "cold"


def a_month(mesh, each_day=3):
    """Bursts with losses, failures, ICMP errors, microseconds and two paths, in each of the last 30 days."""
    results = []
    for day in range(30):
        for minute in range(each_day):
            at = HOUR - day * DAY + timedelta(minutes=minute, microseconds=17 + day)
            for path in (mesh.slac_cern, mesh.slac_anl):
                rtts = (10.123 + day, None, 1 / 3 + minute, 0.001)
                results.append(delivered(path, burst(*rtts, at=at), len(results) + 1))
    store(mesh.slac.pk, batch(*results), NOW)
    Burst.objects.filter(measured_at__lt=OLD).update(
        ttl=55, errors=[{"code": 1, "text": "ä “quoted” \\ "}], source_address="2001:db8::1", address="192.0.2.1"
    )
    Burst.objects.filter(measured_at__date=(HOUR - 15 * DAY).date()).update(during_test=True, loaded_rtts_ms=[])
    while roll_up(NOW):
        continue


def all_rows():
    return list(Burst.objects.order_by("measured_at", "path_id", "packet_bytes").values())


def seen(path_id, begin=31):
    """All that the pages of a path show of its raw bursts, day by day."""
    periods = [(HOUR - n * DAY, HOUR - (n - 1) * DAY) for n in range(begin, -1, -1)]
    return [
        (
            raw_bursts(path_id, *period),
            path_series(path_id, 100, *period),
            own_test_steps(path_id, 100, *period),
            loaded_series(path_id, 100, *period),
        )
        for period in periods
    ]


def delete_old(seconds=60.0):
    return retention.delete_old(NOW, Deadline(seconds))


@pytest.fixture(autouse=True)
def frozen(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)


def test_a_path_shows_the_same_before_and_after(mesh, folder, settings):
    a_month(mesh)
    before = seen(mesh.slac_cern.pk)
    stored = all_rows()
    settings.COLD_BURSTS = str(folder)

    delete_old()

    kept = Burst.objects.count()
    assert kept < len(stored)
    assert seen(mesh.slac_cern.pk) == before
    # 32-bit floats, microseconds, JSON and addresses are bit for bit what they were.
    in_files = [row for file in sorted(folder.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    assert len(in_files) >= len(stored) - kept
    by_key = {(row["path_id"], row["measured_at"], row["packet_bytes"]): row for row in in_files}
    for row in stored[: len(stored) - kept]:
        moved = by_key[row["path_id"], row["measured_at"], row["packet_bytes"]]
        assert moved["rtts_ms"] == [None if rtt is None else float(np.float32(rtt)) for rtt in row["rtts_ms"]]
        assert (moved["ttl"], moved["source_address"]) == (row["ttl"], row["source_address"])


def test_files_are_private_and_of_whole_days(mesh, folder, settings):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)

    delete_old()

    written = sorted(folder.rglob("*"))
    assert {path.stat().st_mode & 0o077 for path in [folder, *written]} == {0}
    assert {file.day for file in ColdFile.objects.all()} == {(HOUR - n * DAY).date() for n in range(12, 30)}
    for file in ColdFile.objects.all():
        content = (folder / file.name).read_bytes()
        assert (file.sha256, file.size_bytes) == (hashlib.sha256(content).hexdigest(), len(content))
        assert file.bursts == 6


def test_each_run_moves_a_day_however_long_it_takes(mesh, folder, settings):
    a_month(mesh)
    before = seen(mesh.slac_cern.pk)
    settings.COLD_BURSTS = str(folder)

    written = []
    for _ in range(3):
        delete_old(seconds=0.0)
        written.append(len({file.day for file in ColdFile.objects.all()}))

    assert written == [1, 2, 3]
    assert seen(mesh.slac_cern.pk) == before


def test_large_days_are_split_between_paths(mesh, folder, settings, monkeypatch):
    monkeypatch.setattr(days, "BURSTS_OF_FILE", 5)
    monkeypatch.setattr(days, "ROWS_AT_ONCE", 3)
    a_month(mesh, each_day=7)
    before = seen(mesh.slac_anl.pk), seen(mesh.slac_cern.pk)
    settings.COLD_BURSTS = str(folder)

    delete_old()

    of_day = ColdFile.objects.filter(day=OLD.date()).order_by("first_path_id")
    assert [(file.first_path_id, file.last_path_id, file.bursts) for file in of_day] == [
        (path, path, 7) for path in sorted((mesh.slac_anl.pk, mesh.slac_cern.pk))
    ]
    assert (seen(mesh.slac_anl.pk), seen(mesh.slac_cern.pk)) == before


def test_nothing_is_deleted_where_files_cannot_be_written(mesh, folder, settings, caplog):
    a_month(mesh)
    rows = Burst.objects.count()
    folder.write_text("a file, not a folder")
    settings.COLD_BURSTS = str(folder)

    delete_old()

    assert Burst.objects.count() == rows
    assert not ColdFile.objects.exists()
    assert "none is deleted" in caplog.text
    assert any(problem.id == "archive.W010" for problem in status(NOW).problems)


def test_a_writing_that_was_interrupted_is_repeated(mesh, folder, settings, monkeypatch):
    a_month(mesh)
    before = seen(mesh.slac_cern.pk)
    settings.COLD_BURSTS = str(folder)
    digest = files.ColdFolder.digest
    calls = iter(range(1000))

    def break_once(place, name):
        if next(calls) == 4:
            raise files.ColdFileError("the disk is full")
        return digest(place, name)

    monkeypatch.setattr(files.ColdFolder, "digest", break_once)
    delete_old()
    delete_old()

    assert seen(mesh.slac_cern.pk) == before
    assert {file.day for file in ColdFile.objects.all()} == {(HOUR - n * DAY).date() for n in range(12, 30)}


def test_rows_that_came_after_the_writing_are_written_too(mesh, folder, settings):
    """As where the days in the database were fewer for a time."""
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    settings.COLD_BURSTS_DAYS = 50
    late = burst(99.0, at=OLD + timedelta(minutes=50))
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, late, 9999), number=2), NOW)
    while roll_up(NOW):
        continue
    settings.COLD_BURSTS_DAYS = 10

    delete_old()
    delete_old()

    assert [row.rtts_ms for row in raw_bursts(mesh.slac_cern.pk, OLD, OLD + DAY)][-1] == [99.0]
    assert len(raw_bursts(mesh.slac_cern.pk, OLD, OLD + DAY)) == 4
    assert ColdFile.objects.filter(day=OLD.date()).count() == 2


def test_files_are_deleted_past_the_retention_of_bursts(mesh, folder, settings):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()

    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "bursts": 20}
    delete_old()

    assert min(file.day for file in ColdFile.objects.all()) == (NOW - 20 * DAY).date()
    assert len(list(folder.rglob("*.parquet"))) == ColdFile.objects.count()


def test_a_missing_file_is_an_error_and_not_an_absence(mesh, folder, settings, client):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    Path(folder / ColdFile.objects.get(day=OLD.date()).name).unlink()
    client.raise_request_exception = False

    with pytest.raises(files.ColdFileError, match="parquet"):
        raw_bursts(mesh.slac_cern.pk, OLD, OLD + timedelta(hours=1))


def test_a_reader_with_limits_gets_no_burst_of_other_sites(mesh, folder, settings):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    period = mesh.slac_cern.pk, OLD, OLD + DAY
    try:
        read_limits.limit([mesh.slac.pk, mesh.cern.pk])
        of_readable = raw_bursts(*period)
        read_limits.limit([mesh.slac.pk])
        of_hidden = raw_bursts(*period)
    finally:
        read_limits.unlimit()

    assert (len(of_readable), of_hidden) == (3, [])


def test_damage_is_named(mesh, folder, settings):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    printed = io.StringIO()
    call_command("archive", "cold", "--verify", stdout=printed)
    assert "all files are as they were written" in printed.getvalue()
    first, second = ColdFile.objects.order_by("day")[:2]
    content = bytearray((folder / first.name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / first.name).write_bytes(content)
    (folder / second.name).unlink()

    with pytest.raises(CommandError, match=r"2 files of 18 missing or damaged"):
        call_command("archive", "cold", "--verify", stdout=printed)

    assert f"{first.name}: changed since it was written" in printed.getvalue()
    assert second.name in printed.getvalue()


def test_without_the_folder_a_warning_says_which_days_are_missing(mesh, folder, settings):
    a_month(mesh)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    settings.COLD_BURSTS = ""

    warnings = [problem for problem in status(NOW).problems if problem.id == "archive.W008"]

    assert len(warnings) == 1
    assert str((HOUR - 29 * DAY).date()) in warnings[0].message


def test_a_file_of_an_earlier_release_has_the_defaults_of_later_columns(mesh, folder, settings):
    a_month(mesh)
    before = raw_bursts(mesh.slac_cern.pk, OLD, OLD + DAY)
    settings.COLD_BURSTS = str(folder)
    delete_old()
    file = folder / ColdFile.objects.get(day=OLD.date()).name
    parquet.write_table(parquet.read_table(file).drop_columns(["late", "ttl"]), file)

    rows = raw_bursts(mesh.slac_cern.pk, OLD, OLD + DAY)

    assert [row.late for row in rows] == [row.late for row in before]
    assert {row.ttl for row in rows} == {None}


def test_days_of_the_database_cost_no_query_of_files(mesh, folder, settings, django_assert_num_queries):
    settings.COLD_BURSTS = str(folder)
    with django_assert_num_queries(1):
        raw_bursts(mesh.slac_cern.pk, HOUR - DAY, HOUR)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM cold_file")
        assert cursor.fetchone() == (0,)
