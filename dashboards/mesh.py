"""Home dashboard "Soundings: mesh"."""

from __future__ import annotations

from grafana_foundation_sdk.builders.geomap import Panel as Geomap
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.colours import (
    CONDITION_BANDS,
    LOSS_BANDS,
    ORANGE,
    RED,
    RTT_BANDS,
    THROUGHPUT_BANDS,
    below,
    limits,
    texts,
    without_a_figure,
)
from dashboards.maps import site_map
from dashboards.panels import COVERS, Panel, Section, assemble, of_the_mesh, stat
from dashboards.postgres import LATE_AFTER_MIN, MOST_SITES_BY_NAME
from dashboards.tables import coloured_text, legend, matrix, table, with_incident_link, with_path_links

LITTLE_LOSS, MUCH_LOSS = LOSS_BANDS[2][0], LOSS_BANDS[4][0]
COVERAGE_LIMITS = limits((0.95, ORANGE), (0.99, "text"), below=RED)
LOSS_LIMITS = limits((LITTLE_LOSS, ORANGE), (MUCH_LOSS, RED))
WORST_OF = (
    "With several paths of the family between two sites, the worst of them. Dash: no path. Beyond "
    f"{MOST_SITES_BY_NAME} sites the worst come first."
)


def build() -> Dashboard:
    return assemble(
        "Soundings: mesh",
        "soundings-mesh",
        "All paths of the mesh: loss, RTT and throughput between all sites, and open incidents.",
        since="now-24h",
        variables=of_the_mesh(),
        panels=_panels(),
    )


def _panels() -> list[Panel | Section]:
    return [
        _now(),
        open_incidents("open_incidents_of_group"),
        Section("Now", [legend("Legend: condition", CONDITION_BANDS), _conditions()]),
        Section("Loss", [legend("Legend: packet loss", LOSS_BANDS), _loss(), _worst(), _map()]),
        Section("RTT", [legend("Legend: RTT", RTT_BANDS), _rtt()], is_collapsed=True),
        Section(
            "Throughput",
            [legend("Legend: throughput (bit/s)", THROUGHPUT_BANDS), _throughput()],
            is_collapsed=True,
        ),
    ]


def _now() -> Stat:
    return stat(
        f"Overview{COVERS}",
        "The selected group, family and packet size over the period, coverage up to the last whole hour; open "
        "incidents are current, silent agents too, and of the whole mesh: those that delivered nothing for "
        f"{LATE_AFTER_MIN} minutes. Summaries behind: so long has an overdue result waited for the hour, day or month "
        "that the figures are of; they lack later ones.",
        "mesh_now",
        {"Packets lost": "percentunit", "Coverage": "percentunit", "Summaries behind": "s"},
        {
            "Packets lost": LOSS_LIMITS,
            "Coverage": COVERAGE_LIMITS,
            "Open incidents": limits((1.0, ORANGE)),
            "Silent agents": limits((1.0, RED)),
            "Summaries behind": limits((60.0, ORANGE), (600.0, RED)),
        },
    )


def open_incidents(query: str = "open_incidents") -> Table:
    panel = table(
        "Open incidents",
        "A row per cause, with the number of affected paths.",
        query,
        {"Detected": "dateTimeAsIso"},
        height=6,
        span=24,
    )
    return with_incident_link(panel)


def _conditions() -> Table:
    panel = matrix(
        "Condition now",
        "What each path is like now, in any packet size, whatever the period: as on the grid's page. Tests: only "
        "results during our own tests. Overdue: no results. Flaps: dead and not by turns. Aside: not judged. Denied: "
        "its agent may not measure it. " + WORST_OF,
        "matrix_now",
        "Condition",
        "none",
        CONDITION_BANDS,
    )
    return panel.mappings([texts([(label, fill) for _, fill, label in CONDITION_BANDS]), *without_a_figure()])


def _loss() -> Table:
    panel = matrix(
        f"Packet loss matrix (% of packets sent){COVERS}",
        "Lost over sent. No loss in N packets: upper bound 3/N (95% confidence). " + WORST_OF,
        "matrix_loss",
        "Loss",
        "percentunit",
        LOSS_BANDS,
    )
    return panel.mappings([texts([("0", LOSS_BANDS[0][1])]), below(0.0005, "<0.1%"), *without_a_figure()])


def _map() -> Geomap:
    return site_map(
        f"Sites{COVERS}",
        "Each site by the loss of all paths from and to it in the period; the selected group, family and packet size.",
        "map",
        LOSS_BANDS,
    )


def _rtt() -> Table:
    return matrix(
        f"Mean RTT matrix (ms){COVERS}",
        "Mean of all RTTs of the period. " + WORST_OF,
        "matrix_rtt",
        "RTT",
        "ms",
        RTT_BANDS,
    )


def _throughput() -> Table:
    return matrix(
        f"Throughput matrix (bit/s){COVERS}",
        "Mean of the successful throughput tests of the period. " + WORST_OF,
        "matrix_throughput",
        "Throughput",
        "sishort",
        THROUGHPUT_BANDS,
    )


def _worst() -> Table:
    panel = table(
        f"Paths with the highest loss{COVERS}",
        "At most 20, over the period; paths without loss are not listed.",
        "worst_paths",
        {"Loss": "percentunit", "RTT mean": "ms"},
        height=8,
        span=24,
    ).no_value("no loss")
    return with_path_links(coloured_text(panel, {"Loss": LOSS_LIMITS}))
