"""Records, spread and estimate: the records page, and the transfers in the API."""

import re
import statistics
from datetime import timedelta

import pytest

from monitor.web.pages.records.view import bit_metres
from tests.db.pages_mesh import HOUR, MINUTE, NOW, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
PEER = {"duration_s": 10.0, "start_s": 0.2, "too_short": False, "wanted_s": 2.0, "peer_window_bytes": 3e6}


@pytest.fixture
def ask(client):
    def get(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.json() if "/api/" in address else answer.content.decode()

    return get


def test_a_long_path_beats_a_fast_path_in_bit_metres(ask, paths):
    """SLAC to CERN are 9,378 km, CERN to UCT 8,950 km (great circle, 6371.0088 km)."""
    throughput(paths["slac", "cern"], HOUR, 92e6)
    throughput(paths["slac", "cern"], HOUR + MINUTE, 90e6)
    throughput(paths["cern", "uct"], HOUR, 94e6)
    throughput(paths["uct", "cern"], HOUR, 999e6, protocol="udp")
    throughput(paths["uct", "slac"], HOUR, None)

    by_rate = ask("/api/v1/records?by=rate")
    by_bit_metres = ask("/api/v1/records?by=bit-metres")

    assert [(row["source"], row["throughput_bps"]) for row in by_rate] == [("cern", 94e6), ("slac", 92e6)]
    assert [row["source"] for row in by_bit_metres] == ["slac", "cern"]
    assert by_bit_metres[0]["bit_metres_per_s"] == pytest.approx(92e6 * 9_378_000, rel=1e-3)


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 1), ("?family=4", 1), ("?family=6", 0), ("?until=2026-11-21T11:00:00Z", 0), ("?limit=1", 1)],
)
def test_records_are_of_a_period_and_a_family(ask, paths, query, count):
    throughput(paths["slac", "cern"], HOUR, 92e6)

    assert len(ask(f"/api/v1/records{query}")) == count


def test_the_record_page_links_to_the_test(ask, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, 92e6)

    html = ask("/records/?by=bit-metres&period=week")

    assert f'href="/paths/{path.pk}/?test=2026-11-21T12:00:00Z#transfer"' in html
    assert "863 Tbit·m/s" in html


def test_a_mesh_without_tests_has_no_records(ask, paths):
    throughput(paths["slac", "cern"], HOUR, None)

    assert re.search(r"No TCP test [^<]*month", ask("/records/"))


def test_an_invalid_choice_lists_the_valid_choices(client, paths):
    answer = client.get("/records/?by=luck", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert "choose one of rate, bit-metres" in answer.content.decode()


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 bit·m/s"), (5e6, "5 Mbit·m/s"), (10_619e12, "10.6 Pbit·m/s"), (863e12, "863 Tbit·m/s")]
)
def test_bit_metres_are_written_with_three_digits(value, text):
    assert bit_metres(value) == text


def test_the_spread_of_a_paths_tests_is_shown(ask, paths):
    path = paths["slac", "cern"]
    rates = [278e6, 393e6, 346e6, 352e6]
    for minute, rate_bps in enumerate(rates):
        throughput(path, HOUR + minute * MINUTE, rate_bps)
    throughput(path, HOUR + 9 * MINUTE, 1e6, protocol="udp")
    throughput(path, HOUR + 10 * MINUTE, None)

    answer = ask(f"/api/v1/paths/{path.pk}/spread")

    assert (answer["tests"], answer["min_bps"], answer["max_bps"], answer["mean_bps"]) == (4, 278e6, 393e6, 342.25e6)
    assert answer["deviation_bps"] == pytest.approx(statistics.stdev(rates))
    assert ask(f"/api/v1/paths/{path.pk}/spread?until=2026-11-20T00:00:00Z")["mean_bps"] is None
    ask("/api/v1/paths/999999/spread", 404)


def test_the_estimate_of_a_path_is_returned(ask, paths):
    path = paths["slac", "cern"]
    hour(path, 10_000, 9_900, 100.0)
    throughput(path, HOUR, 94.3e6, congestion_control="reno", verdict="bottleneck queue", diagnosis=PEER)

    answer = ask(f"/api/v1/paths/{path.pk}/estimate")

    # As in test_pages_path: Reno's 12 segments of 1460 bytes each 100 ms are 1.4 Mbit/s before timeouts.
    assert answer["estimate"]["throughput_bps"] == pytest.approx(1.35e6, rel=0.04)
    assert (answer["estimate"]["binding"], answer["estimate"]["sign"]) == ("loss", "about")
    assert (answer["lost"], answer["sent"], answer["congestion_control"]) == (100, 10_000, "reno")
    assert (answer["uncalibrated"], answer["calibration"]) == (None, None)


def test_without_an_answered_ping_there_is_no_estimate(ask, paths):
    path = paths["slac", "cern"]
    hour(paths["cern", "slac"], 10, 10, 1.0)

    detail = ask(f"/api/v1/paths/{path.pk}/estimate", 404)["detail"]
    assert lacks(detail, "no ping", " 100 bytes", "answered") == []
    ask("/api/v1/paths/999999/estimate", 404)


def test_the_estimate_names_its_calibration(ask, paths):
    from tests.db.archive.test_calibrations import DAY, TODAY, a_test, history

    path = paths["slac", "cern"]
    history(path, before=TODAY - DAY)
    hour(path, 20_000, 19_980, 100.0)
    a_test(path, NOW - timedelta(minutes=30))

    answer = ask(f"/api/v1/paths/{path.pk}/estimate")

    assert answer["calibration"]["used"]
    assert answer["calibration"]["loss_factor"] == pytest.approx(0.5, rel=0.03)
    ratio = answer["estimate"]["throughput_bps"] / answer["uncalibrated"]["throughput_bps"]
    assert ratio == pytest.approx(2**0.5, rel=0.02)
