"""Building blocks of all dashboards: layout, variables, annotations, links, colours and the kinds of panel.

Each dashboard's module combines them with its queries, units and texts. The queries are in `sql/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
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
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    VariableHide,
    VariableRefresh,
    VariableSort,
)

from dashboards.postgres import DATA_SOURCE, SqlQuery, sql

TAG = "soundings"

# Okabe and Ito's palette, which colour-blind people can tell apart.
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
YELLOW, GREY = "#F0E442", "#8E8E8E"

Panel = Stat | Table | TimeSeries
Properties = list[DynamicConfigValue]

ON_LOAD, ON_PERIOD = VariableRefresh.ON_DASHBOARD_LOAD, VariableRefresh.ON_TIME_RANGE_CHANGED

SITE_DASHBOARD = "/d/soundings-site?var-site={site}&${{__url_time_range}}"
PATH_DASHBOARD = (
    "/d/soundings-path?var-source=${__data.fields.From}&var-destination=${__data.fields.To}"
    "&var-family=${__data.fields.Family}&var-path=${__data.fields.Number}&${__url_time_range}"
)
PATH_OF_CELL = "/d/soundings-path?var-source=${__data.fields[0]}&var-destination=${__field.name}&${__url_time_range}"
PATH_PAGE = "${soundings}/paths/${__data.fields.Number}/"
INCIDENT_PAGE = "${soundings}/incidents/${__data.fields.Number}/"


def assemble(
    title: str,
    uid: str,
    description: str,
    *,
    since: str,
    variables: Iterable[dashboard_builder.QueryVariable],
    panels: Iterable[Panel],
    annotation: str = "annotation_mesh",
    page: str = "/",
) -> Dashboard:
    """Build a dashboard. `page` is the corresponding web page; incidents come from sql/`annotation`.sql."""
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
        .annotation(_incidents(annotation))
        .with_variable(_pages())
    )
    for query_variable in variables:
        builder.with_variable(query_variable)
    for panel_id, panel in enumerate(panels, start=1):
        builder.with_panel(panel.id(panel_id).datasource(DATA_SOURCE))
    return builder.build()


def variable(
    name: str, label: str, description: str, *, query: str | None = None, refresh: VariableRefresh = ON_LOAD
) -> dashboard_builder.QueryVariable:
    """A single-choice variable, filled from sql/variable_`query`.sql (by default its own name)."""
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


def of_the_mesh() -> list[dashboard_builder.QueryVariable]:
    """Variables of a dashboard about many paths."""
    return [
        variable("group", "Group", "Paths between sites of this group"),
        variable("family", "Family", "Address family"),
        variable("packet_bytes", "Packet size", "Bytes of ICMP payload", query="planned_bytes"),
    ]


def of_a_path() -> list[dashboard_builder.QueryVariable]:
    """Variables that select a path and packet size."""
    return [
        variable("source", "From", "Source site"),
        variable("destination", "To", "Destination site"),
        variable("family", "Family", "Address family", query="path_family"),
        variable("path", "Path", "Hosts, for the selected sites and family"),
        variable("packet_bytes", "Packet size", "Bytes of ICMP payload", refresh=ON_PERIOD),
    ]


def _pages() -> dashboard_builder.QueryVariable:
    """The base URL of our web pages, a setting of the database role."""
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


def _incidents(query: str) -> dashboard_builder.AnnotationQuery:
    # The SDK models the target of its built-in source only; other sources take a query as in a panel.
    target: Any = SqlQuery("Incidents", sql(query), "table")
    return (
        dashboard_builder.AnnotationQuery()
        .name("Incidents")
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color(RED)
        .target(target)
    )


def table(title: str, description: str, query: str, units: Mapping[str, str], *, height: int, span: int) -> Table:
    """A table of the query's rows; `units` by column."""
    panel = (
        Table()
        .title(title)
        .description(description)
        .with_target(SqlQuery("A", sql(query), "table"))
        .show_header(True)
        .no_value("–")
        .height(height)
        .span(span)
    )
    for column, unit in units.items():
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    return panel


def with_path_links(panel: Table) -> Table:
    """Link the columns From, To, Path and Number to the dashboards of sites and path, and to the path's web page."""
    panel.override_by_name("Path", link("Path in Grafana", PATH_DASHBOARD))
    panel.override_by_name("Number", link("Path in Soundings", PATH_PAGE, new_tab=True))
    for end in ("From", "To"):
        panel.override_by_name(end, link("Site in Grafana", SITE_DASHBOARD.format(site="${__value.text}")))
    return panel


def with_incident_link(panel: Table) -> Table:
    """Link the column Number of a table of incidents to the incident's web page."""
    properties = link("Incident in Soundings", INCIDENT_PAGE, new_tab=True)
    return panel.override_by_name("Number", properties).no_value("no incidents")


def matrix(title: str, description: str, query: str, value: str, unit: str) -> Table:
    """A matrix with a row per source and a column per destination. Cells without data are grey, never green."""
    panel = (
        table(title, description, query, {}, height=12, span=24)
        .no_value("no data")
        .unit(unit)
        .with_transformation(
            DataTransformerConfig(
                id_val="groupingToMatrix",
                options={"rowField": "From", "columnField": "To", "valueField": value, "emptyValue": "null"},
            )
        )
        .data_links([_data_link("Path in Grafana", PATH_OF_CELL)])
    )
    header = [
        DynamicConfigValue("custom.cellOptions", {"type": "auto"}),
        *link("Site in Grafana", SITE_DASHBOARD.format(site="${__value.text}")),
    ]
    return panel.override_by_name("From\\To", header)


def stat(title: str, description: str, query: str, units: Mapping[str, str], *, height: int = 4) -> Stat:
    """A single row of figures; `units` by column."""
    panel = (
        Stat()
        .title(title)
        .description(description)
        .with_target(SqlQuery("A", sql(query), "table"))
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/").values(False))
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .color_mode(BigValueColorMode.NONE)
        .graph_mode(BigValueGraphMode.NONE)
        .no_value("no data")
        .height(height)
        .span(24)
    )
    for column, unit in units.items():
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    return panel


def time_series(title: str, unit: str, queries: Sequence[str], *, span: int = 12) -> TimeSeries:
    """A time series chart; lines have gaps where data are missing."""
    legend = common_builder.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = (
        TimeSeries()
        .title(title)
        .unit(unit)
        .min(0)
        .no_value("no data")
        .height(9)
        .span(span)
        .span_nulls(False)
        .show_points(VisibilityMode.AUTO)
        .legend(legend.show_legend(True))
        .tooltip(common_builder.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.NONE))
    )
    for letter, query in zip("ABCDEF", queries, strict=False):
        panel.with_target(SqlQuery(letter, sql(query), "time_series"))
    return panel


def bars(panel: TimeSeries, colours: Mapping[str, str], *, stacked: bool = True) -> TimeSeries:
    """Draw the chart as bars, stacked if they are parts of a whole."""
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


def link(title: str, url: str, *, new_tab: bool = False) -> Properties:
    return [DynamicConfigValue("links", [{"title": title, "url": url, "targetBlank": new_tab}])]


def _data_link(title: str, url: str) -> Any:
    return dashboard_builder.DashboardLink(title).url(url)
