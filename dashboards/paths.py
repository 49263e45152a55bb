"""The dashboard "Soundings: path": one path's RTT, loss, throughput and coverage, chosen by sites and packet size.

`build()` gives the SDK's model; `python -m dashboards` writes it to `json/paths.json`. All queries read hourly
summaries, and the tests of throughput, of which there are few; none reads raw bursts.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import (
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DynamicConfigValue,
    VariableRefresh,
    VariableSort,
)

from dashboards.postgres import DATA_SOURCE, SqlQuery, sql

UID = "soundings-path"
HOUR_MS = 3_600_000

# Okabe and Ito's palette, which colour-blind people can tell apart.
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#8E8E8E"


def build() -> Dashboard:
    """The whole dashboard."""
    builder = (
        dashboard_builder.Dashboard("Soundings: path")
        .uid(UID)
        .description("One path between two sites: round-trip times, loss, throughput, and what was not measured.")
        .tags(["soundings"])
        .timezone("utc")
        .time("now-7d", "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
    )
    for variable in _variables():
        builder.with_variable(variable)
    for panel_id, panel in enumerate(_panels(), start=1):
        builder.with_panel(panel.id(panel_id).datasource(DATA_SOURCE))
    return builder.build()


def _variables() -> list[dashboard_builder.QueryVariable]:
    on_load, on_period = VariableRefresh.ON_DASHBOARD_LOAD, VariableRefresh.ON_TIME_RANGE_CHANGED
    return [
        _variable("source", "From", "Site that sends", on_load),
        _variable("destination", "To", "Site that answers", on_load),
        _variable("path", "Path", "Hosts and address family; follows from the two sites", on_load),
        _variable("packet_bytes", "Packet size", "Bytes of ICMP payload", on_period),
    ]


def _variable(name: str, label: str, description: str, refresh: VariableRefresh) -> dashboard_builder.QueryVariable:
    return (
        dashboard_builder.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(DATA_SOURCE)
        .query(sql(f"variable_{name}"))
        .refresh(refresh)
        .sort(VariableSort.DISABLED)
        .multi(False)
        .include_all(False)
    )


def _panels() -> list[TimeSeries | Table]:
    return [_period(), _rtt(), _loss(), _throughput(), _coverage(), _throughput_tests()]


def _period() -> Table:
    panel = (
        Table()
        .title("The period in numbers, by packet size")
        .description(
            "Loss is lost over sent in the whole period. With none lost of N it is not shown as 0: it is below 3/N, "
            "with 95% confidence. Bursts during our own throughput tests are left out."
        )
        .with_target(SqlQuery("A", sql("period"), "table"))
        .show_header(True)
        .no_value("–")
        .height(6)
        .span(24)
    )
    for column, unit in (
        ("Loss", "percentunit"),
        ("Loss below", "percentunit"),
        ("RTT minimum", "ms"),
        ("RTT median", "ms"),
        ("RTT maximum", "ms"),
    ):
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    return panel


def _rtt() -> TimeSeries:
    panel = (
        _time_series("Round-trip time by hour (ms)", "ms")
        .description("Quantiles of all round-trip times of each hour. A gap: no reply, or nothing measured.")
        .with_target(SqlQuery("A", sql("rtt"), "time_series"))
        .min(0)
        .insert_nulls(HOUR_MS)
    )
    panel.override_by_name("Median", [*_colour(BLUE), DynamicConfigValue("custom.lineWidth", 2)])
    panel.override_by_name("75%", [*_colour(SKY), *_band_down_to("25%")])
    panel.override_by_name("25%", _colour(SKY))
    panel.override_by_name("95%", _colour(ORANGE))
    panel.override_by_name("Minimum", _colour(GREEN))
    panel.override_by_name("Maximum", [*_colour(GREY), DynamicConfigValue("custom.lineStyle", {"fill": "dot"})])
    return panel


def _loss() -> TimeSeries:
    panel = (
        _time_series("Packet loss by hour (% of packets sent)", "percentunit")
        .description(
            "Lost over sent in each hour. Where none of N packets was lost, the loss is below the point at 3/N, with "
            "95% confidence. No bar and no point: nothing was sent."
        )
        .with_target(SqlQuery("A", sql("loss"), "time_series"))
        .min(0)
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(80)
    )
    panel.override_by_name("Lost", _colour(RED))
    panel.override_by_name("None lost: below 3/N", [*_colour(GREEN), *_points(4)])
    return panel


def _throughput() -> TimeSeries:
    floor = "Estimated, none lost: at least"
    panel = (
        _time_series("Throughput: measured and estimated (bit/s)", "bps")
        .description(
            "Measured: iperf3, one point a test. Estimated: MSS·8/(RTT·√loss) of Mathis, from the hour's loss and RTT. "
            "With no loss seen the estimate is only a floor, at the upper 95% bound of the loss. It describes Reno; "
            "CUBIC gets more on long paths."
        )
        .with_target(SqlQuery("A", sql("throughput_measured"), "time_series"))
        .with_target(SqlQuery("B", sql("throughput_estimated"), "time_series"))
        .min(0)
        .insert_nulls(HOUR_MS)
    )
    panel.override_by_name("Measured", [*_colour(BLUE), *_points(8)])
    panel.override_by_name("Estimated (Mathis)", [*_colour(ORANGE), *_visible_points()])
    panel.override_by_name(
        floor, [*_colour(GREY), *_visible_points(), DynamicConfigValue("custom.lineStyle", {"fill": "dash"})]
    )
    return panel


def _coverage() -> TimeSeries:
    panel = (
        _time_series("Coverage by hour (bursts)", "none")
        .description(
            "What became of the bursts that the plan asks for. Not measured: the agent said why (no such name, no "
            "permission, no route). Nothing reported: due, and no result has come, from the agent or at all."
        )
        .with_target(SqlQuery("A", sql("coverage"), "time_series"))
        .min(0)
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common_builder.StackingConfig().mode(StackingMode.NORMAL).group("bursts"))
    )
    for column, colour in (
        ("Measured", GREEN),
        ("All lost", RED),
        ("During own test", PURPLE),
        ("Not measured", ORANGE),
        ("Nothing reported", GREY),
    ):
        panel.override_by_name(column, _colour(colour))
    return panel


def _throughput_tests() -> Table:
    panel = (
        Table()
        .title("Throughput tests, newest first")
        .description("Every test of the period, at most 200, with what came of it. One that failed has no figures.")
        .with_target(SqlQuery("A", sql("throughput_tests"), "table"))
        .show_header(True)
        .no_value("–")
        .height(8)
        .span(24)
    )
    for column, unit in (("Throughput", "bps"), ("Duration", "s"), ("RTT mean", "ms")):
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    return panel


def _time_series(title: str, unit: str) -> TimeSeries:
    """A chart over time whose lines have gaps where there is nothing to show."""
    legend = common_builder.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return (
        TimeSeries()
        .title(title)
        .unit(unit)
        .no_value("–")
        .height(9)
        .span(12)
        .span_nulls(False)
        .show_points(VisibilityMode.AUTO)
        .legend(legend.show_legend(True))
        .tooltip(common_builder.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.NONE))
    )


def _colour(colour: str) -> list[DynamicConfigValue]:
    return [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})]


def _points(size: int) -> list[DynamicConfigValue]:
    return [
        DynamicConfigValue("custom.drawStyle", GraphDrawStyle.POINTS),
        DynamicConfigValue("custom.pointSize", size),
        DynamicConfigValue("custom.fillOpacity", 0),
    ]


def _visible_points() -> list[DynamicConfigValue]:
    """Estimates and floors alternate, so a lone hour between two of the other kind must show as a point."""
    return [DynamicConfigValue("custom.showPoints", VisibilityMode.ALWAYS)]


def _band_down_to(column: str) -> list[DynamicConfigValue]:
    return [DynamicConfigValue("custom.fillBelowTo", column), DynamicConfigValue("custom.fillOpacity", 25)]
