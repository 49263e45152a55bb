"""Tests that were stored before their intervals became columns: migrated on a database that has some."""

import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from monitor.archive.queries.throughput.transfers import transfer_of

AT = datetime(2026, 3, 14, 12, tzinfo=UTC)
BEFORE = [("archive", "0006_delivered_day")]
INTERVALS = [
    {"start_s": 0.0, "end_s": 1.0, "transferred_bytes": 10, "throughput_bps": 80.0, "retransmits": 3,
     "cwnd_bytes": 100, "rtt_ms": 40.5, "omitted": True},
    {"start_s": 1.0, "end_s": 2.0, "transferred_bytes": 20, "throughput_bps": 160.0, "retransmits": 0,
     "cwnd_bytes": None, "rtt_ms": 41.0, "omitted": False},
]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_intervals_become_columns_and_the_average_stays_the_figure():
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    MigrationExecutor(connection).migrate(BEFORE)
    try:
        with connection.cursor() as cursor:
            for path_id, rate_bps, intervals in ((1, 160.0, INTERVALS), (2, None, [])):
                cursor.execute(
                    "INSERT INTO throughput_test"
                    " (path_id, measured_at, test, outcome, streams, throughput_bps, intervals)"
                    " VALUES (%s, %s, 'tcp', 'measured', 1, %s, %s)",
                    [path_id, AT, rate_bps, json.dumps(intervals)],
                )
    finally:
        MigrationExecutor(connection).migrate(newest)

    migrated, failed = transfer_of(1, AT), transfer_of(2, AT)
    assert (migrated.throughput_bps, migrated.average_bps, migrated.steady_s) == (160.0, 160.0, None)
    assert (migrated.protocol, migrated.verdict, migrated.transfer.omitted_s) == ("tcp", None, 1.0)
    sent = migrated.transfer.sent
    assert (sent.end_s, sent.sent_bytes, sent.retransmits) == ((1.0, 2.0), (10, 20), (3, 0))
    # One interval has no window, so there is no column of windows.
    assert (sent.rtt_ms, sent.cwnd_bytes) == ((40.5, 41.0), None)
    assert (failed.throughput_bps, failed.average_bps, failed.transfer) == (None, None, None)
