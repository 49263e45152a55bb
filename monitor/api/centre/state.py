"""The users' API about the state of the whole mesh: the sentence of the pages, and its counts of paths."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import MeshState, load_mesh_state

router = Router(tags=["centre"])


class MeshStateOut(Schema):
    """The state of the mesh in a sentence, as on the pages, and the paths in it: those with an open incident, else in
    maintenance, else with current data, else awaited, scheduled too lately for data, else without data. Those with
    current data are `being_checked`, `overdue` or else `normal`, as the sentence says. They add up to `paths`, and
    `back_to_normal` is a part of `with_problems`: those whose incident only waits to be resolved, and nothing else is
    being checked. The newest bursts of those `being_checked` were lost, all or in part, or had a longer RTT, or their
    newest throughput test is much slower than those before, without an incident so far, or do not exclude the loss of
    an open incident; newer data of those `overdue` have not arrived in time, or count nowhere, since they were sent
    during our own throughput tests. `without_data_s` is the shortest time after which those without data count as
    such. `open_incidents` has the ids of the open incidents, the worst first. `unknown_since` is the last evaluation of
    the alert rules where that is overdue, and null while they are evaluated: `normal` then only means current data.
    `style` is how the pages mark the sentence: `trouble`, `calm`, or `unknown`."""

    sentence: str
    style: str = "unknown"
    paths: int
    with_problems: int
    back_to_normal: int
    in_maintenance: int
    normal: int
    awaited: int
    without_data: int
    being_checked: int
    overdue: int = 0
    without_data_s: float | None
    open_incidents: list[int]
    evaluated_at: datetime | None
    unknown_since: datetime | None


@router.get(
    "/state", response=MeshStateOut, summary="The state of the whole mesh in a sentence, and its paths by state"
)
def get_state(request: HttpRequest) -> dict[str, object]:
    return state_fields(load_mesh_state(freshness.load(), timezone.now()))


def state_fields(state: MeshState) -> dict[str, object]:
    """The fields of `MeshStateOut`."""
    counted = state.states
    return {
        "sentence": state.sentence,
        "style": state.style,
        "paths": counted.paths,
        "with_problems": counted.with_problems,
        "back_to_normal": state.back_to_normal,
        "in_maintenance": counted.in_maintenance,
        "normal": max(0, counted.normal - state.checked.not_normal),
        "awaited": counted.awaited,
        "without_data": counted.without_data,
        "being_checked": state.checked.paths - len(state.checked.in_incidents),
        "overdue": len(state.checked.overdue) + len(state.checked.set_aside),
        "without_data_s": counted.without_data_s,
        "open_incidents": [incident.pk for incident in state.incidents],
        "evaluated_at": state.evaluated_at,
        "unknown_since": state.unknown_since,
    }
