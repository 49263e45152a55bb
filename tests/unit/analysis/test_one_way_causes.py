"""The cause of a loss one way on many paths: planted on a mesh whose routes there and back differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from monitor.alerts.backtest.recorded import RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect import route_places
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.analysis.routes.compare import RouteHops
from tests.planted import paths
from tests.planted.paths import BEGAN, CYCLE_S
from tests.planted.simulated import BEFORE_CYCLES

LEFT, RIGHT = ("cern", "desy", "in2p3"), ("fnal", "ornl", "slac")
CYCLES = BEFORE_CYCLES + 60
LOSS = 0.05
OUT, BACK = ("192.0.2.1", "192.0.2.2"), ("192.0.2.3", "192.0.2.4")
"""The hops of the way from left to right, and of the way back."""


def hops(source, destination):
    between = (
        OUT if source in LEFT and destination in RIGHT else BACK if source in RIGHT and destination in LEFT else ()
    )
    ends = [f"198.51.100.{(*LEFT, *RIGHT).index(site)}" for site in (source, destination)]
    return RouteHops((ends[0], *between, ends[1], f"{ends[1]}1"), reached=True)


class RoutedSource(RecordedSource):
    """Measurements of a mesh with the routes of `hops`."""

    mesh = paths.full_mesh([*LEFT, *RIGHT])

    def routes(self, path_ids, now):
        return {path_id: hops(self.mesh[path_id].source, self.mesh[path_id].destination) for path_id in path_ids}


def found(monkeypatch, lossy_way, *, with_stamp=True, in_pings=True):
    """The incidents of a loss on one way between left and right."""
    monkeypatch.setattr(route_places, "of_addresses", lambda addresses: {})
    mesh, random = RoutedSource.mesh, np.random.default_rng(3)
    ends = [(path.source in LEFT, path.destination in LEFT) for path in mesh.values()]
    forward, reverse = np.array([way == lossy_way for way in ends]), np.array([way[::-1] == lossy_way for way in ends])

    def source(is_lossy, kind=RecordedSource, **ways):
        ratio = np.where(is_lossy[:, np.newaxis] & (np.arange(CYCLES) >= BEFORE_CYCLES), LOSS, 0.0)
        return kind(paths.bursts(len(mesh), CYCLES, ratio, random), past=paths.past(len(mesh), 0.0, random), **ways)

    ways = (source(forward), source(reverse)) if with_stamp else ()
    pings = source((forward | reverse) & in_pings, RoutedSource, ways=ways)
    scope = paths.scope(mesh)
    scope = replace(scope, one_way=dict(scope.pinged)) if with_stamp else scope
    replay = Replay(scope, pings, ("loss", "loss_regression"))
    began = BEGAN + timedelta(seconds=(BEFORE_CYCLES - 0.5) * CYCLE_S)
    for now in moments(began, BEGAN + timedelta(seconds=(CYCLES - 0.5) * CYCLE_S), CYCLE_S):
        replay.at(now)
    return [alarm for alarm in replay.alarms if alarm.ended_at is None and alarm.opened_at is not None]


def test_a_lossy_link_is_told_from_the_way_back_by_the_direction(monkeypatch):
    for way, hop in (((True, False), OUT), ((False, True), BACK)):
        (alarm,) = found(monkeypatch, way)

        assert all(address in alarm.cause for address in hop), alarm.cause
        told = {finding.figures.get(DIRECTION) for finding in alarm.findings.values()}
        assert {"forward", "reverse"} <= told  # some round trips fire before


def test_pings_cannot_tell_the_link_from_the_way_back(monkeypatch):
    alarms = found(monkeypatch, (True, False), with_stamp=False)

    assert not any(OUT[0] in alarm.cause and BACK[0] not in alarm.cause for alarm in alarms)


def test_a_loss_that_spares_pings_has_a_single_cause_too(monkeypatch):
    (alarm,) = found(monkeypatch, (True, False), in_pings=False)

    assert all(address in alarm.cause for address in OUT)
