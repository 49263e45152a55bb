"""Tables and matrices of sites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.common import TableCellHeight
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue, FieldColorModeId

from dashboards.colours import NO_DATA, TEXT, Bands, null_as, texts, thresholds, without_a_figure
from dashboards.panels import Properties
from dashboards.postgres import SqlQuery, sql

FILLED = {"type": "color-background", "mode": "basic"}

# Links from a dashboard with a choice of packet sizes keep it.
SIZE = "&var-packet_bytes=${packet_bytes}"
SITE_DASHBOARD = "/d/soundings-site?var-site=${__value.text}&${__url_time_range}"
PATH_DASHBOARD = (
    "/d/soundings-path?var-source=${__data.fields.From}&var-destination=${__data.fields.To}"
    "&var-family=${__data.fields.Family}&var-path=${__data.fields.Number}&${__url_time_range}"
)
PATH_OF_CELL = (
    "/d/soundings-path?var-source=${__data.fields[0]}&var-destination=${__field.name}&var-family=${family}"
    f"{SIZE}&${{__url_time_range}}"
)
PATH_PAGE = "${soundings}/paths/${__data.fields.Number}/?since=${__from:date:iso}&until=${__to:date:iso}"
SITE_PAGE = "${soundings}/sites/${__value.text}/"
INCIDENT_PAGE = "${soundings}/incidents/${__data.fields.Number}/"

# Widths in px of columns with texts or figures longer than their headings.
MIN_WIDTH_PX = 72
CELL_WIDTH_PX = 50
WIDTHS_PX = {
    "time": 160, "Detected": 160, "Resolved": 160, "Newest": 160, "Duration": 88, "Severity": 84, "State": 116,
    "Site": 108, "From": 108, "To": 108, "Loss": 84, "RTT mean": 88, "RTT median": 104, "RTT maximum": 112,
    "Version": 80, "Test": 108, "Outcome": 108, "Verdict": 108, "Throughput": 104, "Mean": 92, "Maximum": 92,
    "Estimate": 92, "Capacity": 92, "Lower bound": 100, "Upper bound": 100,
}  # fmt: skip
# Columns of texts share the rest of the table, and have the whole text on request: a cell shows its beginning.
LEAST_OF_TEXTS_PX = {
    "Title": 300, "Path": 150, "Reason": 200, "Resolution": 200, "Limit or error": 250, "Rules": 200, "Limited by": 150,
}  # fmt: skip
# Of links only; the whole row has them.
HIDDEN = ("Family", "Number")


def table(title: str, description: str, query: str, units: Mapping[str, str], *, height: int, span: int) -> Table:
    text = sql(query)
    panel = _bare_table(title, description, text, height=height, span=span)
    for column in re.findall(r'AS "([^"]+)"', text[text.rindex("\nSELECT") :]):
        # The panel's own text for no value is for a table without rows; a cell without a figure has another.
        properties = [DynamicConfigValue("noValue", "–")]
        if column in units:
            properties.append(DynamicConfigValue("unit", units[column]))
        properties += _layout(column)
        panel.override_by_name(column, properties)
    return panel


def _layout(column: str) -> Properties:
    if column in HIDDEN:
        return [DynamicConfigValue("custom.hidden", True)]
    if column in LEAST_OF_TEXTS_PX:
        return [
            DynamicConfigValue("custom.minWidth", LEAST_OF_TEXTS_PX[column]),
            DynamicConfigValue("custom.inspect", True),
        ]
    return [DynamicConfigValue("custom.width", WIDTHS_PX.get(column, heading_px(column)))]


def heading_px(column: str) -> int:
    return max(MIN_WIDTH_PX, round(7.2 * len(column) + 18))


def _bare_table(title: str, description: str, text: str, *, height: int, span: int) -> Table:
    panel = (
        Table()
        .title(title)
        .description(description)
        .with_target(SqlQuery("A", text, "table"))
        .show_header(True)
        .no_value("–")
        .thresholds(thresholds([(None, TEXT)]))
        .height(height)
        .span(span)
    )
    _set_custom(panel, {"minWidth": MIN_WIDTH_PX})
    return panel


def _set_custom(panel: Table, custom: dict[str, object]) -> None:
    """Set the custom options of the panel's field defaults."""
    # The SDK cannot write it otherwise.
    config = panel.build().field_config
    assert config is not None
    assert config.defaults is not None
    config.defaults.custom = custom


def with_path_links(panel: Table, *, keep_size: bool = True) -> Table:
    """Link From, To and Path. `keep_size` where the dashboard has a choice of packet sizes."""
    size = SIZE if keep_size else ""
    page = PATH_PAGE + ("&size=${packet_bytes}" if keep_size else "")
    both = [*_links("Path in Grafana", PATH_DASHBOARD + size), *_links("Path in Soundings", page, new_tab=True)]
    panel.override_by_name("Path", [DynamicConfigValue("links", both)])
    for end in ("From", "To"):
        panel.override_by_name(end, link("Site in Grafana", SITE_DASHBOARD + size))
    return panel


def with_site_link(panel: Table) -> Table:
    return panel.override_by_name("Site", link("Site in Soundings", SITE_PAGE, new_tab=True))


def with_incident_link(panel: Table) -> Table:
    panel.override_by_name("Title", link("Incident in Soundings", INCIDENT_PAGE, new_tab=True))
    return panel.no_value("no incidents")


def coloured_text(panel: Table, columns: Mapping[str, Properties]) -> Table:
    """Colour figures by `dashboards.colours.limits`."""
    cell = DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
    without = DynamicConfigValue("mappings", [null_as("–")])
    for column, properties in columns.items():
        panel.override_by_name(column, [cell, without, *properties])
    return panel


def matrix(title: str, description: str, query: str, value: str, unit: str, bands: Bands) -> Table:
    """A row per source, a column per destination: 20 of each fit on a screen. A cell without data is grey."""
    panel = (
        table(title, description, query, {}, height=22, span=24)
        .no_value("no data")
        .unit(unit)
        .decimals(1)
        .cell_height(TableCellHeight.SM)
        .thresholds(thresholds([(None, NO_DATA), *((lower, fill) for lower, fill, _ in bands)]))
        .color_scheme(dashboard_builder.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .mappings(without_a_figure())
        .with_transformation(
            DataTransformerConfig(
                id_val="groupingToMatrix",
                options={"rowField": "From", "columnField": "To", "valueField": value, "emptyValue": "null"},
            )
        )
        .data_links([_data_link("Path in Grafana", PATH_OF_CELL)])
    )
    _set_custom(panel, {"minWidth": CELL_WIDTH_PX, "cellOptions": FILLED, "align": "center"})
    # The row names come last and so win over the fill of all cells.
    header = [
        DynamicConfigValue("custom.cellOptions", {"type": "auto"}),
        DynamicConfigValue("custom.align", "left"),
        DynamicConfigValue("custom.width", WIDTHS_PX["From"]),
        *link("Site in Grafana", SITE_DASHBOARD + SIZE),
    ]
    return panel.override_by_name("From\\To", header)


def legend(title: str, bands: Bands) -> Table:
    entries = [*((label, fill) for _, fill, label in bands), ("no data", NO_DATA)]
    columns = ", ".join(f'{number} AS "{label}"' for number, (label, _) in enumerate(entries))
    panel = _bare_table(
        title,
        "Fills of the matrix. A dash: no path.",
        f"-- One row: a number per fill.\nSELECT {columns}",
        height=3,
        span=24,
    )
    panel.show_header(False).cell_height(TableCellHeight.SM).mappings([texts(entries)])
    _set_custom(panel, {"minWidth": CELL_WIDTH_PX, "cellOptions": FILLED, "align": "center"})
    return panel


def link(title: str, url: str, *, new_tab: bool = False) -> Properties:
    return [DynamicConfigValue("links", _links(title, url, new_tab=new_tab))]


def _links(title: str, url: str, *, new_tab: bool = False) -> list[dict[str, object]]:
    return [{"title": title, "url": url, "targetBlank": new_tab}]


def _data_link(title: str, url: str) -> Any:
    return dashboard_builder.DashboardLink(title).url(url)
