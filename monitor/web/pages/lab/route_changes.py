"""Changed routes of the lab as changed settings of their paths, so that they have the same expectations.

In: the status of the lab. Out: for a path its RTT and loss along the routes of the scenario and along the present ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from math import prod

from msgspec.structs import replace

from monitor.web.pages.lab.expect import Expectation, expected_of
from probes.lab.control import LabStatus, PathStatus
from probes.lab.emulated_path import PathCounters
from probes.lab.routing.protocol import RouteStatus
from probes.lab.routing.topology import Routes
from probes.lab.settings import PathSettings


def expected_of_routes(status: LabStatus, pair: tuple[str, str], now: datetime) -> list[Expectation]:
    """The expectations of the changed routes between two sites; none if their routes are those of the scenario."""
    routes = [route for route in status.routes if {route.source, route.destination} == set(pair)]
    changed = [route for route in routes if route.changed_at is not None]
    if not changed:
        return []
    links = {(link.source, link.destination): link.settings for link in status.links}
    before = _both_ways([(route, route.original) for route in routes], links)
    after = _both_ways([(route, route.routes) for route in routes], links)
    rise_ms, first = after.delay_ms - before.delay_ms, changed[0]
    longer = f"{abs(rise_ms):.3g} ms {'more' if rise_ms > 0.0 else 'less'}"
    text = f"There and back the present routes take {longer} than those of the scenario."
    # The rules compare the rise of the RTT, and take twice the original delay for the RTT.
    original = replace(before, delay_ms=before.delay_ms / 2)
    planted = PathStatus(
        source=first.source,
        destination=first.destination,
        settings=replace(original, delay_ms=original.delay_ms + rise_ms, loss_ratio=after.loss_ratio),
        counts=PathCounters(),
        held=0,
        original=original,
        changed_at=max(route.changed_at for route in changed if route.changed_at is not None),
    )
    effects = expected_of([planted], now)
    if not effects:
        text += " No incident: the page of the path shows the change after its next trace."
    return [Expectation("route", text, None), *effects]


def _both_ways(
    routes: Sequence[tuple[RouteStatus, Routes]], links: dict[tuple[str, str], PathSettings]
) -> PathSettings:
    """Delay of the links there and back, and loss of the direction that loses more; of balanced routes the largest."""
    delay_ms, loss_ratio = 0.0, 0.0
    for path, ways in routes:
        crossed = [
            [links[link] for link in pairwise((path.source, *way, path.destination)) if link in links] for way in ways
        ]
        delay_ms += max((sum(link.delay_ms for link in way) for way in crossed), default=0.0)
        losses = [1.0 - prod(1.0 - link.loss_ratio for link in way) for way in crossed]
        loss_ratio = max([loss_ratio, *losses])
    return PathSettings(delay_ms=delay_ms, loss_ratio=loss_ratio)
