"""The users' API about the state of the mesh."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.present.conditions import LATELY_S

router = Router(tags=["centre"])


def said(meaning: str) -> Any:
    return Field(description=meaning)


class MeshStateOut(Schema):
    """The state of the mesh as on the pages. Each path is in one count; the counts add up to `paths`."""

    sentence: Annotated[str, said("the state in words")]
    style: Annotated[str, said("mark of the sentence on pages: trouble, calm or unknown")] = "unknown"
    paths: Annotated[int, said("measured paths")]
    with_problems: Annotated[int, said("bad, in an open incident")]
    back_to_normal: Annotated[int, said("in an open incident that is over and waits to close")]
    in_maintenance: Annotated[int, said("in maintenance")]
    normal: Annotated[int, said("with none of the other states")]
    in_own_tests: Annotated[int, said("with newer packets all sent during own throughput tests")] = 0
    awaited: Annotated[int, said("with too few packets so far")]
    without_data: Annotated[int, said("without any results of the last `without_data_s`")]
    being_checked: Annotated[int, said("with a trouble that no rule has proven so far")]
    overdue: Annotated[int, said("without newer results, but with some of the last minutes")] = 0
    not_permitted: Annotated[int, said("not measured, most often by the limits of their site")] = 0
    without_data_s: Annotated[float | None, said("null if `without_data` is 0")]
    open_incidents: Annotated[list[int], said("ids, the worst first")]
    evaluated_at: Annotated[datetime | None, said("last evaluation of the alert rules")]
    unknown_since: Annotated[datetime | None, said("last evaluation, if overdue; null while rules are evaluated")]


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
        "with_problems": tally.with_problems,
        "back_to_normal": tally.over,
        "in_maintenance": tally.in_maintenance,
        "normal": tally.normal,
        "in_own_tests": tally.own_tests,
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
