"""The time series are hypertables where the server has TimescaleDB, and plain tables elsewhere."""

import os
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from monitor.archive.upkeep import growth
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
CHUNKS_OF = {
    "burst": ("measured_at", timedelta(days=1)),
    "burst_hour": ("hour", timedelta(days=30)),
    "throughput_test": ("measured_at", timedelta(days=30)),
    "capacity_result": ("measured_at", timedelta(days=30)),
    "interface_result": ("measured_at", timedelta(days=7)),
    "trace": ("measured_at", timedelta(days=7)),
    "direction_burst": ("measured_at", timedelta(days=1)),
}


def has_timescaledb():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_extension WHERE extname = 'timescaledb'")
        return cursor.fetchone() == (1,)


def test_a_run_intended_for_timescaledb_has_it():
    assert has_timescaledb() or os.environ.get("SOUNDINGS_EXPECT_TIMESCALE") != "1"


def test_time_series_are_hypertables_if_timescaledb_exists():
    hypertables = {}
    if has_timescaledb():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT hypertable_name, column_name, time_interval FROM timescaledb_information.dimensions "
                "WHERE hypertable_schema = current_schema()"
            )
            hypertables = {name: (column, interval) for name, column, interval in cursor.fetchall()}

    assert hypertables == (CHUNKS_OF if has_timescaledb() else {})


def test_a_week_of_bursts_is_seven_chunks_with_timescaledb():
    mesh = make_mesh()
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(days=n)), n + 1) for n in range(7)]
    store(mesh.slac.pk, batch(*results), NOW)

    chunks = {table.name: table.chunks for table in growth.table_sizes(timezone.now())}

    assert chunks["burst"] == (7 if has_timescaledb() else 0)


def test_the_only_indexes_are_the_key_and_an_index_by_time():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename, count(*) FROM pg_indexes WHERE schemaname = current_schema() "
            "AND tablename = ANY(%s) GROUP BY tablename",
            [list(CHUNKS_OF)],
        )
        assert dict(cursor.fetchall()) == dict.fromkeys(CHUNKS_OF, 2)
