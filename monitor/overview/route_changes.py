"""Route changes of a period, and the RTT steps (rule `rtt`) that they explain, for reports. A change of route or
reverse route at that time, with an RTT shift in the same direction, explains a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.detect.rules.round_trips import RTT
from monitor.alerts.models import IncidentPath
from monitor.analysis.routes.effects import SLACK_S
from monitor.archive.queries.routes.effects import LONGEST_UNSEEN, MeasuredChange, measured_changes, reverse_paths

SLACK = timedelta(seconds=SLACK_S)


@dataclass(frozen=True, slots=True)
class RttStepFinding:
    """A sudden change of a path's RTT, between two bursts."""

    path_id: int
    not_before: datetime
    at: datetime
    shift_ms: float


@dataclass(frozen=True, slots=True)
class RouteEffects:
    changes: tuple[MeasuredChange, ...]
    with_effect: tuple[MeasuredChange, ...]  # changes that changed RTT or loss
    steps: int  # RTT steps
    explained: int  # steps caused by a route change


def route_effects(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> RouteEffects:
    """Route changes and RTT steps in [since, until) of these or all paths."""
    steps = rtt_steps(since, until, path_ids)
    reverse = reverse_paths({step.path_id for step in steps})
    wider = None if path_ids is None else sorted({*path_ids, *reverse.values()})
    near = measured_changes(since - LONGEST_UNSEEN, until + LONGEST_UNSEEN, wider)
    by_path = defaultdict(list)
    for change in near:
        by_path[change.path_id].append(change)
    explained = sum(
        explains(step, [*by_path[step.path_id], *by_path.get(reverse.get(step.path_id, 0), ())]) is not None
        for step in steps
    )
    wanted = None if path_ids is None else set(path_ids)
    changes = tuple(
        change for change in near if since <= change.change.at < until and (wanted is None or change.path_id in wanted)
    )
    with_effect = tuple(change for change in changes if change.effect is not None)
    return RouteEffects(changes, with_effect, len(steps), explained)


def rtt_steps(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> list[RttStepFinding]:
    """RTT steps begun in a period, by time, without slow rises; findings moved between incidents count once."""
    rows = IncidentPath.objects.filter(rule=RTT.name, since__gte=since, since__lt=until).order_by("since", "path_id")
    if path_ids is not None:
        rows = rows.filter(path_id__in=list(path_ids))
    steps: dict[tuple[int, datetime], RttStepFinding] = {}
    for path_id, at, figures in rows.values_list("path_id", "since", "figures"):
        if figures.get("is_slow"):
            continue
        shift_ms = float(figures["after_ms"]) - float(figures["before_ms"])
        not_before = datetime.fromisoformat(figures["not_before"]) if "not_before" in figures else at
        steps[path_id, at] = RttStepFinding(path_id, not_before, at, shift_ms)
    return list(steps.values())


def explains(step: RttStepFinding, changes: Iterable[MeasuredChange]) -> MeasuredChange | None:
    """The largest change at the time of the step with a shift in its direction."""
    fitting = [
        (abs(shift_ms), change)
        for change in changes
        for shift_ms in [change.rtt_shift_ms]
        if shift_ms is not None
        and (shift_ms > 0.0) == (step.shift_ms > 0.0)
        and change.change.last_before_at - SLACK <= step.at
        and step.not_before <= change.change.at + SLACK
    ]
    return max(fitting, key=lambda entry: entry[0])[1] if fitting else None
