"""The users' API about the state of the mesh."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.present.track import LATELY_S

router = Router(tags=["centre"])


class MeshStateOut(Schema):
    """The state of the mesh in a sentence, as on the pages, and the paths in it: those of open incidents, of which
    `back_to_normal` wait to be resolved; else those `being_checked`, with a trouble that no rule has proven so far;
    else `not_permitted` by the limits of their site, `in_maintenance`, `overdue`, which lack newer results,
    `without_data`, which lack any of the last `without_data_s`, `awaited`, with too few packets so far, or `normal`.
    They add up to `paths`. `open_incidents` has the ids of the open incidents, the worst first. `unknown_since` is the
    last evaluation of the alert rules where that is overdue, and null while they are evaluated. `style` is how the
    pages mark the sentence: `trouble`, `calm`, or `unknown`."""

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
    not_permitted: int = 0
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
    tally = state.tally
    return {
        "sentence": state.sentence,
        "style": state.style,
        "paths": tally.paths,
        "with_problems": tally.with_problems + tally.over,
        "back_to_normal": tally.over,
        "in_maintenance": tally.in_maintenance,
        "normal": tally.normal,
        "awaited": tally.awaited,
        "without_data": tally.silent,
        "being_checked": tally.checked,
        "overdue": tally.overdue,
        "not_permitted": tally.not_permitted,
        "without_data_s": LATELY_S if tally.silent else None,
        "open_incidents": [incident.pk for incident in state.incidents],
        "evaluated_at": state.evaluated_at,
        "unknown_since": state.unknown_since,
    }
