"""The dashboard "Soundings: mesh", the home: all paths as matrices, the worst paths and open incidents."""

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
from dashboards.postgres import LATE_AFTER_MIN
from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS

# Excellent and good loss have a single colour, apart from no loss; no data sorts below all.
LOSS_COLOURS = (
    (None, GREY),
    (0.0, GREEN),
    (1e-9, SKY),
    *zip((upper for upper, _ in LOSS_BAND_UPPER_RATIOS[1:]), (YELLOW, ORANGE, RED, PURPLE), strict=True),
)
FILLED = DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"})
WORST_OF = "With several paths of the family between two sites, the worst of them. Grey: no data, or no path."


def build() -> Dashboard:
    """Build the dashboard."""
    return assemble(
        "Soundings: mesh",
        "soundings-mesh",
        "All paths of the mesh: loss, RTT and throughput between all sites, and open incidents.",
        since="now-24h",
        variables=of_the_mesh(),
        panels=_panels(),
    )


def _panels() -> list[Panel]:
    return [_now(), open_incidents(), _loss(), _worst(), _rtt(), _throughput()]


def _now() -> Stat:
    return stat(
        "Overview",
        "The selected group, family and packet size over the period; open incidents and silent agents are current, of "
        f"the whole mesh. An agent is silent if it delivered nothing for {LATE_AFTER_MIN} minutes.",
        "mesh_now",
        {"Packets lost": "percentunit", "Coverage": "percentunit"},
    )


def open_incidents() -> Table:
    """The table of open incidents, a row per cause."""
    panel = table(
        "Open incidents",
        "A row per cause, with the number of affected paths.",
        "open_incidents",
        {"Opened": "dateTimeAsIso"},
        height=6,
        span=24,
    )
    return with_incident_link(panel)


def _loss() -> Table:
    panel = matrix(
        "Packet loss matrix (% of packets sent)",
        "Lost over sent in the whole period. No loss in N packets: upper bound 3/N (95% confidence). " + WORST_OF,
        "matrix_loss",
        "Loss",
        "percentunit",
    )
    steps = [Threshold(value=value, color=colour) for value, colour in LOSS_COLOURS]
    no_loss = ValueMap(options={"0": ValueMappingResult(text="no loss", color=GREEN)})
    return _filled(
        panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)).mappings([no_loss, _no_data()]),
        FieldColorModeId.THRESHOLDS,
    )


def _worst() -> Table:
    panel = table(
        "Paths with the highest loss",
        "At most 20, over the period; paths without loss are not listed.",
        "worst_paths",
        {"Loss": "percentunit", "RTT mean": "ms"},
        height=8,
        span=24,
    ).no_value("no loss")
    return with_path_links(panel)


def _rtt() -> Table:
    panel = matrix(
        "Mean RTT matrix (ms)",
        "Mean of all RTTs of the period. " + WORST_OF,
        "matrix_rtt",
        "RTT",
        "ms",
    )
    return _filled(panel.mappings([_no_data()]), FieldColorModeId.CONTINUOUS_BLUES)


def _throughput() -> Table:
    panel = matrix(
        "Throughput matrix (bit/s)",
        "Mean of the successful throughput tests of the period. " + WORST_OF,
        "matrix_throughput",
        "Throughput",
        "bps",
    )
    return _filled(panel.mappings([_no_data()]), FieldColorModeId.CONTINUOUS_BLUES)


def _no_data() -> SpecialValueMap:
    """Map null to grey "no data": by default Grafana colours it like the minimum."""
    result = ValueMappingResult(text="no data", color=GREY)
    return SpecialValueMap(DashboardSpecialValueMapOptions(match=SpecialValueMatch.NULL_AND_NAN, result=result))


def _filled(panel: Table, mode: FieldColorModeId) -> Table:
    """Fill all cells with their colour, except the row names: their override comes last and takes precedence."""
    panel.color_scheme(FieldColor().mode(mode))
    config = panel.build().field_config
    assert config is not None
    assert config.defaults is not None
    config.defaults.custom = {"cellOptions": FILLED.value}
    return panel
