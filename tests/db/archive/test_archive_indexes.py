"""Every index of the archive has a purpose: it keeps rows unique, or a query uses it."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection

from monitor.archive.aggregates.settle import results_of_slots
from monitor.archive.diagnosis.captures import pending_captures
from monitor.archive.ingest.traces import store_traces
from monitor.archive.interfaces import weeks as interface_weeks
from monitor.archive.models import (
    AgentGap,
    AggregateMember,
    CapacityResult,
    DirectionBurst,
    DiskToDiskTest,
    IdleRestartResult,
    InterfaceResult,
    PolicerResult,
    Route,
    StoredCapture,
)
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation.deliveries import agent_contacts
from monitor.archive.queries.operation.ledger import ledger_of_path
from monitor.archive.queries.paths import loss_windows, measured_packet_sizes, newest_measurement_at
from monitor.archive.queries.routes.periods import changes_between, paths_through, stored_routes
from monitor.archive.queries.throughput.aggregates import aggregate_results
from monitor.archive.queries.throughput.series import throughput_summaries
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.scheduled_settings import scheduled_tests
from tests.db.aggregate_rows import aggregate_run
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.db.trace_rows import delivered as delivered_trace
from tests.db.trace_rows import trace
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
DAY = timedelta(days=1)
QUESTIONS = {
    "burst_by_time": lambda mesh: loss_windows(NOW - DAY, NOW),
    "throughput_by_time": lambda mesh: throughput_summaries(NOW - DAY, NOW),
    "capacity_by_time": lambda mesh: newest_measurement_at(),
    "disk_to_disk_by_time": lambda mesh: newest_measurement_at(),
    "idle_restart_by_time": lambda mesh: newest_measurement_at(),
    "policer_by_time": lambda mesh: newest_measurement_at(),
    "request_response_by_time": lambda mesh: newest_measurement_at(),
    "interface_result_by_time": lambda mesh: newest_measurement_at(),
    "interface_week_dirty": lambda mesh: interface_weeks.summarize(NOW),
    "aggregate_member_by_time": lambda mesh: newest_measurement_at(),
    "aggregate_member_by_slot": lambda mesh: results_of_slots([1]),
    "aggregate_run_by_time": lambda mesh: aggregate_results(NOW - DAY, NOW, 10),
    "trace_by_time": lambda mesh: newest_measurement_at(),
    "direction_by_time": lambda mesh: newest_measurement_at(),
    "capture_without_findings": lambda mesh: pending_captures(1),
    "route_by_path": lambda mesh: deliver_trace(mesh),
    "route_by_hop": lambda mesh: paths_through("192.0.2.9", NOW - DAY, NOW),
    "path_route_by_route": lambda mesh: stored_routes([1]),
    "path_route_by_time": lambda mesh: changes_between(NOW - DAY, NOW),
    "burst_hour_by_hour": lambda mesh: tables.grid(Metric.LOSS, HOUR, NOW, packet_bytes=100),
    "burst_day_by_day": lambda mesh: tables.grid(Metric.LOSS, NOW - 9 * DAY, NOW, packet_bytes=100),
    "burst_month_by_size_and_month": lambda mesh: measured_packet_sizes(),
    "batch_by_site_and_time": lambda mesh: agent_contacts(),
    "scheduled_sweep_by_path": lambda mesh: scheduled_tests(mesh.slac_cern.pk, NOW - DAY, NOW),
    "gap_by_site_and_end": lambda mesh: ledger_of_path(mesh.slac_cern.pk, NOW - DAY, NOW),
}
"""The query for which each index exists: add new indexes here, and remove an index with its query."""

MORE_ROWS = """
INSERT INTO {table}
SELECT (jsonb_populate_record(stored, jsonb_build_object(
    'path_id', path.id, '{column}', stored.{column} - step * interval '{every}'))).*
FROM {table} AS stored CROSS JOIN path CROSS JOIN generate_series(1, 2000) AS step
ORDER BY step DESC
"""
FILLED = (("burst", "measured_at", "10 minutes"), ("throughput_test", "measured_at", "10 minutes"))
FILLED += (("burst_hour", "hour", "1 hour"), ("burst_day", "day", "1 day"))
"""With few rows the server may use any index; with a fortnight on each path, in the order of their arrival, it uses
the index made for the day."""
MORE_BATCHES = """
INSERT INTO received_batch
SELECT (jsonb_populate_record(stored, jsonb_build_object(
    'id', stored.id + step, 'number', stored.number + step,
    'received_at', stored.received_at - step * interval '1 minute'))).*
FROM received_batch AS stored CROSS JOIN generate_series(1, 2000) AS step
"""


def deliver_trace(mesh, letters="ACD", at=NOW):
    """Another route than that of the fixture by default, so that all routes of the path are read."""
    store_traces([delivered_trace(mesh.slac_cern, trace(letters, at=at))], NOW)


def other_indexes():
    """The indexes of the archive's tables that are not unique."""
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
    """A row in every table with an index to be checked, with sequential scans disabled.

    The server counts pages and rows that other tests left behind, so the tables begin anew.
    """
    of_archive = [model._meta.db_table for model in apps.get_app_config("archive").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(of_archive)} CASCADE")
    mesh = make_mesh()
    results = [delivered(mesh.slac_cern, burst(1.0), 1), delivered(mesh.slac_cern, throughput(1e6), 2)]
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up(NOW)
    merge_all(NOW)
    CapacityResult.objects.create(
        path_id=1, measured_at=HOUR, test="c", outcome="measured", sent=1, received=1, during_test=False
    )
    DiskToDiskTest.objects.create(path_id=1, measured_at=HOUR, test="d", outcome="refused", tool="fetch", streams=1)
    IdleRestartResult.objects.create(path_id=1, measured_at=HOUR, test="i", outcome="refused")
    PolicerResult.objects.create(
        path_id=1, measured_at=HOUR, test="p", outcome="refused", sent=0, received=0, sent_bytes=0
    )
    AggregateMember.objects.create(
        path_id=1, measured_at=HOUR, began_at=HOUR, test="a", slot_id=1, outcome="refused", streams=1, protocol="tcp"
    )
    aggregate_run([mesh.slac_cern], HOUR)
    DirectionBurst.objects.create(
        path_id=1, measured_at=HOUR, test="s", packet_bytes=100, outcome="refused", during_test=False, sent=0,
        received=0, undecided=0, dscp=0,
    )  # fmt: skip
    InterfaceResult.objects.create(path_id=1, measured_at=HOUR, test="u", outcome="refused", during_test=False)
    deliver_trace(mesh, "ABD", HOUR)
    Route.objects.bulk_create(
        Route(path_id=1000 + number, number=1, hops=[f"198.51.100.{number}"], learned_at=[HOUR], first_at=HOUR)
        for number in range(250)
    )
    StoredCapture.objects.create(
        slot_id=1, role="sender", path_id=1, captured_at=HOUR, packets=1, left_out_packets=0, pcap_zlib=b"none"
    )
    AgentGap.objects.create(site=mesh.slac, reason="agent_offline", since=HOUR, until=NOW)
    with connection.cursor() as cursor:
        for table, column, every in FILLED:
            cursor.execute(MORE_ROWS.format(table=table, column=column, every=every))
            cursor.execute(f"ANALYZE {table}")
        cursor.execute(MORE_BATCHES)
        cursor.execute("ANALYZE received_batch")
        cursor.execute("ANALYZE route")
        cursor.execute("SET LOCAL enable_seqscan = off")
    return mesh


def test_every_index_is_listed_with_its_query():
    assert other_indexes() == QUESTIONS.keys()


def plan_of(question, mesh):
    """The lines of the plans of all queries that answer a question."""
    asked = []

    def note(execute, sql, params, many, context):
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        question(mesh)
    lines = []
    with connection.cursor() as cursor:
        for sql, params in asked:
            cursor.execute(f"EXPLAIN {sql}", params)
            lines += [line for (line,) in cursor.fetchall()]
    return lines


def test_each_index_is_used_by_its_query(mesh):
    plans = {name: plan_of(question, mesh) for name, question in QUESTIONS.items()}

    # A chunk's index has the name of its table's index after that of the chunk.
    unused = {name: plan for name, plan in plans.items() if not any(f"{name} " in f"{line} " for line in plan)}
    assert unused == {}


def test_no_index_is_a_prefix_of_another():
    """As Django creates for each foreign key, besides the key that begins with it."""
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
