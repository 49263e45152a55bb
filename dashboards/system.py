"""Dashboard "Soundings: system"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import LineInterpolation
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.colours import BLUE, GREEN, ORANGE, PURPLE, RED, TEXT, limits
from dashboards.panels import Panel, assemble, coloured, stat, time_series
from dashboards.postgres import LATE_AFTER_MIN
from dashboards.tables import coloured_text, table, with_site_link

AGENT_LIMITS = {
    "Last delivery": limits((LATE_AFTER_MIN * 60.0, RED)),
    "Clock offset": limits((-0.1, TEXT), (0.1, ORANGE), below=ORANGE),
}
EACH_MINUTE = "Sampled by the centre each minute; gaps: beat or worker did not run."


def build() -> Dashboard:
    return assemble(
        "Soundings: system",
        "soundings-system",
        "Soundings itself: ingest rate, backlogs, lag and agent status.",
        since="now-6h",
        variables=[],
        panels=_panels(),
        page="/sites/",
        with_incidents=False,
    )


def _panels() -> list[Panel]:
    return [_now(), _ingest(), _lag(), _queue(), _spools(), _spool_of_sites(), _database(), _agents()]


def _now() -> Stat:
    return stat(
        "Status",
        "Time since the last heartbeat of beat and worker and since the last delivery, and backlogs. Beat and worker "
        "above two minutes: one of them has stopped. Overdue rollups: those that waited for longer than they should.",
        "system_now",
        {"Beat and worker": "s", "Latest delivery": "s", "Database": "bytes"},
        {
            "Beat and worker": limits((120.0, RED)),
            "Latest delivery": limits((LATE_AFTER_MIN * 60.0, RED)),
            "Overdue rollups": limits((1.0, ORANGE)),
        },
    )


def _each_minute(title: str, unit: str, query: str, description: str, colours: dict[str, str]) -> TimeSeries:
    return coloured(
        _by_minute(time_series(title, unit, [query])).description(f"{description} {EACH_MINUTE}"),
        colours,
    )


def _ingest() -> TimeSeries:
    return _each_minute(
        "Ingest rate (results/s)",
        "short",
        "ingest_rate",
        "Stored and rejected results per second, the busiest minute of each interval.",
        {"Stored": GREEN, "Rejected": RED},
    )


def _lag() -> TimeSeries:
    return _each_minute(
        "Lag (s)",
        "s",
        "lag",
        "Age of the newest result of all agents, and of the oldest pending rollup of an hour.",
        {"Latest result": BLUE, "Oldest pending rollup": ORANGE},
    )


def _queue() -> TimeSeries:
    return _each_minute(
        "Centre backlog (tasks, hours)",
        "none",
        "queue",
        "Tasks in Redis that no worker has taken, and hours whose rollup is overdue by a minute.",
        {"Tasks": PURPLE, "Overdue rollups": ORANGE},
    )


def _spools() -> TimeSeries:
    return _each_minute(
        "Agent backlog (results)",
        "none",
        "spools",
        "Results in the spools of all agents, as of their latest deliveries.",
        {"Results": BLUE},
    )


def _spool_of_sites() -> TimeSeries:
    panel = time_series("Backlog by agent, last day of the period (results)", "none", ["spool_of_sites"])
    return _by_minute(panel).description(
        "Results left in the agent's spool after a delivery, maximum of each interval. Gaps: no delivery."
    )


def _by_minute(panel: TimeSeries) -> TimeSeries:
    return panel.interval("1m").line_interpolation(LineInterpolation.LINEAR)


def _database() -> TimeSeries:
    return _each_minute(
        "Database size (bytes)", "bytes", "database", "All tables with their indexes.", {"Database": BLUE}
    )


def _agents() -> Table:
    panel = table(
        "Agents, longest silent first",
        "Status at the latest delivery. Dropped: results that its spool could not keep, in total. Quarantined: results "
        "that the centre rejected. Missed cycles: since the agent started. No figures: never reported.",
        "agents",
        {"Last delivery": "s", "Clock offset": "s"},
        height=10,
        span=24,
    )
    return with_site_link(coloured_text(panel, AGENT_LIMITS))
