"""The use of links by interface counters, or by tests of paths with a promised rate, and when they are full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from monitor.analysis.link_use import MOST_WEEKS, FullForecast, FullVerdict, forecast_full
from monitor.archive.queries.throughput.interfaces import (
    InterfaceReading,
    InterfaceWeekFigures,
    WeeklyRates,
    interface_weeks,
    newest_interfaces,
    weekly_rates,
)
from monitor.mesh.document.service_levels import ServiceLevel, settings_for
from monitor.mesh.models import Mesh, Path, Test
from monitor.mesh.queries import groups_of_sites, place_of

WEEK = timedelta(days=7)
NEWEST_WITHIN = timedelta(hours=1)
# A link without readings is shown until its newest week began this long ago: its test may be gone.
SHOWN_AFTER = timedelta(weeks=5)
# Half of a week.
LEAST_FIVE_MINUTES = 1008
# In a week; of fewer a percentile is just the slowest.
LEAST_TESTS = 20
# Share of the capacity reached by the fastest test; slower tests have another limit than others' traffic.
REACHED_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class WeekOfUse:
    """The 95th percentile of a week, in the busier direction."""

    week: date
    p95_bps: float


@dataclass(frozen=True, slots=True)
class LinkUse:
    path_id: int
    test: str | None  # None with use from throughput tests
    direction: str  # the fuller: "in" or "out" of the interface
    newest: InterfaceReading | None  # of the last hour
    weeks: tuple[WeekOfUse, ...]  # in this direction
    forecast: FullForecast

    @property
    def name(self) -> str:
        """The interface: `eth0`, or `xe-0/0/1 (transit) of 192.0.2.1`."""
        if self.test is None:
            return "by throughput tests"
        if self.newest is None or self.newest.interface is None:
            return self.test
        alias = "" if self.newest.alias is None else f" ({self.newest.alias})"
        router = "" if self.newest.router is None else f" of {self.newest.router}"
        return f"{self.newest.interface}{alias}{router}"

    @property
    def statement(self) -> str:
        """The forecast, with its source if not the counters."""
        late = self.test is None and self.forecast.verdict is not FullVerdict.CANNOT_TELL
        return f"{self.forecast.words}{', by throughput tests' if late else ''}"

    @property
    def as_of(self) -> date | None:
        return self.weeks[-1].week + timedelta(days=6) if self.weeks else None


def link_uses(path_ids: Sequence[int] | None, levels: Mapping[int, ServiceLevel], now: datetime) -> list[LinkUse]:
    """The links of these paths (all if None): first with interface counters, then by throughput tests."""
    by_test = defaultdict(list)
    for week in interface_weeks(path_ids, now - MOST_WEEKS * WEEK, now):
        by_test[week.path_id, week.test].append(week)
    newest = {(row.path_id, row.test): row for row in newest_interfaces(path_ids, now - NEWEST_WITHIN, now)}
    recent = {key for key, weeks in by_test.items() if weeks[-1].week >= (now - SHOWN_AFTER).date()}
    keys = sorted(recent | newest.keys())
    given = _given_capacities({test for _, test in keys})
    uses = [
        _by_counters(path_id, test, by_test[path_id, test], newest.get((path_id, test)), given.get(test), levels)
        for path_id, test in keys
    ]
    counted = {path_id for path_id, _ in keys}
    promises = {
        path_id: level.promised_bps
        for path_id, level in levels.items()
        if level.promised_bps is not None and path_id not in counted and (path_ids is None or path_id in path_ids)
    }
    return uses + _by_tests(promises, now)


def links_of_path(path: Path, now: datetime) -> list[LinkUse]:
    levels = Mesh.objects.values_list("service_levels", flat=True).first()
    level = settings_for(levels, place_of(path, groups_of_sites())) if levels else None
    return link_uses([path.pk], {} if level is None else {path.pk: level}, now)


def _given_capacities(tests: set[str]) -> dict[str, float | None]:
    if not tests:
        return {}
    rows = Test.objects.filter(name__in=tests).values_list("name", "parameters")
    return {name: parameters.get("capacity_bps") for name, parameters in rows}


def _by_counters(
    path_id: int,
    test: str,
    weeks: Sequence[InterfaceWeekFigures],
    newest: InterfaceReading | None,
    given_bps: float | None,
    levels: Mapping[int, ServiceLevel],
) -> LinkUse:
    speeds = [week.speed_bps for week in weeks[-1:]] if newest is None else [newest.speed_bps]
    promised_bps = levels[path_id].promised_bps if path_id in levels else None
    possible = [bps for bps in (*speeds, promised_bps) if bps is not None]
    capacity_bps = given_bps or (min(possible) if possible else None)
    measured = [week for week in weeks if week.five_minutes >= LEAST_FIVE_MINUTES]
    directions = {
        "out": [WeekOfUse(week.week, week.out_p95_bps) for week in measured if week.out_p95_bps is not None],
        "in": [WeekOfUse(week.week, week.in_p95_bps) for week in measured if week.in_p95_bps is not None],
    }
    forecasts = {name: _forecast(use, capacity_bps) for name, use in directions.items()}
    direction = min(directions, key=lambda name: (_urgency(forecasts[name]), -_last_bps(directions[name])))
    return LinkUse(path_id, test, direction, newest, tuple(directions[direction]), forecasts[direction])


def _by_tests(promises: Mapping[int, float], now: datetime) -> list[LinkUse]:
    """The use of links without counters: the promised rate less the rate that tests still reach."""
    if not promises:
        return []
    by_path: dict[int, list[WeeklyRates]] = defaultdict(list)
    monday = now - timedelta(days=now.weekday())
    until = monday.replace(hour=0, minute=0, second=0, microsecond=0)
    for rates in weekly_rates(list(promises), until - MOST_WEEKS * WEEK, until):
        if rates.tests >= LEAST_TESTS:
            by_path[rates.path_id].append(rates)
    uses = []
    for path_id, weeks in sorted(by_path.items()):
        if weeks[-1].week < (now - SHOWN_AFTER).date():
            continue
        capacity_bps = promises[path_id]
        use = [WeekOfUse(week.week, max(capacity_bps - week.low_bps, 0.0)) for week in weeks]
        if max(week.fastest_bps for week in weeks) < REACHED_RATIO * capacity_bps:
            reason = "no test reached 80% of the promised rate, so the tests do not show the use by others"
            forecast = FullForecast(FullVerdict.CANNOT_TELL, reason, capacity_bps)
        else:
            forecast = _forecast(use, capacity_bps)
        uses.append(LinkUse(path_id, None, "out", None, tuple(use), forecast))
    return uses


def _forecast(use: Sequence[WeekOfUse], capacity_bps: float | None) -> FullForecast:
    return forecast_full([week.week.toordinal() // 7 for week in use], [week.p95_bps for week in use], capacity_bps)


def _urgency(forecast: FullForecast) -> tuple[int, int]:
    order = (FullVerdict.FULL, FullVerdict.FULL_IN, FullVerdict.CANNOT_TELL, FullVerdict.NOT_WITHIN_YEAR)
    return order.index(forecast.verdict), forecast.weeks or 0


def _last_bps(use: Sequence[WeekOfUse]) -> float:
    return use[-1].p95_bps if use else 0.0
