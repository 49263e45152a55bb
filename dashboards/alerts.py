"""The dashboard "Soundings: alerts and completeness": incidents, and what is missing of the results."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.mesh import open_incidents
from dashboards.panels import Panel, assemble, bars, table, time_series, with_incident_link, with_path_links


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: alerts and completeness",
        "soundings-alerts",
        "Incidents, the paths that are in most of them, and what was measured and delivered of the plan.",
        since="now-7d",
        variables=[],
        panels=_panels(),
        page="/completeness/",
    )


def _panels() -> list[Panel]:
    return [open_incidents(), _by_day(), _paths(), _incidents(), _coverage(), _completeness(), _refused()]


def _by_day() -> TimeSeries:
    panel = time_series("Incidents that opened, by day and rule (incidents)", "none", ["incidents_by_day"]).description(
        "Whole UTC days that the period touches. A day without any is drawn as zero of no rule."
    )
    return bars(panel, {})


def _paths() -> Table:
    panel = table(
        "The paths in most incidents",
        "At most 20, with the rules that found something on them.",
        "incident_paths",
        {"Incidents": "none"},
        height=9,
        span=12,
    ).no_value("no incident")
    return with_path_links(panel)


def _incidents() -> Table:
    panel = table(
        "Incidents of the period, newest first",
        "Those that lasted at any moment of it, at most 500.",
        "incidents",
        {"Opened": "dateTimeAsIso", "Closed": "dateTimeAsIso", "Lasted": "s"},
        height=10,
        span=24,
    )
    return with_incident_link(panel)


def _coverage() -> Table:
    return table(
        "Measured of the plan, by site",
        "Bursts that the mesh asks of a site's agent, those measured, and those that it says it could not measure. The "
        "poorest first.",
        "coverage_sites",
        {"Measured of the plan": "percentunit"},
        height=9,
        span=12,
    )


def _completeness() -> Table:
    return table(
        "Delivered, by site",
        "Results that came of those that the agents numbered. Missing: the agent had to drop them, or lost them.",
        "completeness",
        {"Complete": "percentunit"},
        height=9,
        span=12,
    )


def _refused() -> Table:
    return table(
        "Results that were refused",
        "What was delivered and can never be stored, with the reason that the agent was told.",
        "refused",
        {"Newest": "dateTimeAsIso"},
        height=8,
        span=24,
    ).no_value("none refused")
