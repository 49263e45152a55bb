"""The onset of a change: its confidence interval has the stated coverage, on series with a known boundary."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from monitor.analysis.changes.onset import Onset, onset_of_values

SERIES = 150
TRUE = 60


def covered(onsets: list[Onset | None], true: int) -> float:
    return float(np.mean([onset is not None and onset.earliest <= true <= onset.latest for onset in onsets]))


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
