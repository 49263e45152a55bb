"""The dashboard "Soundings: system": how the centre and the agents do, not the network."""

from __future__ import annotations

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.panels import BLUE, GREEN, ORANGE, PURPLE, RED, Panel, assemble, coloured, stat, table, time_series

EACH_MINUTE = "The centre notes this each minute; a gap is a time in which beat or worker did not run."


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: system",
        "soundings-system",
        "Soundings itself: what comes in, what waits, how far behind the figures are, and how each agent is.",
        since="now-6h",
        variables=[],
        panels=_panels(),
        page="/sites/",
    )


def _panels() -> list[Panel]:
    return [_now(), _ingest(), _lag(), _queue(), _spools(), _spool_of_sites(), _database(), _agents()]


def _now() -> Stat:
    return stat(
        "Now",
        "How long ago beat and worker last did something, and a delivery last came; what waits. Beat and worker above "
        "two minutes: one of them has stopped.",
        "system_now",
        {"Beat and worker": "s", "Newest delivery": "s", "Database": "bytes"},
    )


def _each_minute(title: str, unit: str, query: str, said: str, colours: dict[str, str]) -> TimeSeries:
    return coloured(
        time_series(title, unit, [query]).interval("1m").description(f"{said} {EACH_MINUTE}"),
        colours,
    )


def _ingest() -> TimeSeries:
    return _each_minute(
        "Results that come in (results/s)",
        "none",
        "ingest_rate",
        "Stored and refused results a second, the busiest minute of each step.",
        {"Stored": GREEN, "Refused": RED},
    )


def _lag() -> TimeSeries:
    return _each_minute(
        "How far behind (s)",
        "s",
        "lag",
        "The age of the newest result of all agents, and how long the longest waiting hour has waited for its summary.",
        {"Newest result": BLUE, "Summary of an hour": ORANGE},
    )


def _queue() -> TimeSeries:
    return _each_minute(
        "What waits at the centre (tasks, hours)",
        "none",
        "queue",
        "Tasks in Redis that no worker has taken, and hours that wait for their summary.",
        {"Tasks": PURPLE, "Hours to summarise": ORANGE},
    )


def _spools() -> TimeSeries:
    return _each_minute(
        "What waits at the agents (results)",
        "none",
        "spools",
        "Results in the spools of all agents, as they said with their newest deliveries.",
        {"Results": BLUE},
    )


def _spool_of_sites() -> TimeSeries:
    return (
        time_series("What waits at each agent, in the last day of the period (results)", "none", ["spool_of_sites"])
        .interval("1m")
        .description(
            "Results that a delivery left in the agent's spool, the most in each step. A gap: nothing was delivered."
        )
    )


def _database() -> TimeSeries:
    return _each_minute(
        "The database on its disk (bytes)", "bytes", "database", "All tables with their indexes.", {"Database": BLUE}
    )


def _agents() -> Table:
    return table(
        "Agents, the longest silent first",
        "How each was at its newest delivery. Dropped: results that its spool could not keep, ever. Set aside: results "
        "that the centre refused. Cycles lost: due, and not begun, since the agent started. No figures: not heard of.",
        "agents",
        {"Last delivery": "s", "Clock off by": "s"},
        height=10,
        span=24,
    )
