"""The figures of all paths of a mesh of any size, by pairs of places and worst first: the database groups and orders.

In: a place's number for each site, a packet size and a period, which is extended to whole hours as in
`monitor.archive.periods`. Out: frozen records. Statements are in ../sql/.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.pooling import pieces_of, pooled
from monitor.archive.queries.tables import GridCell
from monitor.archive.statements import check_period, optional_list, run_statement, statement

_COUNTS = "path_id, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent, received"
_IS_BAD = {
    Metric.LOSS: "sent > 0 AND sent - received >= %(bad_from)s * sent",
    Metric.UNREACHABILITY: "value >= %(bad_from)s",
    Metric.MOS: "value < %(bad_from)s OR sent > 0 AND received = 0",
}
"""SQL of a path that is bad, by the metrics that have a bound for it.

Of a path that is all lost the MOS is undefined."""


@dataclass(frozen=True, slots=True)
class PathLoss:
    """A planned path with the packets of the period, and the value; `cell` is None without a summary."""

    path_id: int
    family: int
    source: str
    destination: str
    cell: GridCell | None


@dataclass(frozen=True, slots=True)
class PlacePair:
    """The paths from a place to another, by the numbers of both: how many, those with packets, the bad ones, and the
    worst."""

    source: int
    destination: int
    paths: int
    measured: int
    bad: int
    worst: PathLoss


def place_pairs(
    metric: Metric,
    places: Mapping[int, int],
    kinds: Sequence[str],
    packet_bytes: int,
    since: datetime,
    until: datetime,
    *,
    bad_from: float | None,
) -> list[PlacePair]:
    """Each pair of places with a path between them. `places` has the number of the place of each site; `bad_from` is
    the value from which on a path is bad, None for a metric that is neither good nor bad. Not for throughput, which
    has no packet size."""
    parts, parameters = _planned(places, kinds, packet_bytes, since, until, metric=metric)
    parts["is_bad"] = "FALSE" if bad_from is None else _IS_BAD[metric]
    _, rows = run_statement("place_pairs", parts, **parameters, bad_from=bad_from)
    return [
        PlacePair(source, destination, paths, measured, bad, _path_loss(worst, packet_bytes, metric, value))
        for source, destination, paths, measured, bad, *worst, value in rows
    ]


def worst_losses(
    places: Mapping[int, int],
    kinds: Sequence[str],
    packet_bytes: int,
    since: datetime,
    until: datetime,
    *,
    bad_ratio: float,
    sources: Sequence[int] | None,
    destinations: Sequence[int] | None,
    name: str | None,
    first: Collection[int],
    only_bad: bool,
    limit: int,
    offset: int,
) -> tuple[list[PathLoss], int]:
    """A page of the paths from a site of `sources` to one of `destinations` (None: any) with `name`, in small letters,
    in the name of an end; the paths `first`, then the worst. With the number of all, 0 beyond the last page."""
    parts, parameters = _planned(places, kinds, packet_bytes, since, until, sources, destinations)
    _, rows = run_statement(
        "worst_losses",
        parts,
        **parameters,
        bad_ratio=bad_ratio,
        name=name,
        first=list(first),
        only_bad=only_bad,
        limit=limit,
        offset=offset,
    )
    return [_path_loss(row[:-1], packet_bytes) for row in rows], rows[0][-1] if rows else 0


def _planned(
    places: Mapping[int, int],
    kinds: Sequence[str],
    packet_bytes: int,
    since: datetime,
    until: datetime,
    sources: Sequence[int] | None = None,
    destinations: Sequence[int] | None = None,
    *,
    metric: Metric = Metric.LOSS,
) -> tuple[dict[str, str], dict[str, Any]]:
    """The part {planned} of a statement, and its parameters."""
    check_period(since, until)
    summaries, badness, parameters = _summaries(metric, packet_bytes, since, until)
    parameters |= {
        "site_ids": list(places),
        "places": list(places.values()),
        "kinds": list(kinds),
        "sources": optional_list(sources),
        "destinations": optional_list(destinations),
    }
    return {"planned": statement("planned_figures", summaries=summaries, badness=badness)}, parameters


def _summaries(metric: Metric, packet_bytes: int, since: datetime, until: datetime) -> tuple[str, str, dict[str, Any]]:
    """The parts {summaries} and {badness} of planned_figures.sql, and their parameters."""
    if metric is Metric.LOSS:
        pieces, parameters = pieces_of(since, until, packet_bytes=packet_bytes, path_ids=None, columns=_COUNTS)
        return statement("losses_of_paths", pieces=pieces), statement("loss_badness"), parameters
    text, parameters = pooled(since, until, packet_bytes=packet_bytes, path_ids=None)
    is_median = metric is Metric.RTT_MEDIAN
    summaries = statement("values_of_paths", pooled=text, value="NULL" if is_median else metric.sql)
    if is_median:
        columns = "path_id, rtt_median_ms, received"
        pieces, _ = pieces_of(since, until, packet_bytes=packet_bytes, path_ids=None, columns=columns)
        summaries += "UNION ALL\n" + statement("medians_of_paths", pieces=pieces)
    return summaries, statement("value_badness", sign="-" if metric.lower_is_worse else ""), parameters


def _path_loss(
    row: Sequence[Any], packet_bytes: int, metric: Metric = Metric.LOSS, value: float | None = None
) -> PathLoss:
    path_id, family, source, destination, bursts, all_lost, during_test, not_measured, sent, received = row
    if sent is None:
        return PathLoss(path_id, family, source, destination, None)
    if value is None and sent and metric is Metric.LOSS:
        value = (sent - received) / sent
    counts = (int(count) for count in (bursts, all_lost, during_test, not_measured, sent, received))
    cell = GridCell(path_id, packet_bytes, None if value is None else float(value), *counts)
    return PathLoss(path_id, family, source, destination, cell)
