"""Paths that share a place, pooled for one test: so many lossy bursts of all of them, apart from the worst ones.

In: lossy bursts of each path by steps of the last hour, and their baselines. Out: the counts of each window of these
steps, and those of the baseline that the paths would have there.

Packets are lost together, also across paths: an interruption of a site hits all of its paths in the same cycle, and
trouble of two hosts both of their directions. So of each window are left out the two neighbouring steps and the pair of
hosts with most events. Loss that all paths share goes on without them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.alarms.sequential import EventCounts

Floats = NDArray[np.float64]

STEPS_LEFT_OUT = 2
"""A cycle at the boundary of two steps has its packet sizes in both."""


def shared_counts(
    events: Floats, bursts: Floats, base: EventCounts, pairs: Sequence[object]
) -> tuple[EventCounts, EventCounts]:
    """Counts of the windows of 1 to all steps, and of the baseline for each of them, all of shape (steps,).

    `events` and `bursts` have the shape (paths, steps), newest step first, `base` (paths,). `pairs` has the same value
    for paths that are left out together. The baseline's ratio is the mean of the paths', weighted by their bursts.
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
    """A mask of the steps without those neighbours that have most events together."""
    is_kept = np.ones(len(events), dtype=np.bool_)
    if len(events) <= STEPS_LEFT_OUT:
        return ~is_kept
    together = events[:-1] + events[1:]
    first = int(together.argmax())
    is_kept[first : first + STEPS_LEFT_OUT] = False
    return is_kept
