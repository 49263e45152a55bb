"""`manage.py archive status` tells what is there and what waits."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from monitor.archive import queries, trouble
from monitor.archive.ingest import store
from monitor.archive.rollups import roll_up
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh

pytestmark = pytest.mark.django_db


def status(capsys):
    call_command("archive", "status")
    return capsys.readouterr().out.splitlines()


def test_an_empty_archive_says_so(capsys):
    assert status(capsys)[-3:] == ["bursts from - to -", "every hour has its summary", "0 results refused"]


def test_what_is_there_and_what_waits_is_told(capsys):
    mesh = make_mesh()
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(3)]
    store(mesh.slac.pk, batch(*results, delivered(99999, burst(1.0), 9)), timezone.now() - timedelta(seconds=90))
    before = status(capsys)
    roll_up(timezone.now())

    after = status(capsys)

    assert before[-3] == "bursts from 2026-03-14 10:00:00 UTC to 2026-03-14 12:00:00 UTC"
    assert before[-2].startswith("3 hours wait for their summary, the longest for ")
    assert after[-2:] == ["every hour has its summary", "1 results refused"]


def test_why_nothing_can_be_stored_is_told(capsys, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    trouble.note(trouble.Kind.DISK_FULL)

    (told,) = status(capsys)[-1:]

    assert told.startswith("nothing can be stored: the disk of the database is full, last seen at 20")


def test_each_table_has_its_rows_and_size():
    mesh = make_mesh()
    store(
        mesh.slac.pk,
        batch(*(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n) for n in range(70))),
        NOW,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE burst")

    sizes = {table.name: table for table in queries.table_sizes()}

    assert set(sizes) == {
        "burst",
        *(f"{what}_{tier}" for what in ("burst", "throughput") for tier in ("hour", "day", "month", "year")),
        "capacity_result",
        "dirty_hour",
        "dirty_summary",
        "received_batch",
        "refused_result",
        "throughput_test",
    }
    assert sizes["burst"].row_estimate == 70
    assert sizes["burst"].total_bytes > 70 * 100
