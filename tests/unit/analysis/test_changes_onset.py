"""The onset of a change: its confidence interval has the stated coverage, on series with a known boundary."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from monitor.analysis.changes.onset import LIKELY_NATS, Onset, onset_of_events, onset_of_values

SERIES = 150
TRUE = 60


def covered(onsets: list[Onset | None], true: int) -> float:
    return float(np.mean([onset is not None and onset.earliest <= true <= onset.latest for onset in onsets]))


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.3), (0.01, 0.2), (0.05, 0.4), (0.0, 1.0)])
def test_the_interval_of_events_covers_95_percent_of_series(before, after):
    random = np.random.default_rng(7)
    chances = np.where(np.arange(TRUE + 40) < TRUE, before, after)

    onsets = [onset_of_events(random.random(len(chances)) < chances) for _ in range(SERIES)]

    # With 150 series, a true 0.95 gives less than 0.90 in one of a hundred cases; more is cautious, never wrong.
    assert covered(onsets, TRUE) >= 0.90


@pytest.mark.parametrize(("kept", "loss"), [(1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2)])
def test_bursts_of_which_few_packets_count_tell_less(kept, loss):
    """Throughput tests that begin with the loss leave one or two of the ten packets of twelve bursts."""
    random = np.random.default_rng(11)
    packets = np.array([10] * TRUE + [kept] * 12 + [10] * 10)
    chances = np.where(np.arange(len(packets)) < TRUE, 0.0, loss)

    onsets = [onset_of_events(random.binomial(packets, chances) > 0, packets) for _ in range(SERIES)]

    assert covered(onsets, TRUE) >= 0.90


@pytest.mark.parametrize("losses", [(0.2, 0.2), (0.05, 0.3), (0.1, 0.0)])
def test_two_series_tell_a_common_boundary_together(losses):
    """Each at its own level, in turns; one of them may show no change."""
    random = np.random.default_rng(12)
    series, packets = np.tile([0, 1], TRUE + 15), np.tile([10, 10, 3, 5], (TRUE + 15) // 2 + 1)[: 2 * TRUE + 30]
    chances = np.where(np.arange(len(series)) < 2 * TRUE, 0.001, np.array(losses)[series])
    own = series == int(np.argmax(losses))

    together, alone = [], []
    for _ in range(SERIES):
        hits = random.binomial(packets, chances) > 0
        together.append(onset_of_events(hits, packets, series))
        alone.append(onset_of_events(hits[own], packets[own]))

    assert covered(together, 2 * TRUE) >= 0.90
    widths, alone_widths = ([onset.latest - onset.earliest for onset in of if onset] for of in (together, alone))
    # An interval has twice as many samples of both series as of one in the same time.
    assert np.mean(widths) <= 2.2 * np.mean(alone_widths)
    if min(losses) >= 0.2:
        assert np.mean(widths) <= 1.5 * np.mean(alone_widths)


@pytest.mark.parametrize("noise", ["exponential", "laplace", "normal"])
@pytest.mark.parametrize("step_ms", [1.0, 3.0, 20.0])
def test_the_interval_of_values_covers_95_percent_of_series(noise, step_ms):
    random = np.random.default_rng(8)

    onsets = []
    for _ in range(SERIES):
        values = 20.0 + getattr(random, noise)(size=TRUE + 30)
        values[TRUE:] += step_ms
        onsets.append(onset_of_values(values))

    assert covered(onsets, TRUE) >= 0.90


def test_a_clean_step_has_an_exact_onset():
    values = np.array([20.0, 20.1] * 30 + [35.0, 35.1] * 10)

    assert onset_of_values(values) == Onset(60, 60, 60)


def test_a_barely_visible_rise_has_a_wide_interval():
    random = np.random.default_rng(9)
    values = random.normal(20.0, 1.0, 90)
    values[TRUE:] += 0.5
    wide, sharp = onset_of_values(values), onset_of_values(values + 20.0 * (np.arange(90) >= TRUE))

    assert wide.latest - wide.earliest > 5 * (sharp.latest - sharp.earliest + 1)


def test_total_loss_begins_with_the_first_unanswered_burst():
    onset = onset_of_events([False] * 40 + [True] * 6)

    assert (onset.at, onset.latest) == (40, 40)
    assert onset.earliest >= 39


def test_a_decrease_of_events_has_no_onset():
    assert onset_of_events([True] * 30 + [False] * 30) is None


@pytest.mark.parametrize("samples", [0, 1, 3])
def test_too_few_samples_have_no_onset(samples):
    assert onset_of_events([True] * samples) is None
    assert onset_of_values(np.arange(float(samples))) is None


def test_the_onset_of_events_is_the_likeliest_by_brute_force():
    random = np.random.default_rng(10)
    for _ in range(50):
        events = random.random(50) < np.where(np.arange(50) < 30, 0.1, 0.6)
        likelihoods = {split: _by_hand(events, split) for split in range(3, 50)}
        rising = {
            split: likelihood
            for split, likelihood in likelihoods.items()
            if events[split:].mean() > events[:split].mean()
        }
        if not rising:
            continue
        best = max(rising.values())
        within = [split for split, likelihood in rising.items() if likelihood >= best - LIKELY_NATS - 1e-9]

        onset = onset_of_events(events)

        assert rising[onset.at] == pytest.approx(best)
        assert (onset.earliest, onset.latest) == (min(within), max(within))


def test_the_likelihood_of_bursts_of_several_sizes_is_the_maximum_by_brute_force():
    random = np.random.default_rng(13)
    for _ in range(40):
        packets = random.choice([1.0, 2.0, 10.0, 20.0], 40)
        events = random.random(40) < -np.expm1(-np.where(np.arange(40) < 25, 0.01, 0.2) * packets)
        likelihoods = {
            split: _of_rate(events[:split], packets[:split]) + _of_rate(events[split:], packets[split:])
            for split in range(3, 40)
            if events[split:].sum() / packets[split:].sum() > events[:split].sum() / packets[:split].sum()
        }
        best = max(likelihoods.values())
        within = [split for split, likelihood in likelihoods.items() if likelihood >= best - LIKELY_NATS - 1e-6]

        onset = onset_of_events(events, packets)

        assert likelihoods[onset.at] == pytest.approx(best, abs=1e-6)
        assert (onset.earliest, onset.latest) == (min(within), max(within))


def _of_rate(events: np.ndarray, packets: np.ndarray) -> float:
    if not events.any() or events.all():
        return 0.0

    def loss(log_rate: float) -> float:
        rate = np.exp(log_rate)
        return float(rate * packets[~events].sum() - np.log(-np.expm1(-rate * packets[events])).sum())

    return -float(minimize_scalar(loss, bounds=(-15.0, 5.0), method="bounded", options={"xatol": 1e-9}).fun)


def _by_hand(events: np.ndarray, split: int) -> float:
    total = 0.0
    for start, end in pairwise((0, split, len(events))):
        part = events[start:end]
        for event in part:
            chance = part.mean() if event else 1.0 - part.mean()
            total += float(np.log(chance))
    return total
