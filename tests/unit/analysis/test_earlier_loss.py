"""The end of an earlier loss before the loss that was detected, over many simulated runs of two pings a second on two
paths."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.changes.earlier_loss import end_of_earlier
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


@pytest.mark.parametrize(("weaker", "gap_s", "stronger"), [(0.03, 150, 0.3), (0.1, 60, 0.3), (0.3, 60, 0.1)])
def test_two_losses_with_a_proven_end_between_are_not_joined(weaker, gap_s, stronger):
    planted = [(0, weaker), (300, 0.0), (300 + gap_s, stronger)]

    _, onsets_s = ends(planted, 400 + gap_s)

    assert (np.abs(onsets_s - 300 - gap_s) <= 20).mean() >= 0.95, np.sort(onsets_s)


@pytest.mark.parametrize(
    ("planted", "run"),
    [
        ([(0, 0.02)], 1),
        ([(0, 0.1)], 1),
        ([(0, 0.3)], 1),
        ([(0, 0.05)], 3),
        ([(0, 0.03), (300, 0.3)], 1),
        ([(0, 0.3), (60, 0.03)], 1),
    ],
)
def test_a_loss_without_a_gap_is_not_cut(planted, run):
    """Whether it stays the same, rises, or becomes weaker."""
    begins_s, _ = ends(planted, 500, run)

    assert (begins_s > 20).sum() <= RUNS * 0.05, np.sort(begins_s)


def test_a_loss_that_ended_before_is_the_loss_where_none_follows():
    begins_s, _ = ends([(0, 0.1), (200, 0.0)], 400)

    assert (begins_s <= 0).all()
