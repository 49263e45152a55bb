"""The path page: its figures, its charts' data, gaps, tests that failed, and its query count."""

import json
import re
from datetime import timedelta

import pytest

from monitor.alerts.models import Incident, IncidentPath
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, throughput

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
PATH_QUERIES = 10


@pytest.fixture
def page(client):
    def get(path, query=""):
        answer = client.get(f"/paths/{path.pk}/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def spec(html: str, name: str) -> dict:
    return json.loads(
        re.search(rf'<script id="{name}-spec" type="application/json">(.*?)</script>', html, re.DOTALL)[1]
    )


def test_the_head_names_both_ends_the_distance_and_the_way_back(page, paths):
    html = page(paths["slac", "cern"])

    assert "192.0.2.2" in html
    assert "192.0.2.1" in html
    assert "9,378 km apart" in html
    assert f'href="/paths/{paths["cern", "slac"].pk}/?period=day&amp;size=100"' in html


def test_a_gap_ends_the_line_and_is_named(page, paths):
    path = paths["slac", "cern"]
    start = NOW - timedelta(minutes=50)
    for minute in (0, 1, 2, 30, 31):
        burst(path, start + minute * MINUTE, 10.0, 11.0, 12.0)

    chart = spec(page(path, "?period=hour"), "rtt")

    runs = {row["run"] for row in chart["datasets"]["steps"]}
    gaps = [(row["t2"] - row["t"]) / 60_000 for row in chart["datasets"]["no-data"]]
    assert len(runs) == 2
    assert gaps == [10.0, 27.0, 18.0]


def test_own_tests_and_failures_are_not_called_missing(page, paths):
    path = paths["slac", "cern"]
    start = NOW - timedelta(minutes=60)
    for minute in range(60):
        rtts = () if minute == 20 else (10.0, 12.0)
        burst(path, start + minute * MINUTE, *rtts, during_test=minute == 40)

    datasets = spec(page(path, "?period=hour"), "rtt")["datasets"]

    minutes = {
        name: [(row["t"] / 1000 - start.timestamp()) / 60 for row in datasets[name]]
        for name in ("no-data", "own-test", "not-measured")
    }
    assert minutes == {"no-data": [], "own-test": [40.0], "not-measured": [20.0]}


def test_incidents_are_shaded_over_their_time(page, paths):
    path = paths["slac", "cern"]
    incident = Incident.objects.create(
        rule="loss", cause="x", opened_at=HOUR, closed_at=HOUR + 10 * MINUTE, summary="Loss 4% from slac to cern"
    )
    IncidentPath.objects.create(
        incident=incident,
        path=path,
        added_at=HOUR,
        window_s=600,
        sent=100,
        lost=4,
        loss_lower_ratio=0.02,
        threshold_ratio=0.01,
    )

    html = page(path)

    [span] = spec(html, "loss")["datasets"]["incidents"]
    assert (span["t2"] - span["t"], span["label"]) == (600_000, "Loss 4% from slac to cern")
    assert "Loss 4% from slac to cern" in html


def test_a_failed_throughput_test_is_listed_with_its_outcome(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, 94.3e6, retransmits=0)
    throughput(path, HOUR + MINUTE, None, outcome="tool_failure", detail="connection refused")

    html = page(path)

    assert "94.3 Mbit/s" in html
    assert re.search(r"tool failure</b>: connection refused", html)
    datasets = spec(html, "throughput")["datasets"]
    assert [row["bps"] for row in datasets["measured"]] == [94.3e6]
    assert [row["outcome"] for row in datasets["failed"]] == ["tool failure"]


def test_the_estimate_is_marked_as_a_floor_when_nothing_was_lost(page, paths):
    path = paths["slac", "cern"]
    hour(path, 600, 600, 100.0, hour=HOUR - timedelta(hours=1), estimate_bps=1.6e6, estimate_is_floor=True)
    hour(path, 600, 594, 100.0, estimate_bps=1.17e6, estimate_is_floor=False)

    steps = spec(page(path), "throughput")["datasets"]["steps"]

    assert [(row["bps"], row["floor"]) for row in steps if row["t2"] is not None] == [(1.6e6, True), (1.17e6, False)]


def test_a_path_without_data_says_so(page, paths):
    html = page(paths["slac", "cern"], "?period=week")

    assert "No data in the last week" in html
    [gap] = spec(html, "rtt")["datasets"]["no-data"]
    assert gap["t2"] - gap["t"] == 7 * 86_400_000


def test_an_unknown_path_is_not_found(client, paths):
    answer = client.get("/paths/999999/", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert "There is no path 999999" in answer.content.decode()


def test_the_data_cannot_leave_its_script(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, None, detail="</script><script>alert(1)</script>")

    html = page(path)

    assert "<script>alert(1)" not in html
    assert spec(html, "throughput")["datasets"]["failed"][0]["detail"] == "</script><script>alert(1)</script>"


@pytest.mark.parametrize(("period", "queries"), [("day", PATH_QUERIES), ("month", PATH_QUERIES - 2)])
def test_the_page_keeps_to_its_queries(page, paths, period, queries, django_assert_num_queries):
    path = paths["slac", "cern"]
    for hours in range(5):
        hour(path, 600, 600, 100.0, hour=HOUR - timedelta(hours=hours))

    with django_assert_num_queries(queries):
        page(path, f"?period={period}")
