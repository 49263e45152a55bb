"""Words for packets other than pings, and STAMP losses by direction, for a grid's figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.analysis.directions import DirectionLosses
from monitor.archive.queries.directions import direction_counts_since, direction_totals
from monitor.mesh.kinds import stored_in
from monitor.mesh.models import KindName, Test
from monitor.mesh.queries import words_for_packets
from monitor.overview.path_figures import FigureState, PathFigures

PINGS = "ping"


def other_packets(links: Sequence[tuple[int, int]], tests: Mapping[int, Test]) -> tuple[dict[int, str], set[int]]:
    """Words for packets other than pings by path, and the paths with a test that counts each direction."""
    if all(test.kind in (KindName.PING, KindName.THROUGHPUT) for test in tests.values()):
        return {}, set()
    words = words_for_packets((path_id, tests[key].kind, tests[key].parameters) for path_id, key in links)
    others = {path_id: by for path_id, by in words.items() if by != PINGS}
    counting = stored_in("direction_burst")
    return others, {path_id for path_id, key in links if tests[key].kind in counting}


def with_words(figures: tuple[PathFigures, ...], words: Mapping[int, str]) -> tuple[PathFigures, ...]:
    if not words:
        return figures
    return tuple(replace(path, measured_by=words[path.path_id]) if path.path_id in words else path for path in figures)


def with_directions_over(
    figures: tuple[PathFigures, ...], path_ids: Collection[int], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """Add direction counts of the hours overlapping the period to the figures of `path_ids`."""
    return _with_counts(figures, direction_totals(since, until, sorted(path_ids)))


def with_directions_now(
    figures: tuple[PathFigures, ...], path_ids: Collection[int], begins: Mapping[int, datetime], until: datetime
) -> tuple[PathFigures, ...]:
    """Add direction counts since the path's moment in `begins` to the figures of `path_ids`."""
    windows = {path.path_id: begins[path.path_id] for path in figures if path.path_id in path_ids}
    return _with_counts(figures, direction_counts_since(windows, until))


def _with_counts(figures: tuple[PathFigures, ...], counts: Mapping[int, DirectionLosses]) -> tuple[PathFigures, ...]:
    # None for a path that is down: earlier counts say nothing.
    return tuple(
        replace(path, directions=counts[path.path_id])
        if path.path_id in counts and path.state is not FigureState.TOTAL_LOSS and counts[path.path_id].sent
        else path
        for path in figures
    )
