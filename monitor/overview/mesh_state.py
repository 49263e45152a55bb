"""The state of the whole mesh in a sentence, with its counts of paths: the same on pages and in the API.

In: the open and pending incidents, the newest data of each path, maintenance, and when the alert rules were last
evaluated. Out: a `MeshState`. A path is called normal only with current data, no open or pending incident, rules that
are evaluated, and a cell in the grid of now that shows no loss above its rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from monitor.accounts.read_limits import is_limited
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.evidence import words
from monitor.alerts.incidents import gravest, quiet, recovery
from monitor.alerts.incidents.queries import last_ended, lasting_incidents
from monitor.alerts.models import Incident, QuietPeriod
from monitor.analysis import binomial, figures
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.path_states import (
    MaintainedPlaces,
    PathCounts,
    PathState,
    path_states,
    states_of_paths,
)
from monitor.archive.queries.paths import loss_windows
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import KindName, Mesh
from monitor.mesh.queries import measured_paths
from monitor.overview.grid import Grid, GridPeriod, load_grid
from monitor.overview.measures import MEASURES
from monitor.overview.path_figures import FigureState, PathFigures

LARGE_FROM_PATHS = 5000
COUNTS_KEPT = timedelta(seconds=10)
"""The states of so many paths take up to a second to count, and every page has them: they are counted at most once in
this time, the time between two refreshes, unless incidents or maintenance change."""
CHECKED_TO_PATHS = 1000
"""Of a larger mesh the cells of the grid of now are not looked at for the sentence, which every page has."""
GOES_ON = 2
"""Of the order of incidents: neither over nor perhaps over."""
PROOF_TAKES, LEAST_LOST = timedelta(minutes=30), 3
"""So long may the rule of loss count packets; fewer lost ones are no sign of a loss."""
POOR_STYLES = ("loss-3", "loss-4", "loss-5")
RECENTLY_ENDED = timedelta(hours=1)
"""While none is open, an incident that ended within this time is named."""
NO_MESH = "No mesh yet: nothing is measured."
NO_PATH = "No path is measured yet: a path needs two sites and a test."
NO_RULE = "Every alert rule is disabled: problems are not detected."


@dataclass(frozen=True, slots=True)
class CheckedPaths:
    """Paths with current data and without an open incident that are not called normal. Either their newest bursts were
    lost, all of them or in part, with the loss above the alert rules or not proven so; or a pending incident has them.
    Each is counted once. `silent_since` is the latest of their last replies."""

    without_reply: int = 0
    with_loss: int = 0
    above_rules: int = 0
    pending: int = 0
    silent_since: datetime | None = None

    @property
    def paths(self) -> int:
        return self.without_reply + self.with_loss + self.above_rules + self.pending

    @property
    def parts(self) -> list[str]:
        """`2 paths without replies since 12:03 UTC, being checked`."""
        parts = []
        if self.without_reply:
            since = "" if self.silent_since is None else f" since {self.silent_since:%H:%M:%S} UTC"
            parts.append(f"{_paths(self.without_reply)} without replies{since}, being checked")
        if self.above_rules:
            parts.append(f"{_paths(self.above_rules)} with loss above the alert threshold, being checked")
        if self.pending:
            parts.append(f"{_paths(self.pending)} being checked")
        if self.with_loss:
            parts.append(f"{_paths(self.with_loss)} with loss, not proven above the alert threshold so far")
        return parts


@dataclass(frozen=True, slots=True)
class MeshState:
    """The sentence, its first part as a title, and the counts in it. `incidents` are the open ones: those that go on,
    then those that may be over, then those back to normal, the worst first. `back_to_normal` counts those of the paths
    with problems whose incident only waits to be resolved, `not_proven_over` those without loss beside an incident that
    goes on; `evaluated_at` is None before the first evaluation; `unknown_since` is None while the
    rules are evaluated."""

    title: str
    rest: str
    states: PathCounts
    incidents: tuple[Incident, ...]
    evaluated_at: datetime | None
    unknown_since: datetime | None
    checked: CheckedPaths
    back_to_normal: int
    not_proven_over: int

    @property
    def sentence(self) -> str:
        return f"{self.title} {self.rest}".rstrip()

    @property
    def style(self) -> str:
        """`trouble`, `unknown` or `calm`: how the sentence is marked beside its words."""
        if self.incidents:
            return "trouble"
        is_judged = self.evaluated_at is not None and self.unknown_since is None and self.title != NO_RULE
        is_calm = is_judged and self.states.normal > 0 and not self.states.without_data and not self.checked.paths
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


def load_mesh_state(fresh: Freshness, now: datetime, grid: Grid | None = None) -> MeshState:
    """The state at `now`, of a centre that last did its work as `fresh` says. `grid` is that of the same page, so that
    both agree; a large one may be older, and is not used."""
    mesh = Mesh.objects.first()
    if grid is not None and len(grid.figures) >= LARGE_FROM_PATHS:
        grid = None
    lasting = lasting_incidents() if grid is None else grid.lasting_incidents
    incidents = tuple(sorted((row for row in lasting if not row.is_pending), key=_state_and_damage, reverse=True))
    problem_paths, pending = _paths_in(incidents), _paths_in(row for row in lasting if row.is_pending)
    back_to_normal = problem_paths - {key for incident in incidents for key in recovery.paths_not_normal(incident)}
    going_on = {
        key for row in incidents if _state_and_damage(row)[0] == GOES_ON for key in recovery.paths_not_normal(row)
    }
    not_proven_over = problem_paths - back_to_normal - going_on if going_on else set()
    states = _count(now, problem_paths, maintained_places(now))
    cells = _cells(states, grid, lasting, now)
    checked = _checked(states, problem_paths, pending - problem_paths, mesh, cells, now)
    over = len(back_to_normal), len(not_proven_over)
    overdue = {work.work: work.since for work in fresh.stale_at(now)}
    unknown_since = overdue.get(RecurringWork.EVALUATION)
    if mesh is None:
        said = (NO_MESH, "")
    elif not states.paths:
        said = (NO_PATH, "")
    elif not incidents and all(not mesh.alerts.get(rule, {}).get("enabled", True) for rule in RULES):
        said = (NO_RULE, _others(states, "measured"))
    elif unknown_since is not None:
        said = _unknown(states, incidents, unknown_since)
    else:
        said = _said(states, checked, incidents, over, fresh.evaluated_at, now)
    return MeshState(*said, states, incidents, fresh.evaluated_at, unknown_since, checked, *over)


def _paths_in(incidents: Iterable[Incident]) -> set[int]:
    """The paths of these incidents with a finding that lasts."""
    return {row.path_id for incident in incidents for row in incident.paths.all() if not row.is_over}


def _state_and_damage(incident: Incident) -> tuple[int, tuple[int, int, float]]:
    """Orders incidents by their damage: after those that go on those that may be over, then those back to normal."""
    if recovery.is_back_to_normal(incident):
        return 0, gravest.damage(incident)
    return (1 if recovery.may_be_over(incident) else GOES_ON), gravest.damage(incident)


def _count(now: datetime, problem_paths: set[int], maintained: MaintainedPlaces) -> PathCounts:
    """The paths by state; of a large mesh those of the last seconds."""
    if is_limited():
        return path_states(now, problem_paths, maintained)
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


def _checked(
    states: PathCounts,
    problem_paths: set[int],
    pending: set[int],
    mesh: Mesh | None,
    cells: Sequence[PathFigures],
    now: datetime,
) -> CheckedPaths:
    """The normal paths in a pending incident or with a lossy cell in the grid of now."""
    if not states.normal:
        return CheckedPaths()
    silent = [path for path in cells if path.state is FigureState.TOTAL_LOSS]
    lossy = [path for path in cells if path.state is FigureState.VALUE and path.proven_loss_ratio]
    poor = {path.path_id for path in lossy if _is_poor(path)}
    above, unclear = _by_rules(mesh, lossy, now)
    poor |= unclear
    told = above | poor | {path.path_id for path in silent}
    waiting = pending - told
    if waiting:
        of_paths = states_of_paths(now, waiting, problem_paths, maintained_places(now))
        waiting = {path_id for path_id, state in of_paths.items() if state is PathState.NORMAL}
    times = [path.unanswered_since for path in silent if path.unanswered_since is not None]
    return CheckedPaths(
        without_reply=len(silent),
        with_loss=len(poor - above),
        above_rules=len(above),
        pending=len(waiting),
        silent_since=max(times, default=None) if len(times) == len(silent) else None,
    )


def _cells(states: PathCounts, grid: Grid | None, lasting: Sequence[Incident], now: datetime) -> list[PathFigures]:
    """The cells of the grid of now without an incident; none for a large mesh, whose cells are not read."""
    if not states.normal or states.paths > CHECKED_TO_PATHS:
        return []
    if grid is None or not grid.is_loss_now:
        grid = load_grid(Metric.LOSS, GridPeriod.NOW, now, lasting=lasting)
    return [
        path for path in grid.figures if path.incident_id is None and not path.in_maintenance and not path.is_of_ended
    ]


def _is_poor(path: PathFigures) -> bool:
    """Whether its loss is in a band that the grid marks as a problem."""
    proven = path.proven_loss_ratio
    return proven is not None and MEASURES[Metric.LOSS].band(proven).style in POOR_STYLES


def _by_rules(mesh: Mesh | None, lossy: Sequence[PathFigures], now: datetime) -> tuple[set[int], set[int]]:
    """The paths whose loss is proven above their rule, and those that lost more in half an hour without such a proof.

    It is proven by the bound that their cells show, or by the half hour. The half hour counts while the cell does not
    prove that the loss is below the rule: a bound of few packets crosses it again and again."""
    if mesh is None or not lossy:
        return set(), set()
    paths = measured_paths(KindName.PING)
    places = {path.path_id: paths[path.path_id].place for path in lossy if path.path_id in paths}
    ratios = {
        path_id: cast("LossRule", rule).above_ratio
        for path_id, rule in settings_for(mesh.alerts, "loss", places).items()
    }
    judged = [path for path in lossy if path.path_id in ratios]
    above = {path.path_id for path in judged if (path.proven_loss_ratio or 0.0) > ratios[path.path_id]}
    open_ids = [path.path_id for path in judged if path.path_id not in above and not _is_below(path, ratios)]
    windows = loss_windows(now - PROOF_TAKES, now, path_ids=open_ids) if open_ids else []
    lost = {window.path_id: (window.sent - window.received, window.sent) for window in windows}
    over = {key for key, (lost, sent) in lost.items() if lost >= LEAST_LOST and lost > ratios[key] * sent}
    proven = {key for key in over if float(binomial.lower_bound(*lost[key])) > ratios[key]}
    return above | proven, over - proven


def _is_below(path: PathFigures, ratios: Mapping[int, float]) -> bool:
    """Whether the packets of a cell prove that its loss is below its rule."""
    lost = (path.sent or 0) - (path.received or 0)
    return float(binomial.upper_bound(lost, path.sent or 0)) < ratios[path.path_id]


def _unknown(states: PathCounts, incidents: tuple[Incident, ...], since: datetime) -> tuple[str, str]:
    """The title and the rest while the rules are not evaluated."""
    then = f" {_problems(states, incidents, since, was=True)}" if incidents else ""
    return f"State unknown: alert rules not evaluated since {since:%Y-%m-%d %H:%M} UTC.{then}", _others(
        states, "with data"
    )


def _said(
    states: PathCounts,
    checked: CheckedPaths,
    incidents: tuple[Incident, ...],
    over: tuple[int, int],
    evaluated_at: datetime | None,
    now: datetime,
) -> tuple[str, str]:
    """The title and the rest of the sentence. `over` counts the paths back to normal, and those not proven so."""
    if incidents:
        current = "not in an incident" if _is_unclear(incidents) else "normal"
        back_to_normal, not_proven_over = over
        bad = states.with_problems - back_to_normal - not_proven_over
        back = [f"{figures.count(not_proven_over)} had problems, not proven over so far"] if not_proven_over else []
        back += [f"{figures.count(back_to_normal)} back to normal"] if back_to_normal and bad > 0 else []
        others = _others(_without(states, checked), current, [*back, *checked.parts])
        return _problems(states, incidents, now, bad=bad), others
    if states.awaited == states.paths:
        return f"{_paths(states.paths)} {'is' if states.paths == 1 else 'are'} waiting for the first results.", ""
    if evaluated_at is None:
        return "The alert rules have not been evaluated yet.", _others(states, "with data")
    if checked.paths:
        rest = f"{_others(_without(states, checked), 'normal')} {_ended(now)}"
        return f"No open incidents; {'; '.join(checked.parts)}.", rest.strip()
    if not states.normal:
        return _none_normal(states), _ended(now)
    if states.normal == states.paths:
        return (f"All {_paths(states.paths)} are normal." if states.paths > 1 else "The path is normal."), _ended(now)
    rest = f"{_others(states, '')} {_ended(now)}"
    return f"No problems: {figures.count(states.normal)} of {_paths(states.paths)} are normal.", rest.strip()


def _problems(
    states: PathCounts, incidents: tuple[Incident, ...], now: datetime, *, bad: int = 0, was: bool = False
) -> str:
    """The paths with problems, the worst incident, and the number of the others. `bad` paths are not back to normal."""
    worst = words.brief(incidents[0], now)
    others = len(incidents) - 1
    if others:
        worst += f", and {others} other incident{'s' if others > 1 else ''}"
    if not states.with_problems:
        return f"Open incident{'s' if others else ''}: {worst}."
    number = bad if bad > 0 else states.with_problems
    count = f"{figures.count(number)} of {_paths(states.paths)}"
    if not was and recovery.is_back_to_normal(incidents[0]):
        is_are = "is" if states.with_problems == 1 else "are"
        return f"{count} {is_are} back to normal, waiting to close: {worst}."
    if not was and recovery.may_be_over(incidents[0]):
        return f"{count} had problems, not proven over so far: {worst}."
    verb = "had" if was else "has" if number == 1 else "have"
    return f"{count} {verb} problems{' then' if was else ''}: {worst}."


def _none_normal(states: PathCounts) -> str:
    """Of a mesh without an open incident, and without any path with current data outside maintenance."""
    only = _others(states, "").removesuffix(".")
    return f"No open incidents, and no path is known to be normal: {only} of {_paths(states.paths)}."


def _without(states: PathCounts, checked: CheckedPaths) -> PathCounts:
    return replace(states, normal=max(0, states.normal - checked.paths))


def _others(states: PathCounts, current: str, before: Sequence[str] = ()) -> str:
    """The paths without problems by state: `18 normal, 3 without data for more than 10 min.`; those with current data
    are left out where `current` is no word. The parts `before` stand first."""
    parts = list(before)
    parts += [f"{figures.count(states.normal)} {current}"] if current and states.normal else []
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
