"""The dashboard "Soundings: site": the paths of one site, how its agent is, how complete its results are."""

from __future__ import annotations

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Panel,
    assemble,
    bars,
    coloured,
    stat,
    table,
    time_series,
    variable,
    with_incident_link,
    with_path_links,
)


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: site",
        "soundings-site",
        "One site: its paths in and out, how its agent is, what was measured of its plan, and its incidents.",
        since="now-24h",
        variables=[
            variable("site", "Site", "The site whose paths are shown"),
            variable("packet_bytes", "Packet size", "Bytes of ICMP payload", query="planned_bytes"),
        ],
        panels=_panels(),
        annotation="annotation_site",
        page="/sites/",
    )


def _panels() -> list[Panel]:
    return [_agent(), _paths(), _loss(), _coverage(), _completeness(), _incidents()]


def _agent() -> Stat:
    return stat(
        "Its agent",
        "How the agent was at its newest delivery. No data: the site has no agent, or it has not delivered yet.",
        "site_agent",
        {"Last delivery": "s", "Clock off by": "s"},
    )


def _paths() -> Table:
    panel = table(
        "Its paths, out and in",
        "Figures of the whole period, those that lost most first. With none lost of N the loss is below 3/N, with 95% "
        "confidence. No loss and no bound: nothing was sent.",
        "site_paths",
        {
            "Loss": "percentunit",
            "Loss below": "percentunit",
            "RTT minimum": "ms",
            "RTT mean": "ms",
            "Throughput": "bps",
            "Measured of the plan": "percentunit",
        },
        height=10,
        span=24,
    )
    return with_path_links(panel)


def _loss() -> TimeSeries:
    panel = time_series("Packet loss of all its paths (% of packets sent)", "percentunit", ["site_loss"]).description(
        "Lost over sent on all paths out of the site together, and on all paths into it; by hour, by day beyond two "
        "days. Both directions bad: look at the site; one alone: at its agent or host first. A gap: nothing was sent."
    )
    return coloured(panel, {"Out": BLUE, "In": ORANGE})


def _coverage() -> TimeSeries:
    panel = time_series("What its agent measured of its plan (bursts)", "none", ["site_coverage"]).description(
        "Not measured: the agent said why. Nothing reported: planned, and no result has come. By hour, by day beyond "
        "two days. A gap: no summary at all."
    )
    return bars(panel, {"Measured": GREEN, "Not measured": ORANGE, "Nothing reported": GREY})


def _completeness() -> TimeSeries:
    panel = time_series("What it delivered, by day (results)", "none", ["site_completeness"]).description(
        "Results that came, and those missing by the gaps in their numbers, which the agent had to drop or lost."
    )
    return bars(panel, {"Delivered": GREEN, "Missing": RED})


def _incidents() -> Table:
    panel = table(
        "Its incidents, newest first",
        "Incidents of the period with any path from or to the site, at most 100.",
        "site_incidents",
        {"Opened": "dateTimeAsIso", "Closed": "dateTimeAsIso"},
        height=9,
        span=12,
    )
    return with_incident_link(panel)
