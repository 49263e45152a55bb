"""Likely causes by the routes of an incident's paths, and the place in sentences of other causes."""

from __future__ import annotations

from dataclasses import replace

from monitor.alerts.detect.rules.finding import AlertRule, Effect
from monitor.alerts.evidence.facts import Facts
from monitor.alerts.evidence.routes.traced import RouteFacts
from monitor.alerts.evidence.stated import Fault, LikelyCause

# Network faults that are told with their place on the path.
PLACED = (Fault.INTERRUPTED, Fault.LOSS, Fault.LARGE_PACKETS, Fault.MTU, Fault.ROUTE, Fault.QUEUE, Fault.UNKNOWN)


def route_change_measured(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A change of the route in the traces, with an effect at the same time."""
    changed = next((route for route in facts.routes if route.has_effect), None)
    if changed is None or rule.effect is Effect.NO_DATA:
        return None
    source, _, destination = changed.path.partition(" → ")
    return LikelyCause(
        Fault.ROUTE,
        f"Route change {where}: {changed.sentence} ({changed.path}).",
        "Ask the provider why the route changed; the ticket below has the traces before and after.",
        (source, destination),
    )


def with_place(cause: LikelyCause, facts: Facts) -> LikelyCause:
    """Add the place of the trouble, if traces were stored; a certain place first."""
    if cause.fault not in PLACED or not facts.routes or facts.routes[0].sentence in cause.sentence:
        return cause
    return replace(cause, sentence=f"{cause.sentence} {place_text(facts.routes[0])}.")


def place_text(route: RouteFacts) -> str:
    """As in `slac → cern: the route changed at 14:29:41 UTC, +60 ms`."""
    return f"{route.path}: {route.sentence}"
