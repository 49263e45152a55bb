"""The dashboard "Soundings: path": one path's RTT, loss, IPDV, throughput and coverage."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import VisibilityMode
from grafana_foundation_sdk.models.dashboard import Dashboard, DynamicConfigValue

from dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    Panel,
    Properties,
    assemble,
    bars,
    colour,
    coloured,
    of_a_path,
    points,
    table,
    time_series,
)


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: path",
        "soundings-path",
        "One path between two sites: round-trip times, loss, throughput, and what was not measured.",
        since="now-7d",
        variables=of_a_path(),
        panels=_panels(),
        annotation="annotation_path",
        page="/paths/${path}/",
    )


def _panels() -> list[Panel]:
    return [_period(), _rtt(), _loss(), _ipdv(), _coverage(), throughput(span=24), throughput_tests()]


def _period() -> Table:
    return table(
        "The period in numbers, by packet size",
        "Loss is lost over sent in the whole period. With none lost of N it is not shown as 0: it is below 3/N, with "
        "95% confidence. Bursts during our own throughput tests are left out.",
        "period",
        {
            "Loss": "percentunit",
            "Loss below": "percentunit",
            "RTT minimum": "ms",
            "RTT median": "ms",
            "RTT maximum": "ms",
        },
        height=6,
        span=24,
    )


def _rtt() -> TimeSeries:
    panel = time_series("Round-trip time (ms)", "ms", ["rtt"]).description(
        "Quantiles of all round-trip times of each hour, or day where the period is longer than 83 days. A gap: no "
        "reply, or nothing measured."
    )
    panel.override_by_name("Median", [*colour(BLUE), DynamicConfigValue("custom.lineWidth", 2)])
    panel.override_by_name("75%", [*colour(SKY), *_band_down_to("25%")])
    panel.override_by_name("Maximum", [*colour(GREY), DynamicConfigValue("custom.lineStyle", {"fill": "dot"})])
    return coloured(panel, {"25%": SKY, "95%": ORANGE, "Minimum": GREEN})


def _loss() -> TimeSeries:
    panel = time_series("Packet loss (% of packets sent)", "percentunit", ["loss"]).description(
        "Lost over sent in each hour, or day where the period is longer than 83 days. Where none of N packets was "
        "lost, the loss is below the point at 3/N, with 95% confidence. No bar and no point: nothing was sent."
    )
    bars(panel, {"Lost": RED}, stacked=False)
    return panel.override_by_name("None lost: below 3/N", [*colour(GREEN), *points(4)])


def _ipdv() -> TimeSeries:
    panel = time_series("Delay variation, IPDV (ms)", "ms", ["ipdv"]).description(
        "The inter-quartile range of the differences between neighbouring round trips of a burst (RFC 3393, RFC "
        "5481). A gap: too few replies, or nothing measured."
    )
    return coloured(panel, {"IPDV": PURPLE})


def _coverage() -> TimeSeries:
    panel = time_series("Coverage (bursts)", "none", ["coverage"]).description(
        "What became of the bursts that the plan asks for, by hour, or by day where the period is longer than 83 "
        "days. Not measured: the agent said why (no such name, no permission, no route). Nothing reported: due, and "
        "no result has come, from the agent or at all."
    )
    colours = {"Measured": GREEN, "All lost": RED, "During own test": PURPLE}
    return bars(panel, {**colours, "Not measured": ORANGE, "Nothing reported": GREY})


def throughput(*, span: int) -> TimeSeries:
    """Measured throughput, the estimate and the capacity of the chosen path."""
    queries = ["throughput_measured", "throughput_estimated", "capacity"]
    panel = time_series("Throughput: measured, estimated, capacity (bit/s)", "bps", queries, span=span).description(
        "Measured: one point a test. Estimated: MSS·8/(RTT·√loss) of Mathis, from the loss and RTT of each hour or "
        "day. With no loss seen the estimate is only a floor, at the upper 95% bound of the loss. It describes Reno; "
        "CUBIC gets more on long paths. Capacity: the narrowest link, there or back."
    )
    floor = "Estimated, none lost: at least"
    panel.override_by_name("Measured", [*colour(BLUE), *points(8)])
    panel.override_by_name("Estimated (Mathis)", [*colour(ORANGE), *_visible_points()])
    panel.override_by_name(
        floor, [*colour(GREY), *_visible_points(), DynamicConfigValue("custom.lineStyle", {"fill": "dash"})]
    )
    return panel.override_by_name("Capacity", [*colour(GREEN), *points(6)])


def throughput_tests() -> Table:
    """The tests of the chosen path, one by one."""
    return table(
        "Throughput tests, newest first",
        "Every test of the period, at most 200, with what came of it. One that failed has no figures.",
        "throughput_tests",
        {"Throughput": "bps", "Duration": "s", "RTT mean": "ms"},
        height=8,
        span=24,
    )


def _visible_points() -> Properties:
    """Estimates and floors alternate, so a lone hour between two of the other kind must show as a point."""
    return [DynamicConfigValue("custom.showPoints", VisibilityMode.ALWAYS)]


def _band_down_to(column: str) -> Properties:
    return [DynamicConfigValue("custom.fillBelowTo", column), DynamicConfigValue("custom.fillOpacity", 25)]
