"""The current grid: its windows, incidents in its cells, and outages that a longer period keeps visible."""

from __future__ import annotations

from datetime import timedelta
from statistics import median

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.archive.models import ThroughputTest
from monitor.mesh.models import Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.merging import roll_up_raw
from tests.db.pages_mesh import MINUTE, NOW, burst, throughput
from tests.db.planted_cycles import follow
from tests.db.web.test_pages_grid import GRID_QUERIES, cell
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
CLEAN = [10.0] * 10
LOSSY = [10.0] * 8 + [None] * 2
DEAD = [None] * 10
CHECKED_QUERIES = 2
"""Of the paths that are being checked, for the sentence above the page."""


@pytest.fixture
def page(client):
    def get(query=""):
        answer = client.get(f"/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


def bursts(path, minutes_ago, rtts_ms):
    """A burst each minute from so many minutes ago until so many minutes ago."""
    since, until = minutes_ago
    for minute in range(since, until, -1):
        burst(path, NOW - minute * MINUTE, *rtts_ms)


def test_loss_that_has_ended_is_only_in_longer_periods(page, path):
    bursts(path, (60, 15), LOSSY)
    bursts(path, (15, 0), CLEAN)
    roll_up_raw(NOW)

    assert cell(page(), path)[:2] == ("none-lost", "0")
    # 45 bursts of 10 with 2 lost each, and 15 without loss: 90 of 600.
    assert cell(page("?period=hour"), path)[:2] == ("loss-5", "15%")


def test_loss_of_the_last_minutes_is_shown_before_a_roll_up(page, path):
    bursts(path, (30, 3), CLEAN)
    bursts(path, (3, 0), LOSSY)

    style, text, sentence = cell(page(), path)

    # 3 of the 10 bursts lost 2 of 10; the lower 95% bound of 6 in 100 is 2.6%, between 2.5% and 5%.
    assert (style, text) == ("loss-3", "6%")
    assert lacks(sentence, "poor or worse", " 6 of 100 lost") == []


def test_a_path_of_long_cycles_shows_its_last_three(page, paths, path):
    slow = MeshTest.objects.create(
        name="slow", kind="ping", every_s=1800, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0}
    )
    Measurement.objects.filter(path=path, test__kind="ping").delete()
    Measurement.objects.create(path=path, test=slow, started_at=NOW)
    for cycle in (1, 2, 3, 4):
        burst(path, NOW - cycle * timedelta(minutes=29), *(DEAD if cycle == 4 else LOSSY))
    burst(paths["cern", "slac"], NOW - 29 * MINUTE, *LOSSY)

    html = page()

    assert cell(html, path)[1] == "20%"
    assert cell(html, paths["cern", "slac"])[1] == "no data"


def test_a_size_with_its_own_cycle_has_its_own_window(page, path):
    rare = MeshTest.objects.create(name="large", kind="ping", every_s=3600, parameters={"packet_bytes": [1400]})
    Measurement.objects.create(path=path, test=rare, started_at=NOW)
    burst(path, NOW - timedelta(hours=2), *LOSSY, packet_bytes=1400)
    burst(path, NOW - timedelta(hours=2), *LOSSY)
    roll_up_raw(NOW)

    assert cell(page("?size=1400"), path)[1] == "20%"
    assert cell(page("?size=100"), path)[1] == "no data"


@pytest.mark.parametrize(("metric", "figure"), [("rtt", median), ("min-rtt", min), ("unreachability", lambda _: 10.0)])
def test_current_metrics_equal_those_of_the_raw_bursts(page, path, metric, figure):
    rtts = [10.0 + 0.5 * number for number in range(90)]
    for number in range(9):
        burst(path, NOW - (number + 1) * MINUTE, *rtts[10 * number : 10 * number + 10])
    burst(path, NOW - 10 * MINUTE, *DEAD)

    text = cell(page(f"?metric={metric}"), path)[1]

    assert float(text.lstrip("✕").split()[0].rstrip("%")) == pytest.approx(figure(rtts), abs=0.01)


def test_every_metric_of_the_page_has_a_current_grid(page, path):
    bursts(path, (10, 0), LOSSY)

    for metric in ("ipdv", "estimate", "mos", "throughput"):
        assert cell(page(f"?metric={metric}"), path)
    assert cell(page("?metric=estimate"), path)[1].endswith("bit/s")


def test_a_failed_newest_test_is_not_hidden_by_an_earlier_rate(page, path):
    throughput(path, NOW - timedelta(hours=1), 2.89e7)
    throughput(path, NOW - timedelta(minutes=1), None)
    ThroughputTest.objects.filter(throughput_bps=None).update(outcome="refused")

    style, text, sentence = cell(page("?metric=throughput"), path)

    assert (style, text) == ("not-measured", "no connection")
    assert "test failed: no connection" in sentence


def test_current_throughput_is_the_newest_test_not_a_median(page, path):
    for hours, rate_bps in ((4, 90e6), (2, 30e6), (1, 3e6)):
        throughput(path, NOW - timedelta(hours=hours), rate_bps)

    style, text, sentence = cell(page("?metric=throughput"), path)

    assert (style, text) == ("step-0", "3 Mbit/s")
    assert sentence.endswith(" 2 of 2 tests")
    assert "newest" in sentence


def test_a_metric_of_full_hours_has_no_current_grid(client, paths):
    answer = client.get("/api/v1/grid?metric=coverage_ratio&period=now", headers={"host": "localhost"})

    assert answer.status_code == 422
    assert "hour, day, week, month" in answer.content.decode()


def test_a_path_that_is_currently_not_permitted_says_so(page, path):
    burst(path, NOW - 2 * MINUTE, outcome="not_permitted")

    assert cell(page(), path)[:2] == ("not-measured", "not permitted")


@pytest.fixture
def back_to_normal(paths, path, monkeypatch):
    """20% loss from 25 to 15 minutes ago, told as it lasted and after its end, and its incident, which is open."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    for other in paths.values():
        bursts(other, (60, 25 if other == path else 0), CLEAN)
    bursts(path, (25, 15), LOSSY)
    bursts(path, (15, 0), CLEAN)
    roll_up_raw(NOW)
    evaluate(NOW - 15 * MINUTE)
    assert {row.path_id for row in Incident.objects.get(closed_at=None).paths.all()} == {path.pk}
    evaluate(NOW)


def test_a_cell_whose_loss_is_over_has_its_level_now(page, paths, path, back_to_normal):
    style, text, sentence = cell(page(), path)

    assert style.split()[0] == "none-lost"
    assert text in ("✓0", "0")
    assert lacks(sentence, "no loss", "0 of 100, so below 3% (95%) in the last 10 min") == []
    assert cell(page(), paths["cern", "slac"])[:2] == ("none-lost", "0")


def test_1_lost_of_10_packets_is_not_very_poor(page, path):
    burst(path, NOW - MINUTE, *CLEAN[:9], None)

    style, text, sentence = cell(page(), path)

    # The lower 95% bound of 1 in 10 is 0.51%: 1 - 0.95 ** (1 / 10).
    assert (style, text) == ("loss-1", "10%")
    assert lacks(sentence, "loss 10%", "good or worse", "0.51%", " 1 of 10 lost") == []
    assert "very poor" not in sentence


def test_an_outage_of_ten_minutes_is_marked_in_the_day(page, paths, path):
    for other in (path, paths["cern", "slac"]):
        for minute in range(24 * 60, 0, -1):
            dead = other == path and 300 < minute <= 310
            burst(other, NOW - minute * MINUTE, *(DEAD[:1] if dead else CLEAN[:1]))
    roll_up_raw(NOW)

    style, text, sentence = cell(page("?period=day"), path)

    # 10 of 1,440 packets.
    assert (style, text) == ("loss-1 outage", "✕0.69%")
    assert lacks(sentence, "100% loss", " 10 of 1,440 bursts") == []
    assert cell(page("?period=day"), paths["cern", "slac"])[0] == "none-lost"
    assert cell(page(), path)[0] == "none-lost"


def test_the_current_grid_has_the_query_count_of_the_page(page, paths, django_assert_num_queries):
    burst(paths["slac", "cern"], NOW - MINUTE, *LOSSY)
    roll_up_raw(NOW)
    with django_assert_num_queries(GRID_QUERIES):
        page()
    for path in paths.values():
        bursts(path, (10, 2), LOSSY)
    follow(NOW)

    with django_assert_num_queries(GRID_QUERIES + CHECKED_QUERIES):
        page()
    # And the metric computed from figures of RTTs.
    with django_assert_num_queries(GRID_QUERIES + CHECKED_QUERIES + 1):
        page("?metric=mos")


def test_a_path_opens_over_the_last_hour(page, path):
    bursts(path, (10, 0), CLEAN)
    roll_up_raw(NOW)

    assert f'href="/paths/{path.pk}/?period=hour&amp;size=100"' in page()
