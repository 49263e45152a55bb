"""The sequential test of counts: its evidence, compared with explicit sums; its rate of false alarms; its delay."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.alarms import sequential
from monitor.analysis.alarms.rises import LEAST_EVENTS
from monitor.analysis.alarms.sequential import EventCounts

WINDOWS = np.array([5, 10, 15, 20, 30, 45, 60, 90, 150, 270, 510])  # minutes; a path has two bursts per minute


def probability(events: int, bursts: int, base_events: int, base: int) -> float:
    """Of one order of these events at a ratio drawn by Jeffreys' prior and the baseline: a product over bursts."""
    likelihood, had, of = 1.0, base_events + 0.5, base + 1.0
    for number in range(bursts):
        ratio = had / of
        likelihood *= ratio if number < events else 1 - ratio
        had, of = had + (number < events), of + 1
    return likelihood


@given(st.integers(1, 40), st.data())
def test_the_evidence_is_the_ratio_of_both_probabilities(bursts, data):
    events = data.draw(st.integers(0, bursts))
    base = data.draw(st.integers(1, 2_000))
    base_events = data.draw(st.integers(0, base))
    usual = (base_events + 0.5) / (base + 1)

    evidence = float(sequential.log_evidence(events, bursts, base_events, base))

    ratios = [min(usual + rise * (1 - usual), 0.99) for rise in sequential.RISE_RATIOS]
    risen = math.fsum(ratio**events * (1 - ratio) ** (bursts - events) for ratio in ratios) / len(ratios)
    assert evidence == pytest.approx(math.log(risen / probability(events, bursts, base_events, base)), abs=1e-6)


@given(st.integers(1, 12), st.integers(1, 300), st.integers(0, 300))
def test_the_evidence_is_1_on_average_without_a_rise(bursts, base, base_events):
    """Over all outcomes, by their probabilities: what makes it a fair bet."""
    had = min(base, base_events)

    average = math.fsum(
        math.comb(bursts, events)
        * probability(events, bursts, had, base)
        * math.exp(float(sequential.log_evidence(events, bursts, had, base)))
        for events in range(bursts + 1)
    )

    assert average == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("bursts", "base"), [(0, 100), (10, 0), (0, 0)])
def test_without_bursts_on_either_side_there_is_no_evidence(bursts, base):
    assert sequential.log_evidence(bursts, bursts, 0, base) == 0.0


def test_cycles_are_those_beyond_the_next_shorter_window():
    cycles = sequential.new_cycles((300.0, 3600.0, 600.0, 3600.0), np.array([60.0, 300.0]))

    assert cycles.tolist() == [[5.0, 50.0, 5.0, 0.0], [1.0, 10.0, 1.0, 0.0]]


def alarms(before, after, *, paths, minutes, base=80_640, alarms_an_hour=1e-4, seed=1):
    """When each path alarms, in minutes after the change, and all paths with their alarms. Evaluated each minute; data
    before an alarm cannot alarm again."""
    random = np.random.default_rng(seed)
    longest = int(WINDOWS[-1])
    past = random.binomial(base, before, paths).astype(float)
    events = np.concatenate(
        [random.binomial(2, before, (paths, longest)), random.binomial(2, after, (paths, minutes))], axis=1
    )
    sums = np.concatenate([np.zeros((paths, 1)), events.cumsum(axis=1)], axis=1)
    first, last, number = np.full(paths, np.inf), np.full(paths, -longest), 0
    cycles = sequential.new_cycles(tuple(60.0 * WINDOWS), np.full(paths, 60.0))
    for minute in range(1, minutes + 1):
        newest = np.stack([sums[:, longest + minute] - sums[:, longest + minute - w] for w in WINDOWS], axis=1)
        is_used = (newest >= LEAST_EVENTS) & ((minute - last)[:, np.newaxis] >= WINDOWS)
        hits, _ = sequential.detected(
            EventCounts(newest, np.broadcast_to(2.0 * WINDOWS, newest.shape)),
            EventCounts(past, np.full(paths, float(base))),
            is_used,
            cycles,
            60.0 / alarms_an_hour,
        )
        is_alarm = hits.any(axis=1)
        number += int(is_alarm.sum())
        first[is_alarm & np.isinf(first)] = minute
        last[is_alarm] = minute
    return first, number


@pytest.mark.parametrize("base", [100, 2_880, 80_640], ids="{} bursts before".format)
@pytest.mark.parametrize("ratio", [1e-4, 0.01, 0.1], ids="{:g}".format)
def test_the_average_run_length_is_at_least_as_stated(ratio, base):
    """Of paths with baselines of their own, each of so many bursts: at 1 alarm in 50 path-hours, enough to count."""
    path_hours = 150 * 5

    _, number = alarms(ratio, ratio, paths=150, minutes=300, base=base, alarms_an_hour=0.02)

    expected = path_hours * 0.02
    assert number <= expected + 3 * expected**0.5


@pytest.mark.parametrize(
    ("before", "after"), [(0.0, 0.003), (0.001, 0.01), (0.01, 0.03)], ids=["0 to 0.3%", "0.1 to 1%", "1 to 3%"]
)
def test_a_rise_is_detected_about_as_soon_as_any_test_can(before, after):
    """No test with a false alarm in 10,000 path-hours (600,000 evaluations) is quicker on average in the worst case
    than their logarithm over the information of a packet (G. Lorden, Annals of Mathematical Statistics 42, 1971)."""
    packets_a_burst = 10
    base = max(before, 1e-5)
    bits = after * math.log(after / base) + (1 - after) * math.log((1 - after) / (1 - base))
    least_minutes = max(math.log(600_000) / bits / (2 * packets_a_burst), 3 / (2 * packets_a_burst * after))

    first, _ = alarms(1 - (1 - before) ** packets_a_burst, 1 - (1 - after) ** packets_a_burst, paths=200, minutes=200)

    assert np.isfinite(first).mean() >= 0.95
    assert np.median(first) <= 1.05 * least_minutes


def test_windows_that_are_not_used_count_for_nothing():
    newest, base = EventCounts(np.array([[9.0]]), np.array([[20.0]])), EventCounts(np.zeros(1), np.full(1, 1e6))

    used, _ = sequential.detected(newest, base, np.array([[True]]), np.ones((1, 1)), 600_000.0)
    not_used, _ = sequential.detected(newest, base, np.array([[False]]), np.ones((1, 1)), 600_000.0)

    assert (used.all(), not_used.any()) == (True, False)
