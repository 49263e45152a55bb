"""Scores of the onset that is stated of a simulated loss: its own, not that of an earlier loss or of a part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.analysis.changes.onset import onset_of_events
from tests.losses.simulated import Cadence, Planted, bursts, merged

EndOfEarlier = Callable[..., int]

BEFORE_S = 1800.0
THRESHOLD = 0.01


@dataclass
class Dated:
    """Onsets of losses: how many were dated in the loss before (`joined`), how many after a part of their own (`cut`),
    and how many intervals contain the true onset (`right`)."""

    runs: int = 0
    joined: int = 0
    cut: int = 0
    right: int = 0


def score_dated(find: EndOfEarlier, cadence: Cadence, planted: Planted, onset_s: float, until_s: float, run: int,
                stray: float, seeds: range) -> Dated:  # fmt: skip
    """Of a pair of paths, whose onset is looked for in the bursts of the first."""
    dated = Dated()
    for seed in seeds:
        rng = np.random.default_rng([seed, run, round(cadence.every_s), cadence.packets, round(onset_s)])
        pair = [bursts(rng, cadence, planted, -BEFORE_S, until_s, run, stray) for _ in range(2)]
        at_s, sent, received = merged(pair)
        first_s = at_s[find(sent, received, THRESHOLD)]
        at_s, sent, received = (column[pair[0][0] >= first_s] for column in pair[0])
        onset = onset_of_events(received < sent)
        dated.runs += 1
        if onset is None:
            continue
        earliest_s, latest_s = at_s[max(onset.earliest - 1, 0)], at_s[onset.latest] + cadence.lasts_s
        dated.right += bool(earliest_s <= onset_s <= latest_s)
        dated.joined += bool(latest_s < onset_s - 0.5 * cadence.every_s)
        dated.cut += bool(first_s > onset_s + cadence.every_s)
    return dated
