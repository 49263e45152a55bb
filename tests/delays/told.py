"""Score how a longer RTT is told: while it lasts, not after its end, not again, and not of a path without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from monitor.analysis.changes import detector
from monitor.analysis.changes.detector import AFTER, BEFORE, RttChange
from monitor.analysis.changes.least_rise import least_rise_ms
from monitor.analysis.segments.delay_filter import LEVEL, DelayFilter
from tests.delays.by_range import raised
from tests.delays.simulated import BEFORE_CYCLES, Fault, Floats, SimulatedRuns
from tests.losses.simulated import Cadence

Said = NDArray[np.bool_]
"""Whether a longer RTT is told after each burst, shape (runs, bursts)."""
Teller = Callable[[SimulatedRuns], Said]

LEAST_MS, LEAST_RATIO = 6.0, 0.08
"""The least rise of the rule `rtt`."""
USUAL_BURSTS = 90
"""The usual RTT is the median of so many first bursts."""
TOLD_FROM, TOLD_UNTIL = 0.8, 0.3
"""Probability of a longer RTT from which it is told, and below which it is told no more."""
NOW_BURSTS = 5
"""As `present_rtts` takes the RTT of now."""
WINDOW, SLOW_GAP, SLOW_LAG = BEFORE + AFTER, 6, 4
"""As `rtt_windows` compares for a slow rise."""
FEW = 10
"""Cycles after which a longer RTT should be told, and its level followed."""
BEHIND_MS = 3.0
LOOKS_AFTER = (3, 10, 30)


@dataclass
class ToldRtt:
    """Looks at a longer RTT after FEW cycles and how many of them did not tell it; of each run the cycles until it was
    told, infinite if never, and for which it was told after its end; and how often it was told again."""

    looks: int = 0
    missed: int = 0
    again: int = 0
    told_after: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)


def score_told(said: Said, at_s: Floats, fault: Fault, cadence: Cadence) -> ToldRtt:
    """Of looks at the end of each burst."""
    looks_s, until_s, told = at_s + cadence.lasts_s, fault.until_s(cadence), ToldRtt()
    for tells, look_s in zip(said, looks_s, strict=True):
        since_s = look_s - fault.matters_after_s
        lasting = (since_s >= FEW * cadence.every_s) & (look_s < until_s)
        told.looks += int(lasting.sum())
        told.missed += int((lasting & ~tells).sum())
        at = np.flatnonzero(tells & (look_s > 0.0) & (look_s < until_s))
        told.told_after.append(max(float(since_s[at[0]]), 0.0) / cadence.every_s if len(at) else np.inf)
        told.late.append(float((tells & (look_s > until_s + cadence.every_s)).sum()))
        told.again += max(openings(tells[look_s > 0.0]) - 1, 0)
    return told


def openings(tells: Said) -> int:
    """How often a longer RTT begins to be told."""
    return int((np.diff(tells.astype(np.int8), prepend=0) > 0).sum())


def usual_ms(runs: SimulatedRuns) -> Floats:
    """Of each run."""
    return np.asarray(np.median(runs.figures_ms[:, :USUAL_BURSTS], axis=1))


def tell_by_stretches(runs: SimulatedRuns) -> Said:
    """By the probability that the level of the newest stretch is above the usual RTT by the least rise."""
    return follow(runs)[0]


def follow(runs: SimulatedRuns) -> tuple[Said, Floats]:
    """Whether it is told, and the level of the newest stretch, after each burst."""
    usual = usual_ms(runs)
    limits = usual + least_rise_ms(LEAST_MS, LEAST_RATIO, usual)
    followed, told = DelayFilter(len(limits)), np.zeros(len(limits), dtype=np.bool_)
    rows, said, levels_ms = np.arange(len(limits)), [], []
    spacing_s = np.diff(runs.at_s, axis=1, prepend=runs.at_s[:, :1])
    for at_s, spacing, figures_ms in zip(runs.at_s.T, spacing_s.T, runs.figures_ms.T, strict=True):
        followed.take(rows, at_s, spacing, figures_ms)
        above = followed.above(limits)
        told = np.where(told, above > TOLD_UNTIL, above > TOLD_FROM)
        said.append(told)
        levels_ms.append(followed.stretches[LEVEL, rows, followed.log_weights.argmax(axis=1)])
    return np.stack(said, axis=1), np.stack(levels_ms, axis=1)


@dataclass
class HeldSets:
    """Of 95% sets: how many hold the level and the onset, and the widths of those of the level."""

    looks: int = 0
    level: int = 0
    onset: int = 0
    widths_ms: list[float] = field(default_factory=list)


def score_sets(runs: SimulatedRuns, fault: Fault, cadence: Cadence) -> HeldSets:
    """Of each run at LOOKS_AFTER cycles after the onset of a step; its level is the median of all its bursts."""
    held, followed, count = HeldSets(), DelayFilter(len(runs.at_s)), len(runs.at_s)
    lasting = (runs.at_s >= 0.0) & (runs.at_s + cadence.lasts_s < fault.until_s(cadence))
    level_ms = float(np.median(runs.figures_ms[lasting]))
    for burst, (at_s, figures_ms) in enumerate(zip(runs.at_s.T, runs.figures_ms.T, strict=True)):
        followed.take(np.arange(count), at_s, cadence.every_s, figures_ms)
        if burst - BEFORE_CYCLES not in LOOKS_AFTER:
            continue
        for level in followed.levels(np.arange(count)):
            assert level is not None
            held.looks += 1
            held.level += level.low_ms <= level_ms <= level.high_ms
            held.onset += level.earliest_s - cadence.every_s <= 0.0 <= level.latest_s + cadence.lasts_s
            held.widths_ms.append(level.high_ms - level.low_ms)
    return held


def behind(levels_ms: Floats, runs: SimulatedRuns, fault: Fault, cadence: Cadence) -> float:
    """The share of looks at a fault at which the level is BEHIND_MS below that of FEW cycles ago."""
    ago_s = runs.at_s - FEW * cadence.every_s
    lasting = (ago_s >= 0.0) & (runs.at_s < fault.until_s(cadence))
    true_ms = usual_ms(runs)[:, np.newaxis] + fault.rise_ms(ago_s)
    return float((levels_ms < true_ms - BEHIND_MS)[lasting].mean())


def tell_by_window(runs: SimulatedRuns) -> Said:
    """As the page of now does: by raised bursts, and by a finding of the rule `rtt` until the median of the newest
    bursts is nearer to that before."""
    return np.stack([_tell_by_window(figures_ms) for figures_ms in runs.figures_ms])


def _tell_by_window(figures_ms: Floats) -> Said:
    windows = sliding_window_view(figures_ms, WINDOW)
    is_raised = raised(windows, *np.full((2, len(windows)), [[LEAST_MS], [LEAST_RATIO]])) > 0
    found = {row + WINDOW - 1: change for row, change in detector.raised(windows).items() if _is_asked_for(change)}
    back = SLOW_LAG + np.where(np.arange(WINDOW) < BEFORE, SLOW_GAP, 0)
    ends = np.arange(WINDOW + SLOW_GAP + SLOW_LAG - 1, len(figures_ms))
    slow = figures_ms[ends[:, np.newaxis] + np.arange(1 - WINDOW, 1) - back]
    for row, change in detector.apart(slow).items():
        if change.shift_ms >= LEAST_MS:
            found.setdefault(int(ends[row]), change)
    said, opened, closed = np.zeros(len(figures_ms), dtype=np.bool_), None, -1
    for burst in range(WINDOW - 1, len(figures_ms)):
        if opened is None and burst in found and burst - WINDOW + 1 > closed:
            opened = found[burst]
        if opened is not None:
            said[burst] = not _is_back(figures_ms[burst + 1 - NOW_BURSTS : burst + 1], opened)
            if _is_back(figures_ms[burst + 1 - AFTER : burst + 1], opened):
                opened, closed = None, burst
        said[burst] |= is_raised[burst - WINDOW + 1]
    return said


def _is_asked_for(change: RttChange) -> bool:
    return change.shift_ms >= float(least_rise_ms(LEAST_MS, LEAST_RATIO, change.before_ms))


def _is_back(newest_ms: Floats, change: RttChange) -> bool:
    now_ms = float(np.median(newest_ms))
    return abs(now_ms - change.before_ms) < abs(now_ms - change.after_ms)
