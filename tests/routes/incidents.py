"""The incidents that bad paths of a simulated mesh become: causes grouped with the common part of their routes."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis.alarms.candidates import CauseKind, PathLocation
from monitor.analysis.alarms.grouping import explain
from monitor.analysis.routes.common_part import find_common_part
from monitor.analysis.routes.wording import AsLabels
from tests.routes.meshes import FaultyMesh

OF_SITES = (CauseKind.OUTBOUND, CauseKind.INBOUND, CauseKind.HOST, CauseKind.SITE)
ALONE = (CauseKind.PATH, CauseKind.PAIR)


@dataclass(frozen=True, slots=True)
class MeshIncidents:
    """`share` of the bad paths are in the largest incident. `is_place`: it is named after a part of the routes;
    `is_right`: that is where the fault is, or it is named after the site whose own link is faulty. `is_common`: its
    name is more than a pair of hosts. `links`: those between the hops of its name, any of which may be faulty."""

    share: float
    is_place: bool
    is_right: bool
    is_common: bool
    links: int | None


def incidents_of(mesh: FaultyMesh) -> MeshIncidents:
    """The largest incident of a mesh."""
    lines = [
        PathLocation(place, path.source, path.destination, path.source, path.destination, 4)
        for place, path in enumerate(mesh.paths)
    ]
    bad = {place for place, path in enumerate(mesh.paths) if path.is_bad}
    part = find_common_part(mesh.paths, AsLabels(mesh.as_of))
    causes = explain(lines, bad, places={} if part is None else {part.name: part.crossing})
    largest = max(causes, key=lambda cause: len(cause.path_ids), default=None)
    if largest is None:
        return MeshIncidents(0.0, False, False, False, None)
    links = None
    if largest.kind is CauseKind.PLACE and part is not None:
        is_right = mesh.is_named(part)
        links = len(set().union(*(mesh.links_within(stretch) for stretch in part.stretches)))
    else:
        numbers = {str(mesh.numbers[node]) for fault in mesh.faults for node in fault}
        sites = {f"s{int(number) - 100}" for number in numbers if int(number) >= 100}
        is_right = largest.kind in OF_SITES and largest.name in sites
    return MeshIncidents(
        len(largest.path_ids) / len(bad),
        largest.kind is CauseKind.PLACE,
        is_right,
        largest.kind not in ALONE,
        links,
    )
