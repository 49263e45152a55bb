"""Changes of a path by schedule, route, or operators' annotations, oldest first.

In periods up to a day, route changes come from the TTLs of replies and from traces with an effect; in longer periods
only from incidents of increased RTT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.alerts.incidents.annotations import annotations_of_path
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures
from monitor.analysis.routes import wording
from monitor.analysis.routes.differences import diff_as
from monitor.analysis.routes.effects import SLACK_S
from monitor.archive.queries.routes.effects import MeasuredChange, measured_changes, reverse_paths
from monitor.archive.queries.ttl_changes import TtlChange, ttl_changes
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.queries import PlanChange, TestSchedule, plan_changes
from monitor.routes.places import of_addresses

# Initial TTLs of Linux and macOS, of Windows, and of routers.
INITIAL_TTLS = (64, 128, 255)
# A TTL change this close to the traces around a route change is the same change.
SLACK = timedelta(seconds=SLACK_S)


class PathChangeKind(StrEnum):
    PLAN = "plan"
    ROUTE = "route"
    ANNOTATION = "annotation"

    @property
    def label(self) -> str:
        return "schedule" if self is PathChangeKind.PLAN else self.value


@dataclass(frozen=True, slots=True)
class PathChange:
    at: datetime
    kind: PathChangeKind
    text: str


def changes_of(
    path_id: int, packet_bytes: int, since: datetime, until: datetime, incidents: Iterable[Incident]
) -> list[PathChange]:
    """Known changes in [since, until); schedule changes at the same moment are combined."""
    routes = (
        _told_by_incidents(path_id, since, until, incidents)
        if until - since > LONGEST_RAW
        else ttl_changes(path_id, packet_bytes, since, until)
    )
    traced = [] if until - since > LONGEST_RAW else _traced(path_id, since, until)
    changes = [
        PathChange(route.at, PathChangeKind.ROUTE, route_words(route.before, route.after))
        for route in routes
        if not any(_encloses(change, route.at) for change in traced)
    ]
    changes += [
        PathChange(measured.change.at, PathChangeKind.ROUTE, text) for measured, text in _traced_words(path_id, traced)
    ]
    by_moment: dict[datetime, list[str]] = {}
    for change in plan_changes(path_id, since, until):
        by_moment.setdefault(change.at, []).append(plan_words(change))
    changes += [PathChange(at, PathChangeKind.PLAN, "; ".join(texts)) for at, texts in by_moment.items()]
    changes += [
        PathChange(note.at, PathChangeKind.ANNOTATION, f"{note.text} ({note.made_by})")
        for note in annotations_of_path(path_id, since, until)
    ]
    return sorted(changes, key=lambda change: (change.at, change.kind))


def plan_words(change: PlanChange) -> str:
    """Describe a schedule change: "pinger: every 30 s, was every 60 s"."""
    before, after = change.before, change.after
    if after is None:
        return f"{change.test} ends"
    if before is None:
        return f"{change.test} begins: {_schedule(after)}"
    return f"{change.test}: {_schedule(after)}, was {_schedule(before)}"


def route_words(before: int, after: int) -> str:
    """Describe a route change, with the TTL change that shows it."""
    known_from = f"the TTL of replies went from {before} to {after}"
    (sent_before, hops_before), (sent_after, hops_after) = _hops(before), _hops(after)
    if sent_before != sent_after:
        return f"route changed, or another system answers: {known_from}"
    return f"route back changed, {hops_before} to {hops_after} hops: {known_from}"


def _traced(path_id: int, since: datetime, until: datetime) -> list[MeasuredChange]:
    path_ids = [path_id, *reverse_paths([path_id]).values()]
    return [change for change in measured_changes(since, until, path_ids) if change.effect is not None]


def _encloses(measured: MeasuredChange, at: datetime) -> bool:
    return measured.change.last_before_at - SLACK <= at <= measured.change.at + SLACK


def _traced_words(path_id: int, traced: list[MeasuredChange]) -> Iterator[tuple[MeasuredChange, str]]:
    routes = [route for measured in traced for route in (measured.change.before, measured.change.after)]
    names = of_addresses({hop for route in routes for hop in route.hops if hop is not None}) if routes else {}
    for measured in traced:
        change = measured.change
        blocks = diff_as(change.before, change.after, lambda address: names[address].asn if address in names else None)
        name = "route" if change.path_id == path_id else "reverse route"
        parts = [f"{name} changed", *wording.effects(measured.effect), wording.as_change(blocks)]
        yield measured, ", ".join(part for part in parts if part)


def _hops(ttl: int) -> tuple[int, int]:
    """Initial TTL and hops of a reply, for the lowest possible initial TTL."""
    initial = next(sent for sent in INITIAL_TTLS if sent >= ttl)
    return initial, initial - ttl


def _schedule(schedule: TestSchedule) -> str:
    sizes = f", {' and '.join(map(str, schedule.packet_bytes))} bytes" if schedule.packet_bytes else ""
    pattern = ", even spacing" if schedule.pattern == "even" else ""
    return f"every {figures.duration(schedule.every_s)}{sizes}{pattern}"


def _told_by_incidents(
    path_id: int, since: datetime, until: datetime, incidents: Iterable[Incident]
) -> Iterator[TtlChange]:
    # At most one change per incident; from merged incidents once.
    seen: set[TtlChange] = set()
    for incident in incidents:
        ttl_rows = (_ttl_change(row) for row in incident.paths.all() if row.path_id == path_id)
        told = next((row for row in ttl_rows if row is not None and since <= row.at < until), None)
        if told is not None and told not in seen:
            seen.add(told)
            yield told


def _ttl_change(finding: IncidentPath) -> TtlChange | None:
    before, after = finding.figures.get("ttl_before"), finding.figures.get("ttl_after")
    return None if None in (before, after) or before == after else TtlChange(finding.since, before, after)
