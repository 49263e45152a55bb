"""The trends of 24 hours in the lists of sites, throughput and incidents: figures, gaps, sentences and queries."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstHour
from monitor.web import trends
from tests.db.pages_mesh import HOUR, NOW, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
LOCAL = {"host": "localhost"}
STEP = timedelta(hours=1)


def incident(path, rule, figures, closed_at=None, cause=None):
    row = Incident.objects.create(
        rule=rule,
        cause=cause or f"{rule} {path}",
        summary="s",
        opened_at=NOW - 3 * STEP,
        closed_at=closed_at,
        title=f"{path}: {rule}",
    )
    IncidentPath.objects.create(
        incident=row, path=path, rule=rule, sentence="s", since=NOW - STEP, added_at=NOW - STEP, figures=figures,
        is_over=closed_at is not None,
    )  # fmt: skip
    return row


def label(trend):
    return unescape(re.search(r'aria-label="([^"]*)"', trend.svg)[1])


def test_a_site_has_the_loss_of_its_paths_by_hour(paths):
    for number in range(24):
        if number not in (5, 6, 7):
            at = HOUR - number * STEP
            hour(paths["slac", "cern"], 900, 900 - (90 if number == 10 else 0), hour=at)
            hour(paths["slac", "uct"], 100, 100, hour=at)
            hour(paths["cern", "slac"], 100, 50, hour=at)
    hour(paths["slac", "cern"], 100, 0, hour=HOUR - 24 * STEP)

    site_id = paths["slac", "cern"].source.site_id
    trend = trends.of_sites(NOW, {site_id}, 3)[site_id]

    # 90 of 1,000 packets in an hour, and a gap of three hours: two pieces of a line.
    assert lacks(label(trend), "loss of 24 h", "0% to 9%", "newest 0%", "3 of 24 hours without data") == []
    assert len(re.findall("M", re.search(r' d="([^"]*)"', trend.svg)[1])) == 2
    assert (trend.newest, trend.at) == ("0%", HOUR)


def test_a_gap_at_the_end_leaves_the_last_value_with_its_hour(paths, client):
    hour(paths["slac", "cern"], 100, 98, hour=HOUR - 3 * STEP)
    hour(paths["slac", "cern"], 100, 98, hour=HOUR - 5 * STEP)

    site_id = paths["slac", "cern"].source.site_id
    trend = trends.of_sites(NOW, {site_id}, 3)[site_id]
    html = client.get("/sites/", headers=LOCAL).content.decode()

    assert (trend.newest, trend.at) == ("2%", HOUR - 3 * STEP)
    assert "22 of 24 hours without data" in label(trend)
    shown = re.search(r'class="trend-of".*?</time>', html, re.DOTALL)[0]
    assert lacks(re.sub(r"<[^>]*>", " ", shown), "2%", "loss", "09:00", "10:00 UTC") == []
    assert " ago" not in shown
    assert html.count('class="trend-of"') == 1


def test_loss_of_the_running_hour_is_said_since_its_beginning(paths, client):
    """An outage that began two minutes before NOW is not half an hour old, as the hour is."""
    path = paths["slac", "cern"]
    hour(path, 1000, 700, 20.0)
    incident(path, "loss", {"lost": 300, "sent": 1000})

    html = client.get("/sites/", headers=LOCAL).content.decode()
    shown = re.search(r'class="trend-of".*?</time>', html, re.DOTALL)[0]
    assert lacks(re.sub(r"<[^>]*>", " ", shown), "30%", "loss", "since", "12:00 UTC") == []
    assert " ago" not in shown
    assert "data-age" not in shown


def test_beside_the_title_of_an_incident_stands_no_mean_of_its_hour(paths, client):
    path = paths["cern", "slac"]
    for number in range(3):
        hour(path, 1000, 1000, 101.6, hour=HOUR - number * STEP)
    incident(path, "rtt", {"after_ms": 161.5, "before_ms": 101.5, "figure": "median"})

    html = client.get("/incidents/", headers=LOCAL).content.decode()

    listed = html[html.index('id="incident-list"') :]
    assert lacks(listed, f"{path}: rtt", "RTT of 24 h, by hour") == []
    assert "<title>RTT of 24 h: 101.6 ms" in listed
    assert "101.6 ms" not in re.sub(r"<svg.*?</svg>", "", listed, flags=re.DOTALL)


def test_a_single_value_is_no_picture(paths, client):
    path = paths["slac", "cern"]
    hour(path, 1000, 700, 20.0)
    incident(path, "loss", {"lost": 300, "sent": 1000})

    assert '<svg class="trend"' not in client.get("/sites/", headers=LOCAL).content.decode()
    assert 'class="trend-of"' not in client.get("/incidents/", headers=LOCAL).content.decode()


@pytest.mark.parametrize(
    ("what", "values", "height"),
    [
        ("throughput", (48.2e6, 48.1e6), 0.4),
        ("throughput", (48e6, 24e6), 18.0),
        ("RTT", (100.0, 95.0), 9.0),
        ("loss", (0.0, 0.0005), 9.0),
        ("loss", (0.0, 0.2), 18.0),
    ],
)
def test_a_small_change_is_drawn_small(what, values, height):
    drawn = trends.draw([(HOUR + number * STEP, value) for number, value in enumerate(values)], what, "hours", str)

    places = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", drawn.svg)]
    assert abs(places[0] - places[1]) == pytest.approx(height, abs=0.11)


def test_throughput_has_its_tests_and_failed_ones_are_gaps(paths, client):
    path = paths["slac", "cern"]
    for number, rate in enumerate((9e8, None, 5e8, 7e8)):
        throughput(path, NOW - (4 - number) * STEP, rate)
    throughput(path, NOW - 30 * STEP, 1e6)
    throughput(path, NOW - STEP / 2, 1e3, test="on-demand")

    trend = trends.of_tests([path.pk], NOW)[path.pk]

    assert (
        lacks(label(trend), "throughput of 24 h", "500 Mbit/s to 900 Mbit/s", "newest 700 Mbit/s", "1 of 4 tests") == []
    )
    assert trend.at == NOW - STEP
    html = client.get("/throughput/?period=day", headers=LOCAL).content.decode()
    assert "700 Mbit/s" in re.search(r'class="trend-of".*?</td>', html, re.DOTALL)[0]


def test_an_incident_has_the_figure_of_its_rule(paths, client):
    pinged, slow, tested = paths["slac", "cern"], paths["cern", "slac"], paths["slac", "uct"]
    hour(pinged, 1000, 800, 20.0)
    hour(slow, 1000, 1000, 124.0)
    hour(slow, 1000, 1000, 64.0, hour=HOUR - 2 * STEP)
    hour(pinged, 1000, 1000, 20.0, hour=HOUR - STEP)
    throughput(tested, NOW - STEP, 3e8)
    throughput(tested, NOW - 2 * STEP, 9e8)
    lost = incident(pinged, "loss", {"lost": 200, "sent": 1000})
    rtt = incident(slow, "rtt", {"after_ms": 124.0, "before_ms": 64.0, "figure": "median"})
    rate = incident(tested, "throughput", {"after_bps": 3e8, "before_bps": 9e8})
    hour(paths["uct", "slac"], 1000, 500, 20.0)
    ended = incident(
        paths["uct", "slac"], "loss", {"lost": 2, "sent": 10}, closed_at=HOUR - STEP + timedelta(minutes=5)
    )

    drawn = trends.of_incidents(list(Incident.objects.prefetch_related("paths__path")), NOW)

    assert {key: (trend.what, trend.newest) for key, trend in drawn.items()} == {
        lost.pk: ("loss", "20%"), rtt.pk: ("RTT", "124.0 ms"), rate.pk: ("throughput", "300 Mbit/s")
    }  # fmt: skip
    assert "64.00 ms to 124.0 ms" in label(drawn[rtt.pk])
    assert ended.pk not in drawn, "nothing was measured before its end"
    html = client.get("/incidents/", headers=LOCAL).content.decode()
    assert html.count('class="trend-of"') == 3


def test_pages_have_the_same_queries_for_any_number_of_rows(paths, client, django_assert_num_queries):
    all_paths = list(paths.values())
    counts = {}
    for number, path in enumerate(all_paths):
        hour(path, 100, 99, 20.0)
        throughput(path, NOW - STEP, 3e8)
        incident(path, "loss", {"lost": 1, "sent": 100})
        incident(path, "throughput", {"after_bps": 3e8, "before_bps": 9e8})
        for address in ("/sites/", "/throughput/?period=day", "/incidents/"):
            if number == 0:
                with CaptureQueriesContext(connection) as queries:
                    client.get(address, headers=LOCAL)
                counts[address] = len(queries)

    for address, count in counts.items():
        with django_assert_num_queries(count):
            client.get(address, headers=LOCAL)


def test_names_from_the_mesh_do_not_enter_a_trend(paths):
    steps = [(HOUR, 1.0)]

    assert trends.draw([(HOUR, None)], "loss", "hours", str) is None
    assert "<b>" not in trends.draw(steps, "<b>", "hours", str).svg
    assert BurstHour.objects.count() == 0
