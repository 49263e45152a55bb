"""Paths with a planted loss, watched from the detection on: at each evaluation the loss now and the worst loss."""

from __future__ import annotations

import numpy as np

from monitor.analysis.changes.present import pooled, present_loss, worse

CYCLE_S = 10.0
PACKETS = 20
WINDOW_S = 120.0
LONGEST_S = 600.0
BEFORE_S = 600.0


def lost_packets(rng, ratios, run):
    """Whether each packet is lost, with a loss for each: at random, or in runs of `run` packets on average (Gilbert,
    "Capacity of a burst-noise channel", 1960)."""
    if run == 1:
        return rng.random(len(ratios)) < ratios
    lost, is_bad = np.zeros(len(ratios), bool), False
    for number, (chance, ratio) in enumerate(zip(rng.random(len(ratios)).tolist(), ratios.tolist(), strict=True)):
        is_bad = ratio > 0.0 and chance < (1.0 - 1.0 / run if is_bad else ratio / (1.0 - ratio) / run)
        lost[number] = is_bad
    return lost


def bursts(rng, planted, until_s, run=1):
    """Cycles of 20 packets from ten minutes before; `planted` are losses and the seconds from which on they hold."""
    at_s = np.arange(-BEFORE_S, until_s, CYCLE_S)
    ratios = np.zeros(len(at_s))
    for begin_s, loss in planted:
        ratios[at_s >= begin_s] = loss
    lost = lost_packets(rng, np.repeat(ratios, PACKETS), run).reshape(-1, PACKETS).sum(axis=1)
    return at_s, np.full(len(at_s), float(PACKETS)), PACKETS - lost.astype(np.float64)


class WatchedPath:
    """A path whose loss was detected. It keeps the begin of the stretch and the dispersion between evaluations."""

    def __init__(self, columns, detected_s):
        self.columns, self.detected_s = columns, detected_s
        self.began_s, self.together = -np.inf, 1.0

    def evaluate(self, now_s):
        at_s, *counts = self.columns
        chosen = (at_s < now_s) & (at_s >= max(self.began_s, now_s - LONGEST_S))
        loss = present_loss(
            at_s[chosen],
            *(count[chosen] for count in counts),
            now_s - WINDOW_S,
            self.detected_s,
            rises=self.began_s == -np.inf,
            together=self.together,
        )
        self.began_s, self.together = loss.changed_s or max(self.began_s, 0.0), loss.now.together
        return loss


class WatchedPool:
    """Paths of an incident, and the worst loss of all of them together."""

    def __init__(self, every, detected_s):
        self.paths = [WatchedPath(columns, detected_s) for columns in every]
        self.worst = None

    def evaluate(self, now_s):
        """The loss of now of all packets."""
        losses = [path.evaluate(now_s) for path in self.paths]
        self.worst = worse(self.worst, pooled([loss.stretch for loss in losses]))
        return pooled([loss.now for loss in losses])
