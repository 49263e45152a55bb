"""The archive as a source of snapshots, up to a past or present moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np

from monitor.alerts.detect.past.kept_bursts import KeptBursts
from monitor.alerts.detect.past.minute_counts import MINUTES, MinuteCounts, rest_of_minute_s
from monitor.alerts.detect.past.recent_bursts import BurstsOfTrips, BurstTable
from monitor.alerts.detect.route_effects import RouteEffect, recent_effects
from monitor.analysis.routes.compare import RouteHops
from monitor.archive.queries import for_alerts
from monitor.archive.queries.for_alerts import Columns, LeftOutHours
from monitor.archive.queries.operation.deliveries import agent_contacts
from monitor.archive.queries.routes.periods import routes_at
from monitor.mesh.models import Path, Site
from monitor.routes.loaded_tables import current_tables
from monitor.routes.places import of_addresses

HOURS_ARE_KEPT = timedelta(minutes=1)


class Source(Protocol):
    """The queries of `monitor.archive.queries.for_alerts`. No result holds data younger than `until` or `now`."""

    def recent_counts(self, until: datetime, step_s: float, steps: int) -> Columns: ...

    def lacking_s(self, until: datetime, step_s: float, steps: int) -> float:
        """How many seconds the newest step of `recent_counts` is shorter than `step_s`."""
        ...

    def hourly_counts(self, since: datetime, until: datetime, now: datetime) -> Columns: ...

    def baseline_counts(
        self,
        since: datetime,
        hours_since: datetime,
        until: datetime,
        season: Sequence[datetime],
        left_out: LeftOutHours,
    ) -> Columns: ...

    def recent_directions(self, until: datetime, step_s: float, steps: int) -> Columns: ...

    def hourly_directions(self, since: datetime, until: datetime, now: datetime) -> Columns: ...

    def baseline_directions(
        self,
        since: datetime,
        hours_since: datetime,
        until: datetime,
        season: Sequence[datetime],
        left_out: LeftOutHours,
    ) -> Columns: ...

    def recent_delays(self, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns: ...

    def newest_tests(self, path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns: ...

    def newest_responses(self, path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns: ...

    def hourly_responses(self, since: datetime, until: datetime) -> Columns: ...

    def daily_figures(self, since: datetime, until: datetime) -> Columns: ...

    def recent_bursts(
        self,
        path_ids: Sequence[int],
        packet_bytes: Sequence[int],
        since_s: Sequence[float],
        until: datetime,
        *,
        with_rtts: bool,
    ) -> BurstTable:
        """Bursts of `for_alerts.recent_round_trips` with figures; without `with_rtts` RTTs may be left out."""
        ...

    def requests(self, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns: ...

    def routes(self, path_ids: Sequence[int], now: datetime) -> Mapping[int, RouteHops]:
        """The route of each path at `now`; paths without traces are left out."""
        ...

    def as_paths(self, now: datetime) -> Mapping[str, frozenset[int]]:
        """The paths through each AS at `now`; empty without an AS table."""
        ...

    def route_effects(self, path_ids: Sequence[int], now: datetime) -> tuple[RouteEffect, ...]: ...

    def agents(self, now: datetime) -> Mapping[str, float]:
        """When each site's agent last delivered before `now`, in seconds since the epoch."""
        ...


class StoredSource(BurstsOfTrips):
    """The archive up to a moment.

    The running hour is counted from raw bursts, as its rollup may include later data.
    """

    recent_counts = staticmethod(for_alerts.recent_counts)
    baseline_counts = staticmethod(for_alerts.baseline_counts)
    recent_directions = staticmethod(for_alerts.recent_directions)
    baseline_directions = staticmethod(for_alerts.baseline_directions)
    recent_delays = staticmethod(for_alerts.recent_delays)
    newest_tests = staticmethod(for_alerts.newest_tests)
    requests = staticmethod(for_alerts.requests)
    newest_responses = staticmethod(for_alerts.newest_responses)
    hourly_responses = staticmethod(for_alerts.hourly_responses)
    daily_figures = staticmethod(for_alerts.daily_figures)
    route_effects = staticmethod(recent_effects)
    recent_round_trips = staticmethod(for_alerts.recent_round_trips)

    def hourly_counts(self, since: datetime, until: datetime, now: datetime) -> Columns:
        running = until - for_alerts.HOUR
        so_far = self.counts_since(running, now) if now > running else {}
        return _with_running(for_alerts.hourly_counts(since, running), so_far)

    def counts_since(self, hour: datetime, now: datetime) -> Columns:
        """The counts of the running hour so far, as a single step."""
        return for_alerts.recent_counts(now, (now - hour).total_seconds(), 1)

    def hourly_directions(self, since: datetime, until: datetime, now: datetime) -> Columns:
        running = until - for_alerts.HOUR
        so_far = for_alerts.recent_directions(now, (now - running).total_seconds(), 1) if now > running else {}
        return _with_running(for_alerts.hourly_directions(since, running), so_far)

    def routes(self, path_ids: Sequence[int], now: datetime) -> Mapping[int, RouteHops]:
        return {path_id: period.route for path_id, period in routes_at(path_ids, now).items()}

    def as_paths(self, now: datetime) -> Mapping[str, frozenset[int]]:
        if current_tables().asn is None:
            return {}
        return _paths_by_as(self.routes(list(Path.objects.in_use().values_list("pk", flat=True)), now))

    def agents(self, now: datetime) -> Mapping[str, float]:
        contacts = {contact.site_id: contact.received_at for contact in agent_contacts() if contact.received_at <= now}
        sites = Site.objects.filter(pk__in=contacts).values_list("pk", "name")
        return {name: contacts[site_id].timestamp() for site_id, name in sites}


class SourceOfWorker(StoredSource):
    """The archive, with minute counts and newest bursts kept between evaluations, and hours read once a minute."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[datetime, datetime], datetime, Columns]] = {}
        self._minutes = MinuteCounts(lambda: list(Path.objects.in_use().values_list("pk", flat=True)))
        self._bursts = KeptBursts(self.recent_round_trips)

    def recent_counts(self, until: datetime, step_s: float, steps: int) -> Columns:
        if _is_of_minutes(step_s, steps):
            return self._minutes.steps(until, step_s, steps)
        return for_alerts.recent_counts(until, step_s, steps)

    def lacking_s(self, until: datetime, step_s: float, steps: int) -> float:
        return rest_of_minute_s(until) if _is_of_minutes(step_s, steps) else 0.0

    def counts_since(self, hour: datetime, now: datetime) -> Columns:
        return self._minutes.since(hour, now)

    def recent_bursts(
        self,
        path_ids: Sequence[int],
        packet_bytes: Sequence[int],
        since_s: Sequence[float],
        until: datetime,
        *,
        with_rtts: bool,
    ) -> BurstTable:
        return self._bursts.recent(path_ids, packet_bytes, since_s, until, with_rtts=with_rtts)

    def hourly_counts(self, since: datetime, until: datetime, now: datetime) -> Columns:
        return self._kept_or_read("counts", super().hourly_counts, (since, until), now)

    def hourly_directions(self, since: datetime, until: datetime, now: datetime) -> Columns:
        return self._kept_or_read("directions", super().hourly_directions, (since, until), now)

    def _kept_or_read(
        self,
        name: str,
        read: Callable[[datetime, datetime, datetime], Columns],
        period: tuple[datetime, datetime],
        now: datetime,
    ) -> Columns:
        if name in self._kept:
            of_period, read_at, columns = self._kept[name]
            if of_period == period and timedelta() <= now - read_at < HOURS_ARE_KEPT:
                return columns
        self._kept[name] = period, now, read(*period, now)
        return self._kept[name][2]


def _is_of_minutes(step_s: float, steps: int) -> bool:
    return step_s % for_alerts.MINUTE_S == 0 and step_s * steps <= MINUTES * for_alerts.MINUTE_S


def _with_running(whole: Columns, so_far: Columns) -> Columns:
    """Add the running hour so far to whole hours, as step 0."""
    whole["step"] = whole["step"] + 1
    return {name: np.concatenate([column, *([so_far[name]] if so_far else [])]) for name, column in whole.items()}


STORED = StoredSource()


def _paths_by_as(routes: Mapping[int, RouteHops]) -> dict[str, frozenset[int]]:
    addresses = {address for route in routes.values() for address in route.hops if address is not None}
    names = {address: name.as_text for address, name in of_addresses(sorted(addresses)).items()}
    through: dict[str, set[int]] = defaultdict(set)
    for path_id, route in routes.items():
        for address in route.hops:
            name = None if address is None else names[address]
            if name is not None:
                through[name].add(path_id)
    return {name: frozenset(path_ids) for name, path_ids in through.items()}
