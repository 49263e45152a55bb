"""The packet sizes of a path's bursts, by the tests that measure it.

Pings are a path's bursts. The round trips of a STAMP test are those of a path without pings: such tests stand in for
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.document.expansion import MeasurementEntry
from monitor.mesh.kinds import MESH_KINDS, packet_sizes


def burst_sizes(
    document: MeshDocument, measurements: Iterable[MeasurementEntry]
) -> dict[MeasurementEntry, tuple[int, ...]]:
    """Packet sizes of the bursts that each of all the document's measurements gives; empty for those that give none."""
    tests = {test.name: test for test in document.tests}
    of_path: dict[tuple[str, str], list[MeasurementEntry]] = defaultdict(list)
    for measurement in measurements:
        of_path[measurement.hosts].append(measurement)
    sizes: dict[MeasurementEntry, tuple[int, ...]] = {}
    for together in of_path.values():
        kinds = [MESH_KINDS[tests[measurement.test].kind] for measurement in together]
        is_pinged = any(kind.identified_by_size and not kind.stands_in_for_pings for kind in kinds)
        for measurement, kind in zip(together, kinds, strict=True):
            gives_none = kind.stands_in_for_pings and is_pinged
            sizes[measurement] = () if gives_none else packet_sizes(tests[measurement.test])
    return sizes
