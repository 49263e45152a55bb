"""Packets that are lost at random or in runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CYCLE_S = 10.0
PACKETS = 20
BEFORE_S = 600.0


def lost_packets(rng: np.random.Generator, ratios: NDArray[np.float64], run: int) -> NDArray[np.bool_]:
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
