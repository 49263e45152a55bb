"""Score how a loss is reported: while it lasts, not after its end, not again, and not for a smaller loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.changes.lasting import recent_losses
from monitor.analysis.segments.chain_sums import sums_in_order
from monitor.analysis.segments.loss_filter import LossFilter
from tests.losses.simulated import Cadence, Floats, Lost, packets

Run = tuple[Floats, Lost]
"""Begin of the bursts of a path, and whether each packet is lost."""
Teller = Callable[[list[Run], Cadence, Floats], NDArray[np.bool_]]
"""Whether the loss is told at each look, shape (runs, looks)."""

THRESHOLD = 0.01
WINDOW_S = 1800.0
"""As the page of now looks back."""
BEFORE_S = 1800.0
AFTER_S = 1200.0
LASTS_S = 1800.0
LEAST_EVENTS = 8.0
"""A loss is looked at from the moment on at which so many runs of lost packets are expected, and from a minute on."""
LOOK_CYCLES = 2
TOLD_FROM, TOLD_UNTIL = 0.8, 0.3
"""Probability of a loss above the threshold from which it is told, and below which it is told no more."""


@dataclass
class Told:
    """Looks at a loss while it lasts and how many of them did not tell it; how long it was told after its end, of each
    run; and how often it was told again after that."""

    looks: int = 0
    missed: int = 0
    again: int = 0
    late_s: list[float] = field(default_factory=list)


def score_told(tell: Teller, cadence: Cadence, ratio: float, run: int, stray: float, seeds: range) -> Told:
    """A look every two cycles at a path that loses `ratio` for half an hour, in runs of `run` packets."""
    first_s = max(60.0, LEAST_EVENTS * run / ratio / cadence.packets * cadence.every_s)
    end_s, every_s = first_s + LASTS_S, LOOK_CYCLES * cadence.every_s
    looks_s = np.arange(first_s, end_s + AFTER_S, every_s)
    planted = [(0.0, ratio), (end_s, 0.0)]
    runs = [packets(_chances(seed, ratio, run, cadence), cadence, planted, -BEFORE_S, end_s + AFTER_S, run, stray)
            for seed in seeds]  # fmt: skip
    told = Told()
    for said in tell(runs, cadence, looks_s):
        lasting, after = said[looks_s <= end_s], said[looks_s > end_s + cadence.every_s]
        told.looks += len(lasting)
        told.missed += int((~lasting).sum())
        told.late_s.append(float(after.sum()) * every_s)
        told.again += sum(now and not before for before, now in pairwise(after.tolist()))
    return told


def score_steady(tell: Teller, cadence: Cadence, ratio: float, run: int, hours: float, seeds: range) -> float:
    """The share of looks that tell a steady loss below the threshold, after the first half hour."""
    until_s = 3600.0 * hours
    runs = [packets(_chances(seed, ratio, run, cadence), cadence, [(-1e9, ratio)], 0.0, until_s, run, 0.0)
            for seed in seeds]  # fmt: skip
    return float(tell(runs, cadence, np.arange(BEFORE_S, until_s, LOOK_CYCLES * cadence.every_s)).mean())


def tell_by_window(runs: list[Run], cadence: Cadence, looks_s: Floats) -> NDArray[np.bool_]:
    """By the packets of the last half hour, looked at anew each time."""
    return np.array([[_is_told_in_window(*run, cadence, now_s) for now_s in looks_s] for run in runs])


def _is_told_in_window(at_s: Floats, lost: Lost, cadence: Cadence, now_s: float) -> bool:
    chosen = (at_s >= now_s - WINDOW_S) & (at_s + cadence.lasts_s <= now_s)
    sent = np.full(int(chosen.sum()), float(cadence.packets))
    loss = recent_losses(at_s[chosen], sent, sent - lost[chosen].sum(axis=1)).lasting
    return loss is not None and loss.ratio > THRESHOLD


def tell_by_stretches(runs: list[Run], cadence: Cadence, looks_s: Floats) -> NDArray[np.bool_]:
    """By the stretches of loss that a filter follows."""
    followed, told = LossFilter(len(runs)), np.zeros(len(runs), dtype=np.bool_)
    said = np.zeros((len(runs), max(len(at_s) for at_s, _ in runs)), dtype=np.bool_)
    sums = [sums_in_order(lost, np.append(False, lost[:-1, -1])) for _, lost in runs]
    for number in range(said.shape[1]):
        rows = np.array([row for row, (at_s, _) in enumerate(runs) if number < len(at_s)])
        begins = np.array([runs[row][0][number] for row in rows])
        followed.take(
            rows, begins, cadence.every_s * (number > 0), np.stack([sums[row][:, number] for row in rows], axis=1)
        )
        above = followed.above(THRESHOLD)
        told = np.where(told, above > TOLD_UNTIL, above > TOLD_FROM)
        said[:, number] = told
    ended = [np.searchsorted(at_s + cadence.lasts_s, looks_s, side="right") - 1 for at_s, _ in runs]
    return np.array([of_run[newest] & (newest >= 0) for of_run, newest in zip(said, ended, strict=True)])


def _chances(seed: int, ratio: float, run: int, cadence: Cadence) -> np.random.Generator:
    return np.random.default_rng([seed, round(10_000 * ratio), run, round(cadence.every_s), cadence.packets])
