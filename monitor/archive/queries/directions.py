"""Loss and delay by direction, from measured STAMP cycles outside throughput tests.

Loss is None without a counter of the reflector. The true delay lies between `…_delay_lo_ms` and `…_delay_hi_ms`; other
delays are raw, by both ends' clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from monitor.analysis.directions import DirectionLosses, OneWayDelays
from monitor.archive.periods import cover, start_of
from monitor.archive.queries.paths import RAW_STEP_S, series_tier
from monitor.archive.statements import (
    LONGEST_RAW,
    check_period,
    check_raw_period,
    columns,
    records,
    run_statement,
    select,
    statement,
)
from monitor.prepared import array_text


@dataclass(frozen=True, slots=True)
class DirectionPoint:
    """Interval of a path's directions; delays are means of cycle medians."""

    at: datetime
    sent: int
    received: int
    counted: int
    forward_lost: int
    reverse_lost: int
    forward_loss_ratio: float | None
    reverse_loss_ratio: float | None
    forward_min_ms: float | None
    forward_avg_ms: float | None
    forward_delay_lo_ms: float | None
    forward_delay_hi_ms: float | None
    forward_variation_ms: float | None
    reverse_min_ms: float | None
    reverse_avg_ms: float | None
    reverse_delay_lo_ms: float | None
    reverse_delay_hi_ms: float | None
    reverse_variation_ms: float | None


@dataclass(frozen=True, slots=True)
class DirectionSeries:
    """Directions over time, in steps of `step_s` aligned to the epoch."""

    path_id: int
    step_s: int
    points: tuple[DirectionPoint, ...]


@dataclass(frozen=True, slots=True)
class RawDirection:
    """STAMP cycle of a path, with the columns of the cycles' CSV."""

    at: datetime
    test: str
    packet_bytes: int
    outcome: str
    during_test: bool
    sent: int
    received: int
    undecided: int
    is_stateful: bool | None
    forward_lost: int | None
    forward_duplicates: int | None
    forward_reordered: int | None
    forward_ttl: int | None
    forward_min_ms: float | None
    forward_median_ms: float | None
    forward_p95_ms: float | None
    forward_max_ms: float | None
    forward_ipdv_ms: float | None
    reverse_lost: int | None
    reverse_duplicates: int | None
    reverse_reordered: int | None
    reverse_ttl: int | None
    reverse_min_ms: float | None
    reverse_median_ms: float | None
    reverse_p95_ms: float | None
    reverse_max_ms: float | None
    reverse_ipdv_ms: float | None
    offset_lo_ms: float | None
    offset_hi_ms: float | None
    are_clocks_synchronised: bool | None
    peer_packets: int | None
    dscp: int
    source_address: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class DirectionFigures:
    """Both directions over a period; delay intervals are None without timestamps."""

    counted: int
    forward_lost: int
    reverse_lost: int
    undecided: int  # lost in an unknown direction, and not counted
    forward_delay_lo_ms: float | None
    forward_delay_hi_ms: float | None
    reverse_delay_lo_ms: float | None
    reverse_delay_hi_ms: float | None


@dataclass(frozen=True, slots=True)
class DirectionCounter:
    path_id: int
    counted: int
    forward_lost: int
    reverse_lost: int


def direction_series(path_id: int, since: datetime, until: datetime) -> DirectionSeries:
    """Directions of a path by minute up to a day, else by hour, day or month."""
    check_period(since, until)
    parameters = {"path_id": path_id, "until": until}
    if until - since <= LONGEST_RAW:
        points = select(DirectionPoint, "directions_from_raw", **parameters, since=since, step_s=RAW_STEP_S)
        return DirectionSeries(path_id, RAW_STEP_S, tuple(points))
    tier = series_tier(since, until)
    names, rows = run_statement(
        "directions_from_summaries",
        {**columns(DirectionPoint), "tier": tier.tier},
        **parameters,
        since=start_of(tier.tier, since),
    )
    return DirectionSeries(path_id, tier.step_s, tuple(records(DirectionPoint, names, rows)))


def raw_directions(path_id: int, since: datetime, until: datetime) -> list[RawDirection]:
    """All STAMP cycles that began in the period, oldest first. Raises `ValueError` for more than a day."""
    check_raw_period(since, until)
    return select(RawDirection, "raw_directions", path_id=path_id, since=since, until=until)


@dataclass(frozen=True, slots=True)
class PathStretch:
    path_id: int
    begin: datetime
    end: datetime


def direction_counts(
    since: datetime, until: datetime, path_ids: Sequence[int], left_out: Sequence[PathStretch] = ()
) -> dict[int, DirectionLosses]:
    """Counts of each path with a counting reflector, in a day at most, without the stretches `left_out`."""
    check_raw_period(since, until)
    stretches = {
        "left_out_paths": [stretch.path_id for stretch in left_out],
        "left_out_begins": [stretch.begin for stretch in left_out],
        "left_out_ends": [stretch.end for stretch in left_out],
    }
    return _counts(*run_statement("direction_counts", since=since, until=until, path_ids=list(path_ids), **stretches))


def direction_counts_since(begins: Mapping[int, datetime], until: datetime) -> dict[int, DirectionLosses]:
    """As `direction_counts`, since each path's moment."""
    if not begins:
        return {}
    names, rows = run_statement(
        "direction_counts_since",
        path_ids=array_text(begins),
        begins=array_text(begins.values()),
        since=min(begins.values()),
        until=until,
    )
    return _counts(names, rows)


def direction_totals(since: datetime, until: datetime, path_ids: Sequence[int]) -> dict[int, DirectionLosses]:
    """As `direction_counts`, from summaries, for any length."""
    check_period(since, until)
    pieces, parameters = _pieces(since, until, path_ids)
    return _counts(*run_statement("direction_totals", {"pieces": pieces}, **parameters)) if pieces else {}


def direction_figures(path_id: int, since: datetime, until: datetime) -> DirectionFigures | None:
    """Summarize both directions over a period; None without a STAMP cycle."""
    check_period(since, until)
    pieces, parameters = _pieces(since, until, [path_id])
    if not pieces:
        return None
    parts = {**columns(DirectionFigures), "pieces": pieces}
    rows = records(DirectionFigures, *run_statement("direction_figures", parts, **parameters))
    return rows[0] if rows else None


def _pieces(since: datetime, until: datetime, path_ids: Sequence[int]) -> tuple[str, dict[str, Any]]:
    parameters: dict[str, Any] = {"path_ids": list(path_ids)}
    pieces = []
    for number, stretch in enumerate(cover(since, until, timezone.now())):
        parameters |= {f"since_{number}": stretch.since, f"until_{number}": stretch.until}
        pieces.append(statement("piece_of_directions", tier=stretch.tier, number=str(number)))
    return "\nUNION ALL\n".join(pieces), parameters


def _counts(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[int, DirectionLosses]:
    return {path_id: DirectionLosses(*map(int, counts)) for path_id, *counts in rows}


def peer_arrivals(since: datetime, until: datetime, path_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By path, cycles (after the first) that report the far end's packets at our reflector, and those with any."""
    check_raw_period(since, until)
    _, rows = run_statement("peer_arrivals", since=since, until=until, path_ids=list(path_ids))
    return {path_id: (cycles, with_packets) for path_id, cycles, with_packets in rows}


def one_way_delays(since: datetime, until: datetime, path_ids: Sequence[int]) -> Mapping[int, OneWayDelays]:
    """Raw median delays of the cycles of a day at most, by path and time."""
    check_raw_period(since, until)
    _, rows = run_statement("one_way_delays", since=since, until=until, path_ids=list(path_ids))
    return {path_id: OneWayDelays(forward_ms, reverse_ms) for path_id, forward_ms, reverse_ms in rows}


def direction_counters(now: datetime, path_ids: Sequence[int]) -> dict[int, DirectionCounter]:
    counters = select(DirectionCounter, "direction_counters", since=start_of("day", now), path_ids=list(path_ids))
    return {counter.path_id: counter for counter in counters}
