"""The best setting in each part of the day: planted optima are named, and nothing is named where none exists."""

import itertools
import random

import pytest

from monitor.analysis.sweeps.best_setting import LEAST_TESTS, SettingTest, best_settings, sentences
from monitor.analysis.sweeps.sweet_spot import SweepSetting
from tests.facts import lacks

KIB, MIB = 2**10, 2**20
ONE_SMALL, ONE, FOUR = (SweepSetting.create(1, 256 * KIB), SweepSetting.create(1, 4 * MIB), SweepSetting.create(4, MIB))
GRID = (ONE_SMALL, ONE, FOUR)


def planted_tests(rate_of, days, *, grid=GRID, seed=1, scatter=0.1):
    """A test an hour, in rounds of all settings in random order, as scheduled sweeps are run."""
    chance = random.Random(seed)
    order = itertools.chain.from_iterable(chance.sample(grid, len(grid)) for _ in itertools.count())
    return [
        SettingTest(setting, hour % 24, rate_of(setting, hour % 24) * chance.lognormvariate(0.0, scatter))
        for hour, setting in zip(range(24 * days), order, strict=False)
    ]


def by_evening(setting, hour):
    """More streams win in the evening, when others fill the path; a larger window wins otherwise."""
    is_evening = 18 <= hour < 24
    return {ONE_SMALL: 12e6, ONE: 30e6 if is_evening else 90e6, FOUR: 70e6 if is_evening else 50e6}[setting]


def test_a_setting_that_is_best_all_day_is_named():
    best = best_settings(planted_tests(lambda setting, hour: 1e7 * (1 + 8 * (setting == ONE)), 28), GRID)

    assert best.day.is_proven
    assert best.day.rates[0].setting == ONE
    assert {part.rates[0].setting for part in best.parts if part.is_proven} == {ONE}
    text = " ".join(sentences(best, "UTC"))
    assert lacks(text, "All day: 1 stream of 4 MiB is the best", "95% CI") == []
    assert "changes in the day (" not in text


def test_an_optimum_that_changes_in_the_evening_is_named_with_its_hours():
    best = best_settings(planted_tests(by_evening, 28), GRID)

    proven = {part.begin_h: part.rates[0].setting for part in best.parts if part.is_proven}
    assert {setting for begin, setting in proven.items() if begin >= 18} == {FOUR}
    assert {setting for begin, setting in proven.items() if begin < 18} == {ONE}
    text = " ".join(sentences(best, "UTC"))
    assert lacks(text, "changes in the day (UTC)", "1 stream of 4 MiB from 0:00 to 18:00") == []
    assert lacks(text, "changes in the day (UTC)", "4 streams of 1 MiB from 18:00 to 24:00") == []


def test_the_interval_holds_the_planted_rate():
    inside = 0
    for seed in range(200):
        best = best_settings(planted_tests(lambda setting, hour: 5e7, 7, seed=seed), GRID)
        rate = next(rate for rate in best.day.rates if rate.setting == ONE)
        inside += rate.low_bps < 5e7 < rate.high_bps

    # 95% of 200, less four standard deviations.
    assert inside >= 178


@pytest.mark.parametrize("scatter", [0.02, 0.3])
def test_equal_settings_are_hardly_ever_told_apart(scatter):
    """5% of the paths at most; the seeds are fixed."""
    false = 0
    for seed in range(200):
        best = best_settings(planted_tests(lambda setting, hour: 5e7, 14, seed=seed, scatter=scatter), GRID)
        false += any(part.is_proven for part in (best.day, *best.parts))

    assert false <= 10


def test_of_two_equal_settings_the_smallest_is_advised():
    best = best_settings(planted_tests(lambda setting, hour: 12e6 if setting == ONE_SMALL else 9e7, 28), GRID)

    assert not best.day.is_proven
    assert {rate.setting for rate in best.day.equal} == {ONE, FOUR}
    assert best.day.smallest.setting == ONE
    text = " ".join(sentences(best, "UTC"))
    assert lacks(text, "cannot tell", "1 stream of 4 MiB", "smallest of them", "Cannot tell whether it changes") == []


def test_a_single_lucky_test_is_not_the_best():
    tests = planted_tests(lambda setting, hour: 5e7, 2)
    tests = [test for test in tests if test.setting != FOUR] + [SettingTest(FOUR, 3, 9e8)]

    best = best_settings(tests, GRID)

    assert best.day.rates[0].setting == FOUR
    assert not best.day.is_proven
    assert best.day.lacking == 1
    assert f"cannot tell: 1 of the settings with fewer than {LEAST_TESTS} tests" in sentences(best, "UTC")[0]


def test_too_few_tests_for_the_day_are_said_to_be():
    best = best_settings(planted_tests(by_evening, 1)[:12], GRID)

    assert best.parts == ()
    assert "Cannot tell how it changes in the day: 12 tests of 3 settings" in sentences(best, "UTC")[1]


def test_the_hours_are_taken_together_until_they_hold_enough_tests():
    widths = [len(best_settings(planted_tests(by_evening, days), GRID).parts) for days in (2, 7, 28)]

    assert widths == sorted(widths)
    assert 0 < widths[0] < widths[-1]


def test_tests_of_other_grids_and_without_rates_are_left_out():
    other = SweepSetting.create(128)
    tests = [SettingTest(other, 1, 1e12), SettingTest(ONE, 1, 0.0), SettingTest(FOUR, 1, 1e6)]

    assert best_settings(tests, GRID) is None
    assert best_settings([], GRID) is None
