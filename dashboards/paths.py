"""Dashboard "Soundings: path"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.common import ScaleDistributionConfig
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import ScaleDistribution, VisibilityMode
from grafana_foundation_sdk.models.dashboard import Dashboard, DynamicConfigValue

from dashboards.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from dashboards.panels import (
    COVERS,
    Panel,
    Properties,
    assemble,
    bars,
    colour,
    coloured,
    loss_series,
    of_a_path,
    points,
    time_series,
)
from dashboards.postgres import Direction
from dashboards.tables import table
from monitor.analysis.figures import EXCLUDED_PACKETS

DIRECTIONS: tuple[Direction, ...] = ("forward", "reverse")
OF_DIRECTION: dict[Direction, str] = {"forward": "", "reverse": ", reverse path"}
ABOUT_DIRECTION: dict[Direction, str] = {
    "forward": "",
    "reverse": " Measured from the destination's host to the source's; no data if that has no agent.",
}


def build() -> Dashboard:
    return assemble(
        "Soundings: path",
        "soundings-path",
        "A path between two sites: RTT, loss, jitter, throughput and coverage.",
        since="now-24h",
        variables=of_a_path(),
        panels=_panels(),
        annotation="annotation_path",
        page="${path_page}",
        with_routes=True,
    )


def _panels() -> list[Panel]:
    return [
        _period(),
        *(_rtt(direction) for direction in DIRECTIONS),
        *(_loss(direction) for direction in DIRECTIONS),
        _direction_losses(),
        _direction_delays(),
        _ipdv(),
        _coverage(),
        throughput(),
        retransmits(),
        throughput_tests(),
    ]


def _period() -> Table:
    return table(
        f"Statistics by packet size{COVERS}",
        "Loss is lost over sent. Without loss in N packets, its upper bound 3/N (95% confidence) "
        f"is shown instead of 0. {EXCLUDED_PACKETS}",
        "period",
        {
            "Loss": "percentunit",
            "Loss, upper bound": "percentunit",
            "RTT minimum": "ms",
            "RTT median": "ms",
            "RTT maximum": "ms",
        },
        height=6,
        span=24,
    )


def _rtt(direction: Direction) -> TimeSeries:
    panel = time_series(
        f"RTT{OF_DIRECTION[direction]} (ms)", "ms", ["rtt"], direction=direction, least=None
    ).description(
        "Quantiles of the RTTs of each burst up to two days, beyond by hour, or by day beyond 83 days: "
        "median, interquartile range, and minimum to maximum. Gaps: no reply, or not measured."
        + ABOUT_DIRECTION[direction]
    )
    panel.override_by_name("Maximum", [*colour(GREY), *_band_down_to("Minimum", 15), *_line_width(0)])
    panel.override_by_name("75%", [*colour(SKY), *_band_down_to("25%", 35), *_line_width(0)])
    panel.override_by_name("Median", [*colour(BLUE), *_line_width(2)])
    for column, column_colour in (("25%", SKY), ("Minimum", GREY)):
        panel.override_by_name(column, [*colour(column_colour), *_line_width(0)])
    return coloured(panel, {"95%": ORANGE})


def _loss(direction: Direction) -> TimeSeries:
    title = f"Packet loss{OF_DIRECTION[direction]} (% of packets sent)"
    panel = loss_series(title, ["loss", "loss_bound"], direction=direction).description(
        "Lost over sent: by the minute at least up to two days, beyond by hour, or by day for periods longer than 83 "
        "days. The upper bound 3/N (95% confidence) of each hour without loss in N packets is hidden: click on its "
        "name. A gap in the bound and no loss: nothing sent." + ABOUT_DIRECTION[direction]
    )
    bars(panel, {"Lost": RED}, stacked=False)
    return panel.override_by_name("No loss: upper bound 3/N", [*colour(GREY), *points(4), HIDDEN_AT_FIRST])


def _direction_losses() -> TimeSeries:
    panel = loss_series("Loss by direction, STAMP (% of packets sent)", ["direction_loss"]).description(
        "Lost over sent on the way to the destination (forward) and back (reverse), by the reflector's counters: of "
        "each STAMP cycle up to two days, beyond by hour, or by day beyond 83 days. No data: no STAMP test, or a "
        "reflector without counters. Packets of a path that is down are in neither: nobody knows how far they came."
    )
    return bars(panel, {"Forward": BLUE, "Reverse": ORANGE}, stacked=False)


def _direction_delays() -> TimeSeries:
    panel = time_series("One-way delay, STAMP (ms)", "ms", ["direction_delay"], least=None).description(
        "The delay of each direction lies between its bounds, which the clocks of both ends allow. Where these are "
        "closer than a quarter of the RTT a line is their middle: a step of one line while the other stays is a change "
        "in that direction; an error of the clocks moves both, in opposite directions. Without lines a change of one "
        "direction moves all bounds: which direction changed is told by an incident, which compares raw delays. Means "
        "over the hour or day for periods longer than two days."
    )
    for name, line in (("Forward", BLUE), ("Reverse", ORANGE)):
        panel.override_by_name(f"{name}, upper bound", [*colour(line), *_band_down_to(f"{name}, lower bound", 15)])
        for bound in ("lower", "upper"):
            panel.override_by_name(f"{name}, {bound} bound", [*colour(line), *_line_width(0)])
        panel.override_by_name(name, [*colour(line), *_line_width(2)])
    return panel


def _ipdv() -> TimeSeries:
    panel = time_series("Jitter, IPDV (ms)", "ms", ["ipdv"]).description(
        "Interquartile range of the differences between consecutive RTTs of a burst (RFC 3393, RFC 5481). Gaps: too "
        "few replies, or not measured."
    )
    return coloured(panel, {"IPDV": PURPLE})


def _coverage() -> TimeSeries:
    panel = time_series("Coverage (bursts)", "none", ["coverage"]).description(
        "Scheduled bursts by hour, or by day for periods longer than 83 days. Not measured: the agent reported why (no "
        "such name, no permission, no route). Not reported: due, but no result received."
    )
    colours = {"Measured": GREEN, "100% loss": RED, "During throughput test": PURPLE}
    return bars(panel, {**colours, "Not measured": ORANGE, "Not reported": GREY})


def throughput() -> TimeSeries:
    queries = ["throughput_measured", "throughput_estimated", "capacity"]
    panel = time_series(
        "Throughput: measured, estimated, capacity (bit/s)", "bps", queries, span=16, least=None
    ).description(
        "Measured: a point per test. Estimated: Mathis (Reno), MSS·8/(RTT·√loss), from the loss and RTT of each hour "
        "or day; without loss it is a lower bound, computed from the upper 95% bound of the loss. CUBIC gets more on "
        "long paths. Capacity: the bottleneck of the path, in either direction."
    )
    panel.scale_distribution(ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
    floor = "Mathis estimate, no loss: lower bound"
    panel.override_by_name("Measured", [*colour(BLUE), *points(8)])
    panel.override_by_name("Mathis estimate", [*colour(ORANGE), *_visible_points()])
    panel.override_by_name(
        floor, [*colour(GREY), *_visible_points(), DynamicConfigValue("custom.lineStyle", {"fill": "dash"})]
    )
    return panel.override_by_name("Capacity", [*colour(GREEN), *points(6)])


def retransmits() -> TimeSeries:
    panel = time_series("Retransmits by test (segments)", "none", ["retransmits"], span=8).description(
        "TCP segments that the sender transmitted again in a throughput test. No point: the tool gave no count."
    )
    return panel.override_by_name("Retransmits", [*colour(RED), *points(8)])


def throughput_tests() -> Table:
    return table(
        "Throughput tests, newest first",
        "All tests of the period, at most 200, with their outcomes. A failed test has no figures.",
        "throughput_tests",
        {"Throughput": "bps", "Duration": "s", "RTT mean": "ms"},
        height=8,
        span=24,
    )


# The bound of an hour is far above the loss of most hours, and would set the axis.
HIDDEN_AT_FIRST = DynamicConfigValue("custom.hideFrom", {"viz": True, "legend": False, "tooltip": False})


def _visible_points() -> Properties:
    # Estimates and lower bounds alternate, and a single hour draws no line.
    return [DynamicConfigValue("custom.showPoints", VisibilityMode.ALWAYS)]


def _band_down_to(column: str, opacity_percent: int) -> Properties:
    return [
        DynamicConfigValue("custom.fillBelowTo", column),
        DynamicConfigValue("custom.fillOpacity", opacity_percent),
    ]


def _line_width(width_px: int) -> Properties:
    return [DynamicConfigValue("custom.lineWidth", width_px)]
