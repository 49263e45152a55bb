"""Paths that have too few results to be called normal, such as those of a new mesh.

In: the figures of now, the interval of each path's tests, and the period of these figures. Out: the paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.overview.path_figures import PathFigures

ENOUGH = 0.5
"""Share of the bursts expected in the period of now, which is ten minutes or more: fewer rule out hardly any loss."""


def with_few_bursts(
    figures: Iterable[PathFigures], every_s: Mapping[int, int], length_s: float, cycles: int
) -> frozenset[int]:
    """The paths with a figure and fewer than half of the bursts expected in `length_s`, or in so many `cycles` where
    that is longer. Bursts of any outcome count: those during throughput tests show that the path is not new."""
    intervals_s = set(every_s.values())
    least = {every: ENOUGH * max(length_s / every, cycles) for every in intervals_s}
    return frozenset(
        path.path_id
        for path in figures
        if (path.bursts_arrived or 0) < least[every_s[path.path_id]] and path.has_figure
    )
