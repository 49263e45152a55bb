"""Measurement coverage while an hour runs: the page and the dashboards use the same function, and show the same.

Bursts of two full hours and of the minutes of the running hour are delivered and rolled up; bursts due in the running
hour and day must not count as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from dashboards.reader import grant
from monitor.archive.models import KeptSince, ThroughputDay, ThroughputHour
from monitor.archive.periods import start_of
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation.completeness import coverage_by_site_and_day
from monitor.archive.queries.tables import Grouping, Tick
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Measurement, MeasurementPeriod, Slot
from monitor.mesh.models import Test as MeshTest
from tests.db.grafana import of_dashboard, run
from tests.db.merging import merge_all
from tests.db.mesh_of_three import MeshOfThree, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PERIODS = [pytest.param(6 * HOUR, id="hours"), pytest.param(5 * DAY, id="days"), pytest.param(120 * DAY, id="months")]
MISSING = 6
"""Bursts of the last whole hour that the agent did not report: 114 of 120 are measured, 95%."""


@dataclass(frozen=True, slots=True)
class RunningHour:
    """The planted mesh, the database's time, and the start of the plan: two hours before the running hour."""

    mesh: MeshOfThree
    now: datetime
    since: datetime

    def rows(self, dashboard: str, where: str, length: timedelta) -> list[dict[str, Any]]:
        variables = {"group": "*", "family": "4", "packet_bytes": "100", "site": "slac"}
        return run(of_dashboard(dashboard)[where], variables, self.now - length, self.now)


@pytest.fixture
def running_hour() -> RunningHour:
    mesh = make_mesh()
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
        cursor.execute("SELECT now()")
        now = cursor.fetchone()[0].astimezone(UTC)
    since = start_of("hour", now) - 2 * HOUR
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=60, parameters={})
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=since)
    MeasurementPeriod.objects.create(measurement=measurement, every_s=60, packet_bytes=[100], started_at=since)
    minutes = [since + number * MINUTE for number in range(180) if since + number * MINUTE < now]
    reported = minutes[: 120 - MISSING] + minutes[120:]
    bursts = [
        delivered(mesh.slac_cern, burst(*[10.0] * 10, at=at), number) for number, at in enumerate(reported, start=1)
    ]
    store(mesh.slac.pk, batch(*bursts), now)
    while roll_up(now):
        continue
    merge_all(now)
    return RunningHour(mesh, now, since)


def page_coverage(planted: RunningHour) -> tuple[int, int]:
    """Planned and measured bursts on the completeness page, of yesterday and today."""
    days = coverage_by_site_and_day(planted.now.date() - DAY, planted.now.date() + DAY, planted.now)
    return sum(day.bursts_planned for day in days), sum(day.bursts_measured for day in days)


def test_the_page_counts_the_plan_up_to_the_last_full_hour(running_hour: RunningHour) -> None:
    assert page_coverage(running_hour) == (120, 114)


@pytest.mark.parametrize("length", PERIODS)
def test_dashboards_show_the_coverage_of_the_page(length: timedelta, running_hour: RunningHour) -> None:
    planned, measured = page_coverage(running_hour)
    [overview] = running_hour.rows("mesh", "Overview/A", length)
    [path] = [row for row in running_hour.rows("site", "Paths, outgoing and incoming/A", length) if row["To"] == "cern"]
    [site] = running_hour.rows("alerts", "Measurement coverage, by site/A", length)

    assert [row["Coverage"] for row in (overview, path, site)] == [measured / planned] * 3 == [0.95] * 3
    assert (site["Planned"], site["Measured"], site["Not measured"]) == (120, 114, 0)


@pytest.mark.parametrize("length", PERIODS)
def test_unreported_bursts_exclude_the_running_hour(length: timedelta, running_hour: RunningHour) -> None:
    rows = running_hour.rows("site", "Coverage (bursts)/A", length)

    assert sum(row["Not reported"] or 0 for row in rows) == MISSING
    assert sum(row["Measured"] or 0 for row in rows) >= 114


def test_an_agent_silent_for_full_hours_lowers_coverage(running_hour: RunningHour) -> None:
    """Hours without results have no summary, but a plan."""
    MeasurementPeriod.objects.update(started_at=running_hour.since - 2 * HOUR)

    [overview] = running_hour.rows("mesh", "Overview/A", 6 * HOUR)
    [site] = running_hour.rows("alerts", "Measurement coverage, by site/A", 6 * HOUR)

    assert overview["Coverage"] == site["Coverage"] == 114 / 240


@pytest.fixture
def minute_20(monkeypatch: pytest.MonkeyPatch) -> RunningHour:
    """A plan of two days, and all of its bursts up to minute 20 of an hour; six of the hour before and all of an hour
    of yesterday are missing."""
    mesh, now = make_mesh(), datetime(2026, 11, 18, 10, 20, tzinfo=UTC)
    since = now - 20 * MINUTE - 34 * HOUR  # midnight
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=60, parameters={})
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=since)
    MeasurementPeriod.objects.create(measurement=measurement, every_s=60, packet_bytes=[100], started_at=since)
    due = [since + number * MINUTE for number in range(34 * 60 + 20)]
    reported = [at for at in due if at.hour != 5 or at.day == now.day]
    reported = [at for at in reported if not now - 26 * MINUTE <= at < now - 20 * MINUTE]
    store(
        mesh.slac.pk,
        batch(*(delivered(mesh.slac_cern, burst(10.0, at=at), n) for n, at in enumerate(reported, 1))),
        now,
    )
    while roll_up(now):
        continue
    merge_all(now)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    return RunningHour(mesh, now, since)


@pytest.mark.parametrize(
    ("length", "planned", "missing"),
    [(20 * MINUTE, None, None), (HOUR, 60, 6), (8 * HOUR, 480, 6), (33 * HOUR, 33 * 60, 66), (3 * DAY, 34 * 60, 66)],
    ids=str,
)
def test_grid_coverage_counts_full_hours(length: timedelta, planned: int, missing: int, minute_20: RunningHour) -> None:
    cells = tables.grid(Metric.COVERAGE, minute_20.now - length, minute_20.now, packet_bytes=100)

    assert [cell.value for cell in cells] == ([] if planned is None else [pytest.approx((planned - missing) / planned)])


def test_grid_coverage_of_two_days_is_that_of_the_page(minute_20: RunningHour) -> None:
    [cell] = tables.grid(Metric.COVERAGE, minute_20.now - 3 * DAY, minute_20.now, packet_bytes=100)

    planned, measured = page_coverage(minute_20)
    assert (planned, measured) == (34 * 60, 34 * 60 - 66)
    assert cell.value == measured / planned


@pytest.mark.parametrize(
    ("tick", "expected"),
    [
        (Tick.HOUR, {8: 1.0, 9: 54 / 60}),
        (Tick.DAY, {0: 594 / 600}),
        (Tick.MONTH, {0: 1974 / 2040}),
    ],
)
def test_table_coverage_ends_with_the_last_full_hour(
    tick: Tick, expected: dict[int, float], minute_20: RunningHour
) -> None:
    since = minute_20.now - (2 * HOUR if tick is Tick.HOUR else timedelta())

    cells = tables.table(Grouping.SITE, Metric.COVERAGE, tick, since, minute_20.now, 100, now=minute_20.now)

    assert {cell.at.hour: cell.value for cell in cells} == pytest.approx(expected)


@pytest.mark.parametrize("length", [6 * HOUR, 5 * DAY])
def test_slots_without_delivery_are_missing_tests(length: timedelta, running_hour: RunningHour) -> None:
    """Three hours without a summary have a slot each; that of the running hour may still be tested. An on-demand slot
    does not belong to the plan."""
    path = running_hour.mesh.slac_cern
    for name in ("throughput", "on-demand"):
        test = MeshTest.objects.create(name=name, kind="throughput", every_s=3600, parameters={})
        measurement = Measurement.objects.create(path=path, test=test, started_at=running_hour.since)
        for number in range(3):
            at = running_hour.since + number * HOUR
            Slot.objects.create(measurement=measurement, starts_at=at, ends_at=at + MINUTE)
    assert not ThroughputHour.objects.exists()

    rows = running_hour.rows("throughput", "Test outcomes (tests)/A", length)

    assert sum(row["No test"] or 0 for row in rows) == 2


@pytest.mark.parametrize("length", [6 * HOUR, 5 * DAY])
def test_tested_slots_are_not_missing_tests(length: timedelta, running_hour: RunningHour) -> None:
    path = running_hour.mesh.slac_cern
    test = MeshTest.objects.create(name="throughput", kind="throughput", every_s=1800, parameters={})
    measurement = Measurement.objects.create(path=path, test=test, started_at=running_hour.since)
    for number in range(4):
        at = running_hour.since + number * HOUR / 2
        Slot.objects.create(measurement=measurement, starts_at=at, ends_at=at + MINUTE)
    figures = {"path_id": path.pk, "tests": 1, "tests_measured": 1, "slots_planned": 2}
    ThroughputHour.objects.create(hour=running_hour.since, **figures)
    ThroughputDay.objects.create(day=start_of("day", running_hour.since), **figures)

    rows = running_hour.rows("throughput", "Test outcomes (tests)/A", length)

    assert sum(row["No test"] or 0 for row in rows) == 3


def test_deleted_slots_are_counted_by_the_summaries(running_hour: RunningHour) -> None:
    KeptSince.objects.create(key="slots", since=running_hour.now + DAY)
    ThroughputHour.objects.create(
        path_id=running_hour.mesh.slac_cern.pk, hour=running_hour.since, tests=1, tests_measured=1, slots_planned=4
    )

    rows = running_hour.rows("throughput", "Test outcomes (tests)/A", 6 * HOUR)

    assert sum(row["No test"] or 0 for row in rows) == 3
