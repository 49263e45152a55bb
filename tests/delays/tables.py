"""Tables of `delays`, statements about a longer RTT on simulated paths.

They need neither a database nor a network; `labelled` needs the traces of `tests.bench alerts`.
"""

from __future__ import annotations

import numpy as np

from tests.delays import labelled
from tests.delays.simulated import (
    BUSY,
    JITTER,
    LAB,
    LOCAL,
    QUEUE,
    ROUNDED,
    SLOW,
    WIDE_AREA,
    Fault,
    Figure,
    SimulatedPath,
    SimulatedRuns,
    median,
    minimum,
    simulate,
    simulate_steady,
    step,
)
from tests.delays.told import (
    USUAL_BURSTS,
    Said,
    behind,
    follow,
    openings,
    score_sets,
    score_told,
    tell_by_stretches,
    tell_by_window,
)
from tests.losses.simulated import Cadence
from tests.reproduce.table import Table
from tests.scored import count_of

FIRST_REPORTED = 10_000
"""Seed of the first run in the tables; those below 1,000 served to choose the priors."""
RUNS = 200
Cases = tuple[tuple[SimulatedPath, Fault], ...]
TOLD: Cases = (
    (LAB, step(60.0)), (WIDE_AREA, step(60.0)), (WIDE_AREA, step(8.0)), (BUSY, step(60.0)), (BUSY, step(8.0)),
    (LAB, SLOW), (WIDE_AREA, SLOW), (BUSY, SLOW), (WIDE_AREA, QUEUE), (LOCAL, step(3.0)), (ROUNDED, step(3.0)),
)  # fmt: skip
OF_MINIMUM: Cases = ((LAB, step(60.0)), (WIDE_AREA, step(8.0)), (BUSY, step(8.0)), (LAB, SLOW))
CADENCES = (Cadence(10.0, 10), Cadence(60.0, 20), Cadence(300.0, 10))
STEPS: Cases = ((LAB, step(60.0)), (WIDE_AREA, step(8.0)), (BUSY, step(8.0)), (BUSY, step(60.0)), (ROUNDED, step(3.0)))
STEADY = (LAB, WIDE_AREA, BUSY, LOCAL, ROUNDED)
STEADY_BURSTS = 1440
TELLERS = (("windows", tell_by_window), ("stretches", tell_by_stretches))


def told(share: float) -> Table:
    """A longer RTT, by the windows of today and by stretches: looks that miss it from ten cycles on, cycles until it is
    told by half of the runs and by nine of ten, cycles for which it is told after its end, and how often again."""
    return _told(share, TOLD, median)


def of_minimum(share: float) -> Table:
    """As `told`, of the minimum of each burst."""
    return _told(share, OF_MINIMUM, minimum)


def _told(share: float, cases: Cases, figure: Figure) -> Table:
    figures = ("missed", "told after", "after its end", "again a run")
    columns = [f"{name}: {each}" for name, _ in TELLERS for each in figures]
    table = Table(("path", "fault", "bursts", *columns, "level behind"))
    for cadence in CADENCES:
        for path, fault in cases:
            runs = simulate(path, fault, cadence, _seeds(share), figure)
            said, levels_ms = follow(runs)
            cells = []
            for tells in (tell_by_window(runs), said):
                scored = score_told(tells, runs.at_s, fault, cadence)
                half, most = np.quantile(scored.told_after, (0.5, 0.9), method="higher")
                late, again = np.mean(scored.late), scored.again / len(said)
                cells += [
                    f"{scored.missed / scored.looks:.1%}",
                    f"{half:.1f} / {most:.1f}",
                    f"{late:.1f}",
                    f"{again:.2f}",
                ]
            level = f"{behind(levels_ms, runs, fault, cadence):.1%}" if fault.has_level else ""
            table.rows.append((path.words, fault.words, str(cadence), *cells, level))
    return table


def sets(share: float) -> Table:
    """How often the 95% sets hold the level and the onset of a step."""
    table = Table(("path", "fault", "bursts", "level held", "width of half", "onset held"))
    for cadence in CADENCES:
        for path, fault in STEPS:
            held = score_sets(simulate(path, fault, cadence, _seeds(share), median), fault, cadence)
            level, onset = (f"{count / held.looks:.1%}" for count in (held.level, held.onset))
            width = f"{np.median(held.widths_ms):.2g} ms"
            table.rows.append((path.words, fault.words, str(cadence), level, width, onset))
    return table


def steady(share: float) -> Table:
    """How often a longer RTT is told of a path without a fault, or with jitter alone: share of the looks, and times in
    1,000 hours or a run."""
    table = Table(
        ("path", "bursts", *(f"{name}: {each}" for name, _ in TELLERS for each in ("told in looks", "times")))
    )
    for cadence in CADENCES:
        for path in STEADY:
            hours = STEADY_BURSTS * cadence.every_s / 3600.0
            runs = simulate_steady(path, cadence, hours, _seeds(share))
            cells = _false(runs, 1000.0 / hours, "in 1,000 h")
            table.rows.append((path.words, str(cadence), *cells))
    for cadence in CADENCES[:2]:
        for path in (LAB, WIDE_AREA):
            runs = simulate(path, JITTER, cadence, _seeds(share), median)
            table.rows.append((f"{path.words}, {JITTER.words}", str(cadence), *_false(runs, 1.0, "a run")))
    return table


def _false(runs: SimulatedRuns, times: float, words: str) -> list[str]:
    cells = []
    for _, tell in TELLERS:
        said: Said = tell(runs)[:, USUAL_BURSTS:]
        cells += [f"{said.mean():.2%}", f"{sum(map(openings, said)) / len(said) * times:.3g} {words}"]
    return cells


def _seeds(share: float) -> range:
    return range(FIRST_REPORTED, FIRST_REPORTED + count_of(RUNS, share))


PARTS = {"told": told, "minimum": of_minimum, "sets": sets, "steady": steady, "labelled": labelled.table}
