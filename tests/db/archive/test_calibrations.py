"""A path's calibration by its own tests: which tests and days count, and its use in page and report.

The paths lose 1 in 1,000 pings at 100 ms, 20 of 20,000 a day. There Reno gets 1.2/sqrt(0.001) = 37.9 segments of 1460
bytes per RTT (RFC 3649, section 2), 4.43 Mbit/s, of which retransmitted segments take 0.1%; timeouts are rare. At half
of the loss the square root gives 1.41 times that.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.analysis.tcp import LimitName, Sign
from monitor.archive.models import BurstDay, CapacityResult
from monitor.archive.queries.path_estimates import path_estimate
from monitor.archive.queries.paths import path_summaries
from monitor.archive.queries.throughput.calibrations import LOOKBACK, calibration, days_of_tests, newest_kind
from monitor.archive.queries.throughput.series import throughput_series
from tests.db.pages_mesh import HOUR, NO_RTT, NOW, hour, throughput
from tests.db.report_rows import WEEK, make_hours, report

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
TODAY = datetime(2026, 11, 21, tzinfo=UTC)
SINCE = NOW - DAY
HALF_LOSS_BPS = 4.43e6 * 2**0.5
LOSS = {
    "start_s": 1.0, "end_s": 1.2, "resent_segments": 1, "before_bytes": 1e6, "lost_s": 0.1, "stalled_s": 0.0,
    "recovered": True,
}  # fmt: skip
SAID = {
    "duration_s": 10.0, "start_s": 0.2, "too_short": False, "wanted_s": 2.0, "recoveries": [LOSS],
    "peer_window_bytes": 3e6,
}  # fmt: skip
SIZE = 100


def pings(path, day, lost=20, sent=20_000, size=SIZE, **fields):
    values = {name: 100.0 for name in NO_RTT if name.startswith("rtt_")}
    BurstDay.objects.create(
        path_id=path.pk, packet_bytes=size, day=day, bursts=sent // 10, bursts_all_lost=0, bursts_none_lost=0,
        bursts_during_test=0, bursts_not_measured=0, sent=sent, received=sent - lost, duplicates=0, reordered=0,
        **{**NO_RTT, **values, **fields},
    )  # fmt: skip


def a_test(path, at, bps=HALF_LOSS_BPS, **fields):
    throughput(path, at, bps, **{"congestion_control": "reno", "verdict": "random loss", "diagnosis": SAID, **fields})


def history(path, days=12, bps=HALF_LOSS_BPS, before=TODAY, size=SIZE, **fields):
    """This many days up to `before`, each with its pings and a test at noon."""
    for back in range(1, days + 1):
        pings(path, before - back * DAY, size=size)
        a_test(path, before - back * DAY + timedelta(hours=12), bps, **fields)


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


def estimate_of(path, since=SINCE, until=NOW):
    [summary] = path_summaries(since, until, packet_bytes=SIZE, path_ids=[path.pk])
    return path_estimate(summary, throughput_series(path.pk, since, until), since, until)


def test_a_path_whose_tests_have_half_of_the_loss_is_calibrated(path):
    history(path, before=TODAY - DAY)
    hour(path, 20_000, 19_980, 100.0)
    a_test(path, HOUR)

    path_estimate = estimate_of(path)

    assert path_estimate.calibration.used.loss_factor == pytest.approx(0.5, rel=0.03)
    assert (path_estimate.estimate.binding, path_estimate.estimate.sign) == (LimitName.LOSS, Sign.AT_MOST)
    assert path_estimate.estimate.throughput_bps == pytest.approx(HALF_LOSS_BPS, rel=0.02)
    assert path_estimate.uncalibrated.throughput_bps == pytest.approx(4.43e6, rel=0.01)


def test_tests_within_the_period_do_not_calibrate_it(path):
    history(path, before=TODAY - DAY)
    hour(path, 20_000, 19_980, 100.0)
    before = estimate_of(path).calibration.calibration

    for minute in range(40):
        a_test(path, SINCE + timedelta(minutes=minute + 1), 80e6)
        a_test(path, TODAY - DAY + timedelta(minutes=minute + 1), 80e6)
    pings(path, TODAY - DAY, lost=5000)

    assert estimate_of(path).calibration.calibration == before


def test_unfinished_and_too_old_days_are_not_queried(path):
    for back in (0, 1, LOOKBACK.days, LOOKBACK.days + 1):
        pings(path, TODAY - back * DAY)
        a_test(path, TODAY - back * DAY + timedelta(minutes=1))

    days = days_of_tests(NOW, {path.pk: SIZE})[path.pk]

    assert [(TODAY - day.day).days for day in days] == [LOOKBACK.days, 1]


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"verdict": "bottleneck queue"}, True),
        ({"verdict": "window-limited"}, False),
        ({"verdict": "slow receiver"}, False),
        ({"verdict": "application-limited"}, False),
        ({"verdict": "CPU-bound"}, False),
        ({"verdict": None, "diagnosis": None}, False),
        ({"verdict": "undetermined"}, True),
        ({"verdict": "undetermined", "diagnosis": SAID | {"recoveries": []}}, False),
        ({"verdict": "undetermined", "diagnosis": SAID | {"too_short": True}}, False),
        ({"verdict": "undetermined", "diagnosis": None}, False),
        ({"test": "on-demand"}, False),
        ({"protocol": "udp"}, False),
        ({"bps": None}, False),
    ],
)
def test_only_tests_limited_by_the_path_count(path, fields, counts):
    pings(path, TODAY - DAY)
    a_test(path, TODAY - DAY, **fields)

    assert bool(days_of_tests(NOW, {path.pk: SIZE})) == counts


def test_the_capacity_of_a_day_is_that_known_before_it(path):
    for back in (3, 2, 1):
        pings(path, TODAY - back * DAY)
        a_test(path, TODAY - back * DAY, back * 10e6, verdict="bottleneck queue")
    CapacityResult.objects.create(
        path_id=path.pk, measured_at=TODAY - 1.5 * DAY, test="narrowest", outcome="measured", verdict="measured",
        capacity_bps=95e6, sent=1, received=1, during_test=False,
    )  # fmt: skip

    days = days_of_tests(NOW, {path.pk: SIZE})[path.pk]

    # Of the day before: 20 Mbit/s was the newest test, but 30 had been reached and 95 was measured after both.
    assert [day.capacity_bps for day in days] == [None, 30e6, 95e6]


def test_tests_of_another_kind_do_not_calibrate(path):
    history(path, congestion_control="cubic")

    days = days_of_tests(NOW, {path.pk: SIZE})[path.pk]

    assert newest_kind(days) == ("cubic", 1)
    assert calibration(days, "reno", 1) is None
    assert calibration(days, "cubic", 4) is None
    assert calibration(days, "cubic", 1).stretches == 12


def test_bbr_is_not_calibrated(path):
    history(path, congestion_control="bbr")

    assert calibration(days_of_tests(NOW, {path.pk: SIZE})[path.pk], "bbr", 1) is None


def test_the_page_shows_the_uncalibrated_figure_beside_it(client, path, at_noon):
    history(path, before=TODAY - DAY)
    hour(path, 20_000, 19_980, 100.0)
    a_test(path, HOUR)

    html = client.get(f"/paths/{path.pk}/?period=day", headers={"host": "localhost"}).content.decode()

    assert re.search(r"Calibrated: TCP [^<]* 0\.5\d? times the loss[^<]* 12 stretches", html)
    assert re.search(r"capacity alone: at most 6\.\d\d Mbit/s,[^<]* by loss", html)
    assert re.search(r"Without calibration: at most 4\.\d\d? Mbit/s,[^<]* by loss", html)


def test_the_page_says_which_data_a_calibration_needs(client, path, at_noon):
    history(path, days=3, before=TODAY - DAY)
    hour(path, 20_000, 19_980, 100.0)
    a_test(path, HOUR)

    html = client.get(f"/paths/{path.pk}/?period=day", headers={"host": "localhost"}).content.decode()

    assert re.search(r"Not calibrated: 3 of the 9 [^<]*stretches", html)
    assert "10 lost pings" in html


def test_the_report_scores_both_kinds_of_estimates(path):
    history(path, before=WEEK.since, size=1000)
    make_hours(path, WEEK.since, lost=100, rtt_ms=100.0)
    for back in (1, 2, 3):
        a_test(path, WEEK.until - back * DAY)

    scores = {score.model: score for score in report().scores}

    # 100 of 100,800 pings lost in the week; the earlier tests met half of the loss.
    assert scores["calibrated"].figures == scores["same paths, not calibrated"].figures == 1
    assert scores["calibrated"].median_ratio == pytest.approx(1.0, rel=0.03)
    assert scores["same paths, not calibrated"].median_ratio == pytest.approx(2**-0.5, rel=0.03)


def test_the_tests_of_a_report_do_not_calibrate_it(path):
    make_hours(path, WEEK.since, lost=100, rtt_ms=100.0)
    for day in range(7):
        for number in range(3):
            a_test(path, WEEK.since + day * DAY + timedelta(hours=1 + number))

    scores = {score.model: score for score in report().scores}

    assert scores["calibrated"].figures == 0
