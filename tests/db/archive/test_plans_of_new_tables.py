"""Raw results of many paths are read once, also if the server knows nothing of their table or only its first rows."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitor.archive.queries.for_alerts import newest_bursts, newest_directions, recent_delays, recent_round_trips
from monitor.archive.queries.path_states import MaintainedPlaces, states_of_paths
from monitor.archive.queries.throughput.series import NewestThroughput, newest_throughput
from tests.db.mesh_of_three import HOUR, NOW

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
PATHS = range(1, 20_001)
SINCE_S = [(NOW - timedelta(minutes=40)).timestamp()] * len(PATHS)
BURSTS = """
    INSERT INTO burst (path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test,
        rtts_ms)
    SELECT path_id, 100, %(at)s, 'measured', 2, 2, 0, 0, false, '{1,2}' FROM generate_series(1, %(paths)s) AS path_id
"""
CYCLES = """
    INSERT INTO direction_burst (path_id, measured_at, test, packet_bytes, outcome, during_test, sent, received,
        undecided, dscp)
    SELECT path_id, %(at)s, 's', 100, 'measured', false, 2, 2, 0, 0 FROM generate_series(1, %(paths)s) AS path_id
"""
TESTS = """
    INSERT INTO throughput_test (path_id, measured_at, test, protocol, outcome, streams, duration_s, throughput_bps)
    SELECT path_id, %(at)s, 'tcp', 'tcp', 'measured', 1, 10, 1e8 FROM generate_series(1, %(paths)s) AS path_id
"""
QUESTIONS = {
    "recent_round_trips": lambda: recent_round_trips(PATHS, [100] * len(PATHS), SINCE_S, NOW),
    "newest_bursts": lambda: newest_bursts(PATHS, SINCE_S, NOW),
    "newest_directions": lambda: newest_directions(PATHS, SINCE_S, NOW),
    "recent_delays": lambda: recent_delays(PATHS, SINCE_S, NOW),
    "newest_throughput": lambda: newest_throughput(dict.fromkeys(PATHS, NOW - timedelta(hours=3)), NOW),
}


@pytest.fixture(params=["never analyzed", "analyzed with the first rows", "a cycle since it was analyzed"])
def new_tables(request):
    """The tables of raw results with the rows of the first paths; on TimescaleDB in a new chunk."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE burst, direction_burst, throughput_test CASCADE")
        for text in (BURSTS, CYCLES, TESTS):
            cursor.execute(text, {"at": HOUR, "paths": 20})
        if request.param != "never analyzed":
            cursor.execute("ANALYZE burst, direction_burst, throughput_test")
        if request.param == "a cycle since it was analyzed":
            for text in (BURSTS, CYCLES, TESTS):
                cursor.execute(text, {"at": NOW - timedelta(minutes=1), "paths": len(PATHS)})


def nodes_of(plan):
    """All nodes of a plan, each with whether it may run more than once."""
    found, waiting = [], [(plan, False)]
    while waiting:
        node, is_repeated = waiting.pop()
        found.append((node, is_repeated))
        loops = node["Node Type"] == "Nested Loop"
        waiting += [
            (child, is_repeated or (loops and child.get("Parent Relationship") == "Inner"))
            for child in node.get("Plans", ())
        ]
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_new_table_is_read_once_for_all_paths(new_tables, name):
    with CaptureQueriesContext(connection) as captured:
        QUESTIONS[name]()
    (copied,) = captured.captured_queries
    query = copied["sql"].removeprefix("COPY (").removesuffix(") TO STDOUT (FORMAT BINARY)")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {query.replace('%', '%%')}", [])
        plan = cursor.fetchone()[0]
    nodes = nodes_of((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])

    scans = [(node, is_repeated) for node, is_repeated in nodes if "Relation Name" in node]
    assert scans
    assert [node["Relation Name"] for node, is_repeated in scans if is_repeated] == []


@pytest.mark.parametrize("new_tables", ["never analyzed", "a cycle since it was analyzed"], indirect=True)
def test_the_newest_result_of_a_path_is_found_by_its_key(new_tables):
    """By the index of times, a statement planned before the first results reads those of all paths for each path, for
    minutes. A table known to have a single page is read whole."""
    with CaptureQueriesContext(connection) as captured:
        states_of_paths(NOW, PATHS, (), MaintainedPlaces())
    (query,) = captured.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {query['sql'].replace('%', '%%')}", [])
        plan = cursor.fetchone()[0]
    nodes = nodes_of((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])

    read = [node for node, _ in nodes if node.get("Alias", "").startswith(("burst", "throughput_test", "_hyper"))]
    looked_up = [node for node in read if node["Node Type"] != "Custom Scan"]  # that of all chunks
    assert looked_up
    assert [node for node in looked_up if "path_id = watched.path_id" not in node.get("Index Cond", "")] == []


def test_each_path_is_read_from_its_own_time_on():
    """Paths whose times are hours apart, each with a burst at its time and one a microsecond before it."""
    since = {1: NOW - timedelta(minutes=3), 2: NOW - timedelta(hours=7), 3: NOW - timedelta(minutes=30)}
    with connection.cursor() as cursor:
        for path_id, at in since.items():
            for microseconds in (0, 1):
                cursor.execute(
                    BURSTS.replace("generate_series(1, %(paths)s)", "generate_series(%(path)s, %(path)s)"),
                    {"at": at - timedelta(microseconds=microseconds), "path": path_id},
                )
    path_ids, since_s = [3, 1, 2], [since[path_id].timestamp() for path_id in (3, 1, 2)]

    bursts = newest_bursts(path_ids, since_s, NOW)
    trips = recent_round_trips(path_ids, [100, 100, 100], since_s, NOW)

    expected = [since[path_id].timestamp() for path_id in (1, 2, 3)]
    assert bursts["path_id"].tolist() == trips.path_id.tolist() == [1.0, 2.0, 3.0]
    assert bursts["at_s"].tolist() == trips.at_s.tolist() == expected
    assert trips.rtts_ms.tolist() == [[1.0, 2.0]] * 3


def test_throughput_of_each_path_is_that_since_its_own_time():
    """An older test is read with those of a path with a longer period, and does not count."""
    since = {1: NOW - timedelta(minutes=30), 2: NOW - timedelta(minutes=50), 3: NOW - timedelta(days=20)}
    planted = [
        (1, "tcp", 31, 9e8), (1, "tcp", 30, 1e8), (1, "on-demand", 32, 9e8), (1, "on-demand", 5, 9e8),
        (2, "tcp", 49, 2e8), (2, "tcp", 20, None), (3, "on-demand", 60, 9e8), (3, "tcp", 18 * 1440, 3e8),
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE throughput_test CASCADE")
        for path_id, test, minutes, throughput_bps in planted:
            cursor.execute(
                "INSERT INTO throughput_test (path_id, measured_at, test, protocol, outcome, streams, throughput_bps)"
                " VALUES (%s, %s, %s, 'tcp', %s, 1, %s)",
                (
                    path_id,
                    NOW - timedelta(minutes=minutes),
                    test,
                    "tool_failure" if throughput_bps is None else "measured",
                    throughput_bps,
                ),
            )

    newest, on_demand = newest_throughput(since, NOW)

    assert newest == [
        NewestThroughput(1, 1, 1, 1e8, "measured"),
        NewestThroughput(2, 2, 1, 2e8, "tool_failure"),
        NewestThroughput(3, 1, 1, 3e8, "measured"),
    ]
    assert on_demand == {1: 1, 3: 1}
