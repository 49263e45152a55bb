"""Building blocks of all dashboards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders.geomap import Panel as Geomap
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import (
    BarAlignment,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    DynamicConfigValue,
    RowPanel,
    VariableHide,
    VariableRefresh,
    VariableSort,
)

from dashboards.colours import BLUE, ORANGE, PURPLE, RED, TEXT, null_as, thresholds
from dashboards.postgres import DATA_SOURCE, Direction, SqlQuery, sql

TAG = "soundings"

Panel = Geomap | Stat | Table | TimeSeries


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a heading; a collapsed section runs its queries once it is opened."""

    title: str
    panels: Sequence[Panel]
    is_collapsed: bool = False


Properties = list[DynamicConfigValue]


ON_LOAD, ON_PERIOD = VariableRefresh.ON_DASHBOARD_LOAD, VariableRefresh.ON_TIME_RANGE_CHANGED


def assemble(
    title: str,
    uid: str,
    description: str,
    *,
    since: str,
    variables: Iterable[dashboard_builder.QueryVariable],
    panels: Iterable[Panel | Section],
    annotation: str = "annotation_mesh",
    page: str = "/",
    with_routes: bool = False,
    with_incidents: bool = True,
) -> Dashboard:
    """Build a dashboard of the web page `page`.

    Annotations come from sql/`annotation`.sql, annotation_summaries.sql, and for a path annotation_route_changes.sql
    and annotation_reply_ttl.sql.
    """
    builder = (
        dashboard_builder.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("utc")
        .time(since, "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(_other_dashboards())
        .link(_our_page(page))
        .annotation(_annotation("Incidents", annotation, RED).enable(with_incidents))
        .annotation(_annotation("Summaries behind", "annotation_summaries", ORANGE))
        .with_variable(_pages())
    )
    if with_routes:
        builder.annotation(_annotation("Route changes", "annotation_route_changes", PURPLE))
        builder.annotation(_annotation("Reply TTL", "annotation_reply_ttl", BLUE))
    for query_variable in variables:
        builder.with_variable(query_variable)
    ids = count(1)
    for part in panels:
        if isinstance(part, Section):
            _add_section(builder, part, ids)
        else:
            builder.with_panel(part.id(next(ids)).datasource(DATA_SOURCE))
    dashboard = builder.build()
    _close_gaps(dashboard)
    return dashboard


def _add_section(builder: dashboard_builder.Dashboard, section: Section, ids: Iterator[int]) -> None:
    row = dashboard_builder.Row(section.title).id(next(ids))
    panels = [panel.id(next(ids)).datasource(DATA_SOURCE) for panel in section.panels]
    if section.is_collapsed:
        for panel in panels:
            row.with_panel(panel)
    builder.with_row(row)
    if not section.is_collapsed:
        for panel in panels:
            builder.with_panel(panel)


def _close_gaps(dashboard: Dashboard) -> None:
    """Move what follows a collapsed row up to it: the SDK leaves room for the row's panels."""
    hidden = 0
    for part in dashboard.panels or ():
        assert part.grid_pos is not None
        part.grid_pos.y -= hidden
        if isinstance(part, RowPanel) and part.panels:
            bottom = max(panel.grid_pos.y + panel.grid_pos.h for panel in part.panels if panel.grid_pos)
            for panel in part.panels:
                assert panel.grid_pos is not None
                panel.grid_pos.y -= hidden
            hidden = bottom - (part.grid_pos.y + 1)


def variable(
    name: str, label: str, description: str, *, query: str | None = None, refresh: VariableRefresh = ON_LOAD
) -> dashboard_builder.QueryVariable:
    """A single-choice variable, filled from sql/variable_`query`.sql, by default `name`."""
    return (
        dashboard_builder.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(DATA_SOURCE)
        .query(sql(f"variable_{query or name}"))
        .refresh(refresh)
        .sort(VariableSort.DISABLED)
        .multi(False)
        .include_all(False)
    )


# The period of panels by day, whatever relative period is chosen: in one of hours they would be empty.
BY_DAY = "30d"
# The unit of counts, which have no decimals.
COUNT = "none"
# Ends the titles of panels whose figures are of all results of the period, or of whole hours or days.
COVERS = ", ${covers}"


def of_the_mesh() -> list[dashboard_builder.QueryVariable]:
    return [
        variable("group", "Group", "Paths between sites of this group"),
        variable("family", "Family", "Address family"),
        variable("packet_bytes", "Packet size", "Bytes of ICMP payload", query="planned_bytes"),
        covers(),
    ]


def of_a_path() -> list[dashboard_builder.QueryVariable]:
    return [
        variable("source", "From", "Source site"),
        variable("destination", "To", "Destination site"),
        variable("family", "Family", "Address family", query="path_family"),
        variable("path", "Path", "Hosts, for the selected sites and family"),
        variable("packet_bytes", "Packet size", "Bytes of ICMP payload", refresh=ON_PERIOD),
        covers(),
        variable("path_page", "Page", "Page of the path", refresh=ON_PERIOD).hide(VariableHide.HIDE_VARIABLE),
    ]


def covers() -> dashboard_builder.QueryVariable:
    description = "Which results the figures of the period are of"
    return variable("covers", "Covers", description, refresh=ON_PERIOD).hide(VariableHide.HIDE_VARIABLE)


def _pages() -> dashboard_builder.QueryVariable:
    return variable("soundings", "Pages", "URL of the pages of Soundings").hide(VariableHide.HIDE_VARIABLE)


def _other_dashboards() -> dashboard_builder.DashboardLink:
    return (
        dashboard_builder.DashboardLink("Soundings")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .keep_time(True)
    )


def _our_page(page: str) -> dashboard_builder.DashboardLink:
    return (
        dashboard_builder.DashboardLink("Page in Soundings")
        .type(DashboardLinkType.LINK)
        .icon("external link")
        .url("${soundings}" + page)
        .target_blank(True)
    )


def _annotation(name: str, query: str, icon_colour: str) -> dashboard_builder.AnnotationQuery:
    # The SDK models the target of its built-in source only; other sources take a query as in a panel.
    target: Any = SqlQuery(name, sql(query), "table")
    return (
        dashboard_builder.AnnotationQuery()
        .name(name)
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color(icon_colour)
        .target(target)
    )


def stat(title: str, description: str, query: str, units: Mapping[str, str], limits: Mapping[str, Properties]) -> Stat:
    """Figures by column; `units` gives their units, `limits` their colours."""
    panel = (
        Stat()
        .title(title)
        .description(description)
        .with_target(SqlQuery("A", sql(query), "table"))
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/").values(False))
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .color_mode(BigValueColorMode.VALUE)
        .thresholds(thresholds([(None, TEXT)]))
        .graph_mode(BigValueGraphMode.NONE)
        .no_value("no data")
        .mappings([null_as("no data")])
        .text(common_builder.VizTextDisplayOptions().title_size(14).value_size(28))
        .height(4)
        .span(24)
    )
    for column, unit in units.items():
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    for column, properties in limits.items():
        panel.override_by_name(column, properties)
    return panel


def time_series(
    title: str,
    unit: str,
    queries: Sequence[str],
    *,
    span: int = 12,
    direction: Direction = "forward",
    least: float | None = 0,
    calculated: Sequence[str] = ("min", "mean", "max"),
) -> TimeSeries:
    """Lines have gaps where data are missing, and extend to the right of their hour's or day's start.

    The axis begins at `least`, or by the data; the legend has the figures `calculated`.
    """
    legend = common_builder.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.BOTTOM)
    panel = (
        TimeSeries()
        .title(title)
        .unit(unit)
        .no_value("no data")
        .height(10)
        .span(span)
        .span_nulls(False)
        .line_interpolation(LineInterpolation.STEP_AFTER)
        .bar_alignment(BarAlignment.AFTER)
        .show_points(VisibilityMode.AUTO)
        .legend(legend.calcs(list(calculated)).show_legend(True))
        .tooltip(common_builder.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.NONE))
    )
    if least is not None:
        panel.min(least)
    if unit == COUNT:
        panel.decimals(0)
    for letter, query in zip("ABCDEF", queries, strict=False):
        panel.with_target(SqlQuery(letter, sql(query, direction), "time_series"))
    return panel


def loss_series(title: str, queries: Sequence[str], *, direction: Direction = "forward") -> TimeSeries:
    # A mean of ratios is not the ratio of the period. Without any loss Grafana's axis would end at 10000%.
    return time_series(title, "percentunit", queries, direction=direction, calculated=["max"]).axis_soft_max(0.01)


def bars(panel: TimeSeries, colours: Mapping[str, str], *, stacked: bool = True) -> TimeSeries:
    """Stack bars if they are parts of a whole."""
    panel.draw_style(GraphDrawStyle.BARS).fill_opacity(80)
    if stacked:
        panel.stacking(common_builder.StackingConfig().mode(StackingMode.NORMAL).group("parts"))
    return coloured(panel, colours)


def coloured(panel: TimeSeries, colours: Mapping[str, str]) -> TimeSeries:
    for column, value in colours.items():
        panel.override_by_name(column, colour(value))
    return panel


def colour(value: str) -> Properties:
    return [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": value})]


def points(size: int) -> Properties:
    return [
        DynamicConfigValue("custom.drawStyle", GraphDrawStyle.POINTS),
        DynamicConfigValue("custom.pointSize", size),
        DynamicConfigValue("custom.fillOpacity", 0),
    ]
