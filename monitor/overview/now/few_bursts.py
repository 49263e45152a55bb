"""Paths of which too few results have arrived to call them normal: they were measured for a part of the time of now.

In: the figures of now with the interval of each path's tests, and the time that they are of. Out: the paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.overview.path_figures import PathFigures

ENOUGH = 0.5
"""Share of the bursts of now, of five minutes or more: fewer exclude hardly any loss."""


def with_few_bursts(
    figures: Iterable[PathFigures], every_s: Mapping[int, int], length_s: float, cycles: int
) -> frozenset[int]:
    """Those with a figure and fewer than half of the bursts of `length_s`, or of so many `cycles` where these are
    longer. Bursts of any outcome count: those during throughput tests tell that the path is not new."""
    intervals_s = set(every_s.values())
    least = {every: ENOUGH * max(length_s / every, cycles) for every in intervals_s}
    return frozenset(
        path.path_id
        for path in figures
        if (path.bursts_arrived or 0) < least[every_s[path.path_id]] and path.has_figure
    )
