"""The page of throughput tests: the slowest paths first, failed tests, and the limits."""

from __future__ import annotations

import re
from html import unescape

import pytest

from monitor.archive.models import ThroughputTest
from tests.db.pages_mesh import HOUR, MINUTE, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
QUERIES = 8
"""The mesh, the tests, their paths, their limits; the paths in use and their tests on demand; freshness."""


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return fetch


@pytest.fixture
def tested(paths):
    """A path with two tests and a failure, another limited by a window, a third with failures only."""
    for minute, rate in enumerate((90e6, 110e6, None)):
        throughput(paths["slac", "cern"], HOUR + minute * MINUTE, rate)
    throughput(paths["cern", "slac"], HOUR + MINUTE, 40e6)
    ThroughputTest.objects.filter(path_id=paths["cern", "slac"].pk).update(
        verdict="window-limited", sentence="window-limited at 40 Mbit/s"
    )
    throughput(paths["uct", "cern"], HOUR + 2 * MINUTE, None)
    return paths


def rows(html):
    body = re.search(r'<tbody id="rows".*?</tbody>', html, re.DOTALL)[0]
    return [
        [words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def words(html):
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", html).split()))


def test_failed_paths_are_first_then_the_slowest(get, tested):
    table = rows(get("/throughput/"))

    assert [row[0] for row in table] == ["uct → cern", "cern → slac", "window-limited at 40 Mbit/s", "slac → cern"]
    assert table[0][1:5] == ["–", "–", "–", "0 of 1"]
    assert table[0][5].endswith("busy")
    assert table[3][1:5] == ["–", "90 Mbit/s", "110 Mbit/s", "2 of 3"]


def test_the_sentence_is_that_of_the_newest_test(get, paths):
    for minute in range(4):
        throughput(paths["slac", "cern"], HOUR + minute * MINUTE, 28.9e6 if minute < 3 else 2.85e6)
    tests = ThroughputTest.objects.filter(path_id=paths["slac", "cern"].pk)
    tests.update(verdict="undetermined", sentence="undetermined at 28.9 Mbit/s")
    tests.filter(throughput_bps=2.85e6).update(verdict="bottleneck", sentence="bottleneck of 2.85 Mbit/s")

    assert rows(get("/throughput/"))[1] == ["bottleneck of 2.85 Mbit/s (3 of 4 tests: undetermined)"]


def test_the_counts_are_over_all_paths(get, tested):
    html = get("/throughput/")

    assert "<b>5</b> tests on 3 paths" in html
    assert "<b>2</b> failed" in html


def test_a_test_that_was_not_run_is_not_counted_as_failed(get, tested):
    late = {"outcome": "missed", "detail": "agent started 6.0 s late"}
    throughput(tested["uct", "slac"], HOUR + 3 * MINUTE, None, **late)

    html = get("/throughput/")

    assert "<b>2</b> failed" in html
    assert "<b>1</b> not completed" in html
    assert any(
        row[5].endswith("not completed : agent started 6.0 s late") for row in rows(html) if row[0] == "uct → slac"
    )


def test_a_verdict_is_counted_and_filters_its_paths(get, tested):
    assert 'href="?limit=window-limited">window-limited 1</a>' in get("/throughput/")
    assert rows(get("/throughput/?limit=window-limited"))[0][0] == "cern → slac"
    assert "No test was limited" in get("/throughput/?limit=policer")


def test_an_unknown_verdict_is_reported(get, tested):
    assert lacks(unescape(get("/throughput/?limit=magic", 404)), "limit=magic", "window-limited,") == []


def test_before_any_test_it_says_how_to_run_a_test(get, paths):
    assert "manage.py throughput run SRC DST" in get("/throughput/")


def test_it_has_a_fixed_query_count(get, tested, django_assert_num_queries):
    get("/throughput/")
    with django_assert_num_queries(QUERIES):
        get("/throughput/")


def test_on_demand_tests_are_said_not_to_count(get, tested):
    assert "on demand" not in get("/throughput/")
    throughput(tested["slac", "cern"], HOUR + 5 * MINUTE, 3e6, test="on-demand")

    html = get("/throughput/")

    assert lacks(html, "1 test on demand or of sweeps not counted", ">2 of 3<") == []
