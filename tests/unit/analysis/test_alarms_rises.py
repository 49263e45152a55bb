"""The dispersion of counts by hand, and the baseline of a season."""

import numpy as np
import pytest

from monitor.analysis.alarms import rises


def test_dispersion_is_hourly_over_independent_burst_variance():
    bursts, events = np.array([100.0] * 4), np.array([0.0, 20.0, 0.0, 20.0])
    ratio = 0.1
    by_hand = sum((e - 100 * ratio) ** 2 / (100 * ratio * (1 - ratio)) for e in events) / 3

    estimated_ratio = rises.dispersion((events**2 / bursts).sum(), events.sum(), bursts.sum(), 4)

    assert float(estimated_ratio) == pytest.approx(by_hand)
    assert float(rises.dispersion(0, 0, 400, 4)) == 1.0
    assert float(rises.dispersion(25.0, 10, 400, 1)) == 1.0, "a single hour has no variance"


def test_a_season_counts_only_where_it_is_significantly_worse():
    events, bursts = rises.seasonal([10, 10, 10], [10_000] * 3, [200, 0, 1], [1000, 1000, 1000])

    assert events.tolist() == [200, 10, 10]
    assert bursts.tolist() == [1000, 10_000, 10_000]
