from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reports.periods import Period, Week, zone_named

ZURICH, KOLKATA, ETC = ZoneInfo("Europe/Zurich"), ZoneInfo("Asia/Kolkata"), ZoneInfo("UTC")


def test_a_week_runs_from_monday_to_monday():
    period = Period.of_week(Week.parse("2026-W47"), ETC)

    assert (period.since, period.until) == (datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    assert (str(period), period.hours) == ("2026-W47", 168)


def test_a_week_of_another_zone_begins_at_its_own_midnight():
    """Zurich is an hour ahead of UTC in winter."""
    assert Period.of_week(Week(2026, 47), ZURICH).since == datetime(2026, 11, 15, 23, tzinfo=UTC)


def test_a_zone_half_an_hour_off_begins_at_the_next_utc_hour():
    """Midnight in Kolkata is 18:30 UTC."""
    assert Period.of_week(Week(2026, 47), KOLKATA).since == datetime(2026, 11, 15, 19, tzinfo=UTC)


@pytest.mark.parametrize(("week", "hours"), [("2026-W13", 167), ("2026-W43", 169), ("2026-W44", 168)])
def test_weeks_in_which_the_clocks_change_are_shorter_and_longer(week, hours):
    """In the European Union in 2026: 29 March, the Sunday of W13, and 25 October, that of W43."""
    assert Period.of_week(Week.parse(week), ZURICH).hours == hours


def test_a_year_with_53_weeks():
    """2026 has 53 ISO weeks: 1 January 2027 is a Friday of 2026-W53."""
    assert Week.containing(datetime(2027, 1, 1, 12, tzinfo=UTC), ETC) == Week(2026, 53)
    assert Week(2027, 1).before == Week(2026, 53)


def test_the_week_a_year_before_has_the_same_number_if_it_exists():
    """2025 has 52 weeks; 52 weeks before 28 December 2026 is 29 December 2025, in 2026-W01."""
    assert Week(2026, 47).year_before == Week(2025, 47)
    assert Week(2026, 53).year_before == Week(2026, 1)


def test_the_week_of_a_moment_follows_the_time_zone():
    """Monday 00:30 in Zurich is still Sunday in UTC."""
    moment = datetime(2026, 11, 23, 0, 30, tzinfo=ZURICH)

    assert Week.containing(moment, ETC) == Week(2026, 47)
    assert Week.containing(moment, ZURICH) == Week(2026, 48)


def test_days_are_compared_with_the_days_before_and_52_weeks_ago():
    november = Period.between(date(2026, 11, 1), date(2026, 11, 30), ETC)

    assert (str(november), november.days) == ("2026-11-01_2026-11-30", 30)
    assert str(november.before) == "2026-10-02_2026-10-31"
    assert str(november.year_before) == "2025-11-02_2025-12-01"


def test_the_days_of_a_week_are_that_week():
    assert Period.between(date(2026, 11, 16), date(2026, 11, 22), ETC) == Period.of_week(Week(2026, 47), ETC)


def test_reversed_and_too_many_days_are_refused():
    with pytest.raises(ValueError, match="2026-11-02 to 2026-11-01 is 0 days; give the first day and the last"):
        Period.between(date(2026, 11, 2), date(2026, 11, 1), ETC)
    with pytest.raises(ValueError, match="at most 366 days"):
        Period.between(date(2025, 1, 1), date(2026, 1, 2), ETC)


def test_an_unknown_time_zone_is_reported_with_the_nearest():
    with pytest.raises(ValueError, match='"Europe/Zürich" is not a time zone; did you mean "Europe/Zurich"'):
        zone_named("Europe/Zürich")


@given(
    st.datetimes(timezones=st.just(UTC)).filter(lambda moment: 1971 <= moment.year < 2200),
    st.sampled_from([ZURICH, ETC]),
)
def test_every_moment_lies_in_its_week(moment, zone):
    week = Week.containing(moment, zone)
    period = Period.of_week(week, zone)

    assert period.since <= moment < period.until
    assert period.before.until == period.since
    assert Week.parse(str(week)) == week
    assert period.until - period.since <= timedelta(hours=170)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2026-47", "write the year and the week, as in 2026-W47"),
        ("last", "write the year and the week, as in 2026-W47"),
        ("2025-W53", "there is no such ISO week"),
        ("2026-W00", "there is no such ISO week"),
        ("0001-W01", "years 1970 to 2199"),
        ("9999-W52", "years 1970 to 2199"),
    ],
)
def test_an_invalid_week_is_reported(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Week.parse(text)


def test_a_period_is_written_by_its_dates():
    day, month = date(2026, 11, 28), Period.between(date(2026, 11, 1), date(2026, 11, 30), ETC)

    assert [Period.between(day, day, ETC).words, month.words] == ["2026-11-28", "2026-11-01 to 2026-11-30"]
    assert Period.between(day, day, ETC).year_before.words == "2025-11-29"
    assert Period.of_week(Week(2026, 47), ETC).words == "2026-W47"
