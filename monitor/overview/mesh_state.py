"""The state of the whole mesh in a sentence, with its counts of paths: the same on pages and in the API.

In: the open incidents, the newest data of each path, maintenance, and when the alert rules were last evaluated. Out: a
`MeshState`. A path is called normal only with current data, no open incident, and rules that are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.evidence import words
from monitor.alerts.incidents import quiet
from monitor.alerts.incidents.queries import last_ended, open_incidents
from monitor.alerts.models import Incident, QuietPeriod
from monitor.analysis import figures
from monitor.archive.queries.path_states import MaintainedPlaces, PathCounts, path_states
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from monitor.mesh.models import Mesh

LARGE_FROM_PATHS = 5000
COUNTS_KEPT = timedelta(seconds=10)
"""The states of so many paths take up to a second to count, and every page has them: they are counted at most once in
this time, the time between two refreshes, unless incidents or maintenance change."""
RECENTLY_ENDED = timedelta(hours=1)
"""While none is open, an incident that ended within this time is named."""
NO_MESH = "No mesh yet: nothing is measured."
NO_PATH = "No path is measured yet: a path needs two sites and a test."
NO_RULE = "Every alert rule is disabled: problems are not detected."


@dataclass(frozen=True, slots=True)
class MeshState:
    """The sentence, its first part as a title, and the counts in it. `incidents` are the open ones, worst first and
    those back to normal last; `evaluated_at` is None before the first evaluation; `unknown_since` is None while the
    rules are evaluated."""

    title: str
    rest: str
    states: PathCounts
    incidents: tuple[Incident, ...]
    evaluated_at: datetime | None
    unknown_since: datetime | None

    @property
    def sentence(self) -> str:
        return f"{self.title} {self.rest}".rstrip()

    @property
    def style(self) -> str:
        """`trouble`, `unknown` or `calm`: how the sentence is marked beside its words."""
        if self.incidents:
            return "trouble"
        is_judged = self.evaluated_at is not None and self.unknown_since is None and self.title != NO_RULE
        is_calm = is_judged and self.states.normal > 0 and not self.states.without_data
        return "calm" if is_calm else "unknown"


@dataclass(frozen=True, slots=True)
class _Count:
    """The counted states of a large mesh, and what they were counted for."""

    at: datetime
    problem_paths: set[int]
    maintained: MaintainedPlaces
    states: PathCounts


_last_count: list[_Count] = []
"""The last count, if it was of a large mesh."""


def load_mesh_state(fresh: Freshness, now: datetime) -> MeshState:
    """The state at `now`, of a centre that last did its work as `fresh` says."""
    mesh = Mesh.objects.first()
    incidents = tuple(sorted(open_incidents(), key=_lasts_and_damage, reverse=True))
    problem_paths = {row.path_id for incident in incidents for row in incident.paths.all() if not row.is_over}
    states = _count(now, problem_paths, maintained_places(now))
    overdue = {work.work: work.since for work in fresh.stale_at(now)}
    unknown_since = overdue.get(RecurringWork.EVALUATION)
    if mesh is None:
        said = (NO_MESH, "")
    elif not states.paths:
        said = (NO_PATH, "")
    elif not incidents and all(not mesh.alerts.get(rule, {}).get("enabled", True) for rule in RULES):
        said = (NO_RULE, _others(states, "measured"))
    else:
        said = _said(states, incidents, fresh.evaluated_at, unknown_since, now)
    return MeshState(*said, states, incidents, fresh.evaluated_at, unknown_since)


def _lasts_and_damage(incident: Incident) -> tuple[bool, tuple[int, int, float]]:
    """Orders incidents by their damage, those back to normal after all others."""
    return not words.is_back_to_normal(incident), words.damage(incident)


def _count(now: datetime, problem_paths: set[int], maintained: MaintainedPlaces) -> PathCounts:
    """The paths by state; of a large mesh those of the last seconds."""
    for last in _last_count[:]:
        is_new = timedelta(0) <= now - last.at < COUNTS_KEPT
        if is_new and (last.problem_paths, last.maintained) == (problem_paths, maintained):
            return last.states
    states = path_states(now, problem_paths, maintained)
    is_large = states.paths >= LARGE_FROM_PATHS
    _last_count[:] = [_Count(now, problem_paths, maintained, states)] if is_large else []
    return states


def maintained_places(now: datetime) -> MaintainedPlaces:
    """The paths, sites and groups in maintenance at `now`."""
    lasting = [entry for entry in quiet.in_force(now) if entry.kind == QuietPeriod.Kind.MAINTENANCE]
    return MaintainedPlaces(
        everything=any(entry.path_id is entry.site_id is entry.group_id is None for entry in lasting),
        paths={entry.path_id for entry in lasting if entry.path_id is not None},
        sites={entry.site_id for entry in lasting if entry.path_id is None and entry.site_id is not None},
        groups={
            entry.group_id for entry in lasting if entry.path_id is entry.site_id is None and entry.group_id is not None
        },
    )


def _said(
    states: PathCounts,
    incidents: tuple[Incident, ...],
    evaluated_at: datetime | None,
    unknown_since: datetime | None,
    now: datetime,
) -> tuple[str, str]:
    """The title and the rest of the sentence."""
    if unknown_since is not None:
        then = f" {_problems(states, incidents, unknown_since, was=True)}" if incidents else ""
        title = f"State unknown: alert rules not evaluated since {unknown_since:%Y-%m-%d %H:%M} UTC.{then}"
        return title, _others(states, "with data")
    if incidents:
        return _problems(states, incidents, now), _others(
            states, "not in an incident" if _is_unclear(incidents) else "normal"
        )
    if states.awaited == states.paths:
        return f"{_paths(states.paths)} {'is' if states.paths == 1 else 'are'} waiting for the first results.", ""
    if evaluated_at is None:
        return "The alert rules have not been evaluated yet.", _others(states, "with data")
    if not states.normal:
        return _none_normal(states), _ended(now)
    if states.normal == states.paths:
        return (f"All {_paths(states.paths)} are normal." if states.paths > 1 else "The path is normal."), _ended(now)
    rest = f"{_others(states, '')} {_ended(now)}"
    return f"No problems: {figures.count(states.normal)} of {_paths(states.paths)} are normal.", rest.strip()


def _problems(states: PathCounts, incidents: tuple[Incident, ...], now: datetime, *, was: bool = False) -> str:
    """The paths with problems, the worst incident, and the number of the others."""
    worst = words.brief(incidents[0], now)
    others = len(incidents) - 1
    if others:
        worst += f", and {others} other incident{'s' if others > 1 else ''}"
    if not states.with_problems:
        return f"Open incident{'s' if others else ''}: {worst}."
    count = f"{figures.count(states.with_problems)} of {_paths(states.paths)}"
    if not was and words.is_back_to_normal(incidents[0]):
        is_are = "is" if states.with_problems == 1 else "are"
        return f"{count} {is_are} back to normal, waiting to close: {worst}."
    verb = "had" if was else "has" if states.with_problems == 1 else "have"
    return f"{count} {verb} problems{' then' if was else ''}: {worst}."


def _none_normal(states: PathCounts) -> str:
    """Of a mesh without an open incident, and without any path with current data outside maintenance."""
    only = _others(states, "").removesuffix(".")
    return f"No open incidents, and no path is known to be normal: {only} of {_paths(states.paths)}."


def _others(states: PathCounts, current: str) -> str:
    """The paths without problems by state: `18 normal, 3 without data for more than 10 min.`; those with current data
    are left out where `current` is no word."""
    parts = [f"{figures.count(states.normal)} {current}"] if current and states.normal else []
    if states.without_data and states.without_data_s is not None:
        longer = figures.duration(states.without_data_s)
        parts.append(f"{figures.count(states.without_data)} without data for more than {longer}")
    if states.awaited:
        parts.append(f"{figures.count(states.awaited)} waiting for first results")
    if states.in_maintenance:
        parts.append(f"{figures.count(states.in_maintenance)} in maintenance")
    return f"{', '.join(parts)}." if parts else ""


def _ended(now: datetime) -> str:
    """The incident that ended last, if lately."""
    ended = last_ended(now - RECENTLY_ENDED, now)
    if ended is None or ended.closed_at is None:
        return ""
    ago = figures.duration((now - ended.closed_at).total_seconds())
    return f"Last incident: {words.brief(ended, now)}, resolved {ago} ago."


def _is_unclear(incidents: tuple[Incident, ...]) -> bool:
    """Whether the loss of an incident may be on other paths too."""
    return any(share.get("unclear") for incident in incidents for share in incident.shares)


def _paths(number: int) -> str:
    return f"{figures.count(number)} path{'s' if number != 1 else ''}"
