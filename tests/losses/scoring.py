"""Scores of the onset that is stated of a simulated loss: its own, not that of an earlier loss or of a part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.segments.chain_sums import sums_in_order
from monitor.analysis.segments.loss_onset import onset_of_loss
from tests.losses.simulated import Cadence, Planted, packets

BEFORE_S = 1800.0
LOOK_BACK_CYCLES = 400


@dataclass
class Dated:
    """Onsets of losses: how many were dated in the loss before (`joined`), how many after a part of their own (`cut`),
    and how many intervals contain the true onset (`right`)."""

    runs: int = 0
    joined: int = 0
    cut: int = 0
    right: int = 0


def score_dated(cadence: Cadence, planted: Planted, onset_s: float, until_s: float, run: int, stray: float,
                seeds: range) -> Dated:  # fmt: skip
    """By the look back over the packets of a pair of paths."""
    dated = Dated()
    for seed in seeds:
        rng = np.random.default_rng([seed, run, round(cadence.every_s), cadence.packets, round(onset_s)])
        pair = [packets(rng, cadence, planted, -BEFORE_S, until_s, run, stray) for _ in range(2)]
        at_s = np.concatenate([begins for begins, _ in pair])
        sums = np.concatenate([sums_in_order(lost, np.append(False, lost[:-1, -1])) for _, lost in pair], axis=1)
        order = np.argsort(at_s, kind="stable")
        order = order[at_s[order] >= until_s - LOOK_BACK_CYCLES * cadence.every_s]
        onset = onset_of_loss(at_s[order], sums[:, order])
        assert onset is not None
        begins_s = at_s[order]
        earliest_s, latest_s = begins_s[max(onset.earliest - 1, 0)], begins_s[onset.latest] + cadence.lasts_s
        dated.runs += 1
        dated.right += bool(earliest_s <= onset_s <= latest_s)
        dated.joined += bool(latest_s < onset_s - 0.5 * cadence.every_s)
        dated.cut += bool(earliest_s > onset_s + cadence.every_s)
    return dated
