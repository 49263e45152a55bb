"""Load the pages of incidents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import Evidence, PathEvidence, evidence
from monitor.alerts.evidence.facts import Direction, PeriodFigures
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.history import raised_text
from monitor.alerts.incidents import listing, quiet
from monitor.alerts.incidents.own_present import signal_of
from monitor.alerts.models import Incident, IncidentState, QuietPeriod
from monitor.analysis import figures as shown
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.archive.queries.throughput.series import throughput_series
from monitor.mesh.document.alert_rules import is_on_anywhere
from monitor.mesh.models import Group, Measurement, Mesh, Path, Site
from monitor.mesh.queries import alerts, groups_of_sites, place_of
from monitor.overview.mesh_state import LARGE_FROM_PATHS
from monitor.overview.wide.mesh_results import MeshResult
from monitor.present.track import Signal
from monitor.web.charts.compare import ComparedMetric, PathData, compare_chart
from monitor.web.charts.marks import Absence, LabelledSpan, Spec, TimeAxis
from monitor.web.charts.series import loss_chart, pool, rtt_chart
from monitor.web.pages.path.chart_data import drawn_series
from monitor.web.request import times

# Minimum time shown on either side of an incident.
BEFORE_AND_AFTER = timedelta(minutes=30)
LONGEST_SIDE = timedelta(days=2)
POOL_STEPS = 32
NOTHING = "–"
# What the chart of both directions shows; of other signals the loss.
METRICS = {
    Signal.RTT: ComparedMetric.RTT,
    Signal.JITTER: ComparedMetric.RTT,
    Signal.RATE: ComparedMetric.THROUGHPUT,
}


@dataclass(frozen=True, slots=True)
class WatchedScope:
    paths: int
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IncidentList:
    rows: tuple[Incident, ...]
    counted: listing.StateCounts
    path: Path | None
    sites: tuple[str, ...]
    groups: tuple[str, ...]
    watch: WatchedScope | None


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    name: str
    before: str
    after: str
    now: str  # empty for a resolved incident


@dataclass(frozen=True, slots=True)
class IncidentDirectionView:
    direction: Direction
    lines: tuple[ComparisonRow, ...]
    has_now: bool
    key: str
    data: PathData
    rtt_chart: Spec
    loss_chart: Spec

    @property
    def left_out(self) -> str:
        """Span of the onset; its packets are in neither column."""
        ends = self.direction.left_out
        return "" if ends is None else f"{times.clock_second(ends[0])} to {times.clock_second(ends[1])}"

    @property
    def rtt_key(self) -> str:
        return f"{self.key}-rtt"

    @property
    def loss_key(self) -> str:
        return f"{self.key}-loss"

    @property
    def rtt_absences(self) -> tuple[Absence, ...]:
        return _absences_in(self.rtt_chart)

    @property
    def loss_absences(self) -> tuple[Absence, ...]:
        return _absences_in(self.loss_chart)


@dataclass(frozen=True, slots=True)
class IncidentView:
    incident: Incident
    evidence: Evidence
    ticket: str
    shown: PathEvidence | None
    metric: ComparedMetric
    chart: Spec | None  # of both directions
    directions: tuple[IncidentDirectionView, ...]
    quiet: tuple[QuietPeriod, ...]
    is_silenced: bool
    sites: tuple[str, ...]
    paths: tuple[Path, ...]
    raised: str


def load_list(wanted: listing.IncidentFilter, offset: int, limit: int) -> IncidentList:
    """Raises `listing.UnknownFilter`."""
    listing.require_known(wanted)
    rows = tuple(listing.incidents(wanted, offset=offset, limit=limit))
    path = None if wanted.path_id is None else Path.objects.with_hosts().filter(id=wanted.path_id).first()
    if wanted.path_id is not None and path is None:
        raise listing.UnknownFilter(
            f"path={wanted.path_id}: there is no such path; the grid links to those that there are"
        )
    return IncidentList(
        rows=rows,
        counted=listing.count(wanted),
        path=path,
        sites=tuple(Site.objects.in_use().values_list("name", flat=True)),
        groups=tuple(Group.objects.in_use().values_list("name", flat=True)),
        watch=None if rows else _watch(),
    )


def load_incident(incident_id: int, path_id: int | None, now: datetime) -> IncidentView:
    """Charts are of `path_id`, or the most severe path. Raises `Incident.DoesNotExist`."""
    incident = listing.incident(incident_id)
    gathered = evidence(incident, now)
    chosen = next((path for path in gathered.paths if path.path_id == path_id), next(iter(gathered.paths), None))
    both = () if chosen is None else (chosen.there, chosen.back)
    # The direction that loses packets first, where it is known.
    directions = sorted(
        (direction for direction in both if direction is not None),
        key=lambda direction: direction.name != incident.toward,
    )
    window = _window(incident, now)
    holding = _quiet_of(incident, now)
    paths = {row.path_id: row.path for row in incident.paths.all()}
    metric = next(
        (METRICS.get(signal_of(row), ComparedMetric.LOSS) for row in incident.paths.all() if row.rule == incident.rule),
        ComparedMetric.LOSS,
    )
    views = tuple(_direction(direction, window, metric) for direction in directions)
    return IncidentView(
        incident=incident,
        evidence=gathered,
        ticket=ticket_text(incident, gathered),
        shown=chosen,
        metric=metric,
        chart=compare_chart(metric, [of.data for of in views], window) if views else None,
        directions=views,
        quiet=tuple(quiet_time for quiet_time, _ in holding),
        is_silenced=set(paths) <= set().union(*(covered for _, covered in holding)),
        sites=tuple(sorted({end.site.name for path in paths.values() for end in (path.source, path.destination)})),
        paths=tuple(paths.values()),
        raised=raised_text(incident),
    )


def _watch() -> WatchedScope:
    settings = alerts()
    rules = tuple(name for name in RULES if is_on_anywhere(settings, name))
    return WatchedScope(_watched_paths.get() if Mesh.objects.exists() else 0, rules)


def _count_watched_paths() -> int:
    in_use = {"retired_at": None, "path__retired_at": None}
    return Measurement.objects.filter(**in_use).values("path_id").distinct().count()


_watched_paths = MeshResult(_count_watched_paths, is_large=lambda paths: paths >= LARGE_FROM_PATHS)


def _window(incident: Incident, now: datetime) -> TimeAxis:
    began = words.since(incident)
    over = words.until(incident) or now
    side = min(max(over - began, BEFORE_AND_AFTER), LONGEST_SIDE)
    return TimeAxis(
        began - side, min(over + side, now), (LabelledSpan(began, over, times.in_zone(words.headline(incident))),)
    )


def _direction(direction: Direction, window: TimeAxis, metric: ComparedMetric) -> IncidentDirectionView:
    sizes = [
        figures.rtt_packet_bytes
        for figures in (direction.after, direction.before)
        if figures.rtt_packet_bytes is not None
    ]
    size = sizes[0] if sizes else _smallest_packets(direction)
    series, own_tests = drawn_series(direction.path_id, size, window.since, window.until)
    step_s = int((window.until - window.since).total_seconds() / POOL_STEPS) // 60 * 60
    bar_s = max(step_s, series.step_s)
    tests = (
        throughput_series(direction.path_id, window.since, window.until) if metric is ComparedMetric.THROUGHPUT else []
    )
    return IncidentDirectionView(
        direction=direction,
        lines=tuple(_compared(direction)),
        has_now=direction.now is not None,
        key=f"d{direction.path_id}",
        data=PathData(series=series, pooled=pool(series, bar_s), hours=series, tests=tests),
        rtt_chart=rtt_chart(series, window, own_tests),
        loss_chart=loss_chart(series, window, bar_s, own_tests),
    )


def _absences_in(chart: Spec) -> tuple[Absence, ...]:
    return tuple(kind for kind in Absence if chart["datasets"].get(kind.style))


def _smallest_packets(direction: Direction) -> int:
    there = [size.packet_bytes for figures in (direction.after, direction.before) for size in figures.sizes]
    return min(there) if there else min(measured_packet_sizes(), default=0)


def _compared(direction: Direction) -> list[ComparisonRow]:
    columns = [direction.before, direction.after, direction.now]
    lines = [
        ("loss", _loss),
        ("95% confidence interval", _interval),
        ("median RTT", lambda of: shown.milliseconds(of.rtt_median_ms)),
        ("minimum RTT", lambda of: shown.milliseconds(of.rtt_min_ms)),
        ("interquartile range", _middle),
        ("95th percentile RTT", lambda of: shown.milliseconds(of.rtt_p95_ms)),
        ("jitter (IPDV)", lambda of: shown.milliseconds(of.ipdv_ms)),
        ("duplicates, reordered", lambda of: f"{shown.count(of.duplicates)}, {shown.count(of.reordered)}"),
        ("TTL of replies", lambda of: NOTHING if of.ttl is None else str(of.ttl)),
        ("bursts", _bursts),
        ("from", lambda of: times.day_second(of.since)),
        ("to", lambda of: times.day_second(of.until)),
    ]
    return [
        ComparisonRow(name, *("" if figures is None else say(figures) for figures in columns)) for name, say in lines
    ]


def _loss(of: PeriodFigures) -> str:
    return f"{shown.loss(of.lost, of.sent)} ({shown.count(of.lost)} of {shown.count(of.sent)})" if of.sent else NOTHING


def _interval(of: PeriodFigures) -> str:
    if of.loss_low_ratio is None or of.loss_high_ratio is None:
        return NOTHING
    return shown.percent_interval(of.loss_low_ratio, of.loss_high_ratio)


def _middle(of: PeriodFigures) -> str:
    if of.rtt_p25_ms is None or of.rtt_p75_ms is None:
        return NOTHING
    return shown.milliseconds_between(of.rtt_p25_ms, of.rtt_p75_ms)


def _bursts(of: PeriodFigures) -> str:
    ours = f", {shown.count(of.bursts_during_test)} during throughput tests" if of.bursts_during_test else ""
    return f"{shown.count(of.bursts)}{ours}"


def _quiet_of(incident: Incident, now: datetime) -> list[tuple[QuietPeriod, set[int]]]:
    if incident.state is IncidentState.RESOLVED:
        return []
    lasting = quiet.in_force(now)
    if not lasting:
        return []
    groups = groups_of_sites()
    places = {row.path_id: place_of(row.path, groups) for row in incident.paths.all() if not row.is_over}
    coverage = [
        (quiet_time, {key for key, place in places.items() if quiet.covers(quiet_time, key, place)})
        for quiet_time in lasting
    ]
    return [(quiet_time, covered) for quiet_time, covered in coverage if covered]
