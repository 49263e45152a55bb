"""Recent route changes with an effect on RTT or loss, for the rule `route_change`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.analysis.routes import wording
from monitor.analysis.routes.effects import ChangeEffect
from monitor.analysis.routes.wording import AsLabels
from monitor.archive.queries.routes.effects import MeasuredChange, distinct_changes, effects_of
from monitor.archive.queries.routes.periods import RouteChange, changes_between
from monitor.routes.places import of_addresses

LOOK_BACK = timedelta(hours=1)
# Newest changes measured for an effect in an evaluation, the newest of each path.
MOST_CHANGES = 200


@dataclass(frozen=True, slots=True)
class RouteEffect:
    """A route change's effect on pings."""

    path_id: int
    not_before: datetime
    since: datetime
    seen_at: datetime
    text: str
    effect: ChangeEffect


def recent_effects(path_ids: Sequence[int], now: datetime) -> tuple[RouteEffect, ...]:
    """Effects of each path's newest change in the last hour, by the bursts before `now`."""
    wanted = set(path_ids)
    changes = distinct_changes([change for change in changes_between(now - LOOK_BACK, now) if change.path_id in wanted])
    if not changes:
        return ()
    newest = {change.path_id: change for change in changes}
    chosen = sorted(newest.values(), key=lambda change: change.at)[-MOST_CHANGES:]
    measured = [change for change in effects_of(chosen, now) if change.effect is not None]
    labels = _labels([change.change for change in measured])
    return tuple(effect for change in measured for effect in [_effect(change, labels)] if effect is not None)


def _effect(measured: MeasuredChange, labels: AsLabels) -> RouteEffect | None:
    change, effect = measured.change, measured.effect
    if effect is None:
        return None
    since = change.at
    if effect.rtt is not None:
        since = min(max(datetime.fromtimestamp(effect.rtt.at_s, UTC), change.last_before_at), change.at)
    text = wording.route_change(since, change.before, change.after, labels, effect)
    return RouteEffect(measured.measured_path_id, change.last_before_at, since, change.at, text, effect)


def _labels(changes: Sequence[RouteChange]) -> AsLabels:
    if not changes:
        return AsLabels()
    hops = {hop for change in changes for hop in (*change.before_hops, *change.after_hops) if hop is not None}
    names = of_addresses(sorted(hops))
    as_names = {name.asn: name.as_name for name in names.values() if name.asn is not None}
    return AsLabels(lambda address: names[address].asn if address in names else None, as_names.get)
