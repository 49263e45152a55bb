"""When a link is full: statements, and their score on simulated traffic."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.link_use import FullVerdict, forecast_full
from tests.link_use import KINDS, score

OF = {traffic.name: traffic for traffic in KINDS}


def weeks(values):
    return range(len(values)), [float(value) for value in values]


def line(count=20, last=800.0, slope=10.0, sigma=3.0, seed=1):
    return last - slope * np.arange(count)[::-1] + np.random.default_rng(seed).normal(0, sigma, count)


@pytest.mark.parametrize("name", [traffic.name for traffic in KINDS if traffic.grows])
def test_the_interval_covers_four_of_five_links_that_grow(name):
    """The bounds are two standard errors and more around the table of docs/method/link_use.md."""
    counted = score(OF[name], (16, 26), series=40, seed=7)

    assert counted.full_in >= 20
    assert 0.68 <= counted.covered / counted.full_in <= 0.97
    assert counted.wrong_never <= 0.06 * counted.series


@pytest.mark.parametrize("name", [traffic.name for traffic in KINDS if not traffic.grows])
def test_links_without_growth_are_hardly_ever_called_full(name):
    counted = score(OF[name], (16, 26), series=40, seed=7)

    # A cycle of the year looks like growth: 9.2% of 240 in the table, and two standard errors of 80 series.
    assert counted.full_in <= (0.16 if name == "cycle of the year" else 0.03) * counted.series


def test_a_line_with_little_noise_is_full_when_it_reaches_the_capacity():
    stated = forecast_full(*weeks(line()), 1000.0)

    # 150 are left below 95% of the capacity, at 10 a week.
    assert stated.verdict is FullVerdict.FULL_IN
    assert 14 <= stated.low_weeks <= stated.weeks <= stated.high_weeks <= 17
    assert stated.slope_bps == pytest.approx(10.0, rel=0.1)
    assert stated.words == f"full in about {stated.weeks} weeks ({stated.low_weeks} to {stated.high_weeks})"


def test_outliers_do_not_move_the_forecast():
    values = line(count=30)
    values[[5, 20]] = [50.0, 990.0]

    assert forecast_full(*weeks(values), 1000.0).slope_bps == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize(
    ("values", "capacity", "verdict", "reason"),
    [
        (line(), None, FullVerdict.CANNOT_TELL, "capacity is unknown"),
        (line(count=7), 1000.0, FullVerdict.CANNOT_TELL, "7 weeks measured, 8 needed"),
        (line(slope=0.0, last=300.0), 1000.0, FullVerdict.NOT_WITHIN_YEAR, ""),
        (line(slope=-10.0, last=300.0), 1000.0, FullVerdict.NOT_WITHIN_YEAR, ""),
        (line(slope=0.0, last=850.0, sigma=60.0, seed=2), 1000.0, FullVerdict.CANNOT_TELL, "no trend"),
        (line(slope=0.0, last=980.0), 1000.0, FullVerdict.FULL, "of the capacity"),
        (
            [*line(slope=0.0, last=300.0), *line(count=5, slope=0.0, last=600.0)],
            1000.0,
            FullVerdict.CANNOT_TELL,
            "5 weeks ago",
        ),
        ([0.0] * 20, 1000.0, FullVerdict.NOT_WITHIN_YEAR, ""),
    ],
    ids=["capacity", "few weeks", "flat", "falling", "noise", "full", "step", "idle"],
)
def test_it_says_why_nothing_can_be_told(values, capacity, verdict, reason):
    stated = forecast_full(*weeks(values), capacity)

    assert stated.verdict is verdict
    assert reason in stated.words
    assert stated.weeks is None


def test_weeks_without_measurements_are_gaps_and_not_zeros():
    values = line(count=30)
    kept = [number for number in range(30) if number not in (3, 4, 17)]
    stated = forecast_full(kept, [float(values[number]) for number in kept], 1000.0)

    assert 14 <= stated.low_weeks <= stated.weeks <= stated.high_weeks <= 17


def test_a_forecast_is_the_same_each_time():
    assert forecast_full(*weeks(line()), 1000.0) == forecast_full(*weeks(line()), 1000.0)
