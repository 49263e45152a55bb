"""Metrics of the centre, agents and incidents, labelled by site at most; unknown values have no sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

import probes
from monitor.agents import delivery_counts
from monitor.agents.health import AgentReport, agent_reports
from monitor.alerts.incidents.queries import lasting_counts
from monitor.api.prometheus.other_tests import of_aggregates
from monitor.archive.queries import for_prometheus
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.queries.throughput.aggregates import newest_final_runs
from monitor.archive.upkeep import freshness, samples
from monitor.archive.upkeep.freshness import RecurringWork

AGGREGATES_WITHIN = timedelta(days=7)

Sample = tuple[tuple[str, ...], float | None]


class SystemCollector(Collector):
    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        yield gauge("soundings_build_info", "The centre's version", ("version",), [((probes.__version__,), 1)])
        yield from self._centre()
        yield from _redis()
        yield from _deliveries()
        yield from self._routes()
        yield from of_aggregates(newest_final_runs(self._now - AGGREGATES_WITHIN, self._now))
        yield from _agents(agent_reports(self._now))
        yield gauge(
            "soundings_incidents_open",
            "Open incidents, acknowledged incidents included",
            ("severity", "rule"),
            [((group.severity, group.rule), group.incidents) for group in lasting_counts()],
        )

    def _centre(self) -> Iterator[Metric]:
        sample = samples.newest()
        newest_at = newest_measurement_at()
        yield gauge(
            "soundings_beat_tick_timestamp_seconds",
            "Time of the last task that beat and worker run each minute",
            (),
            [((), None if sample is None else sample.at.timestamp())],
        )
        yield gauge(
            "soundings_database_bytes",
            "Size of the database on disk at that time",
            (),
            [((), None if sample is None else sample.database_bytes)],
        )
        yield gauge(
            "soundings_newest_result_timestamp_seconds",
            "Start of the latest stored result",
            (),
            [((), None if newest_at is None else newest_at.timestamp())],
        )
        yield from self._freshness()
        waiting = {row.tier: row for row in for_prometheus.waiting()}
        tiers = ("hour", "day", "month", "year")
        yield gauge(
            "soundings_summaries_waiting",
            "Pending rollups",
            ("tier",),
            [((tier,), waiting[tier].summaries if tier in waiting else 0) for tier in tiers],
        )
        yield gauge(
            "soundings_summaries_lag_seconds",
            "Age of the oldest pending rollup",
            ("tier",),
            [((tier,), self._lag_s(waiting[tier].since) if tier in waiting else 0) for tier in tiers],
        )

    def _freshness(self) -> Iterator[Metric]:
        times = freshness.load()
        for name, said, at in (
            ("evaluation", "Time of the last evaluation of the alert rules", times.evaluated_at),
            ("notification", "Time of the last run that sent notifications, if any were due", times.notified_at),
        ):
            told = None if at is None else at.timestamp()
            yield gauge(f"soundings_{name}_timestamp_seconds", said, (), [((), told)])
        stale = {stale_work.work for stale_work in times.stale_at(self._now)}
        yield gauge(
            "soundings_stale",
            "1 for work that was last done too long ago, so that pages and incidents are not current",
            ("work",),
            [((work.value,), work in stale) for work in RecurringWork],
        )

    def _routes(self) -> Iterator[Metric]:
        yield counter(
            "soundings_route_changes",
            "Changes of route on the paths from a site, since the UTC day began",
            ("site",),
            [((row.site,), row.changes) for row in for_prometheus.route_change_counts(self._now)],
        )
        yield counter(
            "soundings_traces",
            "Scheduled traces from a site by outcome, since the UTC day began",
            ("site", "outcome"),
            [((row.site, row.outcome), row.traces) for row in for_prometheus.trace_counts(self._now)],
        )

    def _lag_s(self, since: datetime) -> float:
        return max(0.0, (self._now - since).total_seconds())


def _redis() -> Iterator[Metric]:
    queue = samples.queue()
    yield gauge("soundings_redis_up", "Whether the centre's Redis answers", (), [((), queue is not None)])
    yield gauge(
        "soundings_queue_tasks",
        "Celery tasks of the centre, waiting or taken by a worker",
        ("state",),
        [] if queue is None else [(("waiting",), queue.waiting), (("taken",), queue.taken)],
    )


def _deliveries() -> Iterator[Metric]:
    yield counter(
        "soundings_deliveries",
        "Deliveries of agents by the HTTP status of the response, since Redis started",
        ("status",),
        [((status,), count) for status, count in delivery_counts.deliveries().items()],
    )
    yield counter(
        "soundings_results_delivered",
        "Results received from a site, rejected results included",
        ("site",),
        [((row.site,), row.delivered) for row in for_prometheus.delivered_counts()],
    )


def _agents(reports: Iterable[AgentReport]) -> Iterator[Metric]:
    by_site = {report.site: report for report in reports}
    health = {site: report.health for site, report in by_site.items() if report.health is not None}
    yield gauge(
        "soundings_agent_info",
        "Version of a site's agent",
        ("site", "version"),
        [((site, report.agent_version), 1) for site, report in by_site.items()],
    )
    for name, said, values in (
        (
            "accepted_timestamp_seconds",
            "Time of its latest accepted delivery",
            {site: report.accepted_at.timestamp() for site, report in by_site.items()},
        ),
        ("spool_results", "Backlog: results in its spool", {site: report.queued for site, report in by_site.items()}),
        (
            "set_aside_results",
            "Results quarantined in its spool: the centre rejected them",
            {site: figures.set_aside for site, figures in health.items()},
        ),
        (
            "clock_offset_seconds",
            "Offset of its clock from the centre's",
            {site: figures.clock_offset_s for site, figures in health.items()},
        ),
        (
            "clock_uncertainty_seconds",
            "Uncertainty of the clock offset",
            {site: figures.clock_uncertainty_s for site, figures in health.items()},
        ),
        (
            "clock_synchronised",
            "Whether its clock is synchronised, as its kernel reports",
            {
                site: figures.kernel_clock.is_synchronised
                for site, figures in health.items()
                if figures.kernel_clock is not None
            },
        ),
        (
            "load1",
            "Load average over 1 minute",
            {site: figures.load_1min for site, figures in health.items()},
        ),
    ):
        yield gauge(f"soundings_agent_{name}", said, ("site",), [((site,), value) for site, value in values.items()])
    yield counter(
        "soundings_agent_dropped_results",
        "Results dropped from its spool in total",
        ("site",),
        [((site,), report.dropped) for site, report in by_site.items()],
    )
    yield counter(
        "soundings_agent_lost_cycles",
        "Missed cycles since it started",
        ("site",),
        [((site,), figures.lost_ticks) for site, figures in health.items()],
    )


def gauge(name: str, said: str, labels: tuple[str, ...], values: Iterable[Sample]) -> Metric:
    return _filled(GaugeMetricFamily(name, said, labels=labels), values)


def counter(name: str, said: str, labels: tuple[str, ...], values: Iterable[Sample]) -> Metric:
    """Exposed as `name`_total."""
    return _filled(CounterMetricFamily(name, said, labels=labels), values)


def _filled(family: Any, values: Iterable[Sample]) -> Metric:
    for labels, value in values:
        if value is not None:
            family.add_metric(labels, float(value))
    metric: Metric = family
    return metric
