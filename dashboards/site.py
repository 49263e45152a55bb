"""Dashboard "Soundings: site"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, limits
from dashboards.mesh import COVERAGE_LIMITS, LOSS_LIMITS
from dashboards.panels import (
    BY_DAY,
    COVERS,
    Panel,
    assemble,
    bars,
    coloured,
    covers,
    loss_series,
    stat,
    time_series,
    variable,
)
from dashboards.system import AGENT_LIMITS
from dashboards.tables import coloured_text, table, with_incident_link, with_path_links


def build() -> Dashboard:
    return assemble(
        "Soundings: site",
        "soundings-site",
        "A site: its incoming and outgoing paths, agent status, coverage and incidents.",
        since="now-24h",
        variables=[
            variable("site", "Site", "Site to show"),
            variable("packet_bytes", "Packet size", "Bytes of ICMP payload", query="planned_bytes"),
            covers(),
        ],
        panels=_panels(),
        annotation="annotation_site",
        page="/sites/${site}/",
    )


def _panels() -> list[Panel]:
    return [_agent(), _paths(), _loss(), _coverage(), _completeness(), _incidents()]


def _agent() -> Stat:
    return stat(
        "Agent",
        "Status at the latest delivery. No data: the site has no agent, or it has never reported.",
        "site_agent",
        {"Last delivery": "s", "Clock offset": "s"},
        {**AGENT_LIMITS, "Dropped (total)": limits((1.0, ORANGE))},
    )


def _paths() -> Table:
    panel = table(
        f"Paths, outgoing and incoming{COVERS}",
        "Highest loss first. Without loss in N packets, its upper bound is 3/N (95% "
        "confidence). No loss and no bound: nothing sent. Coverage: up to the last whole hour.",
        "site_paths",
        {
            "Loss": "percentunit",
            "Loss, upper bound": "percentunit",
            "RTT minimum": "ms",
            "RTT mean": "ms",
            "Throughput": "bps",
            "Coverage": "percentunit",
        },
        height=10,
        span=24,
    )
    return with_path_links(coloured_text(panel, {"Loss": LOSS_LIMITS, "Coverage": COVERAGE_LIMITS}))


def _loss() -> TimeSeries:
    panel = loss_series("Packet loss, all paths (% of packets sent)", ["site_loss"]).description(
        "Lost over sent of all outgoing and of all incoming paths: by the minute at least up to three hours, beyond by "
        "hour, or by day for periods longer than two days. Loss in both directions: check the site; in a single "
        "direction: its agent or host first. Gaps: nothing sent."
    )
    return coloured(panel, {"Out": BLUE, "In": ORANGE})


def _coverage() -> TimeSeries:
    panel = time_series("Coverage (bursts)", "none", ["site_coverage"]).description(
        "Not measured: the agent reported why. Not reported: scheduled up to the last whole hour, but no result "
        "received. By hour, or by day for periods longer than two days. Gaps: no rollup."
    )
    colours = {"Measured": GREEN, "During throughput test": PURPLE}
    return bars(panel, {**colours, "Not measured": ORANGE, "Not reported": GREY})


def _completeness() -> TimeSeries:
    panel = time_series("Completeness, by day (results)", "none", ["site_completeness"], span=8).description(
        "Results received, and results missing by the gaps in their sequence numbers: dropped or lost by the agent."
    )
    return bars(panel.time_from(BY_DAY), {"Delivered": GREEN, "Missing": RED})


def _incidents() -> Table:
    panel = table(
        "Incidents, newest first",
        "Incidents of the period on paths from or to the site, at most 100.",
        "site_incidents",
        {"Detected": "dateTimeAsIso", "Resolved": "dateTimeAsIso"},
        height=10,
        span=16,
    )
    return with_incident_link(panel)
