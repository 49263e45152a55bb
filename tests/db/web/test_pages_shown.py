"""The period of the path page: kept in the address, stated in words, and the same in the files it links to."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.http import Http404
from django.test import RequestFactory

from monitor.archive.models import ThroughputTest
from monitor.web.request.window import BAR_S, ShownPeriod, shown_period
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return unescape(answer.content.decode())

    return fetch


@pytest.fixture
def path(paths):
    """Bursts at 12:00, 12:02 (two lost) and 12:10, and two tests."""
    path = paths["slac", "cern"]
    burst(path, HOUR, *[150.0] * 10)
    burst(path, HOUR + 2 * MINUTE, *[160.0] * 8, None, None)
    burst(path, HOUR + 10 * MINUTE, *[170.0] * 10)
    throughput(path, HOUR + 1 * MINUTE, 90e6)
    throughput(path, HOUR + 3 * MINUTE, None)
    return path


ZOOMED = "since=2026-11-21T12:00&until=2026-11-21T12:05"


def test_the_zoomed_period_is_drawn(get, path):
    html = get(f"/paths/{path.pk}/?{ZOOMED}")
    spec = json.loads(get(f"/paths/{path.pk}/charts.json?{ZOOMED}"))["rtt-spec"]

    begins = [row["t"] for row in spec["datasets"]["steps"] if row["t2"] is not None]
    assert begins == [1000 * int(at.timestamp()) for at in (HOUR, HOUR + 2 * MINUTE)]
    params = {param["name"]: param["value"] for param in spec["params"]}
    assert params["since"] == 1000 * int(HOUR.timestamp())
    assert params["until"] == 1000 * int((HOUR + 5 * MINUTE).timestamp())
    assert lacks(html, "RTT of slac to cern, 5 min", "2026-11-21 12:00 to 12:05 UTC") == []


def test_links_keep_the_ends_and_a_period_drops_them(get, path):
    html = get(f"/paths/{path.pk}/?{ZOOMED}&size=100")

    assert '<a href="?size=100&period=hour">hour</a>' in html
    assert re.search(r'href="/paths/\d+/\?since=2026-11-21T12%3A00&until=2026-11-21T12%3A05&size=100"', html)
    assert 'name="since" value="2026-11-21T12:00"' in html


def test_the_intervals_as_csv_are_those_of_the_api(get, path):
    rows = list(csv.DictReader(get(f"/paths/{path.pk}/series.csv?{ZOOMED}").splitlines()))
    points = json.loads(
        get(f"/api/v1/paths/{path.pk}/series?since=2026-11-21T12:00:00Z&until=2026-11-21T12:05:00Z&size=100")
    )["points"]

    assert [(row["at"], row["sent"], row["received"], row["rtt_median_ms"]) for row in rows] == [
        ("2026-11-21T12:00:00Z", "10", "10", "150.0"),
        ("2026-11-21T12:02:00Z", "10", "8", "160.0"),
    ]
    assert [(point["sent"], point["received"]) for point in points] == [(10, 10), (10, 8)]
    assert {(row["step_s"], row["packet_bytes"]) for row in rows} == {("60", "100")}


def test_each_burst_links_to_its_rtts_in_order_of_sending(get, path):
    (link,) = re.findall(r'each burst as <a href="([^"]+)"', get(f"/paths/{path.pk}/?{ZOOMED}&size=100"))
    rows = list(csv.DictReader(get(link).splitlines()))

    assert [(row["at"], row["packet_bytes"], row["sent"], row["received"]) for row in rows] == [
        ("2026-11-21T12:00:00Z", "100", "10", "10"),
        ("2026-11-21T12:02:00Z", "100", "10", "8"),
    ]
    of_each = [row["rtts_ms"].split(";") for row in rows]
    assert [(len(rtts), rtts.count("")) for rtts in of_each] == [(10, 0), (10, 2)]
    assert {float(rtt) for rtt in of_each[0]} == {150.0}


def test_bursts_of_more_than_a_day_are_refused(get, path):
    assert "each burst" not in get(f"/paths/{path.pk}/?period=week&size=100")
    assert lacks(get(f"/paths/{path.pk}/bursts.csv?period=week&size=100", 404), "a day at most", "shorter") == []


def test_the_tests_as_csv_leave_a_failed_rate_empty(get, path):
    rows = list(csv.DictReader(get(f"/paths/{path.pk}/tests.csv?{ZOOMED}").splitlines()))

    assert [(row["outcome"], row["throughput_bps"]) for row in rows] == [("measured", "90000000.0"), ("busy", "")]


def test_csv_and_page_name_an_outcome_alike(get, path):
    throughput(path, HOUR + 4 * MINUTE, None)
    ThroughputTest.objects.filter(measured_at=HOUR + 4 * MINUTE).update(outcome="refused")

    rows = list(csv.DictReader(get(f"/paths/{path.pk}/tests.csv?{ZOOMED}").splitlines()))

    assert [row["outcome"] for row in rows if row["outcome"] != "measured"] == ["busy", "no connection"]


def test_no_csv_text_begins_like_a_formula(get, path):
    throughput(path, HOUR + 4 * MINUTE, None, detail="=cmd|calc")

    assert "'=cmd|calc" in get(f"/paths/{path.pk}/tests.csv?{ZOOMED}")


@pytest.mark.parametrize("file", ["series.csv", "bursts.csv", "tests.csv"])
def test_an_unknown_path_is_reported(get, paths, file):
    assert "There is no path 999" in get(f"/paths/999/{file}", 404)


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("until=2026-11-20T12:00", ["until without since"]),
        ("since=yesterday", ["since=yesterday", "moment in UTC", "like since="]),
        ("since=2026-11-21T12:00&until=2026-11-21T12:00", ["one minute to five years"]),
        ("since=2026-11-21T12:05&until=2026-11-21T12:00", ["first end first"]),
        ("since=1990-01-01&until=2026-11-21", ["one minute to five years"]),
        ("since=2026-11-22", ["first end first"]),
        ("since=0001-01-01T00:00%2B14:00", ["moment in UTC"]),
    ],
)
def test_invalid_ends_are_reported(get, path, query, facts):
    assert lacks(get(f"/paths/{path.pk}/?{query}", 404), *facts) == []


def requested_period(query):
    return shown_period(RequestFactory().get(f"/?{query}"), NOW)


def test_a_moment_without_zone_is_utc_others_are_converted():
    assert requested_period("since=2026-11-21T11:00").since == datetime(2026, 11, 21, 11, tzinfo=UTC)
    assert requested_period("since=2026-11-21T12:00%2B01:00").since == datetime(2026, 11, 21, 11, tzinfo=UTC)
    assert requested_period("since=2026-11-21T11:00").until == NOW
    with pytest.raises(Http404):
        requested_period("since=2026-11-21T11:00&until=never")


@pytest.mark.parametrize(
    ("length", "bar_s"),
    [(timedelta(hours=1), 300), (timedelta(days=1), 900), (timedelta(days=7), 3600), (timedelta(days=30), 21_600)],
)
def test_bars_are_few_enough_to_be_visible(length, bar_s):
    assert ShownPeriod(NOW - length, NOW, None).bar_s == bar_s
    assert ShownPeriod(NOW - timedelta(days=5 * 366), NOW, None).bar_s in BAR_S
