"""Use of interfaces: five-minute averages, weeks, and newest readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from monitor.archive.periods import week_of
from monitor.archive.statements import check_period, check_raw_period, optional_list, records, run_statement
from monitor.mesh.document.entries import ON_DEMAND


@dataclass(frozen=True, slots=True)
class InterfaceAverage:
    """Five minutes of an interface; errors and drops are packets of both directions."""

    at: datetime
    in_bps: float
    out_bps: float
    errors: int
    drops: int
    during_test: bool


@dataclass(frozen=True, slots=True)
class InterfaceWeekFigures:
    """Week of an interface; 95th percentiles are None without averages."""

    path_id: int
    test: str
    week: date
    five_minutes: int
    in_p95_bps: float | None
    out_p95_bps: float | None
    speed_bps: float | None


@dataclass(frozen=True, slots=True)
class InterfaceReading:
    """Reading; errors and drops are None where not counted."""

    path_id: int
    test: str
    at: datetime
    router: str | None
    interface: str | None
    alias: str | None
    speed_bps: float | None
    interval_s: float
    in_bps: float
    out_bps: float
    in_errors: int | None
    out_errors: int | None
    in_drops: int | None
    out_drops: int | None


@dataclass(frozen=True, slots=True)
class WeeklyRates:
    """Scheduled TCP tests of a path in a week: rate exceeded by 95%, and fastest."""

    path_id: int
    week: date
    tests: int
    low_bps: float
    fastest_bps: float


def interface_averages(path_id: int, test: str, since: datetime, until: datetime) -> list[InterfaceAverage]:
    """Averages of a period. Raises `ValueError` for more than a day."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "test": test, "since": since, "until": until}
    return records(InterfaceAverage, *run_statement("interface_averages", **parameters))


def interface_weeks(path_ids: Sequence[int] | None, since: datetime, until: datetime) -> list[InterfaceWeekFigures]:
    """Weeks within the period, by path, test and week; of all paths if None."""
    check_period(since, until)
    parameters = {"path_ids": optional_list(path_ids), "since": week_of(since), "until": week_of(until)}
    return records(InterfaceWeekFigures, *run_statement("interface_weeks", **parameters))


def newest_interfaces(path_ids: Sequence[int] | None, since: datetime, until: datetime) -> list[InterfaceReading]:
    """Newest reading of each test and path in the period; of all paths if None."""
    check_raw_period(since, until)
    parameters = {"path_ids": optional_list(path_ids), "since": since, "until": until}
    return records(InterfaceReading, *run_statement("newest_interfaces", **parameters))


def weekly_rates(path_ids: Sequence[int], since: datetime, until: datetime) -> list[WeeklyRates]:
    check_period(since, until)
    parameters = {"path_ids": list(path_ids), "since": since, "until": until, "left_out": ON_DEMAND}
    return records(WeeklyRates, *run_statement("weekly_rates", **parameters))
