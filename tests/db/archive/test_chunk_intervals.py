"""The time span of a chunk follows the size of the mesh and the memory of the server; old chunks stay."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from monitor.archive.models import Burst
from monitor.archive.upkeep import chunks
from monitor.archive.upkeep.chunks import SPANS, planned_bytes, span_for
from monitor.archive.upkeep.server import hypertables, server
from monitor.mesh import models as mesh_models
from monitor.mesh.models import Measurement, MeasurementPeriod
from tests.db.archive.test_archive_hypertables import has_timescaledb
from tests.db.mesh_of_three import HOUR, make_mesh

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
DAY = timedelta(days=1)
GIGABYTE = 2**30


@given(st.floats(1.0, 1e13), st.integers(2**20, 2**42))
def test_a_chunk_is_the_longest_within_a_quarter_of_the_memory(bytes_a_day, memory):
    span = span_for(bytes_a_day, memory)

    share = bytes_a_day * (span / DAY) / memory
    assert timedelta(hours=1) <= span <= timedelta(days=30)
    assert share <= 0.25 or span == SPANS[0]
    # The steps are at most a factor of 2.2 apart.
    assert share > 0.25 / 2.2 or span == SPANS[-1]


@pytest.mark.parametrize(
    ("bytes_a_day", "span"),
    [
        (0.9 * GIGABYTE, DAY),  # a day of them is 0.9 of the 1 GB that is a quarter of 4
        (1.1 * GIGABYTE, timedelta(hours=12)),
        (1e6, timedelta(days=30)),
        (1e12, timedelta(hours=1)),
    ],
)
def test_examples_with_four_gigabytes_of_memory(bytes_a_day, span):
    assert span_for(bytes_a_day, 4 * GIGABYTE) == span


@pytest.fixture
def plan():
    """A mesh with a ping test of ten echo requests of two sizes each half minute, on each of three paths."""
    mesh = make_mesh()
    sizes = [100, 1000]
    kinds = {
        "ping": (30, sizes, {"count": 10, "packet_bytes": sizes}),
        "throughput": (3600, [], {}),
        "capacity": (86_400, [], {}),
    }
    for kind, (every_s, packet_bytes, parameters) in kinds.items():
        test = mesh_models.Test.objects.create(name=kind, kind=kind, every_s=every_s, parameters=parameters)
        for path in (mesh.slac_cern, mesh.slac_anl, mesh.cern_slac):
            measurement = Measurement.objects.create(path=path, test=test, started_at=HOUR)
            MeasurementPeriod.objects.create(
                measurement=measurement, every_s=every_s, packet_bytes=packet_bytes, started_at=HOUR
            )
    return mesh


def test_daily_rows_are_computed_from_the_current_plan(plan):
    MeasurementPeriod.objects.filter(measurement__path=plan.cern_slac).update(ended_at=HOUR)

    assert planned_bytes() == {
        "burst": 2 * 2880 * 2 * (192 + 4 * 10),
        "burst_hour": 2 * 24 * 2 * 430,
        "throughput_test": 2 * 24 * 2000,
        "capacity_result": 2 * 300,
    }


def test_a_seldom_measurement_has_at_most_an_hour_per_run(plan):
    MeasurementPeriod.objects.filter(measurement__test__kind="ping").update(every_s=7200)

    assert planned_bytes()["burst_hour"] == 3 * 12 * 2 * 430


def test_without_a_plan_no_interval_is_chosen():
    assert planned_bytes() == {}
    assert chunks.choose() == {}


def spans():
    return {table.name: table.chunk_interval for table in hypertables(server())}


def set_memory(size):
    """For this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('effective_cache_size', %s, TRUE)", [size])


def test_intervals_are_set_once_and_only_for_hypertables(plan):
    # A quarter of 8 MB is 2.10 MB. Three paths give 4.01 MB of bursts a day, 0.144 MB of throughput tests, 0.05 MB of
    # hours: they take 12.6 hours, 14.6 days, 40 days.
    set_memory("8MB")

    changed = chunks.choose()

    expected = {"burst": timedelta(hours=12), "throughput_test": 14 * DAY}
    assert changed == (expected if has_timescaledb() else {})
    others = {"burst_hour": 30 * DAY, "capacity_result": 30 * DAY, "direction_burst": DAY, "trace": 7 * DAY}
    others["interface_result"] = 7 * DAY
    assert spans() == ({**expected, **others} if has_timescaledb() else {})
    assert chunks.choose() == {}


def insert(at):
    Burst.objects.create(
        path_id=1, measured_at=at, packet_bytes=100, outcome="measured", sent=1, received=1, duplicates=0, reordered=0,
        during_test=False, rtts_ms=[1.0],
    )  # fmt: skip


def test_only_new_chunks_have_the_new_interval(plan):
    if not has_timescaledb():
        pytest.skip("needs TimescaleDB")
    insert(HOUR)
    set_memory("8MB")
    chunks.choose()
    insert(HOUR + 5 * DAY)
    insert(HOUR + timedelta(minutes=1))

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT range_end - range_start FROM timescaledb_information.chunks "
            "WHERE hypertable_name = 'burst' ORDER BY range_start"
        )
        assert [length for (length,) in cursor.fetchall()] == [DAY, timedelta(hours=12)]
    assert Burst.objects.count() == 3


MESH = """
[mesh]
name = "Large"
[[test]]
name = "pinger"
kind = "ping"
every_s = 5
count = 10
spacing_s = 0.1
timeout_s = 1.0
packet_bytes = [100, 1000]
[[group]]
name = "all"
shape = "mesh"
sites = ["a", "b", "c"]
tests = ["pinger"]
""" + "".join(
    f"""
[[site]]
name = "{name}"
title = "{name}"
latitude_deg = 0.0
longitude_deg = 0.0
country = "CH"
region = "Europe"
[[site.host]]
address = "192.0.2.{number}"
"""
    for number, name in enumerate("abc", 1)
)


def test_applying_a_mesh_chooses_the_intervals(tmp_path):
    (tmp_path / "mesh.toml").write_text(MESH)
    set_memory("64MB")
    before = spans()

    call_command("mesh", "apply", str(tmp_path / "mesh.toml"), verbosity=0)

    # Six paths, every 5 s, two sizes: 207,360 bursts of 232 bytes are 48.1 MB a day, 16 MB of which arrive in 8 hours.
    assert planned_bytes()["burst"] == 6 * 17_280 * 2 * 232
    assert spans().get("burst") == (timedelta(hours=8) if has_timescaledb() else None)
    assert before.keys() == spans().keys()
