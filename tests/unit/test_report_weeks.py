from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reports.weeks import Week


def test_a_week_runs_from_monday_to_monday_utc():
    week = Week.parse("2026-W47")

    assert week.since == datetime(2026, 11, 16, tzinfo=UTC)
    assert week.until == datetime(2026, 11, 23, tzinfo=UTC)
    assert str(week) == "2026-W47"


def test_a_year_with_53_weeks():
    """2026 has 53 ISO weeks: 1 January 2027 is a Friday of 2026-W53."""
    assert Week.of(datetime(2027, 1, 1, 12, tzinfo=UTC)) == Week(2026, 53)
    assert Week(2027, 1).before == Week(2026, 53)


def test_the_week_of_a_moment_is_that_of_utc():
    """Monday 00:30 in Geneva is still Sunday in UTC."""
    geneva = timezone(timedelta(hours=1))

    assert Week.of(datetime(2026, 11, 23, 0, 30, tzinfo=geneva)) == Week(2026, 47)


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda moment: 1970 <= moment.year < 3000))
def test_every_moment_lies_in_its_week(moment):
    week = Week.of(moment)

    assert week.since <= moment < week.until
    assert week.before.until == week.since
    assert Week.parse(str(week)) == week


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2026-47", "write the year and the week, as in 2026-W47"),
        ("last", "write the year and the week, as in 2026-W47"),
        ("2025-W53", "there is no such ISO week"),
        ("2026-W00", "there is no such ISO week"),
    ],
)
def test_what_is_not_a_week_is_said(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Week.parse(text)
