"""Score statements about losses on simulated paths: `python -m tests.losses [PART…] [--share N] [--write]`.

The tables go to docs/method/alerts.md. Needs neither a database nor a network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from monitor.analysis.changes.earlier_loss import end_of_earlier
from tests.losses.scoring import score_dated
from tests.losses.simulated import CADENCES, Cadence
from tests.losses.told import score_steady, score_told, tell_by_stretches, tell_by_window
from tests.reproduce.table import Table, placed

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "method" / "alerts.md"
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.losses", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all without any")
    parser.add_argument("--share", type=float, default=1.0, help="share of the simulations (1)")
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/method/{DOCUMENT.name}")
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        table = PARTS[name](arguments.share).lines()
        print(f"\n{table}", flush=True)
        if arguments.write:
            DOCUMENT.write_text(placed(DOCUMENT.read_text(), name, f"{table}\n"))


def two_losses(share: float) -> Table:
    """Joined with the loss before, or cut although nothing was between, of runs on a pair of paths."""
    seeds = range(FIRST_REPORTED, FIRST_REPORTED + max(round(60 * share), 1))
    table = Table(("loss, each with its cycles", "packets lost", *map(str, CADENCES)))
    for run in (1, 3):
        lost = "at random" if run == 1 else f"in runs of {run}"
        for first, cycles, gap, second, after in TWO_LOSSES:
            words = f"{first:.0%} × {cycles}, none × {gap}, {second:.0%} × {after}: joined"
            joined = []
            for cadence in CADENCES:
                end_s, onset_s = cycles * cadence.every_s, (cycles + gap) * cadence.every_s
                planted, until_s = [(0.0, first), (end_s, 0.0), (onset_s, second)], onset_s + after * cadence.every_s
                dated = score_dated(end_of_earlier, cadence, planted, onset_s, until_s, run, STRAY, seeds)
                joined.append(dated.joined / dated.runs)
            table.rows.append((words, lost, *(f"{ratio:.0%}" for ratio in joined)))
        for losses in ONE_LOSS:
            words = f"{', '.join(f'{ratio:.0%} × {cycles}' for ratio, cycles in losses)}: cut"
            begins = np.cumsum([0, *(cycles for _, cycles in losses)]).tolist()
            cut = []
            for cadence in CADENCES:
                planted = [(at * cadence.every_s, ratio) for at, (ratio, _) in zip(begins, losses, strict=False)]
                until_s = begins[-1] * cadence.every_s
                dated = score_dated(end_of_earlier, cadence, planted, 0.0, until_s, run, STRAY, seeds)
                cut.append(dated.cut / dated.runs)
            table.rows.append((words, lost, *(f"{ratio:.0%}" for ratio in cut)))
    return table


def told(share: float) -> Table:
    """Losses that last half an hour, by the packets of a window and by stretches: looks that miss them, seconds for
    which they are told after their end, and how often they are told again."""
    seeds = range(FIRST_REPORTED, FIRST_REPORTED + max(round(200 * share), 1))
    few = seeds[: max(len(seeds) // 8, 1)]
    table = Table(
        (
            "loss, in runs of, bursts",
            "window: missed",
            "after its end",
            "again a run",
            "stretches: missed",
            "after its end",
            "again a run",
        )
    )
    for ratio, run, cadence in TOLD:
        cells: list[str] = []
        for tell, of in ((tell_by_window, few), (tell_by_stretches, seeds)):
            scored = score_told(tell, cadence, ratio, run, STRAY, of)
            late_s = sum(scored.late_s) / len(scored.late_s)
            cells += [f"{scored.missed / scored.looks:.1%}", f"{late_s:.0f} s", f"{scored.again / len(of):.3f}"]
        table.rows.append((f"{ratio:.0%}, {run}, {cadence}", *cells))
    return table


def steady(share: float) -> Table:
    """How often a steady loss below 1% is told to be above it."""
    seeds = range(FIRST_REPORTED, FIRST_REPORTED + max(round(200 * share), 1))
    table = Table(("steady loss, in runs of, bursts", "told above 1% in looks"))
    for ratio, run, cadence in STEADY:
        said = score_steady(tell_by_stretches, cadence, ratio, run, STEADY_HOURS, seeds)
        table.rows.append((f"{ratio:.2%}, {run}, {cadence}", f"{said:.2%}"))
    return table


PARTS = {"two losses": two_losses, "told": told, "steady": steady}

if __name__ == "__main__":
    main()
