"""The path page's tiles, charts and files count the same packets in any window."""

from __future__ import annotations

import csv
import json
import re
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

import pytest

from monitor.archive.models import Burst
from tests.db.merging import merge_all, roll_up_raw
from tests.db.pages_mesh import MINUTE, NOW, burst

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
PATH_MINUTES = 120
DEAD = slice(60, 72)


@pytest.fixture
def path(paths):
    """A burst of four packets a minute from 10:30 to 12:30. From 11:30 half is lost for twelve minutes, and the RTT is
    74 ms instead of 10. Some days before, a burst lost two of four."""
    path = paths["slac", "cern"]
    since = NOW - PATH_MINUTES * MINUTE
    for minute in range(PATH_MINUTES):
        rtt_ms = 10.0 if minute < DEAD.start else 74.0
        lost = DEAD.start <= minute < DEAD.stop
        burst(path, since + minute * MINUTE, rtt_ms, rtt_ms + 1, *((None, None) if lost else (rtt_ms, rtt_ms + 2)))
    for days in (1, 2, 3, 6, 7, 20, 30, 98, 99, 100):
        burst(path, NOW - timedelta(days=days, minutes=7), 20.0, None, 20.0, None)
    roll_up_raw(NOW)
    merge_all(NOW)
    return path


@pytest.fixture
def get(client, path):
    def fetch(file, query):
        answer = client.get(f"/paths/{path.pk}/{file}?{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return fetch


def tile(html, name):
    """Figure and note of a tile."""
    figure, note = re.search(rf"<dt>{name}</dt><dd>(.*?)</dd><dd class=\"aside\">(.*?)</dd>", html).groups()
    return figure, note


def steps(charts, chart):
    rows = json.loads(charts)[f"{chart}-spec"]["datasets"]["steps"]
    return [row for row in rows if row["t2"] is not None]


def counted(charts):
    """Lost and sent in each interval of the chart. Those without any reply are in the strip only."""
    return [of_text(row["loss"]) for row in (*steps(charts, "rtt"), *(row for row in bars_of(charts) if row["all"]))]


def bars_of(charts):
    """The bars of the strip: the intervals with loss."""
    return json.loads(charts)["rtt-spec"]["datasets"]["lossy"]


def of_text(text):
    """Lost and sent, as in a row of the chart."""
    lost, sent = re.match(r"(none|\d+) of (\d+) lost", text).groups()
    return 0 if lost == "none" else int(lost), int(sent)


WINDOWS = {
    "five minutes": "since=2026-11-21T11:28&until=2026-11-21T11:33",
    "the outage": "since=2026-11-21T11:30&until=2026-11-21T11:42",
    "minutes across hours": "since=2026-11-21T10:53&until=2026-11-21T12:07",
    "hour": "period=hour",
    "day": "period=day",
    "three days": "since=2026-11-18T10:40&until=2026-11-21T12:10",
    "week": "period=week",
    "month": "period=month",
    "a hundred days": "since=2026-08-14T05:00&until=2026-11-21T12:30",
}


@pytest.mark.parametrize("window", WINDOWS)
def test_tile_chart_and_file_count_the_same_packets(get, window):
    html, charts = get("", WINDOWS[window]), get("charts.json", WINDOWS[window])
    rows = list(csv.DictReader(get("series.csv", WINDOWS[window]).splitlines()))

    lost, sent = map(sum, zip(*counted(charts), strict=True))

    assert sent > 0
    assert tile(html, "loss")[1] == f"{lost:,} of {sent:,} lost"
    assert (lost, sent) == (
        sum(int(row["sent"]) - int(row["received"]) for row in rows),
        sum(int(row["sent"]) for row in rows),
    )
    least = min(row["min"] for row in steps(charts, "rtt"))
    assert tile(html, "median RTT")[1] == f"minimum {least:.2f} ms"


def test_a_zoom_has_the_rtts_of_its_minutes(get):
    html = get("", "since=2026-11-21T11:45&until=2026-11-21T11:50")

    rtts = 5 * [74.0, 75.0, 74.0, 76.0]
    assert tile(html, "median RTT") == (f"{median(rtts):.2f} ms", "minimum 74.00 ms")
    assert tile(html, "loss") == ("0", "0 of 20, so below 15% (95%)")


def test_a_zoom_has_the_loss_of_its_minutes(get):
    assert tile(get("", WINDOWS["the outage"]), "loss") == ("50%", "24 of 48 lost")
    # 2 minutes without loss, 3 with half.
    assert tile(get("", WINDOWS["five minutes"]), "loss") == ("30%", "6 of 20 lost")


@pytest.mark.parametrize("window", ["five minutes", "hour", "day", "week"])
def test_bars_begin_and_end_at_intervals_of_the_chart(get, window):
    charts = get("charts.json", WINDOWS[window])

    edges = {row[end] for row in steps(charts, "rtt") for end in ("t", "t2")}
    bars = bars_of(charts)
    assert {row[end] for row in bars for end in ("t", "t2")} <= edges
    assert all(before["t2"] <= after["t"] for before, after in pairwise(bars))


@pytest.mark.parametrize("window", ["hour", "day"])
def test_no_bar_shows_loss_before_it_began(get, window):
    bars = bars_of(get("charts.json", WINDOWS[window]))
    # The day also has two packets lost seven minutes after it begins, long before.
    lossy = [row for row in bars if row["t"] >= 1000 * (NOW - PATH_MINUTES * MINUTE).timestamp()]

    began = NOW - PATH_MINUTES * MINUTE + DEAD.start * MINUTE
    assert datetime.fromtimestamp(lossy[0]["t"] / 1000, tz=NOW.tzinfo) == began
    assert lossy[-1]["t2"] == 1000 * (began + 12 * MINUTE).timestamp()
    assert len(lossy) == 12


def test_where_raw_bursts_are_deleted_hours_are_used(get, path):
    Burst.objects.all().delete()

    query = "since=2026-11-21T11:00&until=2026-11-21T12:00"
    html, charts = get("", query), get("charts.json", query)

    # 30 minutes of four packets, twelve of them with two lost; and 30 minutes before.
    assert tile(html, "loss")[1] == "24 of 240 lost"
    assert counted(charts) == [(24, 240)]
