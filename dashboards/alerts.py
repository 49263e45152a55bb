"""Dashboard "Soundings: alerts and completeness"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard, DynamicConfigValue

from dashboards.colours import RULE_COLOURS
from dashboards.mesh import COVERAGE_LIMITS, open_incidents
from dashboards.panels import BY_DAY, Panel, assemble, bars, time_series
from dashboards.tables import coloured_text, table, with_incident_link, with_path_links, with_site_link


def build() -> Dashboard:
    return assemble(
        "Soundings: alerts and completeness",
        "soundings-alerts",
        "Incidents, the paths with the most incidents, measurement coverage and completeness of results.",
        since="now-7d",
        variables=[],
        panels=_panels(),
        page="/incidents/",
    )


def _panels() -> list[Panel]:
    return [open_incidents(), _by_day(), _paths(), _incidents(), _coverage(), _completeness(), _refused()]


def _by_day() -> TimeSeries:
    panel = time_series("Incidents opened, by day and rule (incidents)", "none", ["incidents_by_day"]).description(
        "Whole UTC days of the last 30, or of a period with fixed ends. A day without a bar had no incident."
    )
    return bars(panel.no_value("no incidents").time_from(BY_DAY), RULE_COLOURS)


def _paths() -> Table:
    panel = table(
        "Paths with the most incidents",
        "At most 20, with the rules that fired on them.",
        "incident_paths",
        {"Incidents": "none"},
        height=10,
        span=12,
    ).no_value("no incidents")
    for column in ("From", "To"):
        panel.override_by_name(column, [DynamicConfigValue("custom.hidden", True)])
    return with_path_links(panel, keep_size=False)


def _incidents() -> Table:
    panel = table(
        "Incidents, newest first",
        "Incidents open at any time of the period, at most 500. Duration: from the onset to the last bad burst.",
        "incidents",
        {"Detected": "dateTimeAsIso", "Resolved": "dateTimeAsIso", "Duration": "s"},
        height=10,
        span=24,
    )
    return with_incident_link(panel)


def _coverage() -> Table:
    panel = table(
        "Measurement coverage, by site",
        "Scheduled bursts of each site's agent up to the last whole hour, measured bursts, and bursts that the agent "
        "reported as not measured. Lowest coverage first.",
        "coverage_sites",
        {"Coverage": "percentunit"},
        height=10,
        span=12,
    )
    return with_site_link(coloured_text(panel, {"Coverage": COVERAGE_LIMITS}))


def _completeness() -> Table:
    panel = table(
        "Completeness, by site",
        "Results received, by the agents' sequence numbers. Missing: dropped or lost by the agent.",
        "completeness",
        {"Complete": "percentunit"},
        height=10,
        span=12,
    )
    return with_site_link(coloured_text(panel, {"Complete": COVERAGE_LIMITS}))


def _refused() -> Table:
    panel = table(
        "Rejected results",
        "Delivered results that cannot be stored, with the reason sent to the agent.",
        "refused",
        {"Newest": "dateTimeAsIso"},
        height=8,
        span=24,
    ).no_value("no rejected results")
    return with_site_link(panel)
