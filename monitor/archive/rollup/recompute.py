"""Compute hourly summaries from raw results, and longer summaries by merging the next smaller tier.

Whole summaries are recomputed, so late and duplicate data give the same rows. SQL counts; `monitor.analysis` computes
figures (ADR 0005).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import Any

import numpy as np
from django.db import connection, models, transaction

from monitor.analysis.sketches import IPDV_MS, RATE_BPS, RTT_MS, Sketches
from monitor.analysis.summaries import QUANTILE_SHARES, burst_figures, grouped_quantiles, slot_minima
from monitor.archive.columns import nullable
from monitor.archive.models import (
    BurstDay,
    BurstHour,
    BurstMonth,
    BurstYear,
    DirectionDay,
    DirectionHour,
    DirectionMonth,
    DirectionYear,
    ThroughputDay,
    ThroughputHour,
    ThroughputMonth,
    ThroughputTest,
    ThroughputYear,
)
from monitor.archive.periods import SLOTS_AN_HOUR, end_of, next_start, start_of
from monitor.archive.round_trips import unpack_groups, unpack_numbers
from monitor.archive.statements import optional_list, statement
from monitor.arrays import Floats
from monitor.mesh.kinds import stored_in
from monitor.prepared import array_text

HOUR = timedelta(hours=1)
LAG_TO_WARN_OF = timedelta(minutes=1)
PATIENCE_A_PATH, SHORTEST_PATIENCE = timedelta(milliseconds=3), timedelta(seconds=10)
# With more paths the patience of the tiers grows with their number.
PATHS_OF_TIERS = 20_000
# Computed while the summaries are stored, from their other columns.
STORED_EXPRESSIONS = {
    "estimate_bps": "reporting.mathis_estimate_bps(rtt_avg_ms, sent, received)",
    "estimate_is_floor": "reporting.mathis_estimate_is_floor(rtt_avg_ms, sent, received)",
}
LOADED_SHARES = (0.5, 0.95)
RTT_QUANTILES = ("rtt_p25_ms", "rtt_median_ms", "rtt_p75_ms", "rtt_p90_ms", "rtt_p95_ms")
LOADED_QUANTILES = ("loaded_rtt_median_ms", "loaded_rtt_p95_ms")
RATE_QUANTILES = ("throughput_median_bps",)
# Relative error of quantiles from sketches of RTTs and rates, with room for rounding.
BUCKET_ERROR = (RTT_MS.growth - 1) / (RTT_MS.growth + 1) * (1 + 1e-6)

# path_id, start of the period, and time when it was marked dirty.
Mark = tuple[int, datetime, datetime]
# Columns of a table by name, as lists of equal length.
Columns = dict[str, Sequence[Any]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tier:
    """Size of summaries merged from smaller summaries."""

    name: str
    smaller: str
    patience: timedelta  # minimum age of marks, since new bursts reopen running periods; none without summary
    # SQL expression over the smaller tier for the worst loss.
    loss_max_ratio: str
    bursts: type[models.Model]
    throughput: type[models.Model]
    directions: type[models.Model]

    @property
    def names(self) -> dict[str, str]:
        return {"tier": self.name, "smaller": self.smaller}


WORST_HOUR = "(sent - received)::real / nullif(sent, 0)"
TIERS = (
    Tier("day", "hour", timedelta(minutes=10), WORST_HOUR, BurstDay, ThroughputDay, DirectionDay),
    Tier("month", "day", timedelta(hours=1), "loss_max_ratio", BurstMonth, ThroughputMonth, DirectionMonth),
    Tier("year", "month", timedelta(hours=6), "loss_max_ratio", BurstYear, ThroughputYear, DirectionYear),
)


@dataclass(frozen=True, slots=True)
class RecomputeProgress:
    what: str
    count: int


def hour_patience(paths: int) -> timedelta:
    """Age at which hour marks are processed, limiting recomputation to a fifth of a core for any number of paths."""
    # Each cycle reopens the running hour of its path, which is then computed from all its bursts so far.
    wait = paths * PATIENCE_A_PATH
    return wait if wait >= SHORTEST_PATIENCE else timedelta()


def tier_patience(tier: Tier, paths: int) -> timedelta:
    """Age at which this tier's marks are processed where a summary exists."""
    return tier.patience * max(1.0, paths / PATHS_OF_TIERS)


def roll_up(now: datetime, limit: int = 5000, patience: timedelta = timedelta()) -> int:
    """Compute up to `limit` dirty hours in a transaction, newest first; return their number. Ingest of these hours
    waits meanwhile, so keep `limit` small."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            statement("take_dirty_hours"), {"limit": limit, "marked_by": now - patience if patience else None}
        )
        marks: list[Mark] = cursor.fetchall()
        if marks:
            _compute_hours(cursor, marks)
            _mark(cursor, TIERS[0].name, marks, now)
    _warn_of_lag(marks, now - patience)
    return len(marks)


def merge(tier: Tier, now: datetime, limit: int = 5000, patience: timedelta | None = None) -> int:
    """Compute up to `limit` dirty summaries in a transaction, oldest marks first; return their number."""
    marked_by = now - (tier.patience if patience is None else patience)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement("take_dirty_summaries", tier=tier.name), {"marked_by": marked_by, "limit": limit})
        marks: list[Mark] = cursor.fetchall()
        if marks:
            _compute_merged(cursor, tier, marks)
            for larger in TIERS:
                if larger.smaller == tier.name:
                    _mark(cursor, larger.name, marks, now)
    return len(marks)


def recompute(
    since: datetime, until: datetime, now: datetime, path_ids: Sequence[int] | None = None, limit: int = 500
) -> Iterator[RecomputeProgress]:
    """Recompute all summaries of the period, extended to whole periods of each tier; yield progress after each
    transaction.

    Raises `ValueError` for a reversed period.
    """
    if since > until:
        raise ValueError(f"the period ends, {until.isoformat()}, before it begins, {since.isoformat()}")
    parameters = {"path_ids": optional_list(path_ids), "now": now}
    day = start_of("day", since)
    while day < until:
        following = next_start("day", day)
        bounds = {"since": max(day, start_of("hour", since)), "until": min(following, end_of("hour", until))}
        # Hours without raw results stay unchanged, since their data were deleted.
        _execute("mark_hours_with_raw", **parameters, **bounds)
        yield RecomputeProgress("days searched", 1)
        day = following
    while done := roll_up(now, limit):
        yield RecomputeProgress("hours", done)
    for tier in TIERS:
        bounds = {"since": start_of(tier.name, since), "until": end_of(tier.name, until)}
        _execute("mark_tier_with_smaller", tier.names, **parameters, **bounds)
        while done := merge(tier, now, limit, timedelta(0)):
            yield RecomputeProgress(f"{tier.name}s", done)


def _execute(name: str, parts: Mapping[str, str] | None = None, /, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement(name, **(parts or {})), parameters)


def _warn_of_lag(marks: list[Mark], due_at: datetime) -> None:
    lag = max((due_at - marked_at for _, _, marked_at in marks), default=timedelta())
    if lag > LAG_TO_WARN_OF:
        logger.warning(
            "rollups lag %.0f s behind deliveries; is the worker overloaded, or was it down?",
            lag.total_seconds(),
        )


def _mark(cursor: Any, tier: str, marks: list[Mark], now: datetime) -> None:
    path_ids, starts, _ = zip(*marks, strict=True)
    parameters = {"path_ids": list(path_ids), "starts": list(starts), "now": now}
    cursor.execute(statement("mark_larger", tier=tier), parameters)


def _compute_hours(cursor: Any, marks: list[Mark]) -> None:
    path_ids, hours, _ = zip(*sorted(marks), strict=True)
    parameters = {"path_ids": list(path_ids), "hours": list(hours), "since": min(hours), "until": max(hours) + HOUR}
    bursts = _fetch(cursor, _with_plan("raw_of_hours", "planned_bursts", tier="hour"), parameters)
    if bursts:
        _store(cursor, BurstHour, {**bursts, **_burst_rows(bursts)})
    text = _with_plan("throughput_of_hours", "planned_slots", tier="hour")
    tests = _fetch(cursor, text, parameters | _throughput_kinds())
    if tests:
        _store(cursor, ThroughputHour, {**tests, **_test_rows(tests)})
    directions = _fetch(cursor, statement("directions_of_hours"), parameters)
    if directions:
        _store(cursor, DirectionHour, directions)


def _compute_merged(cursor: Any, tier: Tier, marks: list[Mark]) -> None:
    path_ids, starts, _ = zip(*sorted(marks), strict=True)
    parameters = {"path_ids": list(path_ids), "starts": list(starts), "since": min(starts), "until": max(starts)}
    ranges = _part_ranges((*RTT_QUANTILES, *LOADED_QUANTILES))
    parts = {**tier.names, "loss_max_ratio": tier.loss_max_ratio, "ranges": ranges}
    text = _with_plan("merge_of_smaller", "planned_bursts", **parts)
    bursts = _fetch(cursor, text, parameters)
    if bursts:
        _store(cursor, tier.bursts, {**bursts, **_sketch_columns(bursts)})
    text = _with_plan("merge_of_smaller_throughput", "planned_slots", **tier.names, ranges=_part_ranges(RATE_QUANTILES))
    tests = _fetch(cursor, text, parameters | _throughput_kinds())
    if tests:
        _store(cursor, tier.throughput, {**tests, **_throughput_sketch_columns(tests)})
    directions = _fetch(cursor, statement("merge_of_smaller_directions", **tier.names), parameters)
    if directions:
        _store(cursor, tier.directions, directions)


def _throughput_kinds() -> dict[str, list[str]]:
    return {"throughput_kinds": stored_in(ThroughputTest._meta.db_table)}


def _with_plan(name: str, plan: str, **parts: str) -> str:
    return statement(name, planned=statement(plan, tier=parts["tier"]), **parts)


def _burst_rows(rows: Columns) -> Columns:
    group, packets, rtts_ms = unpack_groups(rows["packets"], rows["rtts"])
    figures = burst_figures(group, rtts_ms, packets, len(rows["packets"]))
    columns: Columns = {}
    for field in fields(figures):
        value = getattr(figures, field.name)
        columns[field.name] = value.to_bytes() if isinstance(value, Sketches) else nullable(value)
    minima_ms = slot_minima(group, unpack_numbers(rows["slots"]), rtts_ms, len(rows["packets"]), SLOTS_AN_HOUR)
    columns["slot_minima_ms"] = [
        array_text(nullable(of_hour)) if has_any else None
        for of_hour, has_any in zip(minima_ms, (~np.isnan(minima_ms)).max(axis=1).tolist(), strict=True)
    ]
    return columns | _loaded_rows(rows)


def _loaded_rows(rows: Columns) -> Columns:
    group, packets, rtts_ms = unpack_groups(rows["loaded_packets"], rows["loaded_rtts"])
    hours, of_packet = len(rows["packets"]), np.repeat(group, rtts_ms.shape[1])
    sent = np.bincount(group, weights=packets, minlength=hours)
    received = np.bincount(group, weights=(~np.isnan(rtts_ms)).sum(axis=1), minlength=hours)
    median_ms, p95_ms = grouped_quantiles(of_packet, rtts_ms.ravel(), hours, LOADED_SHARES)
    return {
        "loaded_sent": [int(count) or None for count in sent],
        "loaded_received": [int(count) if of else None for count, of in zip(received, sent, strict=True)],
        "loaded_rtt_median_ms": nullable(median_ms),
        "loaded_rtt_p95_ms": nullable(p95_ms),
        "loaded_rtt_sketch": Sketches.of_values(of_packet, rtts_ms.ravel(), hours, RTT_MS).to_bytes(),
    }


def _sketch_columns(rows: Columns) -> Columns:
    rtt, ipdv = Sketches.of_bytes(rows["rtt_sketch"]), Sketches.of_bytes(rows["ipdv_sketch"])
    least, greatest = (np.array(rows[name], dtype=np.float64) for name in ("rtt_min_ms", "rtt_max_ms"))
    quantiles = _within_parts(rtt.quantiles(QUANTILE_SHARES, RTT_MS).T.clip(least, greatest), RTT_QUANTILES, rows)
    lower, upper = ipdv.quantiles((0.25, 0.75), IPDV_MS).T
    loaded = Sketches.of_bytes(rows["loaded_rtt_sketch"])
    loaded_median_ms, loaded_p95_ms = _within_parts(loaded.quantiles(LOADED_SHARES, RTT_MS).T, LOADED_QUANTILES, rows)
    return {
        **{name: nullable(values) for name, values in zip(RTT_QUANTILES, quantiles, strict=True)},
        "ipdv_ms": nullable(upper - lower),
        "rtt_sketch": rtt.to_bytes(),
        "ipdv_sketch": ipdv.to_bytes(),
        "loaded_rtt_median_ms": nullable(loaded_median_ms),
        "loaded_rtt_p95_ms": nullable(loaded_p95_ms),
        "loaded_rtt_sketch": loaded.to_bytes(),
    }


def _within_parts(quantiles: Floats, names: Sequence[str], rows: Columns) -> Floats:
    """Clamp quantiles to their parts' range, by at most a bucket's error."""
    least, greatest = (np.array([rows[f"{name}_{end}"] for name in names], np.float64) for end in ("least", "greatest"))
    moved = quantiles.clip(least, greatest)
    return np.where(np.abs(moved - quantiles) <= quantiles * BUCKET_ERROR, moved, quantiles)


def _part_ranges(names: Sequence[str]) -> str:
    return ", ".join(f"min({name}) AS {name}_least, max({name}) AS {name}_greatest" for name in names)


def _test_rows(rows: Columns) -> Columns:
    rates_of: Sequence[list[float]] = rows["rates_bps"]
    group = np.repeat(np.arange(len(rates_of)), [len(rates_bps) for rates_bps in rates_of])
    sketches = Sketches.of_values(group, [rate for rates in rates_of for rate in rates], len(rates_of), RATE_BPS)
    return {
        "throughput_min_bps": [min(rates_bps, default=None) for rates_bps in rates_of],
        "throughput_median_bps": [median(rates_bps) if rates_bps else None for rates_bps in rates_of],
        "throughput_max_bps": [max(rates_bps, default=None) for rates_bps in rates_of],
        "throughput_avg_bps": [fmean(rates_bps) if rates_bps else None for rates_bps in rates_of],
        "throughput_sketch": sketches.to_bytes(),
    }


def _throughput_sketch_columns(rows: Columns) -> Columns:
    sketches = Sketches.of_bytes(rows["throughput_sketch"])
    bounds = [np.array(rows[f"throughput_{name}_bps"], dtype=np.float64) for name in ("min", "max")]
    [medians] = _within_parts(sketches.quantiles((0.5,), RATE_BPS).T.clip(*bounds), RATE_QUANTILES, rows)
    return {"throughput_median_bps": nullable(medians), "throughput_sketch": sketches.to_bytes()}


def _fetch(cursor: Any, text: str, parameters: Mapping[str, Any]) -> Columns:
    cursor.execute(text, parameters)
    rows = cursor.fetchall()
    names = [column.name for column in cursor.description]
    return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}


def _store(cursor: Any, model: type[models.Model], columns: Columns) -> None:
    names = [field.attname for field in model._meta.concrete_fields]
    keys = [field.attname for field in model._meta.pk_fields]
    staged = [name for name in names if name not in STORED_EXPRESSIONS]
    parts = {
        "table": model._meta.db_table,
        "columns": ", ".join(names),
        "staged": ", ".join(staged),
        "values": ", ".join(STORED_EXPRESSIONS.get(name, name) for name in names),
        "keys": ", ".join(keys),
        "updates": ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys),
    }
    cursor.execute(statement("staged_summary", table=parts["table"]))
    with cursor.copy(f"COPY staged_{parts['table']} ({parts['staged']}) FROM STDIN") as copy:
        for row in zip(*(columns[name] for name in staged), strict=True):
            copy.write_row(row)
    cursor.execute(statement("store_summaries", **parts))
