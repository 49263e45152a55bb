"""Check a delivered result against the mesh and the time, and give the reason shown to the agent and on the pages when
it is refused.

The structs in `probes` have the bounds of each field, `contradictions` the relations between fields. No I/O here. A
refusal is permanent, so temporary conditions are not reasons to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from probes.site.wire import Delivered

CLOCK_SKEW = timedelta(minutes=5)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KnownPath:
    """Properties of a path that its results must match: source and destination site, address family."""

    site_id: int
    family: int
    far_site_id: int


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Context in which results are checked: the delivering site, the referenced paths and slots, and the time limits.
    `slots` maps a slot to its path; `earliest` is the retention limit by result type."""

    site_id: int
    paths: dict[int, KnownPath]
    slots: dict[int, int]
    earliest: Mapping[type, datetime]
    latest: datetime


def reason_to_refuse(delivered: Delivered, scope: CheckContext) -> str | None:
    """Reason why a valid result will never be stored; None where it can be."""
    result, path_id, slot_id = delivered.result, delivered.path_id, delivered.slot_id
    path = scope.paths.get(path_id)
    if "\0" in delivered.test:
        return "test holds a NUL character"
    if path is None:
        return f"path {path_id} is unknown"
    if _is_reported_by_destination(result):
        if path.far_site_id != scope.site_id:
            return f"path {path_id} does not end at this site"
    elif path.site_id != scope.site_id:
        return f"path {path_id} does not start at this site"
    if slot_id is None and getattr(result, "needs_slot", False):
        return "served report without a slot"
    if result.family != path.family:
        return f"IPv{result.family} was measured, path {path_id} is IPv{path.family}"
    # A deleted slot is no reason: an apply deletes slots that an agent may still have in its plan.
    if slot_id is not None and scope.slots.get(slot_id, path_id) != path_id:
        return f"slot {slot_id} is not of path {path_id}"
    earliest = scope.earliest[type(result)]
    if not earliest <= result.started_at <= scope.latest:
        return _start_refusal(result.started_at, earliest, scope.latest)
    return None


def _is_reported_by_destination(result: object) -> bool:
    is_reported: bool = getattr(result, "is_reported_by_destination", False)
    return is_reported


def _start_refusal(started_at: datetime, earliest: datetime, latest: datetime) -> str:
    if started_at > latest:
        return f"started_at {started_at.isoformat()} is in the future; is the clock of the site right?"
    if started_at < EARLIEST:
        return f"started_at {started_at.isoformat()} is before 2000; is the clock of the site right?"
    return f"started_at {started_at.isoformat()} is before {earliest.isoformat()}, the oldest that is kept"
