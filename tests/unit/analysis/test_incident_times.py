"""The time that baselines leave out: masks and hours against a loop over every measurement and every hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts.detect.past.incident_times import MOST_LEFT_OUT, PATTERN_DAYS, IncidentTimes, MeasureKind, PathTime

BEGAN = datetime(2026, 3, 4, tzinfo=UTC)
DAYS = 12
HOUR_S = 3600

stretches = st.lists(
    st.builds(
        lambda path_id, first, minutes, is_over: PathTime(
            path_id, BEGAN.timestamp() + 60.0 * first, BEGAN.timestamp() + 60.0 * (first + minutes), is_over
        ),
        st.integers(1, 2),
        st.integers(-100, DAYS * 1440),
        st.integers(1, 3000),
        st.booleans(),
    ),
    max_size=8,
)


def is_in(times, path_id, begin_s, end_s=None):
    """Whether a stretch of the path holds a moment, or overlaps the time up to `end_s`."""
    of_path = [time for time in times if time.path_id == path_id]
    if end_s is None:
        return any(time.begin_s <= begin_s < time.end_s for time in of_path)
    return any(time.begin_s < end_s and time.end_s > begin_s and time.end_s > time.begin_s for time in of_path)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(times=stretches, at_min=st.lists(st.integers(0, DAYS * 1440), max_size=40))
def test_single_measurements_are_left_out_as_counted_one_by_one(times, at_min):
    at_s = np.array([[BEGAN.timestamp() + 60.0 * minute for minute in at_min] + [np.nan]] * 2)

    mask = IncidentTimes({MeasureKind.TESTS: tuple(times)}).over(MeasureKind.TESTS, np.array([1, 2]), at_s)

    for row, path_id in enumerate((1, 2)):
        over = [time for time in times if time.is_over]
        expected = [is_in(over, path_id, float(moment)) for moment in at_s[row, :-1]]
        if sum(expected) > MOST_LEFT_OUT * len(at_min):
            expected = [False] * len(at_min)
        assert mask[row].tolist() == [*expected, False]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(times=stretches)
def test_hours_are_left_out_as_counted_one_by_one(times):
    hours = IncidentTimes({MeasureKind.PACKETS: tuple(times)}).hours(BEGAN, BEGAN + timedelta(days=DAYS))

    ranges = zip(hours.path_id, hours.first, hours.end, strict=True)
    left_out = [(path_id, hour) for path_id, first, end in ranges for hour in range(first, end)]
    first = round(BEGAN.timestamp()) // HOUR_S
    bad = [
        (path_id, hour)
        for path_id in (1, 2)
        for hour in range(first, first + 24 * DAYS)
        if is_in(times, path_id, hour * HOUR_S, (hour + 1) * HOUR_S)
    ]
    days = {key: sum((key[0], key[1] % 24) == (path_id, hour % 24) for path_id, hour in bad) for key in bad}
    assert sorted(left_out) == [key for key in bad if days[key] < PATTERN_DAYS]
