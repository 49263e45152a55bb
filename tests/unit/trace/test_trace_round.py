"""Rounds of traces: which probes go out, and when."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.trace.round import STOP_AFTER, TraceRound, TtlProbe
from probes.trace.search import EXCEEDED, REACHED, Answer, EarlierRoute, distance
from tests.unit.trace.world import World, round_for, routes_seen, spec_for, tree

PINGS_IN_TEN_MINUTES = 10 * 2 * 10
"""For a path: 10 packets of 2 sizes a minute."""


def addresses(round_: TraceRound, rank: int = 0) -> list[str | None]:
    return [hop.address for hop in round_.hops(rank)]


def test_a_route_is_found_with_three_attempts_at_each_hop():
    world = World({0: ["a", "b", "c", "d", "e", "f", "host"]})
    round_ = round_for(world)
    took_s = world.run(round_)

    assert addresses(round_) == ["a", "b", "c", "d", "e", "f", "host"]
    assert [len(hop.rtts_ms) for hop in round_.hops(0)] == [3] * 7
    assert round_.searches[0].reached_at == 7
    assert took_s < 5


def test_no_ttl_is_probed_beyond_a_known_destination():
    world = World({0: ["a", "b", "c", "host"]})
    world.run(round_for(world, [EarlierRoute(("a", "b", "c", "host"), reached=True)]))

    assert max(probe.ttl for probe in world.probes) == 4
    assert len(world.probes) == 12


def test_ttls_go_out_in_random_order():
    route = EarlierRoute(tuple(f"r{ttl}" for ttl in range(1, 13)), reached=True)
    orders = set()
    for seed in range(5):
        world = World({0: list(route.hops)}, seed=seed)
        world.run(round_for(world, [route]))
        orders.add(tuple(probe.ttl for probe in world.probes[:12]))

    assert len(orders) == 5
    assert all(sorted(order) == list(range(1, 13)) for order in orders)


@pytest.mark.parametrize(("reply_ttl", "hops"), [(64, 1), (57, 8), (128, 1), (120, 9), (255, 1), (243, 13)])
def test_the_distance_is_told_from_the_ttl_of_a_reply(reply_ttl, hops):
    assert distance(reply_ttl) == hops


@pytest.mark.parametrize("told", [1, 3, 9, 20])
def test_a_wrong_distance_changes_nothing(told):
    class AsymmetricWorld(World):
        def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
            answer = super().answer(probe, now_s)
            return answer._replace(reply_ttl=65 - told) if answer is not None and answer.event == REACHED else answer

    world = AsymmetricWorld({0: ["a", "b", "c", "d", "e", "f", "host"]})
    round_ = round_for(world)
    world.run(round_)

    assert addresses(round_) == ["a", "b", "c", "d", "e", "f", "host"]


def test_a_lost_reply_of_the_destination_makes_no_longer_route():
    class LossyWorld(World):
        def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
            answer = super().answer(probe, now_s)
            return None if probe.ttl == 4 and probe.attempt == 0 else answer

    world = LossyWorld({0: ["a", "b", "c", "host"]})
    round_ = round_for(world, [EarlierRoute(("a", "b", "c", "host"), reached=True)])
    world.run(round_)

    assert addresses(round_) == ["a", "b", "c", "host"]
    assert max(probe.ttl for probe in world.probes) == 4
    assert round_.hops(0)[3].rtts_ms == (None, 1.0, 1.0)


def test_a_dead_destination_ends_five_hops_after_the_last_reply():
    world = World({0: ["a", "b", "c", "d", "e", *["void"] * 30]}, silent=["void"], dead=[0])
    round_ = round_for(world)
    world.run(round_)

    assert addresses(round_) == ["a", "b", "c", "d", "e"]
    assert max(probe.ttl for probe in world.probes if probe.attempt >= 0) == 10
    assert round_.searches[0].end is None


def test_silent_hops_stand_without_an_address():
    world = World({0: ["a", "b", "c", "d", "host"]}, silent=["b", "c"])
    round_ = round_for(world)
    world.run(round_)

    assert addresses(round_) == ["a", None, None, "d", "host"]
    assert round_.hops(0)[1].rtts_ms == (None, None, None)


def test_an_error_of_a_router_ends_the_route_with_its_name():
    class ProhibitingWorld(World):
        def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
            if probe.ttl >= 3:
                return Answer("c", 1.0, "administratively_prohibited")
            return super().answer(probe, now_s)

    world = ProhibitingWorld({0: ["a", "b", "c", "d", "host"]})
    round_ = round_for(world)
    world.run(round_)

    assert addresses(round_) == ["a", "b", "c"]
    assert [hop.error for hop in round_.hops(0)] == [None, None, "administratively_prohibited"]


def test_shared_hops_are_probed_for_one_target_and_inferred_for_others():
    world = World(tree(50))
    expected = [EarlierRoute(tuple(route), reached=True) for route in world.routes.values()]
    round_ = round_for(world, expected)
    world.run(round_)

    assert [addresses(round_, rank) for rank in range(50)] == list(world.routes.values())
    # Three for the target that is probed, and a probe for each of the seven that are traced on their own.
    assert max(world.expired[f"near{ttl}"] for ttl in (1, 2, 3)) <= 3 + 7
    inferred = [sum(hop.is_inferred for hop in round_.hops(rank)) for rank in range(50)]
    assert 1 <= inferred.count(0) <= 8
    assert sum(inferred) >= 42 * 3


def test_no_router_gets_more_than_a_probe_a_second():
    world = World(tree(50))
    expected = [EarlierRoute(tuple(route), reached=True) for route in world.routes.values()]
    world.run(round_for(world, expected))

    assert world.spacing_s() > 0.999


def test_attempts_at_a_router_not_known_before_are_a_second_apart():
    world = World({0: ["a", "b", "c", "host"]})
    world.run(round_for(world))

    assert world.expired["b"] == 3
    assert world.spacing_s() > 0.98


def test_a_thousand_targets_cost_below_15_percent_of_their_pings():
    world = World(tree(1000, regions=40))
    first = round_for(world, max_packets=30)
    first_s = world.run(first)
    known = World(world.routes)
    second = round_for(known, routes_seen(first), max_packets=30)
    second_s = known.run(second)

    assert (
        routes_seen(first)
        == routes_seen(second)
        == [EarlierRoute(tuple(r), reached=True) for r in world.routes.values()]
    )
    assert max(first.packets, second.packets) < 0.15 * 1000 * PINGS_IN_TEN_MINUTES
    assert max(first_s, second_s) < 600
    assert known.spacing_s() > 0.999


def test_a_changed_shared_hop_is_found_on_every_route_through_it():
    before = tree(30)
    after = {rank: ["near1", "near2", "changed", *route[3:]] for rank, route in before.items()}
    world = World(after)
    round_ = round_for(world, [EarlierRoute(tuple(route), reached=True) for route in before.values()])
    world.run(round_)

    assert [addresses(round_, rank) for rank in range(30)] == list(after.values())


def test_a_route_that_leaves_the_shared_hops_is_found():
    before = tree(30)
    after = before | {7: ["near1", "other1", "other2", "other3", "own7.2", "own7.3", "host7"]}
    world = World(after)
    round_ = round_for(world, [EarlierRoute(tuple(route), reached=True) for route in before.values()])
    world.run(round_)

    assert addresses(round_, 7) == after[7]


def test_a_thousand_routes_over_one_router_end_in_time():
    world = World({rank: ["gateway", f"host{rank}"] for rank in range(1000)})
    round_ = round_for(world, [EarlierRoute(tuple(route), reached=True) for route in world.routes.values()])
    took_s = world.run(round_)

    assert took_s < 120
    assert world.spacing_s() > 0.999
    assert all(addresses(round_, rank) == ["gateway", f"host{rank}"] for rank in range(1000))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_mesh_of_routes_gives_true_hops_and_ends(data):
    """Routes through layers of routers, some silent, some destinations dead; the routes remembered may be wrong."""
    name = st.integers(0, 2)
    targets = data.draw(st.integers(1, 8))

    def drawn(rank: int) -> list[str]:
        hops = data.draw(st.lists(name, max_size=9))
        return [*(f"{ttl}.{number}" for ttl, number in enumerate(hops)), f"host{rank}"]

    routes = {rank: drawn(rank) for rank in range(targets)}
    silent = data.draw(st.lists(st.sampled_from([f"{ttl}.{n}" for ttl in range(9) for n in range(3)]), max_size=4))
    dead = data.draw(st.lists(st.integers(0, targets - 1), max_size=2))
    expected = [
        data.draw(st.none() | st.just(EarlierRoute(tuple(drawn(rank)), reached=True))) for rank in range(targets)
    ]
    world = World(routes, silent=silent, dead=dead, seed=data.draw(st.integers(0, 100)))
    round_ = round_for(world, expected)
    world.run(round_)

    for rank, route in routes.items():
        shown = [None if router in silent else router for router in route]
        own = [None if hop.is_inferred else hop.address for hop in round_.hops(rank)]
        assert all(router in (None, true) for router, true in zip(own, shown, strict=rank not in dead))
        assert rank in dead or own[-1] == f"host{rank}"


def test_routes_balanced_next_to_us_are_told_apart_and_stay_so():
    routes = {
        rank: ["gateway", f"balanced{rank % 2}", "merge", f"region{rank % 3}", f"own{rank}", f"host{rank}"]
        for rank in range(30)
    }
    seen: list[EarlierRoute | None] = [None] * 30
    for seed in range(40):
        world = World(routes, seed=seed)
        round_ = round_for(world, seen)
        world.run(round_)
        seen = list(routes_seen(round_))

    assert [list(route.hops) for route in seen if route is not None] == list(routes.values())


@pytest.mark.parametrize(("routers", "probes"), list(enumerate(STOP_AFTER[:4], start=1)))
def test_the_flows_of_a_hop_end_by_the_stopping_rule(routers, probes):
    """MDA's table for 95% confidence: 6, 11, 16, 21 probes rule out one more next hop."""

    class BalancingWorld(World):
        def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
            if probe.ttl == 2:
                return Answer(f"b{probe.flow % routers}", 1.0, EXCEEDED)
            return super().answer(probe, now_s)

    world = BalancingWorld({0: ["a", "b", "c", "host"]})
    round_ = round_for(world, flows=64)
    world.run(round_)
    hops = round_.hops(0)

    assert {hops[1].address, *hops[1].others} == {f"b{number}" for number in range(routers)}
    assert hops[0].others == hops[2].others == ()
    assert len({probe.flow for probe in world.probes if probe.ttl == 2}) == probes
    assert len({probe.flow for probe in world.probes if probe.ttl == 3}) == 6


def test_probes_of_a_target_can_go_out_one_by_one():
    spec = spec_for(1)
    round_ = TraceRound(spec, [None], {}, 0.0, can_tell_distance=False, one_by_one=True)
    world = World({0: ["a", "b", "c", "host"]})
    world.run(round_)

    assert addresses(round_) == ["a", "b", "c", "host"]


def test_a_silent_hop_of_another_target_counts_no_lost_packets():
    world = World(tree(20, regions=1), silent=["near2"])
    world.run(round_for(world))
    later = round_for(world, [EarlierRoute(tuple(route), reached=True) for route in world.routes.values()])
    world.run(later)

    silent = [later.hops(rank)[1] for rank in range(20)]
    inferred = [hop.rtts_ms for hop in silent if hop.is_inferred]
    assert len(inferred) >= 10
    assert set(inferred) == {()}
    assert {hop.rtts_ms for hop in silent if not hop.is_inferred} == {(None,) * 3}
