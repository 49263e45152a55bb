"""Run requests through the plugin, check the answers, count queries, runs and rows, and collect the faults."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.grafana.frames import (
    Field,
    Frame,
    alert_faults,
    annotation_faults,
    name_faults,
    panel_faults,
    query_faults,
    read,
    verdict_faults,
)
from tests.grafana.frontend import hidden_by_their_text
from tests.grafana.plugin import Plugin, Request
from tests.grafana.provisioned import (
    Dashboard,
    Period,
    Rows,
    Selections,
    Variable,
    alert_rules,
    hostile,
    nothing,
    offered_by,
    resolve,
    variable_request,
)

OTHER_PERIODS = (
    timedelta(minutes=5),
    timedelta(days=2.5),
    timedelta(days=30),
    timedelta(days=120),
    timedelta(days=3000),
)
"""Shorter than a step, and through all the sizes of rollup."""

HOSTILE = """o'brien "x" \\ ; -- é"""
"""A text that somebody may write into the address of a dashboard."""

Check = Callable[[Sequence[Frame]], Iterable[str]]


@dataclass(slots=True)
class Count:
    """Number of runs of a dashboard's queries, and their rows."""

    queries: set[str] = field(default_factory=set)
    with_rows: set[str] = field(default_factory=set)
    runs: int = 0
    rows: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0


@dataclass(slots=True)
class Runs:
    """All runs through a plugin. `planted` is the period of most planted rows."""

    plugin: Plugin
    planted: Period
    now: datetime
    counts: dict[str, Count] = field(default_factory=lambda: defaultdict(Count))
    faults: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How often each fault was seen."""
    columns: dict[str, list[Field]] = field(default_factory=lambda: defaultdict(list))
    """Columns that each panel's queries returned."""

    def dashboard(self, dashboard: Dashboard) -> None:
        """Every panel and annotation for every combination of options and period; then without options, and with
        hostile values."""
        for period in self._periods(dashboard):
            for selections in self._resolved(dashboard, period):
                self._page(dashboard, selections, period)
        period = dashboard.period(self.now)
        empty = {variable["name"]: nothing(variable) for variable in dashboard.variables}
        opened = next(self._resolved(dashboard, period))
        for selections in (empty, hostile(opened, HOSTILE)):
            for variable in dashboard.variables:
                offered_by(variable, self._rows_of(dashboard, period), selections)
            self._page(dashboard, selections, period)
        for panel in dashboard.panels:
            place = f"{dashboard.name}: {panel['title']}"
            for fault in name_faults(panel, self.columns[place]):
                self.faults[f"{place}: {fault}"] += 1
        self._demand_rows(dashboard.name)

    def alert_rules(self) -> None:
        """The queries of each rule by themselves, then the rule by Grafana's expressions."""
        for rule in alert_rules(self.now):
            for request in rule.queries:
                self._run("alert rules", rule.uid, request, alert_faults)
            results = self.plugin.answer(rule.whole)
            self.counts["alert rules"].runs += 1
            for fault in verdict_faults(results[rule.condition], results):
                self.faults[f"alert rules: {rule.uid}: {fault}"] += 1
        self._demand_rows("alert rules")

    def _periods(self, dashboard: Dashboard) -> list[Period]:
        others = [(self.now - length, self.now) for length in OTHER_PERIODS]
        return [dashboard.period(self.now), self.planted, *others]

    def _resolved(self, dashboard: Dashboard, period: Period) -> Iterator[Selections]:
        return resolve(dashboard.variables, self._rows_of(dashboard, period))

    def _rows_of(self, dashboard: Dashboard, period: Period) -> Callable[[Variable, str], Rows]:
        """Runs the query of a variable."""

        def rows_of(variable: Variable, sql: str) -> Rows:
            place = f"${variable['name']}"
            frames = self._run(dashboard.name, place, variable_request(variable, sql, period), lambda frames: ())
            rows = [record for frame in frames for record in frame.records()]
            for value in hidden_by_their_text(rows):
                self.faults[f"{dashboard.name}: {place}: {value} has the text of another option"] += 1
            return rows

        return rows_of

    def _page(self, dashboard: Dashboard, selections: Selections, period: Period) -> None:
        """The requests of a dashboard when opened or refreshed."""
        for panel in dashboard.panels:
            frames = self._run(
                dashboard.name,
                panel["title"],
                dashboard.panel_request(panel, selections, period),
                lambda frames, panel=panel: panel_faults(panel, frames),
            )
            self.columns[f"{dashboard.name}: {panel['title']}"] += [
                replace(column, values=()) for frame in frames for column in frame.fields
            ]
        for annotation in dashboard.annotations:
            request = dashboard.annotation_request(annotation, selections, period)
            self._run(dashboard.name, f"@{annotation['name']}", request, annotation_faults)

    def _run(self, name: str, place: str, request: Request, check: Check) -> list[Frame]:
        """Frames of all queries of a request."""
        count = self.counts[name]
        begin_s = time.perf_counter()
        results = self.plugin.answer(request)
        took_s = time.perf_counter() - begin_s
        count.runs += len(request.models)
        count.seconds += took_s
        count.slowest_s = max(count.slowest_s, took_s)
        frames = []
        for model in request.models:
            letter = model["refId"]
            query = f"{name}: {place}" + (f"/{letter}" if len(request.models) > 1 else "")
            count.queries.add(query)
            for fault in query_faults(results[letter]):
                self.faults[f"{query}: {fault}"] += 1
            of_query = read(results[letter])
            rows = sum(frame.rows for frame in of_query)
            count.rows += rows
            if rows:
                count.with_rows.add(query)
            frames += of_query
        for fault in check(frames):
            self.faults[f"{name}: {place}: {fault}"] += 1
        return frames

    def _demand_rows(self, name: str) -> None:
        """A query that never returned a row proves nothing about its columns."""
        for query in sorted(self.counts[name].queries - self.counts[name].with_rows):
            self.faults[f"{query}: never returned a row"] += 1
