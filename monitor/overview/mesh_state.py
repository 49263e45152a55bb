"""The state of the whole mesh in a sentence, with its counts of paths: the same on pages and in the API.

In: the open and pending incidents, the newest data of each path, maintenance, and when the alert rules were last
evaluated. Out: a `MeshState`. A path is called normal only with current data, no open or pending incident, rules that
are evaluated, and a cell in the grid of now that shows no loss above its rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.accounts.read_limits import is_limited
from monitor.alerts.detect import raised_rtts
from monitor.alerts.detect.raised_rtts import RaisedRtt
from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.incidents import gravest, quiet, recovery
from monitor.alerts.incidents.queries import lasting_incidents
from monitor.alerts.models import Incident, IncidentPath, QuietPeriod
from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.path_states import (
    MaintainedPlaces,
    PathCounts,
    PathState,
    path_states,
    states_of_paths,
)
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from monitor.mesh.models import Mesh, Path
from monitor.overview.grid import Grid, GridPeriod, load_grid
from monitor.overview.grid_incidents import of_incidents
from monitor.overview.now import sentence
from monitor.overview.now.checked_paths import CheckedPaths, checked_paths
from monitor.overview.now.newest_tests import NewestTests, load_newest_tests
from monitor.overview.path_figures import KnownFields, PathFigures, PathsNow, figures_now
from monitor.overview.wide.remembered_states import RememberedStates

LARGE_FROM_PATHS = 5000
COUNTS_KEPT = timedelta(seconds=10)
"""Every page has the states of so many paths: they are counted at most once in this time, the time between two
refreshes, unless incidents or maintenance change."""
CHECKED_TO_PATHS = 1000
"""Of a larger mesh the cells of the grid of now are not looked at for the sentence, which every page has."""
NO_MESH = "No mesh yet: nothing is measured."
NO_PATH = "No path is measured yet: a path needs two sites and a test."
NO_RULE = "Every alert rule is disabled: problems are not detected."


@dataclass(frozen=True, slots=True)
class MeshState:
    """The sentence, its first part as a title, and the counts in it. `incidents` are the open ones: those that go on,
    then those back to normal, the worst first. `normal_again` are those of the paths with problems whose incidents only
    wait to be resolved, without another trouble; `going_on` counts those whose incidents go on, `replying_again` those
    that answer again after an outage, without a loss so far. `evaluated_at` is None before the first evaluation;
    `unknown_since` is None while the rules are evaluated. `is_too_early`: no path has enough packets to be
    called normal."""

    title: str
    rest: str
    states: PathCounts
    incidents: tuple[Incident, ...]
    evaluated_at: datetime | None
    unknown_since: datetime | None
    checked: CheckedPaths
    normal_again: frozenset[int]
    going_on: int
    replying_again: int = 0
    is_too_early: bool = False

    @property
    def back_to_normal(self) -> int:
        return len(self.normal_again)

    @property
    def sentence(self) -> str:
        return f"{self.title} {self.rest}".rstrip()

    @property
    def is_judged(self) -> bool:
        """Whether the alert rules are evaluated."""
        return self.evaluated_at is not None and self.unknown_since is None and self.title != NO_RULE

    @property
    def checks(self) -> CheckedPaths:
        """The paths that are not called normal; none while the rules, which check them, are not evaluated."""
        return self.checked if self.is_judged else CheckedPaths()

    @property
    def style(self) -> str:
        """`trouble`, `unknown` or `calm`: how the sentence is marked beside its words."""
        if self.incidents:
            return "trouble"
        is_calm = (
            self.is_judged
            and self.states.normal > 0
            and not self.states.without_data
            and not self.checked.not_normal
            and not self.is_too_early
        )
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
_remembered = RememberedStates()


def load_mesh_state(fresh: Freshness, now: datetime, grid: Grid | None = None) -> MeshState:
    """The state at `now`, of a centre that last did its work as `fresh` says. `grid` is that of the same page, so that
    both agree; a large one may be older, and is not used."""
    mesh = Mesh.objects.first()
    if grid is not None and len(grid.figures) >= LARGE_FROM_PATHS:
        grid = None
    lasting = lasting_incidents() if grid is None else grid.lasting_incidents
    incidents = tuple(sorted((row for row in lasting if not row.is_pending), key=_state_and_damage, reverse=True))
    # The paths of an incident wait together: their number is that of its title until it is resolved.
    problem_paths = {*_paths_in(incidents)}.union(*map(recovery.closed_since_over, incidents))
    not_normal = [(incident, recovery.paths_not_normal(incident)) for incident in incidents]
    over = problem_paths - {key for _, path_ids in not_normal for key in path_ids}
    bad = {key for incident, path_ids in not_normal if not recovery.replies_again(incident) for key in path_ids}
    replying_again = len(problem_paths - over - bad)
    maintained = maintained_places(now)
    states = _count(now, problem_paths, maintained)
    cells, few = _cells(states, grid, lasting, now, over)
    tests = NewestTests()
    if mesh is not None and (states.normal or states.without_data) and states.paths <= CHECKED_TO_PATHS:
        tests = load_newest_tests(mesh, now)
    checked, by_tests = _checked(mesh, cells, tests, lasting, maintained, now, over)
    # A path whose newest test is judged has data, also where its pings have none.
    states = replace(states, normal=states.normal + by_tests, without_data=states.without_data - by_tests)
    normal_again = frozenset(over - checked.suspected - recovery.paths_with_other_trouble(incidents))
    going_on = states.with_problems - len(over) - replying_again
    overdue = {work.work: work.since for work in fresh.stale_at(now)}
    unknown_since, is_too_early = overdue.get(RecurringWork.EVALUATION), False
    if mesh is None:
        said = (NO_MESH, "")
    elif not states.paths:
        said = (NO_PATH, "")
    elif not incidents and not _has_rules(mesh):
        said = (NO_RULE, sentence.remaining(states, "measured"))
    elif unknown_since is not None:
        said = sentence.unknown(states, incidents, unknown_since)
    else:
        few -= checked.suspected
        is_judged_normal = fresh.evaluated_at is not None and not incidents and states.normal > 0
        is_too_early = is_judged_normal and len(few) == states.normal
        is_in_part = bool(few or tests.unjudged - tests.low.keys())
        counts = going_on, replying_again, len(normal_again)
        said = sentence.judged(states, checked, incidents, counts, is_in_part, fresh.evaluated_at, now)
        title = sentence.too_early(states) if is_too_early else said[0]
        said = title, f"{said[1]} {sentence.further(checked, tests, 0 if is_too_early else len(few))}".strip()
    return MeshState(
        *said,
        states,
        incidents,
        fresh.evaluated_at,
        unknown_since,
        checked,
        normal_again,
        going_on,
        replying_again,
        is_too_early,
    )


@dataclass(frozen=True, slots=True)
class PathNow:
    """A path as the sentence and the grids of now have it: `checked` has this path alone, `loss` and `rtt` are grids of
    its packets of one size."""

    checked: CheckedPaths
    loss: Grid
    rtt: Grid


def load_path_now(path_id: int, packet_bytes: int | None, fresh: Freshness, now: datetime) -> PathNow:
    """This path at `now`, whatever the size of the mesh; nothing is being checked while the rules are not evaluated.
    Raises `UnknownChoice` for a size."""
    lasting = lasting_incidents()

    def load(size: int | None) -> Grid:
        return load_grid(Metric.LOSS, GridPeriod.NOW, now, packet_bytes=size, path_ids=[path_id], lasting=lasting)

    smallest, checked = load(None), CheckedPaths()
    mesh, is_stale = Mesh.objects.first(), any(work.work is RecurringWork.EVALUATION for work in fresh.stale_at(now))
    if mesh is not None and not is_stale and fresh.evaluated_at is not None and _has_rules(mesh):
        cells, tests = _without_incident(smallest), load_newest_tests(mesh, now, path_id)
        checked, _ = _checked(mesh, cells, tests, lasting, maintained_places(now), now, path_id=path_id)
    loss = smallest if packet_bytes in (None, smallest.packet_bytes) else load(packet_bytes)
    return PathNow(checked, loss.with_checks(checked), _rtt_beside(loss))


def _rtt_beside(loss: Grid) -> Grid:
    """The median RTT of the path of this grid of loss now, of the same packets. Its silence and age are in the loss."""
    size, begins = loss.packet_bytes, {path.path_id: loss.since for path in loss.figures}
    assert size is not None
    window_s = round((loss.until - loss.since).total_seconds())
    paths: list[KnownFields] = [
        (path.path_id, path.source, path.destination, path.family, path.incident_id, path.in_maintenance)
        for path in loss.figures
    ]
    asked = PathsNow(Metric.RTT_MEDIAN, size, paths, begins, loss.until, dict.fromkeys(begins, window_s))
    is_smallest_size = size == min(loss.packet_sizes, default=size)
    figures = of_incidents(asked, figures_now(asked), list(loss.open_incidents), is_smallest_size=is_smallest_size)
    return replace(loss, metric=Metric.RTT_MEDIAN, figures=figures)


def _checked(
    mesh: Mesh | None,
    cells: Sequence[PathFigures],
    tests: NewestTests,
    lasting: Sequence[Incident],
    maintained: MaintainedPlaces,
    now: datetime,
    over: Collection[int] = (),
    path_id: int | None = None,
) -> tuple[CheckedPaths, int]:
    """The paths that are not called normal, or this path alone, by these cells and tests; and how many of them are
    without data of pings. The open incidents of the paths `over` only wait to be resolved."""
    problem_paths = {*_paths_in(row for row in lasting if not row.is_pending)}.difference(over)
    pending = _checked_for(row for row in lasting if row.is_pending)
    raised = {key: _longer(name, rtt) for key, (name, rtt) in raised_rtts.read().items()}
    may_lose = recovery.unclear_paths(row for row in lasting if not row.is_pending)
    unclear = _names((may_lose or set()).difference(over))
    named = (pending, raised, tests.low, unclear)
    asked = {key for of in named for key in of if path_id in (None, key)} - problem_paths
    of_paths = states_of_paths(now, asked, problem_paths, maintained) if asked else {}
    normal = {key for key, state in of_paths.items() if state is PathState.NORMAL}
    silent = {key for key, state in of_paths.items() if state is PathState.NO_DATA and key in tests.low}.difference(
        over
    )
    waiting, raised, low, unclear = ({key: name for key, name in of.items() if key in normal} for of in named)
    low |= {key: tests.low[key] for key in silent}
    # Where both paths of a pair are pending, each has its own loss, and none has that of an incident on the other.
    ends_s = {
        key: end_s
        for key, end_s in recovery.loss_ends_s(lasting).items()
        if end_s is not None or key in problem_paths or key not in pending
    }
    checked = checked_paths(cells, waiting, raised, low, unclear, mesh, ends_s, now)
    in_incidents = checked.suspected.intersection(over)
    return replace(checked, in_incidents=in_incidents, are_unclear_listed=may_lose is not None), len(silent)


def _has_rules(mesh: Mesh) -> bool:
    return any(mesh.alerts.get(rule, {}).get("enabled", True) for rule in RULES)


def _longer(name: str, rtt: RaisedRtt) -> str:
    return f"{name}: {figures.change_ms(rtt.before_ms, rtt.raised_ms)}"


def _paths_in(incidents: Iterable[Incident]) -> dict[int, str]:
    """The paths of these incidents with a finding that lasts, by their names."""
    return {row.path_id: str(row.path) for incident in incidents for row in incident.paths.all() if not row.is_over}


def _names(path_ids: Collection[int]) -> dict[int, str]:
    """The names of these paths; no query for none."""
    return {path.pk: str(path) for path in Path.objects.filter(pk__in=path_ids).with_hosts()} if path_ids else {}


def _checked_for(incidents: Iterable[Incident]) -> dict[int, str]:
    """The paths of these pending incidents, each with its symptom: `cern → slac: RTT 182 → 262 ms since 10:05:10 UTC`,
    without figures where its rule has none, or others tell them."""
    rows = [(incident, row) for incident in incidents for row in incident.paths.all() if not row.is_over]
    return {row.path_id: f"{row.path}: {_symptom(incident, row)}" for incident, row in rows}


def _symptom(incident: Incident, row: IncidentPath) -> str:
    """The symptom of a pending finding; of an RTT its change as the finding fired, and since when as far as known."""
    rule = rule_of(row.rule)
    if not {"before_ms", "after_ms"} <= row.figures.keys():
        return rule.words
    words = f"{rule.words}, {rule.figure_words}" if rule.figure_words else rule.words
    change = figures.change_ms(float(row.figures["before_ms"]), float(row.figures["after_ms"]))
    return f"{words} {change}{'' if incident.began_at is None else f' since {incident.began_at:%H:%M:%S} UTC'}"


def _state_and_damage(incident: Incident) -> tuple[bool, bool, tuple[int, int, float]]:
    """Orders incidents by their damage: after those that go on those whose paths reply again, then those back to
    normal."""
    is_back, is_again = recovery.is_back_to_normal(incident), recovery.replies_again(incident)
    return not is_back and not is_again, not is_back, gravest.damage(incident)


def _count(now: datetime, problem_paths: set[int], maintained: MaintainedPlaces) -> PathCounts:
    """The paths by state; of a large mesh those of the last seconds."""
    if is_limited():
        return path_states(now, problem_paths, maintained)
    for last in _last_count[:]:
        is_new = timedelta(0) <= now - last.at < COUNTS_KEPT
        if is_new and (last.problem_paths, last.maintained) == (problem_paths, maintained):
            return last.states
    count = _remembered.count if _last_count or _remembered.is_filled else path_states
    states = count(now, problem_paths, maintained)
    is_large = states.paths >= LARGE_FROM_PATHS
    _last_count[:] = [_Count(now, problem_paths, maintained, states)] if is_large else []
    if not is_large:
        _remembered.forget()
    return states


def remember_paths(now: datetime) -> bool:
    """Look up the paths of a large mesh before the first reader, who would wait for it. Returns whether it is large."""
    is_large = Path.objects.filter(retired_at=None).count() >= LARGE_FROM_PATHS
    if is_large:
        _remembered.count(now, set(), MaintainedPlaces())
    return is_large


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


def _cells(
    states: PathCounts, grid: Grid | None, lasting: Sequence[Incident], now: datetime, over: Collection[int]
) -> tuple[list[PathFigures], frozenset[int]]:
    """The cells of the grid of now without an incident, or whose incidents are over, and of those without any lately
    the paths with few bursts; none for a large mesh, whose cells are not read."""
    if not (states.normal or over) or states.paths > CHECKED_TO_PATHS:
        return [], frozenset()
    if grid is None or not grid.is_loss_now:
        grid = load_grid(Metric.LOSS, GridPeriod.NOW, now, lasting=lasting)
    cells = _without_incident(grid, over)
    settled = {path.path_id for path in cells if path.ended_at is None and path.stale_at is None} - set(over)
    return cells, grid.with_few_bursts & settled


def _without_incident(grid: Grid, over: Collection[int] = ()) -> list[PathFigures]:
    return [
        path
        for path in grid.figures
        if path.incident_id is None or (path.path_id in over and path.stale_at is None)
        if not path.in_maintenance and not path.is_of_ended
    ]
