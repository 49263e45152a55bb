"""Times in the reader's zone: on pages, in sentences, on the axes of charts."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from monitor.analysis.sentence_times import zone_label
from monitor.web.request import times

SUMMER = datetime(2026, 7, 1, 22, 30, 15, tzinfo=UTC)


@pytest.fixture
def zurich():
    with timezone.override(ZoneInfo("Europe/Zurich")):
        yield


def test_without_a_choice_times_are_utc():
    assert times.minute(SUMMER) == "2026-07-01 22:30 UTC"
    assert times.in_zone("since 2026-07-01 22:30 UTC") == "since 2026-07-01 22:30 UTC"
    assert times.chart_zone(SUMMER) == times.ChartZone(timedelta(), "UTC")


def test_times_are_in_the_chosen_zone_and_name_it(zurich):
    assert times.minute(SUMMER) == "2026-07-02 00:30 CEST"
    assert times.second(SUMMER) == "2026-07-02 00:30:15 CEST"
    assert times.clock_minute(SUMMER) == "00:30 CEST"
    assert times.clock(SUMMER) == '<time datetime="2026-07-01T22:30:15+00:00">00:30:15 CEST</time>'
    assert times.minute(SUMMER.replace(month=12)) == "2026-12-01 23:30 CET"


@pytest.mark.parametrize(
    ("zone", "label"),
    [
        ("America/New_York", "EDT"),
        ("America/Sao_Paulo", "UTC−3"),
        ("Asia/Kathmandu", "UTC+5:45"),
        ("America/St_Johns", "NDT"),
        ("Asia/Dubai", "UTC+4"),
    ],
)
def test_a_zone_without_a_name_is_its_offset(zone, label):
    assert zone_label(SUMMER.astimezone(ZoneInfo(zone))) == label


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("since 2026-07-01 22:30 UTC, was 1%", "since 2026-07-02 00:30 CEST, was 1%"),
        ("from 2026-07-01 22:30 to 2026-07-01 23:00 UTC", "from 2026-07-02 00:30 to 2026-07-02 01:00 CEST"),
        ("a test, 2026-07-01 21:59:50 to 22:00:10 UTC", "a test, 2026-07-01 23:59:50 to 2026-07-02 00:00:10 CEST"),
        (
            "2026-07-01 10:00:12 UTC (95% CI 09:58:12–10:01:12; bursts with loss, slac → cern)",
            "2026-07-01 12:00:12 CEST (95% CI 11:58:12–12:01:12; bursts with loss, slac → cern)",
        ),
        (
            "until 2026-07-01 25:00 UTC, not 2026-01-01 12:00 UTC",
            "until 2026-07-01 25:00 UTC, not 2026-01-01 13:00 CET",
        ),
        ("no time, 22:30 UTC", "no time, 22:30 UTC"),
    ],
)
def test_times_in_sentences_are_converted(zurich, written, shown):
    assert times.in_zone(written) == shown


@pytest.mark.parametrize(("now", "day"), [("22:30:20", "2026-07-01"), ("22:30:10", "2026-06-30")])
def test_a_time_without_a_day_is_the_newest(zurich, monkeypatch, now, day):
    monkeypatch.setattr(times.timezone, "now", lambda: datetime.fromisoformat(f"2026-07-01 {now}Z"))

    marked = times.in_zone_marked("loses 3% since 22:30:15 UTC")

    assert marked == f'loses 3% since <time datetime="{day}T22:30:15+00:00">00:30:15</time> CEST'


def test_a_sentence_is_escaped_and_its_times_are_marked(zurich):
    marked = times.in_zone_marked("a < b since 2026-07-01 22:30 UTC")

    assert marked == 'a &lt; b since <time datetime="2026-07-01T22:30:00+00:00">2026-07-02 00:30</time> CEST'


def test_a_span_names_both_zones_where_clocks_change(zurich):
    before = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)

    assert times.span(before, before + timedelta(hours=1)) == "2026-10-25 02:30 CEST to 02:30 CET"
    assert times.span(SUMMER, SUMMER + timedelta(hours=1)) == "2026-07-02 00:30 to 01:30 CEST"
