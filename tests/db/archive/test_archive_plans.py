"""Query plans of the named queries: no sequential scan of raw bursts or hours, and no chunk outside the period."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitor.archive.models import DirtyHour, DirtySummary, RefusedResult
from monitor.archive.queries import recent, tables
from monitor.archive.queries.kind_series import kind_series
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.deliveries import newest_refused
from monitor.archive.queries.paths import (
    loss_windows,
    measured_packet_sizes,
    newest_failures,
    own_test_steps,
    path_series,
    path_summaries,
    raw_bursts,
)
from monitor.archive.queries.tables import Grouping, Tick
from monitor.archive.queries.throughput.forecasts import present_pings
from monitor.archive.queries.throughput.series import (
    newest_throughput,
    on_demand_counts,
    throughput_series,
    throughput_summaries,
)
from monitor.archive.queries.throughput.under_load import loaded_series, path_under_load, under_load
from monitor.archive.rollup import recompute
from tests.db.archive.test_archive_hypertables import has_timescaledb
from tests.db.mesh_of_three import make_mesh

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS, PATHS = 60, 30
END = START + timedelta(days=DAYS)
LAST_DAY = (END - timedelta(days=1)).date()

RAW = """
    INSERT INTO burst (path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test,
        rtts_ms)
    SELECT path_id, size, at, 'measured', 2, 2, 0, 0, false, '{1,2}'
    FROM generate_series(1, %(paths)s) AS path_id, unnest(ARRAY[100, 1000]) AS size,
        generate_series(%(end)s::timestamptz - interval '5 days', %(end)s::timestamptz - interval '1 s', '10 min') AS at
"""
HOURS = """
    INSERT INTO burst_hour (path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, sent, received, duplicates, reordered, rtt_median_ms)
    SELECT path_id, size, at, 6, 0, 6, 0, 0, 12, 12, 0, 0, 1
    FROM generate_series(%(start)s::timestamptz, %(end)s::timestamptz - interval '1 s', '1 hour') AS at,
        generate_series(1, %(paths)s) AS path_id, unnest(ARRAY[100, 1000]) AS size
"""
DAYS_OF_HOURS = """
    INSERT INTO burst_day (path_id, packet_bytes, day, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, sent, received, duplicates, reordered)
    SELECT path_id, packet_bytes, date_trunc('day', hour), 144, 0, 144, 0, 0, 288, 288, 0, 0
    FROM burst_hour
    WHERE hour = date_trunc('day', hour)
"""
TESTS = """
    INSERT INTO throughput_test (path_id, measured_at, test, outcome, streams, throughput_bps)
    SELECT path_id, at, 'tcp', 'measured', 1, 1e8
    FROM generate_series(%(start)s::timestamptz, %(end)s::timestamptz - interval '1 s', '1 hour') AS at,
        generate_series(1, %(paths)s) AS path_id
"""
CAPACITIES = """
    INSERT INTO capacity_result (path_id, measured_at, test, outcome, sent, received, during_test)
    SELECT path_id, measured_at, 'capacity', 'busy', 0, 0, false FROM throughput_test
"""
TABLES = ("burst", "burst_hour", "burst_day", "throughput_test", "capacity_result")


@pytest.fixture
def archive(db):
    """Two months of hours, days and tests, and five days of raw bursts, on thirty paths, bursts of two sizes."""
    with connection.cursor() as cursor:
        for text in (RAW, HOURS, DAYS_OF_HOURS, TESTS, CAPACITIES):
            cursor.execute(text, {"start": START, "end": END, "paths": PATHS})
        for table in TABLES:
            cursor.execute(f"ANALYZE {table}")


def nodes(plan):
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def scans_of(ask, of=TABLES):
    """The scans of the statements of `ask` on these tables, with node type and chunks, from the planner."""
    with CaptureQueriesContext(connection) as captured:
        ask()
    # A function of the schema `reporting` reads tables that the statement does not name.
    named = re.compile(rf"\b({'|'.join(of)})\b|\bFROM reporting\.")
    texts = [query["sql"] for query in captured.captured_queries if named.search(query["sql"])]
    assert texts
    scans = []
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {text}")
            [(plan,)] = cursor.fetchall()
            plan = json.loads(plan) if isinstance(plan, str) else plan
            scans += [
                node
                for node in nodes(plan[0]["Plan"])
                if "Relation Name" in node and node["Node Type"] != "Custom Scan"
            ]
    return scans


def condition(node):
    """The part of an index that a node reads."""
    return node.get("Index Cond") or node.get("Recheck Cond") or ""


def table_of(relation):
    """The hypertable of a chunk; other tables are returned unchanged."""
    if not relation.startswith("_hyper_"):
        return relation
    with connection.cursor() as cursor:
        cursor.execute("SELECT hypertable_name FROM timescaledb_information.chunks WHERE chunk_name = %s", [relation])
        return cursor.fetchone()[0]


QUESTIONS = {
    "grid of a day": (lambda: tables.grid(Metric.LOSS, END - timedelta(days=1), END, packet_bytes=100), "burst_hour"),
    "grid of now": (
        lambda: recent.grid(
            Metric.LOSS, {path_id: END - timedelta(minutes=10 * path_id) for path_id in range(1, 31)}, END, 100
        ),
        "burst",
    ),
    "tests of now": (
        lambda: newest_throughput({path_id: END - timedelta(hours=3) for path_id in range(1, 31)}, END),
        "throughput_test",
    ),
    "tests on demand": (
        lambda: on_demand_counts(END - timedelta(hours=3), END),
        "throughput_test",
    ),
    "table of the running day": (
        lambda: tables.table(
            Grouping.SITE, Metric.LOSS, Tick.DAY, END - timedelta(days=7), END, 100, now=END - timedelta(hours=2)
        ),
        "burst_hour",
    ),
    "grid of all sizes": (lambda: tables.grid(Metric.RTT_MEDIAN, END - timedelta(hours=9), END), "burst_hour"),
    "summary of a path": (
        lambda: path_summaries(END - timedelta(days=1), END, packet_bytes=100, path_ids=[7]),
        "burst_hour",
    ),
    "worst": (lambda: tables.worst(Metric.LOSS, END - timedelta(hours=1), END), "burst_hour"),
    "series of hours": (lambda: path_series(7, 100, END - timedelta(days=20), END), "burst_hour"),
    "table by hours": (
        lambda: tables.table(Grouping.SITE, Metric.LOSS, Tick.HOUR, END - timedelta(hours=3), END, 100),
        "burst_hour",
    ),
    "series of raw": (lambda: path_series(7, 100, END - timedelta(days=1), END), "burst"),
    "raw bursts": (lambda: raw_bursts(7, END - timedelta(hours=5), END), "burst"),
    "loss of ten minutes": (lambda: loss_windows(END - timedelta(minutes=10), END), "burst"),
    "latency under load of a path": (lambda: path_under_load(7, 100, END - timedelta(hours=9), END), "burst"),
    "latency under load of all paths": (lambda: under_load(END - timedelta(days=1), END), "burst_hour"),
    "latency under load over time": (lambda: loaded_series(7, 100, END - timedelta(days=20), END), "burst_hour"),
    "own tests": (lambda: own_test_steps(7, 100, END - timedelta(days=1), END), "burst"),
    "all figures of a day": (lambda: path_summaries(END - timedelta(days=1), END), "burst_hour"),
    "grid of distances": (lambda: tables.grid(Metric.ALPHA, END - timedelta(hours=2), END), "burst_hour"),
    "series of a year": (lambda: path_series(7, 100, END - timedelta(days=365), END), "burst_day"),
    "grid of a week": (lambda: tables.grid(Metric.LOSS, END - timedelta(days=7), END, packet_bytes=100), "burst_day"),
    "table of a week": (
        lambda: tables.table(Grouping.REGION, Metric.LOSS, Tick.DAY, END - timedelta(days=7), END, 100),
        "burst_day",
    ),
    "coverage, the running day": (
        lambda: completeness.coverage_by_site_and_day(LAST_DAY, LAST_DAY + timedelta(days=1), END - timedelta(hours=2)),
        "burst_hour",
    ),
    "coverage of a week": (
        lambda: completeness.coverage_by_site_and_day(LAST_DAY - timedelta(days=6), LAST_DAY, END),
        "burst_day",
    ),
    "throughput of a path": (
        lambda: throughput_series(7, END - timedelta(days=20), END),
        "throughput_test",
    ),
    "throughput of all paths": (
        lambda: throughput_summaries(END - timedelta(days=1), END),
        "throughput_test",
    ),
    "capacity of a path": (lambda: kind_series("capacity", 7, END - timedelta(days=20), END), "capacity_result"),
    "newest failures": (lambda: newest_failures(END - timedelta(hours=9), END, [3, 4]), "burst"),
}


def test_queries_use_indexes_and_only_the_chunks_of_their_period(archive):
    assert {name: fault for name, (ask, table) in QUESTIONS.items() if (fault := scan_fault(ask, table))} == {}


def scan_fault(ask, table):
    """How a query reads a table other than by an index and, on TimescaleDB, other than a single chunk."""
    of_table = [node for node in scans_of(ask) if table_of(node["Relation Name"]) == table]
    kinds = {node["Node Type"] for node in of_table}
    if not kinds or kinds - {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}:
        return f"read by {kinds}"
    chunks = {node["Relation Name"] for node in of_table if "timestamp" in condition(node)}
    return f"reads {chunks}" if has_timescaledb() and len(chunks) > 1 else None


OF_MANY_PATHS = """
    INSERT INTO burst (path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test,
        rtts_ms)
    SELECT path_id, size, measured_at, 'measured', 2, 2, 0, 0, false, '{1,2}'
    FROM generate_series(0, 19) AS cycle, generate_series(1, 2000) AS path_id, unnest(ARRAY[100, 1000]) AS size,
        LATERAL (SELECT %(end)s::timestamptz - interval '10 min' + cycle * interval '30 s' + path_id * interval '5 ms'
            + size * interval '1 us') AS burst (measured_at)
    ORDER BY measured_at
"""
"""Bursts of 2,000 paths, each at a time of its own, stored in the order of time."""


def test_the_newest_bursts_of_each_of_many_paths_are_read_by_its_key():
    with connection.cursor() as cursor:
        cursor.execute(OF_MANY_PATHS, {"end": END})
    run("ANALYZE burst")
    begins = dict.fromkeys(range(1, 2001), END - timedelta(minutes=10))

    assert is_read_by_key(lambda: recent.grid(Metric.LOSS, begins, END, 100), "burst")
    assert is_read_by_key(lambda: present_pings(7, 100, END), "burst")


def is_read_by_key(ask, table):
    """Whether a query finds the rows of a path by an index that begins with the path."""
    of_table = [node for node in scans_of(ask) if table_of(node["Relation Name"]) == table]
    return bool(of_table) and all("path_id" in condition(node) for node in of_table)


def test_the_newest_refused_results_are_read_by_their_number(archive):
    site = make_mesh().slac
    RefusedResult.objects.bulk_create(
        RefusedResult(site=site, spool="a", sequence=n, refused_at=END, reason="path 99 is unknown", result={})
        for n in range(2000)
    )
    run("ANALYZE refused_result")

    [node] = scans_of(lambda: newest_refused(20), of=["refused_result"])

    assert (node["Node Type"], node["Scan Direction"]) == ("Index Scan", "Backward")


def test_the_packet_sizes_are_read_by_indexes(archive):
    scans = scans_of(measured_packet_sizes)

    of_hours = [node for node in scans if table_of(node["Relation Name"]) == "burst_hour"]
    assert of_hours
    assert {node["Node Type"] for node in of_hours} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}


def test_an_hour_is_rolled_up_using_the_key_of_raw_bursts(archive):
    last = END - timedelta(hours=1)
    DirtyHour.objects.bulk_create(DirtyHour(path_id=path_id, hour=last, marked_at=END) for path_id in (1, 2, 3))

    scans = scans_of_selects(lambda: recompute.roll_up(END))

    raw = [node for node in scans if table_of(node["Relation Name"]) == "burst"]
    assert raw
    assert {node["Node Type"] for node in raw} <= {"Index Scan", "Bitmap Heap Scan"}
    if has_timescaledb():
        assert len({node["Relation Name"] for node in raw}) == 1


def test_a_day_is_merged_using_the_key_of_the_hours(archive):
    last = END - timedelta(days=1)
    DirtySummary.objects.bulk_create(
        DirtySummary(tier="day", path_id=path_id, starts_at=last, marked_at=START) for path_id in (1, 2, 3)
    )

    scans = scans_of_selects(lambda: recompute.merge(recompute.TIERS[0], END))

    hours = [node for node in scans if table_of(node["Relation Name"]) == "burst_hour"]
    assert hours
    assert {node["Node Type"] for node in hours} <= {"Index Scan", "Bitmap Heap Scan"}
    if has_timescaledb():
        assert len({node["Relation Name"] for node in hours}) == 1


def scans_of_selects(work):
    """As `scans_of`, for the reading statements of `work`."""
    with CaptureQueriesContext(connection) as captured:
        work()
    texts = [query["sql"] for query in captured.captured_queries]
    [text] = [text for text in texts if "INNER JOIN burst" in text or "FROM burst_hour AS" in text]
    return scans_of(lambda: run(text))


def run(text):
    with connection.cursor() as cursor:
        cursor.execute(text)
