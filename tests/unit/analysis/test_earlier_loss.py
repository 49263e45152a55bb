"""The end of an earlier loss before the loss that was detected, over many simulated runs of two pings a second on two
paths."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.changes.earlier_loss import end_of_earlier
from monitor.analysis.changes.gap import chance_of_gap, lost_together
from monitor.analysis.changes.onset import onset_of_events
from tests.unit.analysis.loss_of_paths import bursts

THRESHOLD = 0.01
RUNS = 40


def ends(planted, until_s, run=1):
    """When the stretch begins that is looked at, and the onset in it, in seconds after the first onset, of each run."""
    found_s = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        paths = [bursts(rng, planted, until_s, run) for _ in range(2)]
        at_s, sent, received = (np.concatenate(columns) for columns in zip(*paths, strict=True))
        order = np.argsort(at_s, kind="stable")
        at_s, sent, received = at_s[order], sent[order], received[order]
        first = end_of_earlier(sent, received, THRESHOLD)
        onset = onset_of_events(received[first:] < sent[first:])
        assert onset is not None
        found_s.append((float(at_s[first]), float(at_s[first + onset.at])))
    return np.array(found_s).T


@pytest.mark.parametrize(
    ("first", "gap_s", "second", "least"),
    [(0.03, 150, 0.3, 0.95), (0.03, 100, 0.3, 0.85), (0.1, 60, 0.3, 0.95), (0.3, 60, 0.1, 0.95), (0.3, 40, 0.05, 0.7)],
)
def test_two_losses_with_a_proven_end_between_are_not_joined(first, gap_s, second, least):
    """All of the 160 packets in 40 s are answered by chance in 1 of 3,700 cases at 5%, but what follows in 100 s tells
    that loss within a factor of 1.5 only."""
    planted = [(0, first), (300, 0.0), (300 + gap_s, second)]

    _, onsets_s = ends(planted, 400 + gap_s)

    assert (np.abs(onsets_s - 300 - gap_s) <= 20).mean() >= least, np.sort(onsets_s)


@pytest.mark.parametrize(
    ("planted", "run"),
    [
        ([(0, 0.02)], 1),
        ([(0, 0.1)], 1),
        ([(0, 0.3)], 1),
        ([(0, 0.05)], 3),
        ([(0, 0.03), (300, 0.3)], 1),
        ([(0, 0.3), (60, 0.03)], 1),
        ([(0, 0.3), (180, 0.05)], 3),
    ],
)
def test_a_loss_without_a_gap_is_not_cut(planted, run):
    """Whether it stays the same, rises, or becomes weaker."""
    begins_s, _ = ends(planted, 500, run)

    assert (begins_s > 20).sum() <= RUNS * 0.05, np.sort(begins_s)


def test_a_loss_that_ended_before_is_the_loss_where_none_follows():
    begins_s, _ = ends([(0, 0.1), (200, 0.0)], 400)

    assert (begins_s <= 0).all()


@pytest.mark.parametrize(("lost", "sent", "few", "packets"), [(11, 400, 0, 80), (5, 100, 0, 60), (21, 300, 2, 200)])
def test_the_chance_of_a_gap_is_that_of_losses_placed_anywhere(lost, sent, few, packets):
    """Against the count of random placings; runs of three packets are a third of the losses."""
    rng = np.random.default_rng(5)
    in_gap = (rng.random((100_000, lost - 1 + few)) * (sent + packets) < packets).sum(axis=1)

    chance = float(chance_of_gap(lost, sent, few, packets, 1.0))

    assert chance == pytest.approx((in_gap <= few).mean(), abs=0.005)
    assert chance_of_gap(3 * lost, sent, 3 * few, packets, 3.0) == pytest.approx(chance)
    assert chance_of_gap(1, sent, few, packets, 1.0) == 1.0


def test_packets_lost_in_whole_bursts_count_as_one_each():
    """A tenth of the bursts lose all of their 20 packets; of independent losses 88% would lose one or more."""
    lost = np.where(np.arange(200) % 10 == 0, 20.0, 0.0)
    sent = np.full(200, 20.0)

    assert lost_together([(sent, lost), (sent, lost)]) >= 8.8
    assert lost_together([(sent, np.zeros(200))]) == 1.0
    assert lost_together([(sent, np.full(200, 2.0))]) == 1.0
