from __future__ import annotations

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import geomap as geomap_builder
from grafana_foundation_sdk.builders.geomap import Panel as Geomap
from grafana_foundation_sdk.models.common import FrameGeometrySourceMode
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, FieldColorModeId
from grafana_foundation_sdk.models.geomap import TooltipMode

from dashboards.colours import GREY, NO_DATA, Bands, thresholds, without_a_figure
from dashboards.postgres import SqlQuery, sql
from dashboards.tables import SIZE, link

SITE_DASHBOARD = "/d/soundings-site?var-site=${__data.fields.Site}" + SIZE + "&${__url_time_range}"


def site_map(title: str, description: str, query: str, bands: Bands) -> Geomap:
    """Markers at Latitude and Longitude, named by Site, filled by Loss."""
    panel = (
        Geomap()
        .title(title)
        .description(description)
        .with_target(SqlQuery("A", sql(query), "table"))
        .no_value("no data")
        .thresholds(thresholds([(None, NO_DATA), *((lower, fill) for lower, fill, _ in bands)]))
        .color_scheme(dashboard_builder.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .mappings(without_a_figure())
        .view(geomap_builder.MapViewConfig().id("fit").all_layers(True).padding(20).max_zoom(6))
        .controls(geomap_builder.ControlsOptions().show_zoom(True).mouse_wheel_zoom(False).show_attribution(False))
        .basemap(_outlines())
        .layers([_markers()])
        .tooltip(geomap_builder.TooltipOptions().mode(TooltipMode.DETAILS))
        .height(11)
        .span(24)
    )
    panel.override_by_name("Loss", [DynamicConfigValue("unit", "percentunit")])
    return panel.override_by_name("Site", link("Site in Grafana", SITE_DASHBOARD))


def _outlines() -> common_builder.MapLayerOptions:
    style = {"color": {"fixed": GREY}, "opacity": 0.3}
    # A file of Grafana's own: the tiles of its default map ask for a key since August 2026.
    return (
        common_builder.MapLayerOptions()
        .type("geojson")
        .name("Countries")
        .config({"src": "public/maps/countries.geojson", "rules": [], "style": style})
    )


def _markers() -> common_builder.MapLayerOptions:
    location = common_builder.FrameGeometrySource().mode(FrameGeometrySourceMode.COORDS)
    style = {
        "color": {"field": "Loss", "fixed": NO_DATA},
        "opacity": 1,
        "size": {"fixed": 9, "min": 9, "max": 9},
        "symbol": {"mode": "fixed", "fixed": "img/icons/marker/circle.svg"},
        "text": {"mode": "field", "field": "Site", "fixed": ""},
        "textConfig": {"fontSize": 12, "offsetX": 0, "offsetY": -12, "textAlign": "center", "textBaseline": "bottom"},
    }
    return (
        common_builder.MapLayerOptions()
        .type("markers")
        .name("Sites")
        .location(location.latitude("Latitude").longitude("Longitude"))
        .config({"showLegend": False, "style": style})
        .tooltip(True)
    )
