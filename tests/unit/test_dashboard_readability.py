"""Dashboards are legible on a screen of 1440 × 900 px, light and dark: contrast, widths, colours, limits, legends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dashboards.colours import CONDITION_BANDS, LOSS_BANDS, RTT_BANDS, RULE_COLOURS, THROUGHPUT_BANDS
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS
from monitor.present.conditions import Condition
from tests.unit.test_dashboards import ROW_NAMES, columns, dashboards, panel_title, panels, panels_of, shown_columns

SCREEN_PX = 1400
MENU_SCREEN_PX = SCREEN_PX - 220
"""With Grafana's menu open."""
HEADING_PX_PER_LETTER = 7.2
"""The width of the grid on a screen of 1440 px: without the page's padding and the scroll bar, with the menu closed."""
GREENS = ("#009E73", "#00664B")
DARK_TEXT, LIGHT_TEXT = "#202226", "#F7F8FA"
"""Grafana's, on a filled cell."""
TABLES = [panel for panel in panels() if panel["type"] == "table"]
SERIES = [panel for panel in panels() if panel["type"] == "timeseries"]
STATS = [panel for panel in panels() if panel["type"] == "stat"]


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG 2.1."""

    def luminance(colour: str) -> float:
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in (value / 255 for value in rgb(colour))
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(fill: str) -> str:
    """The colour of Grafana's text on a fill: packages/grafana-ui/src/utils/colors.ts, getTextColorForBackground."""
    red, green, blue = rgb(fill)
    return DARK_TEXT if (299 * red + 587 * green + 114 * blue) / 1000 > 180 else LIGHT_TEXT


@pytest.mark.parametrize("bands", [CONDITION_BANDS, LOSS_BANDS, RTT_BANDS, THROUGHPUT_BANDS])
def test_text_on_each_fill_of_a_matrix_is_legible(bands: Any) -> None:
    fills = [fill for _, fill, _ in bands]

    assert len(set(fills)) == len(fills)
    assert min(contrast(fill, text_on(fill)) for fill in [*fills, "#6B6B6B"]) >= 4.5
    assert [lower for lower, _, _ in bands] == sorted(lower for lower, _, _ in bands)


def test_the_bands_of_loss_are_those_of_the_analysis() -> None:
    assert [lower for lower, _, _ in LOSS_BANDS][2:-1] == [upper for upper, _ in LOSS_BAND_UPPER_RATIOS[1:]]


def test_every_matrix_has_a_legend_of_its_fills() -> None:
    matrices = [panel for panel in panels() if panel.get("transformations")]
    legends = [panel for panel in panels() if panel["title"].startswith("Legend")]

    assert len(matrices) == len(legends) == 4
    for matrix, legend in zip(matrices, legends, strict=True):
        steps = [step["color"] for step in matrix["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        [mapping] = legend["fieldConfig"]["defaults"]["mappings"]
        entries = [mapping["options"][str(number)] for number in range(len(steps))]
        assert [entry["color"] for entry in entries] == [*steps[1:], steps[0]]
        assert entries[-1]["text"] == "no data"
        assert {entry["text"] for entry in entries} == columns(legend["targets"][0]["rawSql"])


@pytest.mark.parametrize("panel", TABLES, ids=panel_title)
def test_all_columns_of_a_table_are_on_the_screen(panel: dict[str, Any]) -> None:
    if panel.get("transformations"):
        return
    config = panel["fieldConfig"]
    settings = {
        (override["matcher"]["options"], setting["id"]): setting["value"]
        for override in config["overrides"]
        for setting in override["properties"]
    }
    least = config["defaults"]["custom"]["minWidth"]
    needed = 0
    for column in shown_columns(panel["targets"][0]["rawSql"]):
        if settings.get((column, "custom.hidden")):
            continue
        width = settings.get((column, "custom.width"), settings.get((column, "custom.minWidth"), least))
        if panel["options"]["showHeader"]:
            assert width >= HEADING_PX_PER_LETTER * len(column) + 16, f"{column} is cut"
        needed += width

    assert needed <= panel["gridPos"]["w"] / 24 * MENU_SCREEN_PX - 16


def test_the_title_of_an_incident_has_300_px() -> None:
    titles = [
        [setting["value"] for setting in override["properties"] if setting["id"] == "custom.minWidth"]
        for panel in TABLES
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == "Title"
    ]

    assert len(titles) >= 4
    assert all(max(widths, default=300) >= 300 for widths in titles)


@pytest.mark.parametrize("panel", [panel for panel in TABLES if panel.get("transformations")], ids=panel_title)
def test_a_matrix_of_twenty_sites_fits_on_a_screen(panel: dict[str, Any]) -> None:
    """A panel has 38 px a unit without the last 8, and takes 40 of them for title and padding; a row has 36 px."""
    [name] = [override for override in panel["fieldConfig"]["overrides"] if override["matcher"]["options"] == ROW_NAMES]
    [name_px] = [setting["value"] for setting in name["properties"] if setting["id"] == "custom.width"]
    height_px = panel["gridPos"]["h"] * 38 - 8

    assert panel["options"]["cellHeight"] == "sm"
    assert panel["gridPos"]["w"] == 24
    assert name_px + 20 * panel["fieldConfig"]["defaults"]["custom"]["minWidth"] <= MENU_SCREEN_PX - 16
    assert 40 + 36 * (1 + 20) <= height_px <= 900
    assert panel["fieldConfig"]["defaults"]["decimals"] == 1


def test_a_matrix_of_the_present_comes_first() -> None:
    [mesh] = [dashboard for dashboard in dashboards() if dashboard["uid"] == "soundings-mesh"]
    first = next(panel for panel in panels_of(mesh) if panel.get("transformations"))

    assert first["title"] == "Condition now"
    [texts] = [
        mapping["options"] for mapping in first["fieldConfig"]["defaults"]["mappings"] if "0" in mapping["options"]
    ]
    assert len(texts) == len(Condition)
    assert texts[str(int(Condition.DEAD))] == {"text": "dead", "color": "#111111"}


@pytest.mark.parametrize("panel", TABLES, ids=panel_title)
def test_a_cell_without_a_figure_is_not_called_an_empty_table(panel: dict[str, Any]) -> None:
    """Grafana writes a panel's text for no value into each such cell: "no loss" where a path had no RTT."""
    config = panel["fieldConfig"]
    own_text = {
        override["matcher"]["options"]
        for override in config["overrides"]
        for setting in override["properties"]
        if setting == {"id": "noValue", "value": "–"}
    }

    if not panel.get("transformations") and config["defaults"]["noValue"] != "–":
        assert own_text == shown_columns(panel["targets"][0]["rawSql"])


@pytest.mark.parametrize("panel", SERIES, ids=panel_title)
def test_bars_and_lines_extend_from_the_start_of_their_hour(panel: dict[str, Any]) -> None:
    custom = panel["fieldConfig"]["defaults"]["custom"]

    assert custom["barAlignment"] == 1
    assert custom["lineInterpolation"] == ("linear" if panel.get("interval") == "1m" else "stepAfter")


@pytest.mark.parametrize("panel", SERIES, ids=panel_title)
def test_an_axis_begins_at_zero_but_for_delays(panel: dict[str, Any]) -> None:
    """From 0, the band of an RTT of 323 ms is a line; without any loss, an axis of ratios would end at 10000%."""
    defaults = panel["fieldConfig"]["defaults"]
    is_delay = panel["title"].startswith(("RTT", "One-way delay"))
    is_logarithmic = defaults["custom"].get("scaleDistribution", {}).get("type") == "log"

    assert defaults.get("min") == (None if is_delay or is_logarithmic else 0)
    assert is_logarithmic == panel["title"].startswith("Throughput")
    assert defaults["custom"].get("axisSoftMax") == (0.01 if defaults["unit"] == "percentunit" else None)


@pytest.mark.parametrize("panel", SERIES, ids=panel_title)
def test_a_legend_has_figures_but_no_mean_of_ratios(panel: dict[str, Any]) -> None:
    legend = panel["options"]["legend"]

    assert legend["displayMode"] == "table"
    assert legend["calcs"] == (
        ["max"] if panel["fieldConfig"]["defaults"]["unit"] == "percentunit" else ["min", "mean", "max"]
    )


def test_the_bound_of_the_loss_is_hidden_at_first() -> None:
    hidden = [
        override["matcher"]["options"]
        for panel in SERIES
        for override in panel["fieldConfig"]["overrides"]
        for setting in override["properties"]
        if setting["id"] == "custom.hideFrom" and setting["value"]["viz"] and not setting["value"]["legend"]
    ]

    assert hidden == ["No loss: upper bound 3/N"] * 2


@pytest.mark.parametrize("panel", SERIES, ids=panel_title)
def test_loss_is_never_green_and_no_series_is_called_none(panel: dict[str, Any]) -> None:
    """Grafana's own palette begins with green, so every series has an explicit colour, unless it is a site's."""
    fixed = {
        override["matcher"]["options"]: setting["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
        for setting in override["properties"]
        if setting["id"] == "color"
    }
    names = set().union(*(shown_columns(target["rawSql"]) for target in panel["targets"])) - {"time"}

    if "metric" not in names:
        assert names - {"Tasks"} <= fixed.keys() | {"time"} or panel.get("interval") == "1m"
    if "loss" in panel["title"].lower():
        assert not set(fixed.values()) & set(GREENS)
    assert not any(name.lower() == "none" for name in names)
    assert all("'none'" not in target["rawSql"] for target in panel["targets"])


def test_each_alert_rule_has_its_own_colour_and_none_is_green() -> None:
    assert RULE_COLOURS.keys() == RULES.keys()
    assert len(set(RULE_COLOURS.values())) == len(RULES)
    for colour in RULE_COLOURS.values():
        red, green, blue = rgb(colour)
        assert green <= max(red, blue)


@pytest.mark.parametrize("panel", SERIES, ids=panel_title)
def test_counts_have_no_decimals(panel: dict[str, Any]) -> None:
    is_count = panel["fieldConfig"]["defaults"]["unit"] == "none"

    assert panel["fieldConfig"]["defaults"].get("decimals") == (0 if is_count else None)


def test_a_missing_figure_has_no_colour_of_a_limit() -> None:
    """Grafana gives null the colour of the lowest limit, which is red for coverage."""
    limited = [panel["fieldConfig"]["defaults"]["mappings"] for panel in STATS]
    for panel in TABLES:
        for override in panel["fieldConfig"]["overrides"]:
            settings = {setting["id"]: setting["value"] for setting in override["properties"]}
            if "thresholds" in settings:
                limited.append(settings["mappings"])

    assert len(limited) > 8
    for [mapping] in limited:
        assert (mapping["options"]["match"], mapping["options"]["result"]["color"]) == ("null", "text")


def test_panels_that_most_meshes_do_not_fill_are_folded_up() -> None:
    [throughput] = [dashboard for dashboard in dashboards() if dashboard["uid"] == "soundings-throughput"]
    [row] = [panel for panel in throughput["panels"] if panel["type"] == "row"]

    assert row["collapsed"] is True
    assert len(row["panels"]) == 4


@pytest.mark.parametrize("panel", STATS, ids=panel_title)
def test_figures_are_as_large_in_every_version(panel: dict[str, Any]) -> None:
    assert panel["options"]["text"] == {"titleSize": 14, "valueSize": 28}


@pytest.mark.parametrize("panel", STATS, ids=panel_title)
def test_figures_change_colour_at_a_limit(panel: dict[str, Any]) -> None:
    limited = [
        setting["value"]["steps"]
        for override in panel["fieldConfig"]["overrides"]
        for setting in override["properties"]
        if setting["id"] == "thresholds"
    ]

    assert panel["options"]["colorMode"] == "value"
    assert len(limited) >= 3
    for steps in limited:
        bounds = [step["value"] for step in steps]
        assert bounds[0] is None
        assert all(lower < upper for lower, upper in pairwise(bounds[1:]))
        assert not {step["color"] for step in steps} & set(GREENS)


def test_the_map_places_each_site_by_its_coordinates() -> None:
    [panel] = [panel for panel in panels() if panel["type"] == "geomap"]
    [layer] = panel["options"]["layers"]
    basemap = panel["options"]["basemap"]
    assert (basemap["type"], basemap["config"]["src"]) == ("geojson", "public/maps/countries.geojson"), "no tiles"
    location, style = layer["location"], layer["config"]["style"]

    assert location["mode"] == "coords"
    used = {location["latitude"], location["longitude"], style["color"]["field"], style["text"]["field"]}
    assert used <= columns(panel["targets"][0]["rawSql"])
    assert [step["color"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [
        "#6B6B6B",
        *(fill for _, fill, _ in LOSS_BANDS),
    ]
