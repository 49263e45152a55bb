"""Score how a loss is reported: while it lasts, not after its end, not again, and not for a smaller loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.chain_sums import from_first_reply, sums_in_order
from monitor.analysis.segments.loss_segments import LossSegments
from monitor.analysis.segments.stretches import DEAD, LOSSY
from tests.losses.simulated import Cadence, Floats, Lost, packets

Run = tuple[Floats, Lost]
"""Begin of the bursts of a path, and whether each packet is lost."""
Teller = Callable[[list[Run], Cadence, Floats], NDArray[np.bool_]]
"""Whether the loss is told at each look, shape (runs, looks)."""

THRESHOLD = 0.01
BEFORE_S = 1800.0
AFTER_S = 1200.0
LASTS_S = 1800.0
LEAST_EVENTS = 8.0
"""A loss is looked at from the moment on at which so many runs of lost packets are expected, and from a minute on."""
LOOK_CYCLES = 2
LEVEL_LOOK_S = 120.0
"""Between two looks at a level."""


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


def tell_by_stretches(runs: list[Run], cadence: Cadence, looks_s: Floats) -> NDArray[np.bool_]:
    """By the tracks that pages and alerts read."""
    said = np.zeros((len(runs), max(len(at_s) for at_s, _ in runs)), dtype=np.bool_)
    for number, followed in _followed(runs, cadence):
        said[:, number] = followed.is_above | (followed.states == DEAD)
    ended = [np.searchsorted(at_s + cadence.lasts_s, looks_s, side="right") - 1 for at_s, _ in runs]
    return np.array([of_run[newest] & (newest >= 0) for of_run, newest in zip(said, ended, strict=True)])


def score_levels(cadence: Cadence, ratio: float, run: int, stray: float, seeds: range) -> tuple[int, int]:
    """Of looks at a loss that is told, in the half hour that it lasts: how many there are, and in how many its interval
    has the planted loss."""
    planted, every = ratio + stray * (1.0 - ratio), max(int(LEVEL_LOOK_S / cadence.every_s), 1)
    runs = [packets(_chances(seed, ratio, run, cadence), cadence, [(0.0, ratio)], -BEFORE_S, LASTS_S, run, stray)
            for seed in seeds]  # fmt: skip
    looks, held = 0, 0
    for number, followed in _followed(runs, cadence):
        lossy = np.flatnonzero(followed.states == LOSSY) if number % every == 0 else ()
        for row in lossy:
            low, high = followed.segments(int(row))[-1].lost.interval
            if runs[row][0][min(number, len(runs[row][0]) - 1)] > 0.0:
                looks, held = looks + 1, held + (low <= planted <= high)
    return looks, held


def _followed(runs: list[Run], cadence: Cadence) -> Iterator[tuple[int, LossSegments]]:
    """The segments of all runs after each burst, by its number."""
    followed = LossSegments(len(runs))
    followed.limits[:] = THRESHOLD
    sums = [sums_in_order(lost, np.append(False, lost[:-1, -1])) for _, lost in runs]
    for number in range(max(len(at_s) for at_s, _ in runs)):
        rows = np.array([row for row, (at_s, _) in enumerate(runs) if number < len(at_s)])
        begins = np.array([runs[row][0][number] for row in rows])
        lost = np.array([runs[row][1][number] for row in rows])
        if number == 0:
            followed.begin(rows, begins)
        first, last = lost.argmin(axis=1), lost.shape[1] - 1 - lost[:, ::-1].argmin(axis=1)
        is_whole = lost.all(axis=1)
        replies_s = np.where(is_whole, np.nan, begins + np.stack([first, last]) * cadence.spacing_s)
        last_run = lost[:, ::-1].argmin(axis=1)
        silent_s = np.where(is_whole, begins, begins + (last + 1) * cadence.spacing_s)
        silence = np.stack([np.where(lost[:, -1], silent_s, np.nan), np.where(is_whole, lost.shape[1], last_run)])
        of = np.stack([sums[row][:, number] for row in rows], axis=1)
        before = [runs[row][1][number - 1, -1] if number else False for row in rows]
        again = from_first_reply(of, np.where(is_whole, 0, first), before)
        followed.take(rows, begins, np.full(len(rows), cadence.every_s * (number > 0)), of, replies_s, silence, again)
        yield number, followed


def _chances(seed: int, ratio: float, run: int, cadence: Cadence) -> np.random.Generator:
    return np.random.default_rng([seed, round(10_000 * ratio), run, round(cadence.every_s), cadence.packets])
