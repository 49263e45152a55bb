"""What the path page shows: the path, its figures over the period, its charts, its latest tests and its incidents.

In: a path's id, a period, a packet size and the time. Out: a `PathView` for the template. The charts themselves are
made in `monitor.web.charts`, the numbers' text in `monitor.web.figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from monitor.alerts.models import Incident
from monitor.alerts.queries import incidents_of_path
from monitor.analysis.transfer import Spread, spread
from monitor.api.grid import Period, UnknownChoice, choose_packet_bytes
from monitor.archive import queries
from monitor.archive.path_estimates import path_estimate
from monitor.archive.queries import PathSummary, Series, ThroughputPoint, ThroughputSummary
from monitor.archive.transfers import transfer_of
from monitor.mesh.models import Path
from monitor.web import charts
from monitor.web.geography import great_circle_km
from monitor.web.ledger_view import TestRow, ledger_rows
from monitor.web.transfer_view import EstimateView, TransferView, estimate_view, transfer_view

POOL_STEP_S = {Period.HOUR: 300, Period.DAY: 900, Period.WEEK: 3600, Period.MONTH: 6 * 3600}
"""Steps of the loss chart: enough packets in each for a loss of a few percent to show, few enough bars to see."""
MORE_THAN_A_DAY = timedelta(days=1, hours=1)
LATEST_TESTS = 12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PathView:
    """All that the page needs, in one place."""

    path: Path
    reverse_path_id: int | None
    distance_km: float
    period: Period
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    since: datetime
    until: datetime
    newest_at: datetime | None
    summary: PathSummary | None
    throughput: ThroughputSummary | None
    spread: Spread | None
    estimate: EstimateView | None
    latest_tests: tuple[ThroughputPoint, ...]
    ledger: tuple[TestRow, ...]
    transfer: TransferView | None
    incidents: tuple[Incident, ...]
    rtt_chart: charts.Spec
    loss_chart: charts.Spec
    throughput_chart: charts.Spec


def load_path(
    path_id: int, period: Period, now: datetime, packet_bytes: int | None, test_at: datetime | None = None
) -> PathView:
    """The page of a path, with the throughput test that began at `test_at` in full, or the newest that was measured.

    Raises `Path.DoesNotExist` and `monitor.api.grid.UnknownChoice`.
    """
    path = Path.objects.with_hosts().get(id=path_id)
    sizes = tuple(queries.packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    since = now - period.length
    series = queries.path_series(path_id, size, since, now)
    hours = series if period.length > queries.LONGEST_RAW else _hours(path_id, size, since, now)
    tests = queries.throughput_series(path_id, since, now)
    incidents = incidents_of_path(path_id, since, now)
    window = charts.Window(since, now, _spans(incidents, now))
    summary = _only(queries.path_summaries(since, now, packet_bytes=size, path_ids=[path_id]))
    estimate = path_estimate(summary, tests, since, now)
    return PathView(
        path=path,
        reverse_path_id=_reverse(path),
        distance_km=_distance_km(path),
        period=period,
        packet_bytes=size,
        packet_sizes=sizes,
        since=since,
        until=now,
        newest_at=series.points[-1].at if series.points else None,
        summary=summary,
        throughput=_only(queries.throughput_summaries(since, now, path_ids=[path_id])),
        spread=spread(_measured_bps(tests)),
        estimate=None if estimate is None else estimate_view(estimate),
        latest_tests=tuple(reversed(tests[-LATEST_TESTS:])),
        transfer=_transfer(path_id, tests, test_at),
        ledger=ledger_rows(path_id, since, now),
        incidents=tuple(incidents),
        rtt_chart=charts.rtt_chart(series, window, _own_tests(path_id, size, since, now)),
        loss_chart=charts.loss_chart(charts.pool(series, POOL_STEP_S[period]), window),
        throughput_chart=charts.throughput_chart(hours, tests, window),
    )


def _measured_bps(tests: Sequence[ThroughputPoint]) -> list[float]:
    """What the TCP tests got; a UDP test gets what it was asked for."""
    return [one.throughput_bps for one in tests if one.protocol == "tcp" and one.throughput_bps is not None]


def _transfer(path_id: int, tests: Sequence[ThroughputPoint], at: datetime | None) -> TransferView | None:
    """The test asked for. Raises `UnknownChoice` where there is none that began then."""
    if at is None:
        at = next((one.at for one in reversed(tests) if one.throughput_bps is not None), None)
        if at is None:
            return None
    stored = transfer_of(path_id, at)
    if stored is None:
        raise UnknownChoice(f"test={at.isoformat()}: no throughput test of this path began then")
    return transfer_view(stored)


def _own_tests(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[datetime]:
    """The steps taken up by our own tests, where the steps are short enough to be."""
    if until - since > queries.LONGEST_RAW:
        return []
    return queries.own_test_steps(path_id, packet_bytes, since, until)


def _hours(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> Series:
    """The hourly steps of a period that is too short to be answered in hours: an estimate wants the packets of one."""
    series = queries.path_series(path_id, packet_bytes, min(since, until - MORE_THAN_A_DAY), until)
    step = timedelta(seconds=series.step_s)
    return replace(series, points=tuple(point for point in series.points if point.at + step > since))


def _only(found: Sequence[T]) -> T | None:
    return found[0] if found else None


def _reverse(path: Path) -> int | None:
    back = Path.objects.filter(source=path.destination_id, destination=path.source_id)
    return back.values_list("id", flat=True).first()


def _distance_km(path: Path) -> float:
    here, there = path.source.site, path.destination.site
    return great_circle_km(here.latitude_deg, here.longitude_deg, there.latitude_deg, there.longitude_deg)


def _spans(incidents: Sequence[Incident], now: datetime) -> tuple[charts.Span, ...]:
    return tuple(charts.Span(one.opened_at, one.closed_at or now, one.summary) for one in incidents)
