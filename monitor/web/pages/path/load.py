"""Load the path page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import TypeVar

from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.analysis.geography import great_circle_km
from monitor.analysis.transfer import Spread, spread
from monitor.archive.kinds.kind import Point
from monitor.archive.outcomes import outcome_words
from monitor.archive.queries.kind_series import newest_of_kind
from monitor.archive.queries.operation.ledger import count_planned, ledger_of_path
from monitor.archive.queries.path_estimates import path_estimate
from monitor.archive.queries.paths import (
    PathSummary,
    Series,
    data_before,
    measured_packet_sizes,
    newest_source_addresses,
    raw_bursts,
)
from monitor.archive.queries.throughput.aggregates import AggregateResult, newest_of_path
from monitor.archive.queries.throughput.captures import captures_of
from monitor.archive.queries.throughput.inventories import inventory_changes
from monitor.archive.queries.throughput.series import (
    PathThroughput,
    ThroughputPoint,
    newest_capacities,
    on_demand_tests,
    scheduled_bps,
    throughput_summaries,
)
from monitor.archive.queries.throughput.transfers import transfer_of
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad, under_own_tests
from monitor.archive.scheduled_settings import scheduled_tests
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.document.entries import ON_DEMAND
from monitor.mesh.models import Path
from monitor.mesh.queries import measured_by
from monitor.overview.changes import PathChange
from monitor.overview.grid import UnknownChoice, choose_packet_bytes, measured_packet_bytes
from monitor.overview.promised_service import evidence_words, promise_words, service_of_path, verdict_words
from monitor.web.charts.sentences import loss_figure, loss_ground
from monitor.web.labels import not_counted
from monitor.web.pages.captures.figures import captures_view
from monitor.web.pages.path.chart_data import ChartData, load_chart_data
from monitor.web.pages.path.directions import DirectionView, load_directions
from monitor.web.pages.path.drawing import PathCharts, path_charts
from monitor.web.pages.path.other_tests.capacity import CapacityView, capacity_view
from monitor.web.pages.path.other_tests.responses import ResponsesView, load_responses
from monitor.web.pages.path.transfer import EstimateView, TransferView, estimate_view, transfer_view
from monitor.web.request.window import ShownPeriod
from probes.contract import Outcome


@dataclass(frozen=True, slots=True)
class TestRow:
    test: str
    planned: int
    measured: int
    others: tuple[tuple[str, int], ...]


LATEST_TESTS = 12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PathView:
    path: Path
    measured_by: str | None
    reverse_path_id: int | None
    distance_km: float
    shown: ShownPeriod
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    since: datetime
    until: datetime
    newest_at: datetime | None
    summary: PathSummary | None
    directions: DirectionView | None
    under_load: LatencyUnderLoad | None
    throughput: PathThroughput | None
    # The on-demand tests that no figure of the throughput counts, in words.
    not_counted: str
    spread: Spread | None
    estimate: EstimateView | None
    latest_tests: tuple[ThroughputPoint, ...]
    sweep_tests: int
    ledger: tuple[TestRow, ...]
    transfer: TransferView | None
    latest_files: tuple[Point, ...]
    latest_policers: tuple[Point, ...]
    latest_idle_restarts: tuple[Point, ...]
    # The promised service, the verdict and its evidence, in words.
    promised: tuple[str, str, str] | None
    responses: ResponsesView | None
    latest_aggregates: tuple[AggregateResult, ...]
    capacity: CapacityView
    incidents: tuple[Incident, ...]
    changes: tuple[PathChange, ...]
    charts: PathCharts
    # The newest data before the period, where it has none.
    earlier: ShownPeriod | None
    # Local addresses of the newest packets that are not the source's address in mesh.toml.
    sent_from: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no ping of the period was received."""
        return self.summary is None and self.newest_at is None

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self.incidents if incident.closed_at is None)

    @property
    def loss_figure(self) -> str:
        """Loss as a headline: 0 without any."""
        return figures.NO_DATA if self.summary is None else loss_figure(self.summary)

    @property
    def loss_ground(self) -> str:
        return "" if self.summary is None else loss_ground(self.summary)

    @property
    def newest_of_several(self) -> ThroughputPoint | None:
        """Newest measured TCP test, except sweeps, if the median is not its rate alone."""
        measured = [test for test in self.latest_tests if test.protocol == "tcp" and test.throughput_bps is not None]
        is_alone = self.throughput is not None and self.throughput.measured == 1 and len(measured) == 1
        return None if is_alone or not measured else measured[0]

    @property
    def routes_from_incidents(self) -> bool:
        """Whether the period is too long to read each burst's TTL."""
        return self.shown.length > LONGEST_RAW


def load_path(path_id: int, shown: ShownPeriod, packet_bytes: int | None, test_at: datetime | None = None) -> PathView:
    """Details are of the test at `test_at`, or the newest measured. Raises `Path.DoesNotExist` and `UnknownChoice`."""
    path = Path.objects.with_hosts().get(id=path_id)
    sizes = tuple(measured_packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    since, until = shown.since, shown.until
    data = load_chart_data(path_id, size, shown)
    summary, tests, incidents, window = data.summary, data.tests, data.incidents, data.window
    throughput = _only(throughput_summaries(since, until, path_ids=[path_id]))
    of_sweeps = scheduled_tests(path_id, since, until) if any(test.test == ON_DEMAND for test in tests) else set()
    own_tests = [test for test in tests if test.at not in of_sweeps]
    estimate = path_estimate(summary, tests, since, until)
    return PathView(
        path=path,
        measured_by=measured_by([path_id]).get(path_id),
        reverse_path_id=_reverse(path),
        distance_km=_distance_km(path),
        shown=shown,
        packet_bytes=size,
        packet_sizes=sizes,
        since=since,
        until=until,
        newest_at=_newest_at(data.series, until),
        summary=summary,
        directions=load_directions(path, since, until, window),
        under_load=next(
            (loaded for loaded in under_own_tests(since, until, [path_id]) if loaded.packet_bytes == size), None
        ),
        throughput=throughput,
        not_counted=not_counted(on_demand_tests(tests)),
        spread=spread(scheduled_bps(tests)),
        estimate=None if estimate is None else estimate_view(estimate),
        latest_tests=tuple(reversed(own_tests[-LATEST_TESTS:])),
        sweep_tests=len(tests) - len(own_tests),
        transfer=_transfer(path, own_tests or tests, test_at),
        latest_files=tuple(newest_of_kind("disk-to-disk", path_id, since, until, LATEST_TESTS)),
        promised=_promised(path, since, until),
        latest_policers=tuple(newest_of_kind("policer", path_id, since, until, LATEST_TESTS)),
        latest_idle_restarts=tuple(newest_of_kind("idle-restart", path_id, since, until, LATEST_TESTS)),
        responses=load_responses(path_id, since, until, window),
        latest_aggregates=tuple(newest_of_path(path_id, since, until, LATEST_TESTS)),
        ledger=ledger_rows(path_id, since, until),
        capacity=capacity_view(newest_capacities(path_id, until)),
        incidents=incidents,
        changes=data.changes,
        charts=path_charts(path, data, throughput, begins_at=window.since if window.since > since else None),
        earlier=_earlier(path_id, size, since) if summary is None else None,
        sent_from=tuple(
            address for address in newest_source_addresses(path_id, since, until) if address != path.source.address
        ),
    )


def load_chart(path_id: int, shown: ShownPeriod, packet_bytes: int | None) -> ChartData:
    """Raises `Path.DoesNotExist` and `monitor.overview.grid.UnknownChoice`."""
    path = Path.objects.only("id").get(id=path_id)
    return load_chart_data(path.pk, measured_packet_bytes(packet_bytes), shown)


def _newest_at(series: Series, until: datetime) -> datetime | None:
    """Time of the newest burst; None without points."""
    if not series.points:
        return None
    # The last step only begins before the newest burst.
    since, step = series.points[-1].at, timedelta(seconds=series.step_s)
    end = min(since + step, until + timedelta(microseconds=1))
    begin = max(since, end - timedelta(hours=1))
    bursts = raw_bursts(series.path_id, begin, end, packet_bytes=series.packet_bytes) if begin < end else []
    return max((burst.at for burst in bursts), default=since)


def _promised(path: Path, since: datetime, until: datetime) -> tuple[str, str, str] | None:
    service = service_of_path(path, since, until)
    if service is None:
        return None
    return promise_words(service, figures), verdict_words(service), evidence_words(service, figures)


def _earlier(path_id: int, packet_bytes: int, before: datetime) -> ShownPeriod | None:
    ends = data_before(path_id, packet_bytes, before)
    return None if ends is None else ShownPeriod(*ends, None)


def _transfer(path: Path, tests: Sequence[ThroughputPoint], at: datetime | None) -> TransferView | None:
    if at is None:
        at = next((test.at for test in reversed(tests) if test.throughput_bps is not None), None)
        if at is None:
            return None
    stored = transfer_of(path.pk, at)
    if stored is None:
        raise UnknownChoice(f"test={at.isoformat()}: no throughput test of this path began then")
    has_inventory = stored.sender_inventory is not None or stored.receiver_inventory is not None
    changes = inventory_changes(path.pk, at) if has_inventory else ()
    captures = () if stored.slot_id is None else captures_of(stored.slot_id)
    return transfer_view(stored, changes, captures_view(captures, path.source.site.name, path.destination.site.name))


def _only(rows: Sequence[T]) -> T | None:
    return rows[0] if rows else None


def _reverse(path: Path) -> int | None:
    back = Path.objects.filter(source=path.destination_id, destination=path.source_id)
    return back.values_list("id", flat=True).first()


def _distance_km(path: Path) -> float:
    here, there = path.source.site, path.destination.site
    return great_circle_km(here.latitude_deg, here.longitude_deg, there.latitude_deg, there.longitude_deg)


def ledger_rows(path_id: int, since: datetime, until: datetime) -> tuple[TestRow, ...]:
    rows = []
    for test, of_test in groupby(ledger_of_path(path_id, since, until), key=lambda line: line.test):
        lines = list(of_test)
        measured = sum(line.count for line in lines if line.outcome == Outcome.MEASURED)
        others = tuple(
            (outcome_words(line.outcome, line.reason), line.count) for line in lines if line.outcome != Outcome.MEASURED
        )
        rows.append(TestRow(test, count_planned(lines), measured, others))
    return tuple(rows)
