"""The loss of now against the planted loss, over many seeds, and the worst loss that packets prove."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import beta

from monitor.analysis.changes.present import LostPackets, newest_part, present_loss

CYCLE_S = 10.0
PACKETS = 20
WINDOW_S = 120.0


def bursts(rng, planted, until_s, since_s=-600.0):
    """Cycles of 20 packets; `planted` are losses and the seconds from which on they hold."""
    at_s = np.arange(since_s, until_s, CYCLE_S)
    ratio = np.zeros(len(at_s))
    for begin_s, loss in planted:
        ratio[at_s >= begin_s] = loss
    sent = np.full(len(at_s), float(PACKETS))
    return at_s, sent, sent - rng.binomial(PACKETS, ratio)


def present(columns, now_s, detected_s, rises, since_s=-np.inf):
    at_s, *counts = columns
    chosen = (at_s < now_s) & (at_s >= max(since_s, now_s - 600.0))
    return present_loss(at_s[chosen], *(count[chosen] for count in counts), now_s - WINDOW_S, detected_s, rises=rises)


@pytest.mark.parametrize(("planted", "detected_s"), [(0.01, 590.0), (0.05, 200.0), (0.2, 60.0)])
def test_the_loss_of_now_is_near_the_planted_one(planted, detected_s):
    """Of 60 paths, every minute for an hour; what is called precise is within a factor of 1.5."""
    off, precise, far, rough = 0, 0, 0, 0
    for seed in range(60):
        columns = bursts(np.random.default_rng(seed), [(0.0, planted)], 3600.0)
        began_s = -np.inf
        for now_s in np.arange(detected_s + CYCLE_S, 3600.0, 60.0):
            loss = present(columns, now_s, detected_s, rises=began_s == -np.inf, since_s=began_s)
            began_s = loss.changed_s or max(began_s, 0.0)
            factor = max(loss.now.ratio / planted, planted / max(loss.now.ratio, 1e-9))
            if loss.now.is_precise and loss.now.lost:
                precise, off = precise + 1, off + (factor > 1.5)
            elif loss.now.lost:
                rough, far = rough + 1, far + (factor > 3.0)

    assert precise + rough > 2_500
    assert off <= 0.05 * precise + 5
    assert far <= 0.05 * rough + 5


def test_a_loss_that_ends_is_gone_soon_and_does_not_return():
    for seed in range(40):
        columns = bursts(np.random.default_rng(seed), [(0.0, 0.05), (600.0, 0.0)], 1200.0)
        began_s, shown = 0.0, []
        for now_s in np.arange(300.0, 1200.0, CYCLE_S):
            loss = present(columns, now_s, 200.0, rises=False, since_s=began_s)
            began_s = loss.changed_s or began_s
            shown += [loss.now.ratio] if now_s > 620.0 else []
        assert all(after <= 1.1 * before for before, after in pairwise(shown)), seed
        assert shown[12] == 0.0, seed


def test_a_step_of_the_loss_begins_a_new_stretch():
    columns = bursts(np.random.default_rng(1), [(0.0, 0.05), (600.0, 0.3)], 700.0)

    loss = present(columns, 700.0, 200.0, rises=False)

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
    assert after_the_end == 77
    assert newest_part(at_s, sent, sent, 880.0) == 0


@pytest.mark.parametrize(("lost", "sent"), [(3, 20), (24, 480), (100, 500)])
def test_the_lower_bound_of_a_peak_is_that_of_clopper_and_pearson(lost, sent):
    assert LostPackets(sent, lost).lower_ratio == pytest.approx(beta.ppf(0.001, lost, sent - lost + 1))


def test_a_loss_is_precise_by_its_independently_lost_packets():
    assert LostPackets(480, 24).is_precise
    assert not LostPackets(480, 23).is_precise
    assert not LostPackets(480, 24, together=2.0).is_precise
    assert LostPackets(20, 0).is_precise
