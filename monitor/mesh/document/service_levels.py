"""Report targets of mesh.toml, resolved for each path: later [[service_level.for]] tables override earlier tables, key
by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monitor.mesh.document.alert_rules import FOR, OpenRatio, Place
from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.document.rule_schedules import PathPlaces
from probes.toml.keys import meaning
from probes.toml.tables import Table

KEPT_RATIO = 0.95
BURST, RATE = "promised_burst_bytes", "promised_bps"


class ServiceLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of [service_level]: targets of a path, None where not set."""

    loss_ratio: Annotated[OpenRatio, meaning("Maximum loss over the period of a report.")] | None = None
    availability_ratio: Annotated[OpenRatio, meaning("Minimum share of the bursts that have a reply.")] | None = None
    rtt_ms: Annotated[float, Meta(ge=0.001, le=60_000), meaning("Maximum of an hour's median RTT.")] | None = None
    throughput_bps: Annotated[float, Meta(ge=1, le=1e15), meaning("Minimum throughput of a test.")] | None = None
    kept_ratio: Annotated[
        OpenRatio,
        meaning(
            "Share of the hours that must meet `rtt_ms`, and of the tests that must meet `throughput_bps` and the"
            " promised service."
        ),
    ] = KEPT_RATIO
    promised_bps: (
        Annotated[float, Meta(ge=1, le=1e15), meaning("Rate of the service that is paid for, in bit/s.")] | None
    ) = None
    promised_burst_bytes: (
        Annotated[
            float, Meta(ge=1, le=1e15), meaning("Its burst, as policer tests measure it; judged beside `promised_bps`.")
        ]
        | None
    ) = None


def settings_for(levels: Mapping[str, Any], place: Place) -> ServiceLevel:
    """Targets at `place`, from the checked [service_level] table."""
    layers = [levels, *(table for table in levels.get(FOR, ()) if place.is_in(table))]
    keys = ServiceLevel.__struct_fields__
    return ServiceLevel(**{key: value for layer in layers for key, value in layer.items() if key in keys})


def check_promised(document: MeshDocument, paths: Iterable[tuple[str, str]], top: Table) -> None:
    """Record tables that give a path a burst without a rate, needed to judge it."""
    tables = [table for above in top.tables("service_level") for table in (above, *above.tables(FOR))]
    with_burst = [table for table in tables if BURST in table.values]
    if not with_burst:
        return
    of_document = PathPlaces(document)
    places = [of_document.between(hosts) for hosts in dict.fromkeys(paths)]
    lacking = [place for place in places if settings_for(document.service_levels, place).promised_bps is None]
    for table in with_burst:
        path = next((place for place in lacking if place.is_in(table.values)), None)
        if path is not None:
            table.problem(_sentence(path), BURST)


def _sentence(path: Place) -> str:
    source, destination = path.hosts
    return (
        f'{BURST} is judged beside {RATE}, which is not set for the path from "{source}" to "{destination}"; '
        f"write {RATE} = … (bit/s) too, or leave the burst out"
    )
