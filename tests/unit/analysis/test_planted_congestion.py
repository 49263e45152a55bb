"""Stated begin, end, uncertainty and days of queues planted on simulated paths. The tables are `python -m
tests.scored congestion`; here are fewer paths of the same kinds."""

import numpy as np
import pytest

from monitor.analysis.daily_congestion import daily_congestion
from tests.congestion.planted import congested_path, quiet_path
from tests.congestion.score import is_reported, quantile, ratio, score

PATHS = 60
QUIET_MONTHS = 40


@pytest.fixture(scope="module")
def scores():
    return [score(congested_path(1000 + seed)) for seed in range(PATHS)]


def test_queues_are_found_and_no_other_hours(scores):
    assert ratio(of_path.hours is not None for of_path in scores) >= 0.95
    assert sum(of_path.others for of_path in scores) <= 0.05 * PATHS


@pytest.mark.parametrize("edge", ["begin_error_min", "end_error_min"])
def test_begin_and_end_are_right_to_a_quarter_of_an_hour(scores, edge):
    errors_min = [getattr(of_path, edge) for of_path in scores if of_path.hours]

    assert quantile(errors_min, 0.5) <= 5.0
    assert quantile(errors_min, 0.9) <= 15.0


@pytest.mark.parametrize("edge", [0, 1])
def test_the_stated_uncertainty_holds_the_truth_at_its_rate(scores, edge):
    """Of 90%; that many of 60 paths by chance are at least 50 in 97 of 100 cases."""
    assert ratio(of_path.covered[edge] for of_path in scores if of_path.hours) >= 50 / 60


def test_the_days_are_counted_as_they_were_planted(scores):
    off = [abs(of_path.hours.days_congested - of_path.days) for of_path in scores if of_path.hours]

    assert np.mean(np.array(off) <= 1) >= 0.9


def test_days_that_differ_widen_the_uncertainty():
    """Half of the evenings begin an hour earlier than the others."""
    minimum_ms = 20.0 + np.random.default_rng(3).exponential(0.2, (14, 288))
    regular = minimum_ms.copy()
    for day in range(14):
        regular[day, 228:264] += 20.0
        minimum_ms[day, 228 - 12 * (day % 2) : 264] += 20.0
    weekdays = tuple(day % 7 for day in range(14))

    narrow, wide = (only_hours(minima, weekdays) for minima in (regular, minimum_ms))

    assert narrow.begin_within_min <= 5.0
    assert wide.begin_within_min >= 15.0
    assert wide.end_within_min <= 5.0


def test_a_change_of_the_route_in_the_evening_is_no_day_of_the_queue():
    minimum_ms = 20.0 + np.random.default_rng(4).exponential(0.2, (14, 288))
    for day in range(6):
        minimum_ms[day, 228:264] += 20.0
    minimum_ms.ravel()[9 * 288 + 240 :] += 30.0

    hours = only_hours(minimum_ms, tuple(day % 7 for day in range(14)))

    assert (hours.days_congested, hours.days_measured) == (6, 14)


def test_quiet_months_have_no_statement():
    assert sum(is_reported(quiet_path(5000 + seed, 30)) for seed in range(QUIET_MONTHS)) <= 1


def only_hours(minimum_ms, weekdays):
    (hours,) = daily_congestion(minimum_ms, weekdays).hours
    return hours
