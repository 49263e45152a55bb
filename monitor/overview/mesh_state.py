"""The state of the whole mesh in a sentence with counts, for pages and API. Conditions are decided by
`monitor.present`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.incidents import gravest, quiet
from monitor.alerts.incidents.queries import lasting_and_over, open_incidents
from monitor.alerts.models import Incident, QuietPeriod
from monitor.archive.queries.path_states import MaintainedPlaces
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from monitor.mesh.models import KindName, Measurement, Mesh, Path
from monitor.overview.now import sentence
from monitor.overview.now.sentence import Tally
from monitor.present import read, words
from monitor.present.conditions import Condition
from monitor.present.read import ConditionCount
from monitor.present.track import OF_ROUND_TRIPS

LARGE_FROM_PATHS = 5000
NO_MESH = "no mesh yet, nothing is measured"
NO_PATH = "no path is measured yet, a path needs two sites and a test"
NO_RULE = "every alert rule is disabled"
LASTING = 1
_NAMES = {
    Condition.NORMAL: "normal",
    Condition.AWAITED: "awaited",
    Condition.OWN_TESTS: "own_tests",
    Condition.OVERDUE: "overdue",
    Condition.SET_ASIDE: "in_maintenance",
    Condition.NOT_PERMITTED: "not_permitted",
}


@dataclass(frozen=True, slots=True)
class MeshState:
    """The sentence on the mesh, its numbers and paths."""

    title: str  # first part of the sentence
    rest: str
    tally: Tally
    incidents: tuple[Incident, ...]  # open: lasting before over, the worst first
    is_judged: bool  # the rules judge the paths at present
    evaluated_at: datetime | None  # None before the first evaluation
    unknown_since: datetime | None  # None while the rules are evaluated
    links: Mapping[str, int] = field(default_factory=dict)  # ids of the named paths

    @property
    def sentence(self) -> str:
        return f"{self.title} {self.rest}".rstrip()

    @property
    def style(self) -> str:
        """Mark of the sentence: `trouble`, `unknown` or `calm`."""
        if any(incident.over_since is None for incident in self.incidents):
            return "trouble"
        normal = self.tally.normal + self.tally.over
        is_calm = normal and normal + self.tally.in_maintenance == self.tally.paths
        return "calm" if self.is_judged and is_calm else "unknown"


def load_mesh_state(fresh: Freshness, now: datetime) -> MeshState:
    mesh = Mesh.objects.first()
    incidents = tuple(sorted(open_incidents(), key=_state_and_damage, reverse=True))
    lasting, over = lasting_and_over(incidents)
    is_new = mesh is not None and (fresh.evaluated_at is None or mesh.applied_at >= fresh.evaluated_at)
    tally = _tally(read.counts(now, lasting, over), _measured_paths() if is_new else 0)
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
    kinds = *KindName.PING.alternatives, KindName.THROUGHPUT
    watched = Measurement.objects.filter(retired_at=None, path__retired_at=None, test__kind__in=kinds)
    return watched.values("path_id").distinct().count()


def _tally(counts: Sequence[ConditionCount], measured: int) -> Tally:
    # Counts of paths: in lasting (part 1) or over (part 2) incidents, else by condition.
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
    """Clause and id of the worst path without a lasting incident."""
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
    """Sort key: lasting before over incidents, by damage."""
    return incident.over_since is None, gravest.damage(incident)


def maintained_places(now: datetime) -> MaintainedPlaces:
    lasting = [entry for entry in quiet.in_force(now) if entry.kind == QuietPeriod.Kind.MAINTENANCE]
    return MaintainedPlaces(
        everything=any(entry.path_id is entry.site_id is entry.group_id is None for entry in lasting),
        paths={entry.path_id for entry in lasting if entry.path_id is not None},
        sites={entry.site_id for entry in lasting if entry.path_id is None and entry.site_id is not None},
        groups={
            entry.group_id for entry in lasting if entry.path_id is entry.site_id is None and entry.group_id is not None
        },
    )
