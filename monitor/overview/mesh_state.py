"""The state of the whole mesh in a sentence, with its counts of paths: the same on pages and in the API.

In: the open incidents, the condition of each path, and when the alert rules were last evaluated. Out: a `MeshState`.
Nothing is decided here: conditions are those of `monitor.present`, titles those of the incidents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.incidents import gravest, quiet
from monitor.alerts.incidents.queries import open_incidents
from monitor.alerts.models import Incident, QuietPeriod
from monitor.archive.queries.path_states import MaintainedPlaces
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from monitor.mesh.models import KindName, Measurement, Mesh, Path
from monitor.overview.now import sentence
from monitor.overview.now.sentence import Tally
from monitor.present import read, words
from monitor.present.read import ConditionCount
from monitor.present.track import OF_ROUND_TRIPS, Condition

LARGE_FROM_PATHS = 5000
NO_MESH = "no mesh yet, nothing is measured"
NO_PATH = "no path is measured yet, a path needs two sites and a test"
NO_RULE = "every alert rule is disabled"
LASTING = 1
_NAMES = {
    Condition.NORMAL: "normal",
    Condition.AWAITED: "awaited",
    Condition.OWN_TESTS: "overdue",
    Condition.OVERDUE: "overdue",
    Condition.SET_ASIDE: "in_maintenance",
    Condition.NOT_PERMITTED: "not_permitted",
}


@dataclass(frozen=True, slots=True)
class MeshState:
    """The sentence, its first part as a title, the numbers in it, and the ids of the paths that it names. `incidents`
    are the open ones: those that go on, then those that are over, the worst first. `is_judged`: the paths are judged by
    rules at present; `evaluated_at` is None before the first evaluation; `unknown_since` is None while the rules are
    evaluated."""

    title: str
    rest: str
    tally: Tally
    incidents: tuple[Incident, ...]
    is_judged: bool
    evaluated_at: datetime | None
    unknown_since: datetime | None
    links: Mapping[str, int] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        return f"{self.title} {self.rest}".rstrip()

    @property
    def style(self) -> str:
        """`trouble`, `unknown` or `calm`: how the sentence is marked beside its words."""
        if self.incidents:
            return "trouble"
        normal = self.tally.normal + self.tally.in_maintenance
        return "calm" if self.is_judged and self.tally.normal and normal == self.tally.paths else "unknown"


def load_mesh_state(fresh: Freshness, now: datetime) -> MeshState:
    """The state at `now`, of a centre that last did its work as `fresh` says."""
    mesh = Mesh.objects.first()
    incidents = tuple(sorted(open_incidents(), key=_state_and_damage, reverse=True))
    lasting, over = (
        _paths_of(of for of in incidents if (of.over_since is None) is is_lasting) for is_lasting in (True, False)
    )
    is_new = mesh is not None and (fresh.evaluated_at is None or mesh.applied_at >= fresh.evaluated_at)
    tally = _tally(read.counts(now, lasting, over - lasting), _measured_paths() if is_new else 0)
    overdue = {work.work: work.since for work in fresh.stale_at(now)}
    unknown_since = overdue.get(RecurringWork.EVALUATION)
    links: dict[str, int] = {}
    why = None
    if mesh is None:
        why = NO_MESH
    elif not tally.paths:
        why = NO_PATH
    elif not incidents and not _has_rules(mesh):
        why = NO_RULE
    elif unknown_since is not None:
        why = f"alert rules not evaluated since {unknown_since:%Y-%m-%d %H:%M} UTC"
    elif fresh.evaluated_at is None:
        why = "the alert rules have not been evaluated yet"
    checked = ""
    if why is None and tally.checked and not lasting:
        checked, links = _checked_first(now)
    said = sentence.judged(tally, incidents, checked, now) if why is None else sentence.unknown(tally, why)
    return MeshState(*said, tally, incidents, why is None, fresh.evaluated_at, unknown_since, links)


def _measured_paths() -> int:
    """How many paths are watched: those with a ping or throughput test."""
    kinds = *KindName.PING.alternatives, KindName.THROUGHPUT
    watched = Measurement.objects.filter(retired_at=None, path__retired_at=None, test__kind__in=kinds)
    return watched.values("path_id").distinct().count()


def _paths_of(incidents: Iterable[Incident]) -> set[int]:
    """The paths of these incidents with a finding that lasts."""
    return {row.path_id for incident in incidents for row in incident.paths.all() if not row.is_over}


def _tally(counts: Sequence[ConditionCount], measured: int) -> Tally:
    """The numbers of paths: those of incidents that last (part 1) or are over (part 2), and all others by their
    condition. Of `measured` paths those that no evaluation has seen yet are awaited."""
    numbers: Counter[str] = Counter()
    for count in counts:
        is_trouble = count.condition.is_trouble
        if count.part == LASTING and count.condition > Condition.AWAITED:
            numbers["with_problems"] += count.paths
        elif count.part and not is_trouble:
            numbers["over"] += count.paths
        elif is_trouble:
            numbers["checked"] += count.paths
        elif count.condition is Condition.OVERDUE and count.is_old:
            numbers["silent"] += count.paths
        else:
            numbers[_NAMES[count.condition]] += count.paths
    known = sum(numbers.values())
    numbers["awaited"] += max(measured - known, 0)
    return Tally(paths=max(measured, known), **numbers)


def _checked_first(now: datetime) -> tuple[str, dict[str, int]]:
    """What the worst path is like that is in trouble without a lasting incident, with the one back where that is alike,
    and its id by the name of the pair."""
    paths = [path for path in read.load(least=Condition.SUSPECT).values() if path.condition.is_trouble]
    if not paths:
        return "", {}
    worst = max(paths, key=lambda of: (of.condition, -of.path_id))
    ends = Path.objects.filter(pk=worst.path_id)
    is_back = Q(
        source__in=ends.values("destination"), destination__in=ends.values("source"), family__in=ends.values("family")
    )
    pair = {path.pk: path for path in Path.objects.with_hosts().filter(Q(pk=worst.path_id) | is_back)}
    own, place = pair[worst.path_id], str(pair[worst.path_id])
    if worst.worst.signal in OF_ROUND_TRIPS:
        place = words.place(worst, str(own.source), str(own.destination))
    return words.clause(place, [path for path in paths if path.path_id in pair], at=now), {place: worst.path_id}


def _has_rules(mesh: Mesh) -> bool:
    return any(mesh.alerts.get(rule, {}).get("enabled", True) for rule in RULES)


def _state_and_damage(incident: Incident) -> tuple[bool, tuple[int, int, float]]:
    """Orders incidents by their damage: after those that go on those that are over."""
    return incident.over_since is None, gravest.damage(incident)


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
