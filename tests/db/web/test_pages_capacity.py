"""The bottleneck on the path page: the newest capacity with its interval and its time, or why there is none."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.archive.models import CapacityResult
from monitor.archive.queries.throughput.series import newest_capacities
from tests.db.pages_mesh import HOUR, MINUTE, NOW
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY = timedelta(days=1)
NOTHING = dict.fromkeys(["capacity_bps", "capacity_low_bps", "capacity_high_bps", "method"])


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


@pytest.fixture
def panel_text(client, path):
    """The panel's text."""

    def fetch(query=""):
        html = client.get(f"/paths/{path.pk}/{query}", headers={"host": "localhost"}).content.decode()
        panel = re.search(r'<div id="capacity" data-live>(.*?)</div>', html, re.DOTALL)[1]
        return " ".join(unescape(re.sub(r"<[^>]+>", "", panel)).split())

    return fetch


def capacity(path, at, capacity_bps=50e6, **fields):
    values = {
        "test": "narrowest",
        "outcome": "measured",
        "verdict": "measured",
        "capacity_bps": capacity_bps,
        "capacity_low_bps": 48e6,
        "capacity_high_bps": 52e6,
        "sent": 184,
        "received": 183,
        "method": "pairs and trains",
        "during_test": False,
    }
    return CapacityResult.objects.create(path_id=path.pk, measured_at=at, **{**values, **fields})


def test_the_newest_capacity_has_its_interval_and_time(panel_text, path):
    capacity(path, HOUR, 40e6)
    capacity(path, HOUR + MINUTE)

    words = panel_text()

    assert words.startswith("50 Mbit/s (48 Mbit/s to 52 Mbit/s)")
    assert lacks(words, "Measured 2026-11-21 12:01 UTC", "narrowest", "pairs") == []
    assert "during a throughput test" not in words


def test_a_capacity_during_our_own_test_says_so(panel_text, path):
    capacity(path, HOUR, during_test=True)

    assert "during a throughput test" in panel_text()


def test_a_capacity_stays_beside_a_newer_undetermined_result(panel_text, path):
    capacity(path, HOUR)
    capacity(path, HOUR + MINUTE, verdict="rate_limited", detail="ICMP is limited", **NOTHING)

    words = panel_text()

    assert words.startswith("50 Mbit/s (48 Mbit/s to 52 Mbit/s)")
    assert lacks(words, "latest", "no capacity", "2026-11-21 12:01 UTC", "narrowest") == []
    assert words.endswith("rate limited: ICMP is limited")


def test_a_lower_bound_is_shown_as_such(panel_text, path):
    capacity(path, HOUR, verdict="own_limit", **{**NOTHING, "capacity_low_bps": 1.81e9})

    words = panel_text()

    assert words.startswith("At least 1.81 Gbit/s")
    assert lacks(words, "2026-11-21 12:00 UTC", "narrowest", "own limit") == []
    assert words.count("bit/s") == 1


def test_a_failed_measurement_has_no_figure(panel_text, path):
    capacity(path, HOUR, outcome="no_route", verdict=None, detail="network is unreachable", **NOTHING)

    words = panel_text()

    assert words.startswith("Unknown")
    assert lacks(words, "2026-11-21 12:00 UTC", "narrowest", "no route", "network is unreachable") == []
    assert "bit/s" not in words


def test_without_capacities_the_page_says_how_to_measure_them(panel_text):
    words = panel_text()

    assert words.startswith("Not measured")
    assert lacks(words, " 30 days", "kind capacity", "mesh.toml") == []


def test_the_capacity_is_that_of_the_shown_period(panel_text, path):
    capacity(path, HOUR - 40 * DAY, 30e6)
    capacity(path, HOUR - 2 * DAY, 40e6)
    capacity(path, HOUR)

    assert panel_text("?since=2026-11-20T00:00&until=2026-11-21T00:00").startswith("40 Mbit/s")
    assert [capacity.capacity_bps for capacity in newest_capacities(path.pk, NOW - 35 * DAY)] == [30e6]
    assert newest_capacities(path.pk, NOW - 5 * DAY) == []
