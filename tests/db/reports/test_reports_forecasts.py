"""The score of forecasts and estimates in a report: sentences only where they are significant.

Each path loses 1% of the pings at 100 ms, where Reno gets 1.4 Mbit/s (RFC 3649); its daily tests reach 35.
"""

from datetime import timedelta

import pytest

from monitor.reports.formats.page import render
from monitor.reports.formats.view import view_of
from tests.db.report_rows import ENGLISH, WEEK, Text, make_hours, make_throughput, report
from tests.facts import lacks

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def daily_tests(path, days):
    for day in range(-14, days):
        make_throughput(path, WEEK.since + day * DAY + timedelta(hours=3), 35e6, congestion_control="cubic")


@pytest.fixture
def lossy(paths):
    for path in paths.values():
        make_hours(path, WEEK.since, lost=600, rtt_ms=100.0, hours=100)
    return paths


def test_a_model_that_is_far_off_is_left_out(lossy):
    for path in lossy.values():
        daily_tests(path, 7)

    weekly = report()
    page = Text(render(weekly, ENGLISH))

    [cubic] = [score for score in weekly.scores if score.model == "CUBIC"]
    assert (cubic.figures, cubic.within_two) == (6, 0)
    assert (weekly.forecasts.tests, weekly.forecasts.within_two) == (42, 42)
    [sentence] = [text for text in page.lines if "42 of 42 tests" in text]
    assert lacks(sentence, "42 of 42 tests", "within a factor of two") == []
    assert "0.04 times" not in str(page)


def test_few_forecasts_give_no_sentence(lossy):
    daily_tests(lossy["slac", "cern"], 4)

    weekly = report()

    assert weekly.forecasts.tests == 4
    assert view_of(weekly, ENGLISH).scores == ()
    assert "No throughput results." not in str(Text(render(weekly, ENGLISH)))


def test_tests_off_their_forecast_are_counted(lossy):
    for path in lossy.values():
        daily_tests(path, 2)
        make_throughput(path, WEEK.since + 3 * DAY, 3e6, congestion_control="cubic")

    forecasts = report().forecasts

    assert (forecasts.tests, forecasts.within_two, forecasts.covered) == (18, 12, 12)
