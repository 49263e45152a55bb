"""The grid: every path's figures over a period, with the one state that each is in.

The page and the REST API both show what is made here, so that they cannot disagree. What goes in is a metric, a
period, a packet size and a group; what comes out is a `Grid`. No text for people and no colours: those are the pages'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.alerts.models import Incident
from monitor.alerts.queries import open_incidents
from monitor.analysis.loss import loss_bound_ratio
from monitor.archive import queries
from monitor.mesh.models import Group, Kind, Path, Site
from probes.contract import Outcome

DEFAULT_PACKET_BYTES = 100


class Metric(StrEnum):
    LOSS = "loss"
    RTT = "rtt"
    THROUGHPUT = "throughput"

    @property
    def kind(self) -> Kind:
        """The kind of measurement it comes from."""
        return Kind.THROUGHPUT if self is Metric.THROUGHPUT else Kind.PING


class Period(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]


_LENGTHS = {
    Period.HOUR: timedelta(hours=1),
    Period.DAY: timedelta(days=1),
    Period.WEEK: timedelta(days=7),
    Period.MONTH: timedelta(days=30),
}


class State(StrEnum):
    """What is known of a path: exactly one of these. Only `VALUE` and `NONE_LOST` have a figure to compare."""

    VALUE = "value"
    NONE_LOST = "none_lost"
    TOTAL_LOSS = "total_loss"
    NO_DATA = "no_data"
    NOT_MEASURED = "not_measured"
    OWN_TEST = "own_test"


@dataclass(frozen=True, slots=True)
class GridSite:
    """A row or a column."""

    id: int
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class PathFigures:
    """One path over the period. Figures that are not known are None; `outcome` is the newest that was not measured."""

    path_id: int
    source: str
    destination: str
    family: int
    state: State
    sent: int | None = None
    received: int | None = None
    loss_ratio: float | None = None
    loss_bound_ratio: float | None = None
    rtt_min_ms: float | None = None
    rtt_median_ms: float | None = None
    rtt_p95_ms: float | None = None
    throughput_median_bps: float | None = None
    tests: int | None = None
    tests_measured: int | None = None
    not_measured: int | None = None
    outcome: str | None = None
    incident_id: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """All paths of a metric. `packet_bytes` is None where it says nothing: for throughput."""

    metric: Metric
    period: Period
    packet_bytes: int | None
    packet_sizes: tuple[int, ...]
    group: str | None
    groups: tuple[str, ...]
    since: datetime
    until: datetime
    newest_measured_at: datetime | None
    sources: tuple[GridSite, ...]
    destinations: tuple[GridSite, ...]
    figures: tuple[PathFigures, ...]
    open_incidents: tuple[Incident, ...]


class UnknownChoice(ValueError):
    """A packet size or group that does not exist; the message names those that do."""


@dataclass(frozen=True, slots=True)
class _PlannedPath:
    path_id: int
    source_id: int
    destination_id: int
    family: int


def load_grid(
    metric: Metric, period: Period, now: datetime, *, packet_bytes: int | None = None, group: str | None = None
) -> Grid:
    """The grid at `now`. Raises `UnknownChoice`."""
    since = now - period.length
    sizes = tuple(queries.packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    members = _members()
    chosen = _choose_group(members, group)
    sites = {site.id: site for site in _sites()}
    paths = [path for path in _planned_paths(metric.kind) if _inside(path, chosen)]
    incidents = open_incidents()
    figures = _figures(metric, _known_by_name(paths, sites, incidents), since, now, size)
    return Grid(
        metric=metric,
        period=period,
        packet_bytes=None if metric is Metric.THROUGHPUT else size,
        packet_sizes=sizes,
        group=group,
        groups=tuple(members),
        since=since,
        until=now,
        newest_measured_at=queries.newest_measured_at(),
        sources=_in_order(sites, {path.source_id for path in paths}),
        destinations=_in_order(sites, {path.destination_id for path in paths}),
        figures=figures,
        open_incidents=tuple(incidents),
    )


def choose_packet_bytes(sizes: tuple[int, ...], wanted: int | None) -> int:
    """The packet size to show: the one that was asked for, else the smallest there is. Raises `UnknownChoice`."""
    if wanted is None:
        return min(sizes, default=DEFAULT_PACKET_BYTES)
    if sizes and wanted not in sizes:
        there = ", ".join(str(size) for size in sizes)
        raise UnknownChoice(f"size={wanted}: no packets of that size were measured; there are {there}")
    return wanted


def worst(metric: Metric, figures: Iterable[PathFigures]) -> PathFigures:
    """The path that stands for several between the same two sites: trouble first, then the worst figure."""
    return max(figures, key=lambda one: (_SEVERITY[one.state], _badness(metric, one), -one.path_id))


_SEVERITY = {
    State.TOTAL_LOSS: 4,
    State.VALUE: 3,
    State.NONE_LOST: 2,
    State.OWN_TEST: 1,
    State.NOT_MEASURED: 1,
    State.NO_DATA: 0,
}


def _badness(metric: Metric, one: PathFigures) -> float:
    if metric is Metric.THROUGHPUT:
        return 0.0 if one.throughput_median_bps is None else -one.throughput_median_bps
    figure = one.loss_ratio if metric is Metric.LOSS else one.rtt_median_ms
    return 0.0 if figure is None else figure


def _sites() -> list[GridSite]:
    return [GridSite(*row) for row in Site.objects.in_use().values_list("id", "name", "title")]


def _members() -> dict[str, set[int]]:
    """The sites of each group."""
    members: dict[str, set[int]] = {}
    rows = Group.objects.in_use().order_by("name").values_list("name", "sites")
    for name, site_id in rows:
        members.setdefault(name, set()).add(site_id)
    return members


def _choose_group(members: dict[str, set[int]], wanted: str | None) -> set[int] | None:
    if wanted is None:
        return None
    if wanted not in members:
        raise UnknownChoice(f"group={wanted}: there is no such group; there are {', '.join(members) or 'none'}")
    return members[wanted]


def _planned_paths(kind: Kind) -> list[_PlannedPath]:
    """The paths in use that are measured in this way."""
    rows = (
        Path.objects.filter(retired_at=None, measurements__retired_at=None, measurements__test__kind=kind)
        .distinct()
        .values_list("id", "source__site_id", "destination__site_id", "family")
    )
    return [_PlannedPath(*row) for row in rows]


def _inside(path: _PlannedPath, members: set[int] | None) -> bool:
    return members is None or (path.source_id in members and path.destination_id in members)


def _in_order(sites: dict[int, GridSite], wanted: set[int]) -> tuple[GridSite, ...]:
    return tuple(site for site_id, site in sites.items() if site_id in wanted)


def _known_by_name(
    paths: list[_PlannedPath], sites: dict[int, GridSite], incidents: list[Incident]
) -> list[PathFigures]:
    """The paths with their names and open incidents, and no data yet."""
    troubled = {entry.path_id: incident.pk for incident in incidents for entry in incident.paths.all()}
    return [
        PathFigures(
            path_id=path.path_id,
            source=sites[path.source_id].name,
            destination=sites[path.destination_id].name,
            family=path.family,
            state=State.NO_DATA,
            incident_id=troubled.get(path.path_id),
        )
        for path in paths
    ]


def _figures(
    metric: Metric, unknown: list[PathFigures], since: datetime, until: datetime, packet_bytes: int
) -> tuple[PathFigures, ...]:
    """The same paths with what was measured on them."""
    if metric is Metric.THROUGHPUT:
        tests = {one.path_id: one for one in queries.throughput_summaries(since, until)}
        return tuple(_with_tests(path, tests.get(path.path_id)) for path in unknown)
    bursts = {one.path_id: one for one in queries.path_summaries(since, until, packet_bytes=packet_bytes)}
    return _with_outcomes(tuple(_with_bursts(metric, path, bursts.get(path.path_id)) for path in unknown), since, until)


def _with_outcomes(figures: tuple[PathFigures, ...], since: datetime, until: datetime) -> tuple[PathFigures, ...]:
    """The same, with the newest outcome of the last day where nothing could be measured."""
    wanted = [one.path_id for one in figures if one.state is State.NOT_MEASURED]
    if not wanted:
        return figures
    newest = queries.newest_failures(max(since, until - queries.LONGEST_RAW), until, wanted)
    outcomes = {failure.path_id: failure.outcome for failure in newest}
    return tuple(replace(one, outcome=outcomes.get(one.path_id)) for one in figures)


def _with_bursts(metric: Metric, path: PathFigures, summary: queries.PathSummary | None) -> PathFigures:
    """The path with what its bursts say."""
    if summary is None:
        return path
    return replace(
        path,
        state=_ping_state(metric, summary),
        sent=summary.sent,
        received=summary.received,
        loss_ratio=summary.loss_ratio,
        loss_bound_ratio=loss_bound_ratio(summary.sent, summary.received),
        rtt_min_ms=summary.rtt_min_ms,
        rtt_median_ms=summary.rtt_median_ms,
        rtt_p95_ms=summary.rtt_p95_ms,
        not_measured=summary.bursts_not_measured,
    )


def _ping_state(metric: Metric, summary: queries.PathSummary) -> State:
    if summary.sent == 0:
        if summary.bursts_not_measured > 0:
            return State.NOT_MEASURED
        return State.OWN_TEST if summary.bursts_during_test > 0 else State.NO_DATA
    if summary.received == 0:
        return State.TOTAL_LOSS
    return State.NONE_LOST if metric is Metric.LOSS and summary.lost == 0 else State.VALUE


def _with_tests(path: PathFigures, summary: queries.ThroughputSummary | None) -> PathFigures:
    """The path with what its throughput tests say."""
    if summary is None or summary.tests == 0:
        return path
    return replace(
        path,
        state=State.NOT_MEASURED if summary.throughput_median_bps is None else State.VALUE,
        throughput_median_bps=summary.throughput_median_bps,
        tests=summary.tests,
        tests_measured=summary.measured,
        not_measured=summary.tests - summary.measured,
        outcome=None if summary.latest_outcome == Outcome.MEASURED else summary.latest_outcome,
    )
