"""Dashboard "Soundings: throughput"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.colours import BLUE, GREEN, GREY, ORANGE
from dashboards.panels import COVERS, Panel, Section, assemble, bars, colour, of_a_path, points, time_series, variable
from dashboards.paths import retransmits, throughput, throughput_tests
from dashboards.tables import table, with_path_links

BPS = "bps"


def build() -> Dashboard:
    return assemble(
        "Soundings: throughput",
        "soundings-throughput",
        "Throughput tests of all paths, and details of a path: measured, estimated, capacity, and limiting factors.",
        since="now-7d",
        variables=[variable("group", "Group", "Paths between sites of this group"), *of_a_path()],
        panels=_panels(),
        annotation="annotation_path",
        page="/throughput/",
        with_routes=True,
    )


def _panels() -> list[Panel | Section]:
    return [
        _paths(),
        _outcomes(),
        _verdicts(),
        throughput(),
        retransmits(),
        throughput_tests(),
        Section(
            "Capacity, links, request and response, aggregates",
            [_capacities(), _links(), _responses(), _aggregates()],
            is_collapsed=True,
        ),
    ]


def _paths() -> Table:
    panel = table(
        f"Tested paths, slowest first{COVERS}",
        "Paths of the selected group with throughput tests or a capacity in the period. Estimate: Mathis (Reno), from "
        "the loss and mean RTT of pings of the selected packet size; without loss it is a lower bound. Capacity: the "
        "latest estimate of the bottleneck, in either direction.",
        "throughput_paths",
        dict.fromkeys(("Mean", "Maximum", "Estimate", "Estimate, lower bound", "Capacity"), BPS),
        height=10,
        span=24,
    ).no_value("–")
    return with_path_links(panel)


def _outcomes() -> TimeSeries:
    panel = time_series("Test outcomes (tests)", "none", ["throughput_outcomes"]).description(
        "Tests of the selected group. Failed: run without a result. No test: scheduled up to the last whole hour, "
        "but no result received. By hour, or by day for periods longer than two days."
    )
    return bars(panel, {"Measured": GREEN, "Failed": ORANGE, "No test": GREY})


def _verdicts() -> Table:
    return table(
        "Limiting factors",
        "Verdicts on the tests of the selected group, most frequent first. A test without intervals has no verdict.",
        "verdicts",
        {"Tests": "none", "Paths": "none"},
        height=10,
        span=12,
    )


def _links() -> TimeSeries:
    panel = time_series("Use of links (bit/s)", BPS, ["link_use", "link_weeks"], span=24).description(
        "Counters of the interfaces of the selected path, of its source or of a router: averages of 5 minutes, or of "
        "an hour for periods longer than two days. Points: the 95th percentile of each week, at its end."
    )
    for name, shade in (("In", GREEN), ("Out", ORANGE)):
        panel.override_by_name(name, [*colour(shade)])
        panel.override_by_name(f"{name}, 95th percentile", [*colour(shade), *points(8)])
    return panel.override_by_name("Speed", [*colour(GREY)])


def _capacities() -> Table:
    return table(
        "Capacity measurements, newest first",
        "Estimates of the selected path's bottleneck, in either direction; inconclusive measurements give a reason. "
        "A lower bound without an upper bound: the capacity is at least that.",
        "capacity_results",
        {"Capacity": BPS, "Lower bound": BPS, "Upper bound": BPS},
        height=8,
        span=24,
    )


def _responses() -> TimeSeries:
    panel = time_series("Request and response by run (ms)", "ms", ["responses"], span=24).description(
        "Latency of the transactions of each request-response run of the selected path: median and 95th percentile. "
        "Runs during throughput tests are left out."
    )
    panel.override_by_name("Median", [*colour(BLUE), *points(8)])
    return panel.override_by_name("95th percentile", [*colour(ORANGE), *points(8)])


def _aggregates() -> Table:
    return table(
        "Aggregate tests, newest first",
        "Aggregate tests of the period, at most 200. Sum: of all members while all sent; none where one is missing.",
        "aggregates",
        {"Sum": BPS, "Fairness (Jain)": "none"},
        height=8,
        span=24,
    )
