"""Figures of raw bursts over each path's own window, without packets sent during throughput tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from monitor.analysis.summaries import BurstFigures, burst_figures
from monitor.analysis.tcp import mathis_estimate
from monitor.archive.columns import nullable
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.tables import GridCell
from monitor.archive.round_trips import unpack_groups
from monitor.archive.statements import check_raw_period, run_statement
from monitor.prepared import array_text

# Metrics of counts alone, computed without RTTs.
COUNTED = frozenset({
    Metric.LOSS, Metric.LOSS_FLOOR, Metric.DUPLICATES, Metric.OUT_OF_ORDER, Metric.LATE, Metric.UNREACHABILITY,
    Metric.ZERO_LOSS,
})  # fmt: skip
# Metrics that need more than bursts.
OF_WHOLE_HOURS = frozenset({Metric.ALPHA, Metric.COVERAGE, Metric.THROUGHPUT})

_OF_ROUND_TRIPS = tuple(field.name for field in fields(BurstFigures) if not field.name.endswith("_sketch"))
_FIGURES = ("loss_max_ratio", *_OF_ROUND_TRIPS)
_COUNTS = (
    "bursts", "bursts_all_lost", "bursts_none_lost", "bursts_during_test", "bursts_not_measured", "bursts_duplicated",
    "bursts_reordered", "sent", "received", "late", "duplicates", "reordered",
)  # fmt: skip
_CELL = (
    "bursts", "bursts_all_lost", "bursts_during_test", "bursts_not_measured", "sent", "received",
)  # fmt: skip


FRESH_CYCLES = 3
# Delay from a cycle to its burst's arrival: its packets, their timeout, and the agent's delivery.
DELIVERY_S = 15.0

# Columns of a summary by name, a value for each path; `path_id` is the path's.
Columns = dict[str, list[Any]]


def fresh_s(every_s: float) -> float:
    """Maximum age of a path's newest burst for present figures."""
    return FRESH_CYCLES * every_s + DELIVERY_S


def grid(metric: Metric, begins: Mapping[int, datetime], until: datetime, packet_bytes: int) -> list[GridCell]:
    """Metric of each path with a burst since its moment. Raises `ValueError` for metrics beyond bursts."""
    if metric in OF_WHOLE_HOURS:
        raise ValueError(f"{metric} is not made of bursts alone: ask for a period of whole hours")
    value = "NULL" if metric not in COUNTED else metric.sql
    columns = _counts(begins, until, packet_bytes, value=value)
    values = columns["value"]
    if metric not in COUNTED:
        values = _values(metric, {**columns, **_figures(columns)})
    rows = zip(columns["path_id"], values, *(columns[name] for name in _CELL), strict=True)
    return [GridCell(path_id, packet_bytes, value, *counts) for path_id, value, *counts in rows]


def summary(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> PathSummary | None:
    """Figures of a path over a day at most, exact to the burst; None without bursts."""
    check_raw_period(since, until)
    columns = _counts({path_id: since}, until, packet_bytes, value="NULL")
    if not columns["path_id"]:
        return None
    row = {name: values[0] for name, values in {**columns, **_figures(columns)}.items()}
    rate_bps, is_floor = None, None
    if row["rtt_avg_ms"] is not None:
        estimates, floors = mathis_estimate(row["rtt_avg_ms"], row["sent"], row["received"])
        rate_bps, is_floor = float(estimates), bool(floors)
    named = {field.name: row[field.name] for field in fields(PathSummary) if field.name in row}
    return PathSummary(**named, packet_bytes=packet_bytes, estimate_bps=rate_bps, estimate_is_floor=is_floor)


def _counts(begins: Mapping[int, datetime], until: datetime, packet_bytes: int, *, value: str) -> Columns:
    with_rtts = value == "NULL"
    names, rows = run_statement(
        "recent",
        {
            "value": value,
            "packets": "string_agg(int2send(packets), '') FILTER (WHERE counts)" if with_rtts else "NULL",
            "rtts": "string_agg(array_send(rtts_ms), '') FILTER (WHERE counts)" if with_rtts else "NULL",
        },
        path_ids=array_text(begins),
        begins=array_text(begins.values()),
        since=min(begins.values(), default=until),
        until=until,
        packet_bytes=packet_bytes,
    )
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _figures(columns: Columns) -> Columns:
    group, packets, rtts_ms = unpack_groups(columns["packets"], columns["rtts"])
    figures = burst_figures(group, rtts_ms, packets, len(columns["packets"]))
    return {name: list(nullable(getattr(figures, name))) for name in _OF_ROUND_TRIPS}


def _values(metric: Metric, columns: Columns) -> list[float | None]:
    """Compute the metric by the summaries' SQL formula."""
    if metric.sql in columns:
        return columns[metric.sql]
    # Only the columns of the formula: each is sent as text of all paths.
    words = set(re.findall(r"\w+", metric.sql))
    kinds = {**dict.fromkeys(_COUNTS, "bigint"), **dict.fromkeys(_FIGURES, "double precision")}
    names = [name for name in kinds if name in words] or [_COUNTS[0]]
    arrays = [f"%({name})s::{kinds[name]}[]" for name in names]
    parts = {"value": metric.sql, "arrays": ", ".join(arrays), "columns": ", ".join(names)}
    _, rows = run_statement("metric_of_rows", parts, **{name: array_text(columns[name]) for name in names})
    return [value for (value,) in rows]
