"""Daily congestion: against another tool's output on real RTTs, and in simulated weeks with planted queues."""

from pathlib import Path

import numpy as np
import pytest

from monitor.analysis.daily_congestion import RecurringHours, above_base, congested_slots, daily_congestion, in_words

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "congestion"
SLOTS = 96
WEEKDAYS = tuple(range(7))


def test_slots_agree_with_jitterbugs_periods():
    minimum_ms = np.array((FIXTURES / "minimum_rtts_ms.txt").read_text().split(), dtype=float)
    periods = np.loadtxt(FIXTURES / "periods.csv", delimiter=",", skiprows=1)
    lengths = np.round(np.diff(periods[:, :2], axis=1)[:, 0] / 900).astype(int)
    by_jitterbug = np.repeat(periods[:, 2] > 0, lengths)[: len(minimum_ms)]

    agreement = (congested_slots(above_base(minimum_ms, SLOTS), SLOTS) == by_jitterbug[: len(minimum_ms)]).mean()

    assert (len(minimum_ms), by_jitterbug.sum() / 4) == (1324, pytest.approx(100.0, abs=0.5))
    assert agreement >= 0.95


class Week:
    """A simulated week: a base RTT with noise, and maybe a queue at the same hours of most days."""

    def __init__(self, seed, *, queue_ms=0.0, weekends=True, days=7, noise_ms=0.3, slots=SLOTS):
        random = np.random.default_rng(seed)
        self.begin_h, self.length_h = random.uniform(8.0, 20.0), random.uniform(1.5, 5.0)
        hours = np.arange(slots) * 24.0 / slots
        self.minimum_ms = random.uniform(5.0, 150.0) + random.exponential(noise_ms, (days, slots))
        self.truth = np.zeros((days, slots), dtype=bool)
        for day in range(days):
            if queue_ms and (weekends or day % 7 < 5) and random.random() < 0.93:
                begin = self.begin_h + random.normal(0.0, 0.2)
                is_full = ((hours - begin) % 24.0 < self.length_h) & (hours >= begin)
                self.truth[day] = is_full
                self.minimum_ms[day, is_full] += queue_ms * random.uniform(0.7, 1.3, is_full.sum())
        self.random = random

    def with_route_change(self):
        place = int(self.random.integers(20, self.minimum_ms.size - 20))
        self.minimum_ms.ravel()[place:] += self.random.choice([-3.0, 4.0, 15.0, 60.0])
        return self

    def without_a_day(self):
        self.minimum_ms[int(self.random.integers(len(self.minimum_ms)))] = np.nan
        return self

    def with_gaps(self):
        self.minimum_ms[self.random.random(self.minimum_ms.shape) < 0.05] = np.nan
        return self

    def with_single_episodes(self):
        for day in self.random.choice(len(self.minimum_ms), 2, replace=False):
            begin = int(self.random.integers(0, SLOTS - 12))
            self.minimum_ms[day, begin : begin + 12] += 20.0
        return self

    def found(self):
        """The slots of the recurring hours, on the days on which they are congested."""
        slots = np.zeros(self.minimum_ms.shape, dtype=bool)
        rise_ms = above_base(self.minimum_ms.ravel(), slots.shape[1])
        is_congested = congested_slots(rise_ms, slots.shape[1]).reshape(slots.shape)
        for hours in daily_congestion(self.minimum_ms, WEEKDAYS).hours:
            per_hour = slots.shape[1] / 24
            of_day = np.arange(round(hours.begin_h * per_hour), round(hours.end_h * per_hour)) % slots.shape[1]
            slots[:, of_day] |= is_congested[:, of_day]
        return slots


def weeks(number):
    """Queues of several sizes, with and without weekends, route changes, gaps, missing days and single episodes."""
    for seed in range(number):
        week = Week(seed, queue_ms=(0.0, 2.5, 5.0, 12.0, 40.0)[seed % 5], weekends=seed % 3 > 0)
        if seed % 4 == 1:
            week.with_route_change()
        if seed % 7 == 2:
            week.without_a_day()
        if seed % 6 == 3:
            week.with_gaps()
        if seed % 5 in (0, 3) and seed % 2:
            week.with_single_episodes()
        yield week


def test_precision_and_recall_in_simulated_weeks():
    right = wrong = missed = 0
    for week in weeks(240):
        found, truth = week.found(), week.truth & ~np.isnan(week.minimum_ms)
        right += (found & truth).sum()
        wrong += (found & ~truth).sum()
        missed += (truth & ~found).sum()

    assert right / (right + wrong) >= 0.9
    assert right / (right + missed) >= 0.9


def test_weeks_without_a_queue_have_no_recurring_hours():
    quiet = [week for number, week in enumerate(weeks(300)) if number % 5 == 0]

    named = sum(bool(daily_congestion(week.minimum_ms, WEEKDAYS).hours) for week in quiet)

    assert named <= 0.02 * len(quiet)


def test_the_sentence_states_hours_days_rise_and_the_worst_day():
    minimum_ms = 20.0 + np.random.default_rng(1).exponential(0.2, (7, SLOTS))
    for day in (0, 1, 2, 3, 4, 6):
        minimum_ms[day, 79:93] += 46.0 if day == 1 else 23.0

    (hours,) = daily_congestion(minimum_ms, WEEKDAYS).hours

    words = in_words(hours)
    assert words.startswith("congested 19:4")
    assert words.endswith(" on 6 of 7 evenings, +23 ms, worst on Tuesday")


def test_hours_across_midnight_are_a_single_run():
    minimum_ms = 20.0 + np.random.default_rng(2).exponential(0.2, (7, SLOTS))
    minimum_ms.ravel()[[day * SLOTS + slot for day in range(6) for slot in range(88, 104)]] += 10.0

    (hours,) = daily_congestion(minimum_ms, WEEKDAYS).hours

    assert (hours.begin_h, hours.end_h) == (pytest.approx(22.0, abs=0.13), pytest.approx(26.0, abs=0.13))


@pytest.mark.parametrize("slots", [24, 96])
def test_too_few_days_cannot_tell(slots):
    week = Week(1, queue_ms=20.0, days=7, slots=slots)
    assert daily_congestion(week.minimum_ms, WEEKDAYS).can_tell
    week.minimum_ms[:3] = np.nan

    result = daily_congestion(week.minimum_ms, WEEKDAYS)

    assert (result.can_tell, result.hours) == (False, ())


def test_no_worst_day_where_all_are_alike():
    words = in_words(RecurringHours(9.0, 12.0, 4.0, 11.0, 5, 5, 4.26, None))

    assert words == "congested 09:00 (±5 min) to 12:00 (±15 min) on 5 of 5 mornings, +4.3 ms"
