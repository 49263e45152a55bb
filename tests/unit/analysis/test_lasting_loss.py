"""The loss of a path without an incident, over many simulated runs: over after its end, told while it lasts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from monitor.analysis.changes.lasting import EndedLoss, RecentLosses, recent_losses, recent_losses_of_pair
from monitor.analysis.changes.present import LostPackets
from tests.unit.analysis.loss_of_paths import CYCLE_S, bursts

WINDOW_S = 1800.0
BEGIN_S = 0.0


def lost_at(columns, now_s):
    """The loss of the bursts that began within the window, and have ended."""
    at_s = columns[0]
    chosen = (at_s >= now_s - WINDOW_S) & (at_s + CYCLE_S <= now_s)
    return recent_losses(*(column[chosen] for column in columns)).lasting


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

    loss = recent_losses(at_s, sent, sent - lost).lasting

    assert (loss.sent, loss.lost) == (80.0, 20.0)
    assert recent_losses(at_s, sent, sent) == RecentLosses(None)
    assert recent_losses([], [], []) == RecentLosses(None)


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

    assert recent_losses(at_s, sent, received).lasting is None
    during = slice(None, 2 * (begin + 22))
    assert recent_losses(at_s[during], sent[during], received[during]).lasting.ratio > 0.9


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
    own, reverse = (tuple(column[rows] for column in of) for of, rows in zip(both, chosen, strict=True))
    return recent_losses_of_pair(own, reverse).lasting


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

    loss = recent_losses(at_s[:98], sent[:98], (sent - lost)[:98]).lasting
    later = recent_losses(at_s[:97], sent[:97], (sent - lost)[:97]).lasting

    assert (loss.since_s, loss.clean_since_s, loss.clean_sent) == (900.0, 970.0, 20.0)
    assert (later.since_s, later.clean_since_s, later.clean_sent) == (900.0, None, 0.0)


def test_losses_that_are_over_keep_their_packets_and_their_end():
    """70 of 700 packets of 70 s, then 300 packets without loss but for one; before them 5 of 20, and 800 without."""
    at_s, sent = np.arange(100.0) * CYCLE_S, np.full(100, 20.0)
    lost = np.where((at_s >= 500.0) & (at_s < 850.0), 2.0, 0.0)
    lost[9], lost[97] = 5.0, 1.0

    losses = recent_losses(at_s, sent, sent - lost)

    assert losses == RecentLosses(
        None,
        (
            EndedLoss(700.0, 70.0, since_s=500.0, over_since_s=850.0, after=LostPackets(300.0, 1.0)),
            EndedLoss(20.0, 5.0, since_s=90.0, over_since_s=100.0, after=LostPackets(1800.0, 71.0)),
        ),
    )


def test_a_loss_whose_end_both_directions_prove_has_its_own_packets():
    """By 60 packets of each without loss: at 5%, 4.6% and together 0.2% (e^-3.07, e^-6.14)."""
    at_s, sent = np.arange(63.0) * CYCLE_S, np.full(63, 20.0)
    lost = np.where((at_s >= 0.0) & (at_s < 600.0), 1.0, 0.0)

    own = (at_s, sent, sent - lost)

    assert recent_losses(*own).lasting is not None
    assert recent_losses_of_pair(own, own) == RecentLosses(
        None, (EndedLoss(1200.0, 60.0, since_s=0.0, over_since_s=600.0, after=LostPackets(60.0, 0.0)),)
    )
