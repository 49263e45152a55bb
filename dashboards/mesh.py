"""The dashboard "Soundings: mesh", the home: all paths as matrices, with the worst and what is wrong now."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardSpecialValueMapOptions,
    DynamicConfigValue,
    FieldColorModeId,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

from dashboards.panels import (
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    Panel,
    assemble,
    matrix,
    of_the_mesh,
    stat,
    table,
    with_incident_link,
    with_path_links,
)

# PingER's bounds of good, acceptable, poor, very poor and bad, as ratios; what has no figure lies below all of them.
LOSS_COLOURS = ((None, GREY), (0.0, GREEN), (1e-9, SKY), (0.01, YELLOW), (0.025, ORANGE), (0.05, RED), (0.12, PURPLE))
FILLED = DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"})
WORST_OF = "Where two sites have several paths of the family, the worst of them. Grey: no data, or no path."


def build() -> Dashboard:
    """The whole dashboard."""
    return assemble(
        "Soundings: mesh",
        "soundings-mesh",
        "All paths of the mesh: loss, round trips and throughput from each site to each, and what is wrong now.",
        since="now-24h",
        variables=of_the_mesh(),
        panels=_panels(),
    )


def _panels() -> list[Panel]:
    return [_now(), open_incidents(), _loss(), _worst(), _rtt(), _throughput()]


def _now() -> Stat:
    return stat(
        "The mesh",
        "Of the chosen group, family and size, over the period; open incidents and silent agents are those of the "
        "whole mesh, now. An agent is silent when nothing came from it for 5 minutes.",
        "mesh_now",
        {"Packets lost": "percentunit", "Measured of the plan": "percentunit"},
    )


def open_incidents() -> Table:
    """What is wrong now; one row a cause."""
    panel = table(
        "Open incidents",
        "One row a cause, with the paths that it explains. None: nothing is wrong as far as is measured.",
        "open_incidents",
        {"Opened": "dateTimeAsIso"},
        height=6,
        span=24,
    )
    return with_incident_link(panel)


def _loss() -> Table:
    panel = matrix(
        "Packet loss from each site to each (% of packets sent)",
        "Lost over sent in the whole period. None lost of N means a loss below 3/N, with 95% confidence. " + WORST_OF,
        "matrix_loss",
        "Loss",
        "percentunit",
    )
    steps = [Threshold(value=value, color=one) for value, one in LOSS_COLOURS]
    none_lost = ValueMap(options={"0": ValueMappingResult(text="none lost", color=GREEN)})
    return _filled(
        panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)).mappings(
            [none_lost, _no_data()]
        ),
        FieldColorModeId.THRESHOLDS,
    )


def _worst() -> Table:
    panel = table(
        "The paths that lost most",
        "At most 20, over the period; a path that lost nothing is not among them.",
        "worst_paths",
        {"Loss": "percentunit", "RTT mean": "ms"},
        height=8,
        span=24,
    ).no_value("no path lost anything")
    return with_path_links(panel)


def _rtt() -> Table:
    panel = matrix(
        "Mean round-trip time from each site to each (ms)",
        "The mean of all round trips of the period. " + WORST_OF,
        "matrix_rtt",
        "RTT",
        "ms",
    )
    return _filled(panel.mappings([_no_data()]), FieldColorModeId.CONTINUOUS_BLUES)


def _throughput() -> Table:
    panel = matrix(
        "Measured throughput from each site to each (bit/s)",
        "The mean of the throughput tests of the period that gave a figure. " + WORST_OF,
        "matrix_throughput",
        "Throughput",
        "bps",
    )
    return _filled(panel.mappings([_no_data()]), FieldColorModeId.CONTINUOUS_BLUES)


def _no_data() -> SpecialValueMap:
    """Without this a cell without a figure would have the colour of the least one."""
    result = ValueMappingResult(text="no data", color=GREY)
    return SpecialValueMap(DashboardSpecialValueMapOptions(match=SpecialValueMatch.NULL_AND_NAN, result=result))


def _filled(panel: Table, mode: FieldColorModeId) -> Table:
    """All cells filled with their colour, but for the names of the rows, which come last and so have the last word."""
    panel.color_scheme(FieldColor().mode(mode))
    config = panel.build().field_config
    assert config is not None
    assert config.defaults is not None
    config.defaults.custom = {"cellOptions": FILLED.value}
    return panel
