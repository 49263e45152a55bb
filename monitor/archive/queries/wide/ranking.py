"""Rank the paths of any mesh, and group them by pairs of places, in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.pooling import pieces_of, pooled
from monitor.archive.statements import check_period, optional_list, run_statement, statement

# SQL that a path is bad, for metrics with a bound. MOS is undefined for total loss.
_IS_BAD = {
    Metric.UNREACHABILITY: "value >= %(bad_from)s",
    Metric.MOS: "value < %(bad_from)s OR sent > 0 AND received = 0",
}
_NO_SUMMARY = "NULL::bigint AS sent, NULL::bigint AS received, NULL::double precision AS value"
_SUMMARY = "sum(sent) AS sent, sum(received) AS received, max(value) AS value"
_NO_TRACK = (
    "NULL::smallint AS condition, NULL::timestamptz AS newest_at, NULL::double precision AS of_size,"
    " NULL::double precision AS of_all"
)
_TRACK = "max(condition) AS condition, max(newest_at) AS newest_at, max(of_size) AS of_size, max(of_all) AS of_all"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Parts and parameters of planned_paths.sql that rank paths."""

    parts: dict[str, str]
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlacePair:
    """Counts of the paths between two places, and the worst path's id."""

    source: int
    destination: int
    paths: int
    measured: int
    bad: int
    worst: int


def by_condition(
    packet_bytes: int, *, normal: int, trouble: tuple[int, int], unmeasured: Collection[int], is_current: bool
) -> Ranking:
    """Rank by stored conditions, then by present loss. `trouble` is the range of bad conditions; none apply without
    `is_current`."""
    parts = {
        "nulls": _NO_TRACK,
        "figures": _TRACK,
        "rows": statement("tracks_of_paths"),
        "is_measured": "newest_at IS NOT NULL AND coalesce(NOT condition = ANY(%(unmeasured)s), TRUE)",
        "is_bad": "condition BETWEEN %(least_trouble)s AND %(most_trouble)s",
        "badness": statement("condition_badness"),
    }
    least, most = trouble
    parameters = {"packet_bytes": packet_bytes, "normal": normal, "least_trouble": least, "most_trouble": most}
    return Ranking(parts, parameters | {"unmeasured": list(unmeasured), "is_current": is_current})


def by_value(metric: Metric, packet_bytes: int, since: datetime, until: datetime, *, bad_from: float | None) -> Ranking:
    """Rank by a metric in the period; bad from `bad_from`, if given. Not for throughput, which has no packet size."""
    check_period(since, until)
    text, parameters = pooled(since, until, packet_bytes=packet_bytes, path_ids=None)
    is_median = metric is Metric.RTT_MEDIAN
    rows = statement("values_of_paths", pooled=text, value="NULL" if is_median else metric.sql)
    if is_median:
        columns = "path_id, rtt_median_ms, received"
        pieces, _ = pieces_of(since, until, packet_bytes=packet_bytes, path_ids=None, columns=columns)
        rows += "UNION ALL\n" + statement("medians_of_paths", pieces=pieces)
    parts = {
        "nulls": _NO_SUMMARY,
        "figures": _SUMMARY,
        "rows": rows,
        "is_measured": "sent > 0",
        "is_bad": "FALSE" if bad_from is None else _IS_BAD[metric],
        "badness": statement("value_badness", sign="-" if metric.lower_is_worse else ""),
    }
    return Ranking(parts, parameters | {"bad_from": bad_from})


def place_pairs(places: Mapping[int, int], kinds: Sequence[str], ranking: Ranking) -> list[PlacePair]:
    parts, parameters = _planned(places, kinds, ranking, None, None)
    _, rows = run_statement("place_pairs", parts, **parameters)
    return [PlacePair(*row) for row in rows]


def worst_paths(
    places: Mapping[int, int],
    kinds: Sequence[str],
    ranking: Ranking,
    *,
    sources: Sequence[int] | None,
    destinations: Sequence[int] | None,
    name: str | None,
    first: Collection[int],
    only_bad: bool,
    limit: int,
    offset: int,
) -> tuple[list[int], int]:
    """Page of path ids, worst first after `first`, and the total (0 beyond the last page).

    `name` is in lower case; None as `sources` or `destinations`: any.
    """
    parts, parameters = _planned(places, kinds, ranking, sources, destinations)
    parameters |= {"name": name, "first": list(first), "only_bad": only_bad, "limit": limit, "offset": offset}
    _, rows = run_statement("worst_paths", parts, **parameters)
    return [path_id for path_id, _ in rows], rows[0][1] if rows else 0


def _planned(
    places: Mapping[int, int],
    kinds: Sequence[str],
    ranking: Ranking,
    sources: Sequence[int] | None,
    destinations: Sequence[int] | None,
) -> tuple[dict[str, str], dict[str, Any]]:
    parameters = {
        "site_ids": list(places),
        "places": list(places.values()),
        "kinds": list(kinds),
        "sources": optional_list(sources),
        "destinations": optional_list(destinations),
    }
    return {"planned": statement("planned_paths", **ranking.parts)}, ranking.parameters | parameters
