"""The end of a route behind a link that loses most packets: neither a longer route, nor a shorter, nor a change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from monitor.analysis.routes.compare import trimmed
from monitor.analysis.routes.timeline import Flow, RouteTrace, Timeline, find_routes
from probes.trace.kind import longest_s
from probes.trace.probe import not_reached_text
from probes.trace.round import TraceRound, TtlProbe
from probes.trace.search import CONFIRM_PROBES, GAP_HOPS, Answer, EarlierRoute
from tests.facts import lacks
from tests.unit.trace.world import World, round_for, spec_for

ROUTE = ("a", "b", "c", "d", "e", "f", "g", "host")
START = datetime(2026, 11, 21, tzinfo=UTC)


class LossyWorld(World):
    """The link to TTL `beyond` loses a share of all probes that cross it."""

    def __init__(self, loss: float, beyond: int, seed: int) -> None:
        super().__init__({0: ROUTE}, seed=seed)
        self.loss, self.beyond = loss, beyond

    def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
        answer = super().answer(probe, now_s)
        return None if probe.ttl >= self.beyond and self.dice.random() < self.loss else answer


def traced(loss: float, beyond: int, seed: int, earlier: EarlierRoute | None, attempts: int) -> TraceRound:
    world = LossyWorld(loss, beyond, seed)
    round_ = round_for(world, [earlier], attempts=attempts)
    took_s = world.run(round_)
    assert took_s < longest_s(spec_for(1, attempts=attempts))
    return round_


@pytest.mark.parametrize("earlier", [None, EarlierRoute(ROUTE, reached=True)], ids=["first", "later"])
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("beyond", [5, 8])
def test_a_link_that_loses_60_percent_changes_no_route(beyond, attempts, earlier):
    rounds = [traced(0.6, beyond, seed, earlier, attempts) for seed in range(100)]
    lengths = [len(round_.hops(0)) for round_ in rounds if round_.searches[0].reached_at is not None]

    # Without confirmation a third of them end elsewhere.
    assert len(lengths) >= 98
    assert sum(length != len(ROUTE) for length in lengths) <= 2


def test_traces_over_a_lossy_link_are_of_a_single_route():
    timeline = Timeline()
    earlier = EarlierRoute(ROUTE, reached=True)
    for number in range(100):
        round_ = traced(0.6 if number else 0.0, 5, number, earlier, 1)
        hops = trimmed([hop.address for hop in round_.hops(0)], reached=round_.searches[0].reached_at is not None)
        timeline.follow([RouteTrace(START + number * timedelta(minutes=10), Flow("icmp", 1), hops)])

    assert [route.known.route.hops for route in find_routes((), timeline.periods)] == [ROUTE]
    assert timeline.ended == []


def test_a_destination_that_is_gone_is_not_a_shorter_route():
    round_ = traced(1.0, 7, 1, EarlierRoute(ROUTE, reached=True), 1)
    search, hops = round_.searches[0], round_.hops(0)

    assert [hop.address for hop in hops] == list(ROUTE[:6])
    assert search.reached_at is None
    assert search.lost_beyond >= CONFIRM_PROBES
    assert lacks(not_reached_text(hops, search.lost_beyond), "not reached", "packets lost after hop 6") == []
    assert f"{search.lost_beyond} of {search.lost_beyond}" in not_reached_text(hops, search.lost_beyond)


def test_a_destination_that_was_not_reached_before_is_not_confirmed_again():
    world = LossyWorld(1.0, 7, 1)
    world.run(round_for(world, [EarlierRoute(ROUTE[:6], reached=False)], attempts=1))

    beyond = [probe for probe in world.probes if probe.ttl > 6 and probe.attempt >= 0]
    assert len(beyond) == GAP_HOPS


def test_a_silent_last_router_is_confirmed_once():
    world = World({0: ["a", "b", "c", "host"]}, silent=["c"])
    first = round_for(world, attempts=1)
    world.run(first)
    at_first = sum(probe.ttl == 3 for probe in world.probes)
    world.probes.clear()
    world.run(round_for(world, [EarlierRoute(("a", "b", None, "host"), reached=True)], attempts=1))

    assert [hop.address for hop in first.hops(0)] == ["a", "b", None, "host"]
    assert at_first == CONFIRM_PROBES
    assert sum(probe.ttl == 3 for probe in world.probes) == 1


def test_a_route_that_changes_during_a_trace_is_no_route_of_both():
    """Router "d" moves from hop 5 to hop 4 after the first probe to hop 5: then both hops have replied from it."""

    class ChangingWorld(World):
        has_changed = False

        def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
            self.routes = {0: ("a", "b", "c", "d", "host") if self.has_changed else ("a", "b", "c", "x", "d", "host")}
            if probe.ttl == 5:
                self.has_changed = True
            return super().answer(probe, now_s)

    seen = set()
    for seed in range(20):
        world = ChangingWorld({0: ()}, seed=seed)
        round_ = round_for(world, [EarlierRoute(("a", "b", "c", "x", "d", "host"), reached=True)], attempts=1)
        world.run(round_)
        seen.add(tuple(hop.address for hop in round_.hops(0)))

    assert not any(first == second for hops in seen for first, second in pairwise(hops))


def test_a_router_that_is_two_hops_of_a_route_is_kept():
    world = World({0: ["a", "b", "b", "c", "host"]})
    round_ = round_for(world, attempts=1)
    world.run(round_)
    world.probes.clear()
    later = round_for(world, [EarlierRoute(("a", "b", "b", "c", "host"), reached=True)], attempts=1)
    world.run(later)

    assert [hop.address for hop in round_.hops(0)] == ["a", "b", "b", "c", "host"]
    assert len(world.probes) == 5


def test_the_packets_to_confirm_are_limited():
    world = LossyWorld(1.0, 7, 1)
    world.run(round_for(world, [EarlierRoute(ROUTE, reached=True)], attempts=3, max_packets=0, max_hops=12))

    assert len(world.probes) <= 12 + len(ROUTE)
