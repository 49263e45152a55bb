"""The loss of a path without an incident, over many simulated runs: over after its end, told while it lasts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from monitor.analysis.changes.lasting import lasting_loss, lasting_loss_of_pair, losses_within
from tests.unit.analysis.loss_of_paths import CYCLE_S, bursts

WINDOW_S = 1800.0
BEGIN_S = 0.0


def lost_at(columns, now_s):
    """The loss of the bursts that began within the window, and have ended."""
    at_s = columns[0]
    chosen = (at_s >= now_s - WINDOW_S) & (at_s + CYCLE_S <= now_s)
    return lasting_loss(*(column[chosen] for column in columns))


def runs(ratio, until_s, end_s, stray=0.0, count=12, run=1):
    """Cycles of a path that lost that share from 0 s up to its end."""
    for seed in range(count):
        rng = np.random.default_rng([seed, round(1000 * ratio), run])
        yield bursts(rng, [(-600.0, stray), (BEGIN_S, ratio), (end_s, stray)], until_s, run)


@pytest.mark.parametrize(("ratio", "lasts_s"), [(0.5, 20), (1.0, 20), (0.2, 30), (0.2, 60), (0.1, 60), (0.05, 120)])
@pytest.mark.parametrize(("stray", "most"), [(0.0, 0.02), (0.001, 0.05)])
def test_a_loss_that_ended_is_over_soon_and_never_comes_back(ratio, lasts_s, stray, most):
    """From a minute after its end, for 25 minutes: also as its first packets leave the window."""
    told, back = [], 0
    for columns in runs(ratio, lasts_s + 1500.0, lasts_s, stray):
        losses = [lost_at(columns, now_s) for now_s in np.arange(lasts_s + 60.0, lasts_s + 1500.0, 20.0)]
        said = [loss is not None and loss.ratio > 0.01 for loss in losses]
        told += said
        back += sum(after and not before for before, after in pairwise(said))

    assert np.mean(told) <= most
    assert stray or not back, "no packet was lost"


@pytest.mark.parametrize(
    ("ratio", "run", "most"), [(0.5, 1, 0.0), (0.2, 1, 0.01), (0.1, 1, 0.02), (0.05, 1, 0.03), (0.1, 3, 0.1)]
)
def test_a_loss_is_told_while_it_lasts(ratio, run, most):
    """From a minute after its begin, of random losses and of runs of three packets."""
    missed = [
        (loss := lost_at(columns, now_s)) is None or loss.ratio <= 0.01
        for columns in runs(ratio, 600.0, 600.0, run=run)
        for now_s in np.arange(60.0, 600.0, 20.0)
    ]

    assert np.mean(missed) <= most


def test_the_loss_is_that_since_its_rise():
    at_s, sent = np.arange(100.0) * CYCLE_S, np.full(100, 20.0)
    lost = np.where(at_s >= 960.0, 5.0, 0.0)

    loss = lasting_loss(at_s, sent, sent - lost)

    assert (loss.sent, loss.lost) == (80.0, 20.0)
    assert lasting_loss(at_s, sent, sent) is None
    assert lasting_loss([], [], []) is None


def test_each_loss_has_its_time_though_it_is_over():
    """Two losses, the second of which lasts: each from its first burst up to the first clean one after it."""
    at_s, sent = np.arange(200.0) * CYCLE_S, np.full(200, 20.0)
    lost = np.where((at_s >= 300.0) & (at_s < 500.0), 5.0, 0.0) + np.where(at_s >= 1900.0, 8.0, 0.0)

    over, lasting = losses_within(at_s, sent, sent - lost)

    assert (over.since_s, over.clean_since_s, over.sent, over.lost) == (300.0, 500.0, 400.0, 100.0)
    assert (lasting.since_s, lasting.clean_since_s, lasting.lost) == (1900.0, None, 80.0)
    assert losses_within(at_s[:150], sent[:150], (sent - lost)[:150]) == [over]
    assert losses_within(at_s, sent, sent) == []


def test_packets_lost_now_and_then_do_not_keep_an_outage_from_being_over():
    """As a lab showed it: a path that loses one packet in a thousand, an outage of 210 s, and six minutes later one
    more packet."""
    every_s, begin = 10.0, 120
    at_s = np.repeat(np.arange(177) * every_s, 2)
    sent = np.full(len(at_s), 10.0)
    received = sent.copy()
    received[[2 * cycle for cycle in (0, 8, 31, 104)]] -= 1
    received[2 * begin : 2 * begin + 2] -= (1, 2)
    received[2 * (begin + 1) : 2 * (begin + 22)] = 0
    received[-2] -= 1

    assert lasting_loss(at_s, sent, received) is None
    during = slice(None, 2 * (begin + 22))
    assert lasting_loss(at_s[during], sent[during], received[during]).ratio > 0.9


def one_fault(seed, end_s, ratios, until_s=1200.0):
    """Both directions of a path that lose these shares from 0 s up to their ends."""
    rng = np.random.default_rng([seed, 41])
    ends_s = end_s if isinstance(end_s, tuple) else (end_s, end_s)
    return [
        bursts(rng, [(-600.0, 0.0), (BEGIN_S, ratio), (of_end_s, 0.0)], until_s)
        for ratio, of_end_s in zip(ratios, ends_s, strict=True)
    ]


def over_after_s(judge, end_s, until_s=1200.0):
    """The seconds from the end until the loss is over."""
    return next(now_s - end_s for now_s in np.arange(end_s, until_s, 10.0) if judge(now_s) is None)


def pair_at(both, now_s):
    chosen = [(of[0] >= now_s - WINDOW_S) & (of[0] + CYCLE_S <= now_s) for of in both]
    return lasting_loss_of_pair(*(tuple(column[rows] for column in of) for of, rows in zip(both, chosen, strict=True)))


def test_a_loss_of_round_trips_is_over_sooner_by_the_packets_of_both_directions():
    alone, together = [], []
    for seed in range(12):
        both = one_fault(seed, 330.0, (0.03, 0.03))
        alone.append(over_after_s(lambda now_s, both=both: lost_at(both[0], now_s), 330.0))
        together.append(over_after_s(lambda now_s, both=both: pair_at(both, now_s), 330.0))

    assert all(soon <= late for soon, late in zip(together, alone, strict=True))
    assert np.mean(together) <= 0.75 * np.mean(alone)


def test_a_loss_that_goes_on_is_not_over_by_the_reverse_path_of_which_it_is():
    """5% on a path all the while, on its reverse path for five minutes only, or 30%."""
    missed = [
        pair_at(both, now_s) is None
        for of_reverse in (0.05, 0.3)
        for seed in range(6)
        for both in [one_fault(seed, (1200.0, 300.0), (0.05, of_reverse))]
        for now_s in np.arange(60.0, 1200.0, 20.0)
    ]

    assert np.mean(missed) <= 0.03, "as of a path alone"


def test_a_loss_has_its_first_burst_and_the_first_after_its_last_packet():
    at_s, sent = np.arange(100.0) * CYCLE_S, np.full(100, 20.0)
    lost = np.where((at_s >= 900.0) & (at_s < 970.0), 2.0, 0.0)

    loss = lasting_loss(at_s[:98], sent[:98], (sent - lost)[:98])
    later = lasting_loss(at_s[:97], sent[:97], (sent - lost)[:97])

    assert (loss.since_s, loss.clean_since_s, loss.clean_sent) == (900.0, 970.0, 20.0)
    assert (later.since_s, later.clean_since_s, later.clean_sent) == (900.0, None, 0.0)
