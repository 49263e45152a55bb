"""Changes beyond a path's own noise: false positives by simulation, planted changes, other formulas."""

import numpy as np
import pytest
from scipy import stats

from monitor.analysis import noise

PATHS, DAYS, BEFORE, SENT = 400, 7, 56, 14_400
RATE = 0.05


def correlated(random, paths, days, correlation, spread):
    """Autoregressive noise of order one, of standard deviation `spread`."""
    values = random.normal(size=(paths, days))
    for day in range(1, days):
        values[:, day] = correlation * values[:, day - 1] + np.sqrt(1 - correlation**2) * values[:, day]
    return spread * values


def losses(random, ratio, paths, days):
    """Lost packets per day, overdispersed: the ratio itself varies from day to day (beta-binomial)."""
    return random.binomial(SENT, random.beta(0.8, 0.8 / ratio, size=(paths, days)))


def found(changes):
    return noise.adjusted(changes.chance) <= RATE


def all_sent(lost):
    return np.full(lost.shape, SENT)


def loss_changes(lost):
    return noise.loss_changes(lost[:, -DAYS:], all_sent(lost[:, -DAYS:]), lost[:, :-DAYS], all_sent(lost[:, :-DAYS]))


def value_changes(values):
    return noise.value_changes(values[:, -DAYS:], values[:, :-DAYS])


def test_overdispersed_loss_has_fewer_false_changes():
    """Without any change every detection is false, and at most one in twenty such weeks may have some: 40 weeks, at
    most 5 (a binomial of 40 with 0.05 exceeds this with a probability of 1%)."""
    random = np.random.default_rng(20261116)
    weeks_with_a_find, by_a_plain_binomial = 0, 0
    for _ in range(40):
        lost = losses(random, 2e-3, PATHS, DAYS + BEFORE)
        weeks_with_a_find += found(loss_changes(lost)).any()
        now, past = lost[:, -DAYS:].sum(axis=1), lost[:, :-DAYS].sum(axis=1)
        plain = 2 * np.minimum(
            stats.binom.sf(now - 1, now + past, DAYS / (DAYS + BEFORE)),
            stats.binom.cdf(now, now + past, DAYS / (DAYS + BEFORE)),
        )
        by_a_plain_binomial += (noise.adjusted(np.minimum(plain, 1)) <= RATE).sum() > PATHS / 4

    assert weeks_with_a_find <= 5
    assert by_a_plain_binomial == 40


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7])
def test_autocorrelated_rtts_give_hardly_any_false_change(correlation):
    random = np.random.default_rng(47)
    weeks_with_a_find = 0
    for _ in range(40):
        values = np.exp(np.log(100) + correlated(random, PATHS, DAYS + BEFORE, correlation, 0.05))
        weeks_with_a_find += found(value_changes(values)).any()

    assert weeks_with_a_find <= 5


def test_heavy_tails_give_hardly_any_false_change():
    random = np.random.default_rng(3)
    weeks_with_a_find = 0
    for _ in range(40):
        values = 100 * np.exp(0.02 * np.abs(random.standard_cauchy(size=(PATHS, DAYS + BEFORE))).clip(max=100))
        weeks_with_a_find += found(value_changes(values)).any()

    assert weeks_with_a_find <= 5


def test_planted_changes_are_detected_in_noise():
    random = np.random.default_rng(8)
    lost = losses(random, 5e-4, PATHS, DAYS + BEFORE)
    lost[:5, -DAYS:] = losses(random, 2e-2, 5, DAYS)
    values = np.exp(np.log(100) + correlated(random, PATHS, DAYS + BEFORE, 0.3, 0.01))
    values[5:10, -DAYS:] *= 1.25

    of_loss, of_values = found(loss_changes(lost)), found(value_changes(values))

    assert of_loss[:5].sum() >= 4
    assert of_loss[5:].sum() <= 1
    assert of_values[5:10].all()
    assert np.delete(of_values, range(5, 10)).sum() <= 1


def test_a_single_bad_day_is_not_a_change_of_the_week():
    lost = np.full((1, DAYS + BEFORE), 2)
    lost[0, -3] = 3000

    assert not found(loss_changes(lost)).any()


def test_a_decrease_is_detected():
    values = np.concatenate([np.linspace(100, 101, BEFORE), np.linspace(70, 71, DAYS)])[np.newaxis]

    changes = value_changes(values)

    assert changes.now[0] == pytest.approx(70.5, rel=1e-3)
    assert changes.before[0] == pytest.approx(100.5, rel=1e-3)
    assert found(changes)[0]


def test_the_rank_part_equals_scipys_exact_test():
    """With the scale part practically certain, the Mann-Whitney probability remains; no ties."""
    random = np.random.default_rng(1)
    now, past = random.normal(10, 1, 7), random.normal(10, 1, 30)
    expected = stats.mannwhitneyu(now, past, method="exact").pvalue

    assert noise._rank_chances(now[np.newaxis], past[np.newaxis])[0] == pytest.approx(min(expected, 1.0), rel=1e-9)


def test_no_loss_before_and_after_is_no_change():
    changes = loss_changes(np.zeros((1, DAYS + BEFORE)))

    assert (changes.now[0], changes.before[0], changes.chance[0]) == (0.0, 0.0, 1.0)


def test_too_few_days_are_not_tested():
    values = np.full((2, DAYS + BEFORE), np.nan)
    values[0, -2:] = 1.0
    values[0, :BEFORE] = 2.0
    values[1, -DAYS:] = 1.0
    values[1, :13] = 2.0

    assert np.isnan(value_changes(values).chance).all()


def test_days_without_data_are_not_counted():
    random = np.random.default_rng(5)
    values = np.exp(random.normal(0, 0.1, (1, DAYS + BEFORE)))
    gaps = np.insert(values, [3, 20, 60], np.nan, axis=1)

    assert noise.value_changes(gaps[:, -8:], gaps[:, :-8]).now[0] == pytest.approx(value_changes(values).now[0])


def test_the_correction_equals_benjamini_and_hochbergs():
    chances = np.array([0.01, 0.04, np.nan, 0.03, 0.005, 0.6])

    expected = stats.false_discovery_control(chances[~np.isnan(chances)])

    assert noise.adjusted(chances)[[0, 1, 3, 4, 5]] == pytest.approx(expected)
    assert np.isnan(noise.adjusted(chances)[2])
