"""Treat changed routes of the lab as changed RTT and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

Ways = Sequence[tuple[RouteStatus, Routes]]
Links = Mapping[tuple[str, str], PathSettings]


def expected_of_routes(status: LabStatus, pair: tuple[str, str], now: datetime) -> list[Expectation]:
    routes = [route for route in status.routes if {route.source, route.destination} == set(pair)]
    changed = [route for route in routes if route.changed_at is not None]
    if not changed:
        return []
    links = {(link.source, link.destination): link.settings for link in status.links}
    was, now_on = [(route, route.original) for route in routes], [(route, route.routes) for route in routes]
    before, after = _both_ways(was, links), _both_ways(now_on, links)
    rise_ms, first = after.delay_ms - before.delay_ms, changed[0]
    (was_least_ms, was_most_ms), (least_ms, most_ms) = _delays_ms(was, links), _delays_ms(now_on, links)
    longer = _longer(least_ms - was_most_ms, most_ms - was_least_ms)
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


def _longer(least_ms: float, most_ms: float) -> str:
    least, most = (f"{abs(rise_ms):.3g}" for rise_ms in (least_ms, most_ms))
    if (least_ms > 0.0) != (most_ms > 0.0):
        return f"between {least} ms less and {most} ms more"
    lower, upper, more = (least, most, "more") if most_ms > 0.0 else (most, least, "less")
    return f"{lower} ms {more}" if lower == upper else f"{lower} to {upper} ms {more}, by the route of a flow,"


def _both_ways(paths: Ways, links: Links) -> PathSettings:
    losses = [
        1.0 - prod(1.0 - link.loss_ratio for link in way) for path, ways in paths for way in _crossed(path, ways, links)
    ]
    return PathSettings(delay_ms=_delays_ms(paths, links)[1], loss_ratio=max(losses, default=0.0))


def _delays_ms(paths: Ways, links: Links) -> tuple[float, float]:
    delays = [[sum(link.delay_ms for link in way) for way in _crossed(path, ways, links)] for path, ways in paths]
    return sum(min(of_path, default=0.0) for of_path in delays), sum(max(of_path, default=0.0) for of_path in delays)


def _crossed(path: RouteStatus, ways: Routes, links: Links) -> list[list[PathSettings]]:
    return [[links[link] for link in pairwise((path.source, *way, path.destination)) if link in links] for way in ways]
