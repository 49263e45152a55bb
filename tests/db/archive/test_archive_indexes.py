"""Every index of the archive is there for something: it keeps rows apart, or a question is answered by it."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitor.archive.models import AgentGap, CapacityResult, DiskToDiskTest
from monitor.archive.queries import tables
from monitor.archive.queries.deliveries import agent_contacts
from monitor.archive.queries.ledger import ledger_of_path
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import loss_windows, measured_packet_sizes, newest_measurement_at
from monitor.archive.queries.throughput.series import throughput_summaries
from monitor.archive.rollup.recompute import roll_up
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
DAY = timedelta(days=1)
QUESTIONS = {
    "burst_by_time": lambda mesh: loss_windows(NOW - DAY, NOW),
    "throughput_by_time": lambda mesh: throughput_summaries(NOW - DAY, NOW),
    "capacity_by_time": lambda mesh: newest_measurement_at(),
    "disk_to_disk_by_time": lambda mesh: newest_measurement_at(),
    "burst_hour_by_hour": lambda mesh: tables.grid(Metric.LOSS, HOUR, NOW, packet_bytes=100),
    "burst_day_by_day": lambda mesh: tables.grid(Metric.LOSS, NOW - 9 * DAY, NOW, packet_bytes=100),
    "burst_month_by_size_and_month": lambda mesh: measured_packet_sizes(),
    "batch_by_site_and_time": lambda mesh: agent_contacts(),
    "gap_by_site_and_end": lambda mesh: ledger_of_path(mesh.slac_cern.pk, NOW - DAY, NOW),
}
"""Whoever adds an index writes here which question it is for; whoever takes a question away finds its index here."""

MORE_ROWS = """
INSERT INTO {table}
SELECT (jsonb_populate_record(one, jsonb_build_object(
    'path_id', path.id, 'measured_at', one.measured_at - step * interval '10 minutes'))).*
FROM {table} AS one CROSS JOIN path CROSS JOIN generate_series(1, 2000) AS step
"""
"""Of few rows the server may take any index; of a fortnight on each path it takes the one that is made for the day."""
MORE_BATCHES = """
INSERT INTO received_batch
SELECT (jsonb_populate_record(one, jsonb_build_object(
    'id', one.id + step, 'number', one.number + step, 'received_at', one.received_at - step * interval '1 minute'))).*
FROM received_batch AS one CROSS JOIN generate_series(1, 2000) AS step
"""


def other_indexes():
    """The indexes of the archive's tables that keep no rows apart."""
    ours = [model._meta.db_table for model in apps.get_app_config("archive").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text FROM pg_index "
            "WHERE NOT indisunique AND indrelid = ANY(%s::text[]::regclass[])",
            [ours],
        )
        return {name for (name,) in cursor.fetchall()}


@pytest.fixture
def mesh():
    """A row in every table with an index to be looked at, and no other way offered than by an index."""
    mesh = make_mesh()
    results = [delivered(mesh.slac_cern, burst(1.0), 1), delivered(mesh.slac_cern, throughput(1e6), 2)]
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up(NOW)
    merge_all(NOW)
    CapacityResult.objects.create(
        path_id=1, measured_at=HOUR, test="c", outcome="measured", sent=1, received=1, during_test=False
    )
    DiskToDiskTest.objects.create(path_id=1, measured_at=HOUR, test="d", outcome="refused", tool="fetch", streams=1)
    AgentGap.objects.create(site=mesh.slac, reason="agent_offline", since=HOUR, until=NOW)
    with connection.cursor() as cursor:
        for table in ("burst", "throughput_test"):
            cursor.execute(MORE_ROWS.format(table=table))
            cursor.execute(f"ANALYZE {table}")
        cursor.execute(MORE_BATCHES)
        cursor.execute("ANALYZE received_batch")
        cursor.execute("SET LOCAL enable_seqscan = off")
    return mesh


def test_every_index_is_known_with_its_question():
    assert other_indexes() == QUESTIONS.keys()


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_index_answers_its_question(mesh, name):
    with CaptureQueriesContext(connection) as captured:
        QUESTIONS[name](mesh)

    plans = []
    with connection.cursor() as cursor:
        for text in [query["sql"] for query in captured.captured_queries]:
            cursor.execute(f"EXPLAIN {text}")
            plans += [line for (line,) in cursor.fetchall()]
    # A chunk's index has the name of its table's after that of the chunk.
    assert any(f"{name} " in f"{line} " for line in plans), "\n".join(plans)


def test_no_index_is_the_beginning_of_another():
    """As Django makes one for each foreign key, besides the key that begins with it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indrelid::regclass::text, indexrelid::regclass::text, indkey::text || ' ', indisunique "
            "FROM pg_index INNER JOIN pg_class ON pg_class.oid = indrelid "
            "WHERE relnamespace = current_schema()::regnamespace AND indpred IS NULL AND relname = ANY(%s)",
            [[model._meta.db_table for model in apps.get_app_config("archive").get_models()]],
        )
        fetched = cursor.fetchall()

    twice = [
        (name, other_name)
        for table, name, columns, is_key in fetched
        for other_table, other_name, other_columns, _ in fetched
        if table == other_table and name != other_name and other_columns.startswith(columns) and not is_key
    ]
    assert fetched
    assert twice == []
