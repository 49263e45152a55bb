"""The dashboard "Soundings: throughput": what was measured, what was to be expected, and what limits it."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.panels import (
    GREEN,
    GREY,
    ORANGE,
    Panel,
    assemble,
    bars,
    of_a_path,
    table,
    time_series,
    variable,
    with_path_links,
)
from dashboards.paths import throughput, throughput_tests

BPS = "bps"


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: throughput",
        "soundings-throughput",
        "Throughput tests of all paths and of one: measured, estimated, the capacity, and what limited the tests.",
        since="now-7d",
        variables=[variable("group", "Group", "Paths between sites of this group"), *of_a_path()],
        panels=_panels(),
        annotation="annotation_path",
    )


def _panels() -> list[Panel]:
    return [_paths(), _outcomes(), _verdicts(), throughput(span=24), throughput_tests(), _capacities()]


def _paths() -> Table:
    panel = table(
        "All paths with tests or a capacity, the slowest first",
        "Over the period, paths of the chosen group. The estimate is Mathis's, from the loss and the mean round trip "
        "of the pings of the chosen packet size: what Reno would get. With none lost it is a floor. Capacity: the "
        "newest estimate of the narrowest link, there or back.",
        "throughput_paths",
        dict.fromkeys(("Mean", "Greatest", "Estimate", "Estimate, at least", "Capacity"), BPS),
        height=10,
        span=24,
    ).no_value("–")
    return with_path_links(panel)


def _outcomes() -> TimeSeries:
    panel = time_series("What became of the planned tests (tests)", "none", ["throughput_outcomes"]).description(
        "Tests of the chosen group. Failed: tried, and no figure came of it. No test: a slot was planned, and there is "
        "no result. By hour, by day beyond two days."
    )
    return bars(panel, {"Measured": GREEN, "Failed": ORANGE, "No test": GREY})


def _verdicts() -> Table:
    return table(
        "What limited the tests",
        "The verdicts on the tests of the chosen group, the commonest first. A test without intervals has none.",
        "verdicts",
        {"Tests": "none", "Paths": "none"},
        height=9,
        span=12,
    )


def _capacities() -> Table:
    return table(
        "Capacity measurements of the chosen path, newest first",
        "Estimates of the narrowest link, there or back; one that cannot tell says why. At least without at most is a "
        "lower bound.",
        "capacity_results",
        {"Capacity": BPS, "At least": BPS, "At most": BPS},
        height=8,
        span=24,
    )
