"""A rise is recognised after three bursts; on quiet paths hardly ever."""

import numpy as np
import pytest

from monitor.analysis.changes.raised import raised

BURSTS, PACKETS = 28, 10
LEAST_MS, LEAST_RATIO = 6.0, 0.08


def windows(series):
    return np.lib.stride_tricks.sliding_window_view(series, BURSTS)


def flags(values_ms):
    return raised(values_ms, *np.full((2, len(values_ms)), [[LEAST_MS], [LEAST_RATIO]]))


@pytest.mark.parametrize(("base_ms", "rise_ms"), [(182.0, 118.0), (20.0, 30.0), (3.4, 120.0), (150.0, 15.0)])
def test_a_longer_route_is_told_after_three_bursts(base_ms, rise_ms):
    rng = np.random.default_rng(1)
    series = base_ms + rng.exponential(0.3, (60, PACKETS)).min(axis=1) + rise_ms * (np.arange(60) >= 40)

    counts = flags(windows(series))

    newest = np.arange(BURSTS - 1, 60)
    assert counts[newest < 42].max() == 0
    assert counts[(newest >= 42) & (newest < 54)].tolist() == list(range(3, 15))


def test_a_fall_and_a_blip_are_not_told():
    series = np.full(60, 20.0)
    series[40:] = 5.0

    assert flags(windows(series)).max() == 0
    series = np.full(60, 20.0)
    series[40:42] = 90.0
    assert flags(windows(series)).max() == 0


def test_without_the_rule_nothing_is_told():
    series = np.repeat([20.0, 50.0], [20, 8])

    assert raised([series], [np.inf], [0.0]).tolist() == [0]


@pytest.mark.parametrize("figure", ["median", "minimum"])
def test_quiet_paths_are_hardly_ever_told(figure):
    """Two days of 60 paths with a burst a minute: a queue that is fuller in the evening, with heavy tails."""
    rng, minutes = np.random.default_rng(7), 2 * 1440
    told = 0
    for base_ms in np.linspace(2.0, 200.0, 60):
        hour = np.arange(minutes) / 60.0 % 24.0
        queue_ms = 0.3 + 8.0 * np.exp(-(((hour - 20.0) / 2.5) ** 2))
        waits_ms = queue_ms[:, np.newaxis] * rng.gamma(0.7, 1.0, (minutes, PACKETS)) + rng.pareto(
            3.0, (minutes, PACKETS)
        )
        rtts_ms = base_ms + waits_ms
        counts = flags(windows(np.median(rtts_ms, axis=1) if figure == "median" else rtts_ms.min(axis=1)))
        told += np.count_nonzero((counts[1:] > 0) & (counts[:-1] == 0))

    assert told <= 60 * 48 / 1000
