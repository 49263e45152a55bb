"""Routes of many paths at a moment, and their changes by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, optional_list, select

LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MeshRoute:
    """Route of a path at a moment; load balancing makes several. `last_at` is its last trace by then."""

    path_id: int
    route_id: int
    hops: list[str | None]
    reached: bool
    last_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeStep:
    step: int
    changes: int
    first_at: datetime
    last_at: datetime


def mesh_routes(
    at: datetime,
    path_ids: Sequence[int] | None = None,
    *,
    addresses: Sequence[str] | None = None,
    most: int = LARGEST,
) -> list[MeshRoute]:
    """At most `most` routes, through any of `addresses`, if given; none of paths untraced for a day."""
    return select(
        MeshRoute,
        "mesh_routes",
        at=at,
        path_ids=optional_list(path_ids),
        addresses=None if addresses is None else list(addresses),
        most=most,
    )


def change_steps(
    since: datetime, until: datetime, step_s: float, path_ids: Sequence[int] | None = None
) -> list[ChangeStep]:
    check_period(since, until)
    return select(
        ChangeStep, "route_change_steps", since=since, until=until, step_s=step_s, path_ids=optional_list(path_ids)
    )
