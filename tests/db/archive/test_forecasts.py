"""The forecast of a path from its own tests: page and API after a change of the path.

A path of 20 ms has hourly BBR tests of 45 Mbit/s, and ten pings a minute. In the planted fault one ping in five is lost
from `FAULT` on, and a later test gets 0.225 Mbit/s.
"""

import re
from datetime import timedelta

import pytest

from monitor.analysis.tcp import PathDifference, Sign
from monitor.archive.models import Burst
from monitor.archive.queries.path_estimates import path_estimate
from monitor.archive.queries.paths import path_summaries
from monitor.archive.queries.throughput.series import throughput_series
from tests.db.copied_rows import copy_rows
from tests.db.pages_mesh import HOUR, NOW, hour, throughput

pytestmark = pytest.mark.django_db
FAULT = NOW - timedelta(minutes=40)
TEST_SINCE = NOW - timedelta(minutes=8)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def ping(path, at, lost=0, rtt_ms=20.0, ttl=60):
    return Burst(
        path_id=path.pk, packet_bytes=100, measured_at=at, outcome="measured", sent=10, received=10 - lost,
        duplicates=0, reordered=0, during_test=False, ttl=ttl, rtts_ms=[rtt_ms] * (10 - lost) + [None] * lost,
    )  # fmt: skip


@pytest.fixture
def path(paths):
    """A day of tests on a clean path; the summary of the hour has loss at its end."""
    path = paths["slac", "cern"]
    bursts = []
    for back in range(24, 0, -1):
        at = NOW - back * timedelta(hours=1) - timedelta(minutes=10)
        throughput(path, at, 45e6, congestion_control="bbr", verdict="bottleneck queue")
        bursts += [ping(path, at - minute * MINUTE) for minute in range(1, 31)]
    copy_rows(bursts)
    hour(path, 3000, 2796, 20.0, estimate_bps=232e3, estimate_is_floor=False)
    return path


def lose(path):
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    minutes = int((NOW - FAULT) / MINUTE)
    copy_rows(ping(path, FAULT + minute * MINUTE, lost=2) for minute in range(minutes))


def estimated(path, until=NOW):
    [summary] = path_summaries(until - DAY, until, packet_bytes=100, path_ids=[path.pk])
    return path_estimate(summary, throughput_series(path.pk, until - DAY, until), until - DAY, until)


def page_of(client, path):
    return client.get(f"/paths/{path.pk}/?period=day&size=100", headers={"host": "localhost"}).content.decode()


def verdict_of(html):
    return re.search(r'class="verdict">([^<]*)', html)[1]


def test_the_test_since_the_loss_is_the_forecast(client, path, at_noon):
    lose(path)
    throughput(path, TEST_SINCE, 0.225e6, congestion_control="bbr", verdict="random loss")

    forecasted = estimated(path).forecast
    html = page_of(client, path)

    assert (forecasted.throughput_bps, forecasted.tests, forecasted.newest_at) == (
        pytest.approx(0.225e6),
        1,
        TEST_SINCE,
    )
    assert forecasted.low_bps < 0.225e6 < forecasted.high_bps
    assert verdict_of(html).startswith("about 225 kbit/s (80%: ")
    assert re.search(r"single test[^<]* newest 8 min before", html)


def test_before_the_next_test_the_loss_widens_the_forecast(client, path, at_noon):
    before = estimated(path).forecast
    lose(path)

    forecasted = estimated(path).forecast
    html = page_of(client, path)

    assert before.changes == ()
    assert before.throughput_bps == pytest.approx(45e6)
    assert forecasted.changes == (PathDifference.LOSS,)
    assert (forecasted.now.lost, forecasted.now.sent, forecasted.then.lost, forecasted.then.sent) == (60, 300, 0, 300)
    assert forecasted.throughput_bps < 45e6 / 2
    assert forecasted.high_bps / forecasted.low_bps > 4 * before.high_bps / before.low_bps
    assert re.search(r"Pings before that test: loss (&lt;|<) 1%, now 20% \(pings of the 30 min before\)\.", html)
    assert re.search(r"Median of 10 tests[^<]* 2026-11-21 \d\d:\d\d UTC[^<]* newest [\d. hmin]+ before", html)


@pytest.mark.parametrize("lost", [2, 10])
def test_a_loss_that_is_over_lowers_no_forecast(client, path, at_noon, lost):
    """Lost from 28 to 12 minutes before; then nothing."""
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    copy_rows(ping(path, NOW - minute * MINUTE, lost=lost if 12 < minute <= 28 else 0) for minute in range(1, 41))

    forecasted = estimated(path).forecast

    assert forecasted.changes == ()
    assert forecasted.throughput_bps == pytest.approx(45e6)
    assert (forecasted.now.lost, forecasted.now.sent) == (0, 120)
    assert "Pings before that test" not in page_of(client, path)


def test_the_correction_says_how_old_its_loss_is(client, path, at_noon):
    """The loss began 20 minutes before: it is of these packets, not of the half hour."""
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    copy_rows(ping(path, NOW - minute * MINUTE, lost=2 if minute <= 20 else 0) for minute in range(1, 41))

    now = estimated(path).forecast.now

    assert (now.lost, now.sent, now.since) == (40, 200, NOW - 20 * MINUTE)
    assert re.search(r"now 20% \(pings of the 20 min before\)", page_of(client, path))


@pytest.mark.parametrize(("risen_until", "now_ms", "minutes"), [(6, 20.0, 5), (0, 140.0, 19)], ids=["back", "risen"])
def test_the_rtt_now_is_of_the_pings_after_its_last_change(client, path, at_noon, risen_until, now_ms, minutes):
    """The RTT rose 19 minutes before; it is back after 14 of them, or not."""
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    copy_rows(
        ping(path, NOW - minute * MINUTE, rtt_ms=140.0 if risen_until <= minute <= 19 else 20.0)
        for minute in range(1, 41)
    )

    forecasted = estimated(path).forecast
    html = page_of(client, path)

    assert forecasted.now.rtt_ms == now_ms
    assert (forecasted.changes, forecasted.throughput_bps) == ((), pytest.approx(45e6))
    assert "Pings before that test" not in html
    assert f"of the pings of the {minutes} min before" in html


def test_the_hour_before_says_nothing_of_the_loss_now(path):
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    hour(path, 600, 300, 20.0, hour=HOUR - timedelta(hours=1))

    forecasted = estimated(path).forecast

    assert (forecasted.changes, forecasted.now.sent) == ((), 0)


def test_the_page_scores_earlier_forecasts(client, path, at_noon):
    html = page_of(client, path)

    assert re.search(r"Earlier forecasts[^<]* 23 of 23 [^<]*factor of two[^<]*, 23 ", html)


def test_later_data_changes_no_forecast(path):
    earlier = NOW - timedelta(hours=6)
    hour(path, 600, 600, 20.0, hour=HOUR - timedelta(hours=8))
    before = estimated(path, until=earlier).forecast

    lose(path)
    throughput(path, earlier + MINUTE, 1e6, congestion_control="bbr")

    assert estimated(path, until=earlier).forecast == before


def test_a_new_route_and_rtt_are_named(path):
    copy_rows(ping(path, NOW - minute * MINUTE, rtt_ms=80.0, ttl=55) for minute in range(1, 6))
    forecasted = estimated(path).forecast

    assert forecasted.changes == (PathDifference.ROUTE,)
    assert (forecasted.then.rtt_ms, forecasted.now.rtt_ms) == (20.0, 80.0)
    # Twice the tests for half of the change, on a logarithmic scale; the earlier tests are in the interval.
    assert forecasted.throughput_bps == pytest.approx(22.5e6)
    assert forecasted.low_bps * 1.9 < forecasted.throughput_bps < forecasted.high_bps / 1.9


def test_a_path_without_tests_shows_the_model_only(client, paths, at_noon):
    path = paths["slac", "cern"]
    hour(path, 10_000, 9_900, 100.0)

    html = page_of(client, path)

    assert estimated(path).forecast is None
    assert re.search(r"No test [^<]*to forecast from", html)
    assert verdict_of(html).startswith("at most ")


def test_loss_under_bbr_lowers_the_models_interval(path):
    estimate = estimated(path)

    # 204 of 3,000 lost: 6.8%.
    assert estimate.loss.ratio == pytest.approx(0.068)
    assert estimate.estimate.sign is Sign.AT_MOST
    assert estimate.estimate.low_bps < 0.5 * estimate.estimate.throughput_bps < estimate.estimate.high_bps


def test_tile_and_table_have_the_same_mathis_index(client, path, at_noon):
    html = page_of(client, path)

    tile = re.search(r"Mathis \(Reno\) estimate</dt><dd>([^<]*)</dd>", html)[1]
    row = re.search(r"<tr><td>Mathis \(Reno\)</td><td class=\"number\">([^<]*)", html)[1]
    assert tile.strip() == row.strip()
    assert row.endswith("bit/s")


def test_the_api_has_the_forecast_beside_the_model(client, path):
    lose(path)
    address = f"/api/v1/paths/{path.pk}/estimate"
    parameters = {"since": (NOW - DAY).isoformat(), "until": NOW.isoformat(), "size": 100}

    answer = client.get(address, parameters, headers={"host": "localhost"}).json()

    forecast = answer["forecast"]
    assert forecast["changes"] == ["loss"]
    assert forecast["low_bps"] < forecast["throughput_bps"] < forecast["uncorrected_bps"]
    assert forecast["score"]["forecasts"] == 23
    assert answer["estimate"]["limits"][0]["name"] == "capacity"


def test_on_demand_tests_and_other_senders_do_not_count(path):
    throughput(path, HOUR, 90e6, congestion_control="bbr", test="on-demand")
    throughput(path, NOW - timedelta(hours=30), 5e6, congestion_control="cubic")

    assert estimated(path).forecast.throughput_bps == pytest.approx(45e6)


@pytest.mark.parametrize("ended_min", [12, 50])
def test_the_model_alone_rests_on_the_loss_now(client, paths, at_noon, ended_min):
    """A path without tests lost everything for ten minutes of the day, and nothing since."""
    path = paths["slac", "cern"]
    hour(path, 6000, 5000, 20.0, estimate_bps=232e3, estimate_is_floor=False)
    copy_rows(
        ping(path, NOW - minute * MINUTE, lost=10 if ended_min < minute <= ended_min + 10 else 0)
        for minute in range(1, 70)
    )

    made = estimated(path)
    html = page_of(client, path)
    answer = client.get(
        f"/api/v1/paths/{path.pk}/estimate",
        {"since": f"{NOW - DAY:%Y-%m-%dT%H:%M:%SZ}", "until": f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "size": 100},
        headers={"host": "localhost"},
    ).json()

    clean_min = min(ended_min, 30)
    assert made.forecast is None
    assert made.is_since_change == (ended_min < 30) == ("since its last change" in html)
    assert (made.loss.lost, made.loss.sent, made.pings_since) == (0, 10 * clean_min, NOW - clean_min * MINUTE)
    assert made.rtt.median_ms == 20.0
    assert re.search(rf"pings of the {clean_min} min before 2026-11-21 12:30 UTC", html)
    assert (answer["lost"], answer["sent"]) == (0, 10 * clean_min)
    assert answer["pings_since"] == f"{NOW - clean_min * MINUTE:%Y-%m-%dT%H:%M:%SZ}"


def test_without_newer_pings_the_model_alone_says_that_it_is_of_the_period(client, paths, at_noon):
    path = paths["slac", "cern"]
    hour(path, 6000, 5000, 20.0, hour=HOUR - timedelta(hours=3))

    made = estimated(path)

    assert (made.loss.lost, made.loss.sent, made.pings_since) == (1000, 6000, None)
    assert "RTT and loss are those of the whole period" in page_of(client, path)


@pytest.mark.parametrize("lost_s", [20, 1900])
def test_an_outage_has_no_expected_rate(client, path, at_noon, lost_s):
    """The pings of the last seconds are all lost; those before, of the same half hour in the first case, answered."""
    Burst.objects.filter(path_id=path.pk, measured_at__gte=NOW - timedelta(seconds=lost_s)).delete()
    copy_rows(
        ping(path, NOW - timedelta(seconds=back), lost=10 if back <= lost_s else 0) for back in range(10, 2000, 10)
    )

    html = page_of(client, path)
    answer = client.get(
        f"/api/v1/paths/{path.pk}/estimate",
        {"since": f"{NOW - DAY:%Y-%m-%dT%H:%M:%SZ}", "until": f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "size": 100},
        headers={"host": "localhost"},
    )

    since = NOW - timedelta(seconds=min(lost_s, 1800))
    panel = re.search(r'id="estimate".*?</div>', html, re.DOTALL)[0]
    assert f"{since:%Y-%m-%d %H:%M:%S} to {NOW:%H:%M:%S} UTC" in verdict_of(html)
    assert "bit/s" not in panel
    assert "half hour" not in panel
    assert answer.status_code == 404
    assert f"{since:%H:%M:%S}" in answer.json()["detail"]


def test_a_lost_burst_of_a_path_that_loses_many_is_no_outage(path):
    Burst.objects.filter(path_id=path.pk, measured_at__gte=FAULT).delete()
    copy_rows(ping(path, NOW - minute * MINUTE, lost=10 if minute == 1 else 7) for minute in range(1, 30))

    assert estimated(path).loss.lost == 10 + 28 * 7
