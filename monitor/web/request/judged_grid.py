"""A grid with the paths that are being checked, as the sentence on the mesh above it has them.

In: a grid. Out: a `JudgedGrid`, with the state of the mesh for the same page, so that both agree and nothing is read
twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import HttpRequest

from monitor.archive.upkeep import freshness
from monitor.overview.grid import Grid
from monitor.overview.mesh_state import LARGE_FROM_PATHS, load_mesh_state
from monitor.web.request.grid_choices import load_chosen_grid


@dataclass(frozen=True, slots=True)
class JudgedGrid:
    """The grid, and for the templates of its page `state` and `fresh`, which `current_state` uses."""

    grid: Grid
    context: dict[str, Any] = field(default_factory=dict)


def load_judged_grid(request: HttpRequest, now: datetime) -> JudgedGrid:
    """The grid selected by the query string. Raises Http404 for an unknown choice."""
    return judge(load_chosen_grid(request, now), now)


def judge(grid: Grid, now: datetime) -> JudgedGrid:
    """The grid with the checked paths. A large one, which all readers share and whose cells the sentence does not
    know, stays as it is."""
    if len(grid.figures) >= LARGE_FROM_PATHS:
        return JudgedGrid(grid)
    fresh = freshness.load()
    state = load_mesh_state(fresh, now, grid)
    return JudgedGrid(grid.with_checks(state.checks), {"state": state, "fresh": fresh})
