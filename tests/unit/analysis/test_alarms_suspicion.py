"""Evidence that a path without an alarm is affected like those with an alarm: by formula, and on random paths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from monitor.analysis.alarms import suspicion
from monitor.analysis.alarms.suspicion import LossFactors, PacketCounts, RttSamples, loss_factors, rtt_factors


def counts(sent, lost, base):
    """Counts in a single window, of bursts of ten packets that lose at most a packet."""
    sent, lost = (np.array(column, dtype=float)[:, np.newaxis] for column in (sent, lost))
    return PacketCounts(sent / 10.0, lost, sent, lost, np.array(base, dtype=float))


def test_the_factor_of_loss_is_the_ratio_of_likelihoods():
    """10% on the alarmed path; 3 of 60 on the other, of which 0.1% were lost before."""
    of = counts([1000, 60], [100.5, 3], [suspicion.LEAST_BASE_RATIO, 0.001])

    (factor,) = loss_factors(of, np.array([0]), np.array([1]))

    affected = np.mean([binom.pmf(3, 60, 1 - 0.999 * (1 - 0.1 * share)) for share in suspicion.SHARES_OF_EFFECT])
    assert factor == pytest.approx(np.log(affected / binom.pmf(3, 60, 0.001)), abs=0.01)


@pytest.mark.parametrize(
    ("sent", "lost", "base", "least", "most"),
    [
        (100, 8, 0.0, 5.0, np.inf),  # loses as the alarmed path does
        (200, 0, 0.0, -np.inf, -3.0),  # loses nothing
        (100, 8, 0.08, -3.0, 0.5),  # loses as much as always
        (4, 0, 0.0, -1.0, 0.0),  # four packets are weak evidence
    ],
)
def test_the_factor_follows_the_loss_of_the_path(sent, lost, base, least, most):
    (factor,) = loss_factors(counts([200, sent], [20, lost], [0.0, base]), np.array([0]), np.array([1]))

    assert least <= factor <= most


def test_a_path_without_packets_has_no_factor():
    (factor,) = loss_factors(counts([200, 0], [20, 0], [0.0, np.nan]), np.array([0]), np.array([1]))

    assert np.isnan(factor)


def test_the_window_begins_at_the_onset():
    """Loss for ten minutes: within the last hour the other path has lost as much, but long before."""
    sent = np.array([[100.0, 200.0, 1200.0]] * 2)
    lost = np.array([[10.0, 20.0, 20.0], [0.0, 0.0, 20.0]])

    (factor,) = loss_factors(PacketCounts(sent / 10, lost, sent, lost, np.zeros(2)), np.array([0]), np.array([1]))

    assert factor < -3.0


def rtts(*levels_ms, before=20, since=6, noise_ms=0.3):
    """Samples a minute before and since the onset at 0 s, each path first at 50 ms and then at its level; none since
    where that is None."""
    random = np.random.default_rng(4)
    values = 50.0 + random.exponential(noise_ms, (len(levels_ms), before + since))
    for row, level_ms in enumerate(levels_ms):
        values[row, before:] += np.nan if level_ms is None else level_ms - 50.0
    at_s = np.broadcast_to(60.0 * np.arange(-before, since), values.shape)
    return RttSamples(np.where(np.isnan(values), np.nan, at_s), values)


def test_the_factor_of_an_rtt_follows_its_rise():
    risen, half, same, none = rtt_factors(rtts(70.0, 57.0, 50.0, None), 0.0, 20.0, np.arange(4))

    assert risen > 5.0
    assert max(half, same) < -5.0
    assert np.isnan(none)


def test_the_factor_of_an_rtt_needs_a_baseline():
    (factor,) = rtt_factors(rtts(70.0, before=4), 0.0, 20.0, np.arange(1))

    assert np.isnan(factor)


def test_a_path_varying_as_much_as_the_rise_has_little_evidence():
    (factor,) = rtt_factors(rtts(50.0, since=3, noise_ms=40.0), 0.0, 10.0, np.arange(1))

    assert abs(factor) < 5.0


@pytest.mark.parametrize("seed", range(5))
def test_factors_of_all_paths_are_those_of_each(seed):
    """Three windows; many paths have the same counts, some no packets, some no baseline."""
    random = np.random.default_rng(seed)
    sent = random.choice([0.0, 50.0, 100.0], (200, 1)) * np.array([1.0, 2.0, 12.0])
    lost = np.minimum(random.poisson(random.choice([0.0, 0.002, 0.05], (200, 1)) * sent), sent)
    base = random.choice([np.nan, 0.0, 0.0004, 0.003, 0.05], 200)
    of = PacketCounts(sent / 10, np.minimum(lost, sent / 10), sent, lost, base)
    factors = LossFactors(of)

    for alarmed in (random.choice(200, size, replace=False) for size in (1, 1, 2, 5, 30) for _ in range(4)):
        each = [loss_factors(of, alarmed, np.array([row]))[0] for row in range(200)]
        np.testing.assert_allclose(factors.of_all(alarmed), each, rtol=1e-9, atol=1e-9)
