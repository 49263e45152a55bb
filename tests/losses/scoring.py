"""Scores of statements about simulated losses: told while it lasts, no more after its end; begun at its own onset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.analysis.changes.onset import onset_of_events
from tests.losses.simulated import Cadence, Columns, Planted, bursts, merged

LastingLoss = Callable[..., object]
EndOfEarlier = Callable[..., int]

WINDOW_S = 1800.0
"""As the page of now looks back."""
BEFORE_S = 1800.0
AFTER_S = 1200.0
THRESHOLD = 0.01
LEAST_EVENTS = 8.0
"""A loss is looked at from the moment on at which so many runs of lost packets are expected, and from a minute on."""
LOOK_CYCLES = 2


@dataclass
class Told:
    """Looks at a loss while it lasts and how many of them did not tell it; how long it was told after its end, of each
    run; and how often it was told again after that."""

    looks: int = 0
    missed: int = 0
    again: int = 0
    late_s: list[float] | None = None


def score_told(tell: LastingLoss, cadence: Cadence, ratio: float, run: int, lasts_s: float, stray: float,
               seeds: range) -> Told:  # fmt: skip
    """A look every two cycles, of a single path. `lasts_s` is from the first look on."""
    told = Told(late_s=[])
    for seed in seeds:
        rng = np.random.default_rng([seed, round(1000 * ratio), run, round(cadence.every_s), cadence.packets])
        first_s = max(60.0, LEAST_EVENTS * run / ratio / cadence.packets * cadence.every_s)
        end_s = first_s + lasts_s
        columns = bursts(rng, cadence, [(0.0, ratio), (end_s, 0.0)], -BEFORE_S, end_s + AFTER_S, run, stray)
        every_s = LOOK_CYCLES * cadence.every_s
        looks_s = np.arange(first_s, end_s + AFTER_S, every_s)
        said = np.array([_is_told(tell, columns, cadence, now_s) for now_s in looks_s])
        lasting, after = said[looks_s <= end_s], said[looks_s > end_s + cadence.every_s]
        told.looks += len(lasting)
        told.missed += int((~lasting).sum())
        told.late_s.append(float(after.sum()) * every_s)
        told.again += sum(now and not before for before, now in pairwise(after.tolist()))
    return told


def _is_told(tell: LastingLoss, columns: Columns, cadence: Cadence, now_s: float) -> bool:
    at_s = columns[0]
    chosen = (at_s >= now_s - WINDOW_S) & (at_s + cadence.lasts_s <= now_s)
    loss = tell(*(column[chosen] for column in columns))
    return loss is not None and loss.ratio > THRESHOLD


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
