"""Whether a path is back on its previous route after a change, or has changed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.alerts.evidence.routes.traced import RouteFacts, RouteSwitch
from monitor.alerts.models import Incident
from monitor.analysis.routes import wording
from monitor.archive.queries.routes.periods import RoutePeriod, routes_between

# After an incident's end: its closing is traced, and scheduled traces are some minutes apart.
AFTER_END = timedelta(minutes=15)


def with_returns(routes: Sequence[RouteFacts], incident: Incident, now: datetime) -> tuple[RouteFacts, ...]:
    """Add the place of changed routes at `now` or soon after the incident; unchanged without later routes."""
    until = now if incident.closed_at is None else min(now, incident.closed_at + AFTER_END)
    switched = [(route.path_id, route.switch.seen_at) for route in routes if route.switch is not None]
    since = min((seen_at for _, seen_at in switched), default=until)
    if since >= until:
        return tuple(routes)
    periods = routes_between([path_id for path_id, _ in switched], since, until)
    return tuple(route if route.switch is None else _now(route, route.switch, periods) for route in routes)


def _now(route: RouteFacts, switch: RouteSwitch, periods: Sequence[RoutePeriod]) -> RouteFacts:
    flow = route.path_id, switch.protocol, switch.flow
    later = [
        period
        for period in periods
        if (period.path_id, period.protocol, period.flow) == flow and period.since >= switch.seen_at
    ]
    if len(later) < 2:
        return route
    newest, earlier = later[-1], later[-2]
    if newest.route_id == switch.after_id:
        return replace(route, sentence=switch.sentence, back_at=None, changed_again_at=None)
    is_back = newest.route_id == switch.before_id
    return replace(
        route,
        sentence=wording.later_change(switch.sentence, earlier.last_at, newest.since, is_back=is_back),
        back_at=newest.since if is_back else None,
        changed_again_at=None if is_back else newest.since,
    )
