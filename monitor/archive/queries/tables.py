"""Grid, worst paths, and tables of many paths; periods are half open, extended as in `monitor.archive.periods`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from monitor.analysis.loss import loss_bound_ratio
from monitor.archive.periods import SETTLED_AFTER, next_start, start_of
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.pooling import medians_of, pooled, quantiles_of
from monitor.archive.statements import check_period, records, run_statement, statement

POOLED_QUANTILES = (Metric.RTT_P25, Metric.RTT_MEDIAN, Metric.RTT_P75, Metric.RTT_P90)
# Metrics of a day or longer that only its rollup has; all others can be pooled from shorter summaries.
FROM_SKETCHES = frozenset({*POOLED_QUANTILES, Metric.RTT_P95, Metric.IPDV, Metric.MOS})
ROLLED_UP = FROM_SKETCHES | {Metric.LOSS_MAX}


class Grouping(StrEnum):
    NODE = "node"
    SITE = "site"
    COUNTRY = "country"
    REGION = "region"
    GROUP = "group"


class Tick(StrEnum):
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


_ENDS = {
    Grouping.NODE: ("source_host.name", "destination_host.name"),
    Grouping.SITE: ("here.name", "there.name"),
    Grouping.COUNTRY: ("here.country", "there.country"),
    Grouping.REGION: ("here.region", "there.region"),
    Grouping.GROUP: ("source_group.name", "destination_group.name"),
}


@dataclass(frozen=True, slots=True)
class GridCell:
    """Metric of a path and size over a period, None where undefined, with counts."""

    path_id: int
    packet_bytes: int
    value: float | None
    bursts: int
    bursts_all_lost: int
    bursts_during_test: int
    bursts_not_measured: int
    sent: int
    received: int

    @property
    def loss_ratio(self) -> float | None:
        return None if self.sent == 0 else (self.sent - self.received) / self.sent


@dataclass(frozen=True, slots=True)
class TableCell:
    """Median of a metric over paths from `source` to `destination`."""

    source: str
    destination: str
    at: datetime
    value: float
    paths: int
    loss_bound_ratio: float | None = None  # upper 95% bound 3/N of a loss of 0; N: median sent
    has_outage: bool = False  # a path lost some bursts entirely, not all


def grid(
    metric: Metric,
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None = None,
    path_ids: Sequence[int] | None = None,
) -> list[GridCell]:
    """Metric of each path and packet size with data.

    Over several summaries, a median is the median of medians weighted by packets received, P95 their maximum. Raises
    `ValueError` for throughput: use `throughput_summaries`.
    """
    check_period(since, until)
    if metric is Metric.THROUGHPUT:
        raise ValueError("throughput is measured without packet sizes; use throughput_summaries")
    is_quantile = metric in POOLED_QUANTILES
    text, parameters = pooled(
        since,
        until,
        packet_bytes=packet_bytes,
        path_ids=path_ids,
        quantile=metric.value if is_quantile else Metric.RTT_MEDIAN.value,
        by_plan_at=timezone.now() if metric is Metric.COVERAGE else None,
    )
    names, rows = run_statement(
        "grid",
        {
            "pooled": text,
            "value": "NULL" if is_quantile else f"({metric.sql})::double precision",
            "quantiles": "quantiles" if is_quantile else "NULL",
            "weights": "weights" if is_quantile else "NULL",
            "places": f"INNER JOIN (\n{_places(Grouping.NODE)}\n) AS place USING (path_id)"
            if metric is Metric.ALPHA
            else "",
        },
        **parameters,
        family=None,
    )
    if not is_quantile:
        return records(GridCell, names[:-2], [row[:-2] for row in rows])
    values = quantiles_of([row[-2] for row in rows], [row[-1] for row in rows])
    cells = [(*row[:2], value, *row[3:-2]) for row, value in zip(rows, values, strict=True)]
    return records(GridCell, names[:-2], cells)


def worst(
    metric: Metric, since: datetime, until: datetime, *, packet_bytes: int | None = None, limit: int = 10
) -> list[GridCell]:
    cells = grid(metric, since, until, packet_bytes=packet_bytes)
    pairs = [(cell.value, cell) for cell in cells if cell.value is not None]
    pairs.sort(key=lambda pair: pair[0], reverse=not metric.lower_is_worse)
    return [cell for _, cell in pairs[:limit]]


def table(
    by: Grouping,
    metric: Metric,
    tick: Tick,
    since: datetime,
    until: datetime,
    packet_bytes: int,
    *,
    family: int | None = None,
    now: datetime | None = None,
) -> list[TableCell]:
    """PingER's table: medians over paths for each tick (UTC) in the period.

    IPv4 and IPv6 are pooled unless `family` is given. A path counts for each pair of its groups. With `now`, running
    ticks are current where `is_current`.
    """
    check_period(since, until)
    of_tests = metric is Metric.THROUGHPUT
    parts = {
        "value": metric.sql,
        "packets": "sent" if metric is Metric.LOSS else "NULL",
        "outage": "FALSE" if of_tests else "bursts_all_lost > 0 AND received > 0",
        "tick": tick.value,
    }
    running = ""
    parameters: dict[str, Any] = {}
    stored_until = until
    if now is not None and tick is Tick.HOUR and metric is Metric.COVERAGE:
        stored_until = min(until, start_of("hour", now))
    elif now is not None and tick is not Tick.HOUR and is_current(metric, tick):
        stored_until = min(until, start_of(tick.value, now - SETTLED_AFTER[tick.value]))
        running, parameters = _running(parts, max(start_of(tick.value, since), stored_until), until, now, packet_bytes)
    names, rows = run_statement(
        "table",
        {
            **parts,
            "places": _places(by),
            "table": f"{'throughput' if of_tests else 'burst'}_{tick.value}",
            "size": "" if of_tests else "AND packet_bytes = %(packet_bytes)s",
            "running": running,
        },
        **{
            **parameters,
            "since": start_of(tick.value, since),
            "until": stored_until,
            "packet_bytes": packet_bytes,
            "family": family,
        },
    )
    assert names == ("source", "destination", "at", "packed", "packets", "has_outage")
    medians = medians_of([row[3] for row in rows])
    with_bound = metric is Metric.LOSS
    packets = [sent for sent, _ in medians_of([row[4] for row in rows])] if with_bound else [None] * len(rows)
    return [
        TableCell(row[0], row[1], row[2], value, paths, _bound(value, sent), row[5])
        for row, (value, paths), sent in zip(rows, medians, packets, strict=True)
    ]


def planned_pairs(by: Grouping, kinds: Sequence[str], *, family: int | None = None) -> dict[tuple[str, str], list[int]]:
    _, rows = run_statement("planned_pairs", {"places": _places(by)}, kinds=list(kinds), family=family)
    return {(source, destination): path_ids for source, destination, path_ids in rows}


def is_current(metric: Metric, tick: Tick) -> bool:
    """Whether a running tick can be pooled from shorter summaries, without too many throughput tests."""
    if tick is Tick.HOUR:
        return True
    return tick is Tick.DAY if metric is Metric.THROUGHPUT else metric not in ROLLED_UP


def rolled_up_to(tick: Tick) -> datetime | None:
    """Arrival of the oldest result missing in this tick's summaries; None without any."""
    ticks = (Tick.HOUR, Tick.DAY, Tick.MONTH, Tick.YEAR)
    _, rows = run_statement("rolled_up_to", tiers=[str(tier) for tier in ticks[1 : ticks.index(tick) + 1]])
    return rows[0][0]


def _running(
    parts: dict[str, str], since: datetime, until: datetime, now: datetime, packet_bytes: int
) -> tuple[str, dict[str, Any]]:
    pieces: list[str] = []
    parameters: dict[str, Any] = {}
    tick, at = parts["tick"], since
    while at < min(until, now):
        number, end = len(parameters), min(next_start(tick, at), now)
        if parts["value"] == Metric.THROUGHPUT.sql:
            text = statement("tests_of_tick", number=str(number))
            added: dict[str, Any] = {f"since_{number}": at, f"until_{number}": end}
        else:
            by_plan_at = now if parts["value"] == Metric.COVERAGE.sql else None
            text, added = pooled(at, end, packet_bytes=packet_bytes, path_ids=None, first=number, by_plan_at=by_plan_at)
        pieces.append(statement("running_tick", **parts, number=str(number), pooled=text))
        parameters |= {**added, f"tick_{number}": at}
        at = next_start(tick, at)
    return "".join(pieces), parameters


def _bound(loss_ratio: float, sent: float | None) -> float | None:
    return None if sent is None or loss_ratio > 0 else loss_bound_ratio(round(sent), round(sent))


def _places(by: Grouping) -> str:
    source, destination = _ENDS[by]
    groups = statement("groups_of_path") if by is Grouping.GROUP else ""
    return statement("places", by=by.value, source=source, destination=destination, groups=groups)
