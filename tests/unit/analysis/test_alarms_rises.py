"""The test of counts: compared with explicit sums, its rate of false alarms, and its power."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.alarms import rises

WINDOWS = np.array([10, 20, 30, 60, 120, 240, 480])  # minutes; a path has two bursts per minute


def tail(events: int, bursts: int, ratio: float) -> float:
    return math.fsum(math.comb(bursts, k) * ratio**k * (1 - ratio) ** (bursts - k) for k in range(events, bursts + 1))


def upper_bound(events: int, bursts: int, chance: float) -> float:
    """The ratio at which at most this many events have this probability, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        at_most = math.fsum(math.comb(bursts, k) * middle**k * (1 - middle) ** (bursts - k) for k in range(events + 1))
        low, high = (middle, high) if at_most > chance else (low, middle)
    return low


@given(st.integers(1, 40), st.data())
def test_the_chance_is_the_tail_at_the_bound_plus_its_risk(bursts, data):
    events = data.draw(st.integers(0, bursts))
    base = data.draw(st.integers(1, 60))
    base_events = data.draw(st.integers(0, base - 1))

    p_value = float(rises.chance(events, bursts, base_events, base, 0.01))

    expected = tail(events, bursts, upper_bound(base_events, base, 0.01)) + 0.01
    assert p_value == pytest.approx(min(1.0, expected), abs=1e-9)


@pytest.mark.parametrize(("bursts", "base"), [(0, 100), (10, 0), (0, 0)])
def test_without_bursts_on_either_side_nothing_is_significant(bursts, base):
    assert rises.chance(bursts, bursts, 0, base, 1e-6) == 1.0


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


def alarm_minutes(ratio_before, ratio_after, *, paths, minutes, base=80_640, alarms_an_hour=1e-4, seed=1):
    """When each path alarms, in minutes after the change; -1 where it does not. Evaluated each minute."""
    random = np.random.default_rng(seed)
    longest = int(WINDOWS[-1])
    base_events = random.binomial(base, ratio_before, paths).astype(float)
    events = np.concatenate(
        [random.binomial(2, ratio_before, (paths, longest)), random.binomial(2, ratio_after, (paths, minutes))], axis=1
    )
    sums = np.concatenate([np.zeros((paths, 1)), events.cumsum(axis=1)], axis=1)
    first = np.full(paths, -1)
    for minute in range(1, minutes + 1):
        in_windows = np.stack([sums[:, longest + minute] - sums[:, longest + minute - w] for w in WINDOWS], axis=1)
        hits, _ = rises.proven(
            in_windows,
            np.broadcast_to(2.0 * WINDOWS, in_windows.shape),
            base_events,
            np.full(paths, float(base)),
            np.ones(paths),
            np.full(paths, 60.0),
            alarms_an_hour,
        )
        first[hits.any(axis=1) & (first < 0)] = minute
    return first


@pytest.mark.parametrize("ratio", [0.0, 0.0005, 0.01, 0.1])
@pytest.mark.parametrize("base", [80_640, 2_880])
def test_the_false_alarm_rate_is_at_most_as_stated(ratio, base):
    """At 1 alarm in 100 path-hours, where there are enough to count."""
    path_hours = 300 * 5
    alarms = (alarm_minutes(ratio, ratio, paths=300, minutes=300, base=base, alarms_an_hour=0.01) > 0).sum()

    expected = path_hours * 0.01
    assert alarms <= expected + 3 * expected**0.5


@pytest.mark.parametrize(
    ("before", "after"), [(0.0, 0.003), (0.001, 0.01), (0.01, 0.03)], ids=["0 to 0.3%", "0.1 to 1%", "1 to 3%"]
)
def test_a_rise_is_detected_within_1_5_times_the_minimum_samples(before, after):
    """No test with a false alarm in 10,000 path-hours (600,000 evaluations) can be quicker on average than their
    logarithm over the information of a packet (G. Lorden, Annals of Mathematical Statistics 42, 1971)."""
    packets_a_burst = 10
    bits = after * math.log(after / max(before, 1e-5)) + (1 - after) * math.log((1 - after) / (1 - max(before, 1e-5)))
    least_minutes = math.log(600_000) / bits / (2 * packets_a_burst)

    detections = alarm_minutes(
        1 - (1 - before) ** packets_a_burst, 1 - (1 - after) ** packets_a_burst, paths=200, minutes=240
    )

    assert (detections > 0).mean() >= 0.95
    assert np.median(detections[detections > 0]) <= 1.5 * least_minutes


def test_a_single_lossy_cycle_is_never_significant():
    single = np.array([[2.0]])

    hits, _ = rises.proven(single, np.array([[20.0]]), np.zeros(1), np.full(1, 1e6), np.ones(1), np.full(1, 60.0), 1e-4)

    assert not hits.any()


def test_clustered_events_need_more_evidence():
    events, bursts = np.array([[12.0]]), np.array([[120.0]])
    past = (np.array([1000.0]), np.array([80_000.0]))

    alone, _ = rises.proven(events, bursts, *past, np.ones(1), np.full(1, 60.0), 1e-4)
    clustered, _ = rises.proven(events, bursts, *past, np.full(1, 4.0), np.full(1, 60.0), 1e-4)

    assert alone.all()
    assert not clustered.any()
