"""Packet sizes of a path's bursts; STAMP tests stand in on paths without pings."""

from __future__ import annotations

from collections.abc import Collection

from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.document.expansion import MeasurementEntry
from monitor.mesh.kinds import MESH_KINDS, packet_sizes


def burst_sizes(
    document: MeshDocument, measurements: Collection[MeasurementEntry]
) -> dict[MeasurementEntry, tuple[int, ...]]:
    """Packet sizes of each measurement's bursts; empty without bursts."""
    sizes_of = {test.name: packet_sizes(test) for test in document.tests}
    kinds = {test.name: MESH_KINDS[test.kind] for test in document.tests}
    pings = {name for name, kind in kinds.items() if kind.identified_by_size and not kind.stands_in_for_pings}
    standing_in = {name for name, kind in kinds.items() if kind.stands_in_for_pings}
    pinged = {measurement.hosts for measurement in measurements if measurement.test in pings} if standing_in else set()
    return {
        measurement: ()
        if measurement.test in standing_in and measurement.hosts in pinged
        else sizes_of[measurement.test]
        for measurement in measurements
    }
