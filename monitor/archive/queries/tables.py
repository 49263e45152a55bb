"""Many paths at once: the grid, the worst paths, and tables by site, country, region or group.

In: a metric, a period of aware times, half open [since, until), and a packet size. Out: frozen records, None where
empty. Each function runs a statement of sql/. Periods are extended as in `monitor.archive.periods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.archive.periods import start_of
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.pooling import medians_of, pooled, quantiles_of
from monitor.archive.statements import check_period, records, run_statement, statement

POOLED_QUANTILES = (Metric.RTT_P25, Metric.RTT_MEDIAN, Metric.RTT_P75, Metric.RTT_P90)


class Grouping(StrEnum):
    """Grouping of the rows and columns of a table."""

    NODE = "node"
    SITE = "site"
    COUNTRY = "country"
    REGION = "region"
    GROUP = "group"


class Tick(StrEnum):
    """Length of a table's columns."""

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
    """A metric of a path and packet size over a period, None where undefined, with the path's counts."""

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
        """Pooled loss, 0 to 1; None where nothing was sent."""
        return None if self.sent == 0 else (self.sent - self.received) / self.sent


@dataclass(frozen=True, slots=True)
class TableCell:
    """Median of a metric over the `paths` paths from `source` to `destination` that have it, beginning at `at`."""

    source: str
    destination: str
    at: datetime
    value: float
    paths: int


def grid(
    metric: Metric,
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None = None,
    path_ids: Sequence[int] | None = None,
) -> list[GridCell]:
    """The metric of each path and packet size with data in the period, by path and size.

    Over several summaries a median is their medians' median weighted by packets received, P95 their maximum. Raises
    `ValueError` for throughput, which has no packet size: use `throughput_summaries`.
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
    """Paths with the worst values of the metric, worst first; paths without a value are left out."""
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
) -> list[TableCell]:
    """PingER's table: medians over paths for each tick (UTC) that begins in the period or contains its start.

    IPv4 and IPv6 are pooled unless `family` is 4 or 6. By group, a path counts for each pair of a group that contains
    its source and a group that contains its destination, which may be the same.
    """
    check_period(since, until)
    of_tests = metric is Metric.THROUGHPUT
    names, rows = run_statement(
        "table",
        {
            "places": _places(by),
            "tick": tick.value,
            "value": metric.sql,
            "table": f"{'throughput' if of_tests else 'burst'}_{tick.value}",
            "size": "" if of_tests else "AND packet_bytes = %(packet_bytes)s",
        },
        since=start_of(tick.value, since),
        until=until,
        packet_bytes=packet_bytes,
        family=family,
    )
    medians = medians_of([row[-1] for row in rows])
    cells = [(*row[:-1], *middle) for row, middle in zip(rows, medians, strict=True)]
    return records(TableCell, (*names[:-1], "value", "paths"), cells)


def _places(by: Grouping) -> str:
    source, destination = _ENDS[by]
    groups = statement("groups_of_path") if by is Grouping.GROUP else ""
    return statement("places", by=by.value, source=source, destination=destination, groups=groups)
