"""The loss of now against the planted loss, over many seeds, and the worst loss that packets prove."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import beta

from monitor.analysis.changes.ended_loss import end_is_proven
from monitor.analysis.changes.present import LostPackets, newest_part, pooled, present_loss, worse
from tests.facts import claimed
from tests.unit.analysis.loss_of_paths import CYCLE_S, WatchedPath, WatchedPool, bursts


def off_by(text, planted):
    """By how much the planted loss is outside what the text says."""
    low, high = claimed(text)
    return max(low - planted, planted - high, 0.0)


@pytest.mark.parametrize("run", [1, 3])
@pytest.mark.parametrize("paths", [1, 4])
@pytest.mark.parametrize("planted", [0.005, 0.01, 0.02, 0.05, 0.1, 0.2])
def test_what_is_said_of_the_loss_now_holds(planted, paths, run):
    """Every five minutes for an hour, of random losses and of runs of three packets; no loss counts by its bound."""
    detected_s, texts = max(60.0, 6.0 / planted), []
    for seed in range(16):
        rng = np.random.default_rng([seed, paths, run])
        until_s = detected_s + 3600.0
        pool = WatchedPool([bursts(rng, [(0.0, planted)], until_s, run) for _ in range(paths)], detected_s)
        texts += [pool.evaluate(now_s).text for now_s in np.arange(detected_s + CYCLE_S, until_s, 300.0)]

    assert np.mean([off_by(text, planted) == 0.0 for text in texts]) >= 0.93


@pytest.mark.parametrize("paths", [1, 4])
def test_a_constant_loss_has_no_peak(paths):
    """6% for an hour, looked at every minute: a peak may be stated in one of twenty runs."""
    planted, runs, stated, far = 0.06, 40, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, paths])
        pool = WatchedPool([bursts(rng, [(0.0, planted)], 3600.0) for _ in range(paths)], 120.0)
        peaks = []
        for now_s in np.arange(130.0, 3600.0, 60.0):
            now = pool.evaluate(now_s)
            peaks += [pool.worst] if pool.worst.is_above(now) else []
        stated += bool(peaks)
        far += off_by(pool.worst.text, planted) > 0.0 or pool.worst.ratio > planted + 0.015

    assert stated <= runs / 20
    assert far <= runs / 20


@pytest.mark.parametrize("paths", [1, 4])
def test_a_worse_time_is_the_peak_afterwards(paths):
    """20% for ten minutes, then 5%."""
    runs, near, stated = 20, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, paths])
        pool = WatchedPool([bursts(rng, [(0.0, 0.2), (600.0, 0.05)], 1500.0) for _ in range(paths)], 60.0)
        for now_s in np.arange(70.0, 1500.0, 20.0):
            now = pool.evaluate(now_s)
        low, high = claimed(pool.worst.text)
        stated += pool.worst.is_above(now)
        near += abs((low + high) / 2.0 - 0.2) <= 0.03

    assert stated >= 0.9 * runs
    assert near >= 0.8 * runs


def test_a_loss_that_ends_is_gone_soon_and_does_not_return():
    runs, gone = 40, 0
    for seed in range(runs):
        path = WatchedPath(bursts(np.random.default_rng(seed), [(0.0, 0.05), (600.0, 0.0)], 1200.0), 200.0)
        path.began_s, shown = 0.0, []
        for now_s in np.arange(300.0, 1200.0, CYCLE_S):
            loss = path.evaluate(now_s)
            is_over = end_is_proven([loss.clean], [0.05]) == [True] or loss.stretch.interval[1] < 0.025
            shown += [0.0 if is_over else loss.now.ratio] if now_s > 620.0 else []
        # Until the end is found, the time of the present grows with each cycle without loss.
        assert all(after <= 1.35 * before for before, after in pairwise(shown)), seed
        assert shown[-1] == 0.0, seed
        gone += shown[25] == 0.0
    assert gone >= 0.9 * runs


def test_a_step_of_the_loss_begins_a_new_stretch():
    columns = bursts(np.random.default_rng(1), [(0.0, 0.05), (600.0, 0.3)], 700.0)

    path = WatchedPath(columns, 200.0)
    path.began_s = 0.0
    loss = path.evaluate(700.0)

    assert 580.0 <= loss.changed_s <= 620.0
    assert loss.has_changed
    assert 0.2 < loss.now.ratio < 0.4


def test_bursts_that_begin_together_are_of_the_same_stretch():
    at_s = np.repeat(np.arange(0.0, 200.0, 10.0), 2)
    sent = np.full(len(at_s), 10.0)
    lost = np.where((at_s < 100.0) & (np.arange(len(at_s)) % 2 == 0), 5.0, 0.0)

    loss = present_loss(at_s, sent, sent - lost, 80.0, 0.0, rises=False)

    assert (loss.changed_s, loss.now.lost, loss.now.sent) == (100.0, 0.0, 200.0)


def test_the_newest_part_is_longer_where_few_packets_were_lost():
    at_s, sent = np.arange(0.0, 1000.0, 10.0), np.full(100, 20.0)
    lost = np.where(np.arange(100) % 4 == 0, 1.0, 0.0)

    first = newest_part(at_s, sent, sent - lost, 880.0)
    after_the_end = newest_part(at_s, sent, sent - np.where(at_s < 800.0, lost, 0.0), 880.0)

    assert lost[first:].sum() == 24.0
    assert after_the_end == 0, "20 lost packets are too few"
    assert newest_part(at_s, sent, sent, 880.0) == 0


@pytest.mark.parametrize(("lost", "sent"), [(3, 20), (24, 480), (100, 500)])
def test_the_interval_is_that_of_clopper_and_pearson(lost, sent):
    low, high = beta.ppf(0.01, lost, sent - lost + 1), beta.ppf(0.99, lost + 1, sent - lost)

    assert LostPackets(sent, lost).interval == pytest.approx((low, high))
    assert LostPackets(2 * sent, 2 * lost, together=2.0).interval == pytest.approx((low, high))
    assert LostPackets(sent, 0).interval == pytest.approx((0.0, 1.0 - 0.02 ** (1.0 / sent)))


def test_of_two_losses_alike_the_one_of_more_packets_is_the_worst():
    few, many, higher = LostPackets(100, 12), LostPackets(1000, 60), LostPackets(400, 80)

    assert worse(few, many) == many
    assert worse(many, few) == many
    assert worse(many, higher) == worse(higher, many) == higher


def test_losses_of_a_pool_vary_as_those_of_its_paths():
    """Of two paths, the one with fewer packets makes nearly all of the variance of the mean."""
    pool = pooled([LostPackets(100, 50), LostPackets(100_000, 0)])

    assert (pool.sent, pool.ratio) == (100_100, pytest.approx(0.25))
    low, high = pool.interval
    assert (high - low) / 2 == pytest.approx(2.33 * (0.25 / 100 / 4) ** 0.5, rel=0.1)
    assert pooled([LostPackets(100, 0, 3.0), LostPackets(100, 0)]).together == 3.0
