"""Sentinels: where they expire, and which replies say that a route has changed."""

from __future__ import annotations

import random

import pytest

from probes.trace.memory import RouteMemory
from probes.trace.search import EXCEEDED, REACHED, Answer, EarlierRoute
from probes.trace.sentinels import RouteWatch, Sentinel, SentinelProbe, SentinelRound, choose
from tests.unit.trace.world import World, spec_for, tree

ROUTE = EarlierRoute(("a", "b", None, "d", "host"), reached=True)


def watch(route: EarlierRoute = ROUTE) -> RouteWatch:
    watching = RouteWatch()
    watching.sentinels(route)
    return watching


def traced_again(route: EarlierRoute) -> EarlierRoute:
    """The route of a later trace."""
    return EarlierRoute(route.hops, route.reached)


def test_sentinels_expire_at_the_last_router_and_each_other_in_turn():
    chosen = [choose(ROUTE, turn) for turn in range(4)]

    assert [first for first, _ in chosen] == [Sentinel(4, "d")] * 4
    assert [second for _, second in chosen] == [Sentinel(2, "b"), Sentinel(1, "a")] * 2


@pytest.mark.parametrize(
    ("route", "sentinels"),
    [
        (EarlierRoute(("a", "host"), reached=True), [Sentinel(1, "a")]),
        (EarlierRoute(("host",), reached=True), []),
        (EarlierRoute((None, None, "host"), reached=True), []),
        (EarlierRoute(("a", "b"), reached=False), [Sentinel(2, "b"), Sentinel(1, "a")]),
    ],
)
def test_short_silent_and_unreached_routes_get_fewer(route, sentinels):
    assert choose(route, 0) == sentinels


@pytest.mark.parametrize(
    ("replies", "changed"),
    [
        ([Sentinel(4, "d"), Sentinel(2, "b")], False),
        ([Sentinel(4, "x")], True),
        ([Sentinel(4, "host")], True),  # the route has become shorter
        ([], False),  # rate-limited, or lost
        ([Sentinel(3, "c")], False),  # nothing was known about this hop
    ],
)
def test_a_reply_from_elsewhere_is_a_change(replies, changed):
    assert watch().has_changed(replies) is changed


def test_a_change_is_told_until_a_trace_has_seen_it():
    watching = watch()

    assert watching.has_changed([Sentinel(4, "x")])
    watching.sentinels(ROUTE)
    assert watching.has_changed([Sentinel(4, "x")])
    watching.sentinels(EarlierRoute(("a", "b", None, "x", "host"), reached=True))
    assert not watching.has_changed([Sentinel(4, "x")])
    assert watching.has_changed([Sentinel(4, "d")])


def test_routers_that_balance_packet_by_packet_are_learned():
    watching = watch()

    assert watching.has_changed([Sentinel(4, "d2")])
    watching.sentinels(traced_again(ROUTE))
    assert not watching.has_changed([Sentinel(4, "d2")])
    assert watching.has_changed([Sentinel(4, "d3")])


def rounds(targets: int, most_packets: int) -> tuple[World, SentinelRound, int]:
    """A round of sentinels to targets with known routes, run to its end. The last is how many targets got any."""
    world = World(tree(targets))
    memory = RouteMemory()
    keys = {rank: ("icmp", 4, None, (f"host{rank}", 0)) for rank in range(targets)}
    memory.learn({keys[rank]: EarlierRoute(tuple(route), reached=True) for rank, route in world.routes.items()})
    random.seed(1)
    chosen = SentinelProbe(memory)._choose({key: [0] for key in keys.values()}, most_packets)
    by_rank = [chosen.get(keys[rank], []) for rank in range(targets)]
    round_ = SentinelRound(spec_for(targets), by_rank, memory.free_at_s, 0.0)
    world.run(round_)
    return world, round_, sum(map(bool, by_rank))


def test_every_target_has_a_sentinel_and_no_router_two_a_second():
    world, round_, watched = rounds(200, 10_000)

    assert watched == 200
    assert 200 < round_.packets <= 400
    assert max(world.expired.values()) == 1
    assert all(
        reply.router == world.routes[rank][reply.ttl - 1] for rank in range(200) for reply in round_.replies[rank]
    )


def test_a_small_budget_goes_to_the_last_routers():
    world, round_, watched = rounds(50, 20)

    assert round_.packets == watched == 20
    assert {probe.ttl for probe in world.probes} == {9}


def test_a_reached_destination_counts_and_errors_do_not():
    round_ = SentinelRound(spec_for(1), [[Sentinel(4, "d"), Sentinel(2, "b"), Sentinel(1, "a")]], {}, 10.0)
    far, middle, near = sorted(round_.due(10.0), key=lambda probe: -probe.ttl)
    round_.answered(far, Answer("host", 1.0, REACHED), 10.1)
    round_.answered(middle, Answer("b", 1.0, "host_unreachable"), 10.1)
    assert not round_.is_over
    round_.answered(near, Answer("a", 1.0, EXCEEDED), 10.1)

    assert round_.is_over
    assert round_.replies[0] == [Sentinel(4, "host"), Sentinel(1, "a")]


def day(seed: int, change_at: int | None = None) -> list[int]:
    """The minutes of a day at which sentinels tell of a change: a burst every minute, a trace every ten, each router
    silent to 30% of the probes. Flows are balanced over two routers at TTL 3; that of the pings keeps to the first."""
    dice, memory, watching, told = random.Random(seed), RouteMemory(), RouteWatch(), []
    truth = ["a", "b", "c1", "d", "e", "host"]

    def reply(ttl: int) -> str | None:
        return truth[ttl - 1] if dice.random() >= 0.3 else None

    for minute in range(24 * 60):
        if minute == change_at:
            truth[2:4] = ["c2", "x"]
        if minute % 10 == 0 or (told and told[-1] == minute - 1):
            hops = (*(reply(ttl) for ttl in range(1, 6)), "host")
            memory.learn({"path": EarlierRoute(hops, reached=True)})
        route = memory.route("path")
        assert route is not None
        sent = watching.sentinels(route)
        replies = [Sentinel(ttl, address) for ttl, _ in sent if (address := reply(ttl)) is not None]
        if watching.has_changed(replies):
            told.append(minute)
    return told


def test_a_balanced_day_with_silent_hops_asks_for_no_trace():
    assert [day(seed) for seed in range(20)] == [[]] * 20


def test_a_planted_change_of_a_day_is_seen_within_minutes():
    """Between two traces, of two middle hops: half of the sentinels at the middle pass there."""
    delays = [told[0] - 605 for seed in range(20) if (told := day(seed, change_at=605))]

    assert all(0 <= delay < 10 for delay in delays)
    assert len(delays) >= 15
