"""Pool the lossy bursts of paths that share a place, for one test. Each window leaves out the worst two neighbouring
steps and pair of hosts, as losses cluster there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.alarms.sequential import EventCounts
from monitor.arrays import Floats

# A cycle at the boundary of two steps has its packet sizes in both.
STEPS_LEFT_OUT = 2


def shared_counts(
    events: Floats, bursts: Floats, base: EventCounts, pairs: Sequence[object]
) -> tuple[EventCounts, EventCounts]:
    """Counts of windows of 1 to all steps, and of their baselines, of shape (steps,).

    `events` and `bursts` have the shape (paths, steps), newest step first, `base` (paths,), weighted by bursts. Paths
    of equal `pairs` are left out together.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(pairs))}
    of_pair = np.array([names[name] for name in pairs], dtype=np.int64)
    ratios = base.events / np.maximum(base.bursts, 1.0)
    newest = EventCounts(np.zeros(events.shape[1]), np.zeros(events.shape[1]))
    usual = EventCounts(np.zeros(events.shape[1]), np.zeros(events.shape[1]))
    for place in range(events.shape[1]):
        steps = _without_worst(events[:, : place + 1].sum(axis=0))
        if not steps.any():
            continue
        had, of = events[:, : place + 1][:, steps].sum(axis=1), bursts[:, : place + 1][:, steps].sum(axis=1)
        is_kept = of_pair != np.bincount(of_pair, weights=had, minlength=len(names)).argmax()
        total = of[is_kept].sum()
        if total > 0:
            newest.events[place], newest.bursts[place] = had[is_kept].sum(), total
            usual.bursts[place] = base.bursts[is_kept].sum()
            usual.events[place] = usual.bursts[place] * (of[is_kept] * ratios[is_kept]).sum() / total
    return newest, usual


def _without_worst(events: Floats) -> NDArray[np.bool_]:
    """Mask without the neighbouring steps with most events together."""
    is_kept = np.ones(len(events), dtype=np.bool_)
    if len(events) <= STEPS_LEFT_OUT:
        return ~is_kept
    together = events[:-1] + events[1:]
    first = int(together.argmax())
    is_kept[first : first + STEPS_LEFT_OUT] = False
    return is_kept
