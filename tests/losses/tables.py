"""Tables of `losses`, statements about losses on simulated paths. They need neither a database nor a network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.losses.scoring import score_dated
from tests.losses.simulated import CADENCES, Cadence
from tests.losses.told import score_levels, score_steady, score_told, tell_by_stretches
from tests.reproduce.table import Table
from tests.scored import count_of

FIRST_REPORTED = 10_000
"""Seed of the first run in the tables; those below 1,000 served to choose the rules."""
STRAY = 0.001
"""Loss of a path besides the planted one."""
TWO_LOSSES = (
    (0.3, 18, 4, 0.05, 10), (0.3, 30, 4, 0.05, 20), (0.3, 18, 6, 0.1, 10), (0.03, 30, 10, 0.3, 6), (0.1, 18, 6, 0.3, 6),
    (0.05, 30, 15, 0.05, 20),
)  # fmt: skip
"""Loss, its cycles, those of the gap, the loss after it, its cycles."""
ONE_LOSS = (
    ((0.02, 60),), ((0.05, 40),), ((0.1, 40),), ((0.3, 20),), ((0.03, 30), (0.3, 6)), ((0.3, 6), (0.03, 34)),
    ((0.3, 18), (0.05, 20)),
)  # fmt: skip
"""Losses that follow each other, each with its cycles."""

TOLD = (
    (0.05, 1, Cadence(10.0, 20)), (0.05, 3, Cadence(10.0, 20)), (0.3, 3, Cadence(10.0, 10)),
    (0.05, 1, Cadence(60.0, 20)), (0.03, 1, Cadence(60.0, 20)), (0.05, 3, Cadence(60.0, 20)),
    (1.0, 1, Cadence(10.0, 10)),
)  # fmt: skip
"""Losses that begin and end: the loss, packets in a run, the cadence."""
STEADY = (
    (0.0005, 1, Cadence(10.0, 20)), (0.003, 1, Cadence(10.0, 20)), (0.005, 3, Cadence(10.0, 20)),
    (0.008, 1, Cadence(10.0, 20)), (0.0005, 1, Cadence(60.0, 20)), (0.005, 1, Cadence(60.0, 20)),
    (0.005, 3, Cadence(60.0, 20)), (0.008, 1, Cadence(60.0, 20)),
)  # fmt: skip
"""Losses below the threshold."""
STEADY_HOURS = 6.0
LEVELS = (0.01, 0.02, 0.05, 0.1, 0.3)
LEVEL_CADENCES = (Cadence(10.0, 10), Cadence(60.0, 20), Cadence(300.0, 20))


def two_losses(share: float) -> Table:
    """Percent joined with the loss before, or cut although nothing was between, of runs on a pair of paths; and in
    which the 95% set holds the onset. For packets lost at random, then in runs of three."""
    seeds = _seeds(60, share)
    table = Table(("loss, each with its cycles", *map(str, CADENCES), *(f"runs of 3: {each}" for each in CADENCES)))
    for words, planted_cycles, onset, cycles, is_joined in _planted():
        cells = []
        for run in (1, 3):
            for cadence in CADENCES:
                planted = [(at * cadence.every_s, ratio) for at, ratio in planted_cycles]
                of = score_dated(cadence, planted, onset * cadence.every_s, cycles * cadence.every_s, run, STRAY, seeds)
                wrong = of.joined if is_joined else of.cut
                cells.append(f"{100 * wrong / of.runs:.0f}, {100 * of.right / of.runs:.0f}%")
        table.rows.append((words, *cells))
    return table


def _planted() -> Iterator[tuple[str, list[tuple[int, float]], int, int, bool]]:
    """What is planted in words and in cycles, the cycle of the onset, the cycles until the look, and whether an earlier
    loss could be joined."""
    for first, cycles, gap, second, after in TWO_LOSSES:
        words = f"{first:.0%} × {cycles}, none × {gap}, {second:.0%} × {after}: joined"
        yield words, [(0, first), (cycles, 0.0), (cycles + gap, second)], cycles + gap, cycles + gap + after, True
    for losses in ONE_LOSS:
        words = f"{', '.join(f'{ratio:.0%} × {cycles}' for ratio, cycles in losses)}: cut"
        begins = np.cumsum([0, *(cycles for _, cycles in losses)]).tolist()
        yield words, [(at, ratio) for at, (ratio, _) in zip(begins, losses, strict=False)], 0, begins[-1], False


def told(share: float) -> Table:
    """Losses that last half an hour: looks that miss them, seconds for which they are told after their end, and how
    often they are told again. Of 200 runs the mean time varies by 14 s, and 0.02 by half."""
    seeds = _seeds(1000, share)
    table = Table(("loss, in runs of, bursts", "missed", "after its end", "again a run"))
    for ratio, run, cadence in TOLD:
        scored = score_told(tell_by_stretches, cadence, ratio, run, STRAY, seeds)
        late_s, again = sum(scored.late_s) / len(scored.late_s), scored.again / len(seeds)
        missed = f"{scored.missed / scored.looks:.1%}"
        table.rows.append((f"{ratio:.0%}, {run}, {cadence}", missed, f"{late_s:.0f} s", f"{again:.3f}"))
    return table


def steady(share: float) -> Table:
    """How often a steady loss below 1% is told to be above it."""
    seeds = _seeds(200, share)
    table = Table(("steady loss, in runs of, bursts", "told above 1% in looks"))
    for ratio, run, cadence in STEADY:
        said = score_steady(tell_by_stretches, cadence, ratio, run, STEADY_HOURS, seeds)
        table.rows.append((f"{ratio:.2%}, {run}, {cadence}", f"{said:.2%}"))
    return table


def levels(share: float) -> Table:
    """How often the interval of a loss that is told has the planted loss."""
    seeds = _seeds(100, share)
    table = Table(("loss, in runs of, bursts", "looks", "interval holds"))
    for ratio in LEVELS:
        for run in (1, 3):
            for cadence in LEVEL_CADENCES:
                looks, held = score_levels(cadence, ratio, run, STRAY, seeds)
                said = f"{held / looks:.1%}" if looks else "never told"
                table.rows.append((f"{ratio:.0%}, {run}, {cadence}", f"{looks:,}", said))
    return table


def _seeds(runs: int, share: float) -> range:
    return range(FIRST_REPORTED, FIRST_REPORTED + count_of(runs, share))


PARTS = {"two losses": two_losses, "told": told, "steady": steady, "levels": levels}
