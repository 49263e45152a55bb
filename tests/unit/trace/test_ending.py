"""The sentence about a trace that did not reach its destination."""

import random
from itertools import cycle, islice

import pytest

from probes.trace.ending import not_reached_text, routing_loop
from probes.trace.spec import MOST_HOPS, Hop
from tests.unit.trace.world import World, round_for


def hops(routers):
    return [Hop(ttl=ttl, address=router) for ttl, router in enumerate(routers, start=1)]


@pytest.mark.parametrize(
    ("routers", "first_ttl", "around"),
    [
        ("abab", 1, "ab"),
        ("xyabab", 3, "ab"),
        ("xy" + 14 * "ab", 3, "ab"),
        ("xabcabc", 2, "abc"),
        ("xyz" + 2 * "abcdef", 4, "abcdef"),
        ("xyaaaa", 3, "a"),
        ("xya-a-a", 3, "a-"),
        ("xa-caa-caa-ca", 2, "a-ca"),
        ("xyababa-abab", 3, "ab"),
        ("-ab-ababab", 5, "ab"),
    ],
)
def test_routers_in_turn_to_the_end_are_a_loop(routers, first_ttl, around):
    named = [None if router == "-" else router for router in routers]

    loop = routing_loop(named)

    assert loop == (first_ttl, [None if router == "-" else router for router in around])


@pytest.mark.parametrize(
    "routers", ["", "a", "ab", "abc", "aa", "abb", "aba", "abac", "aab", "ababc", "abcab", "a-a", "xaaa"]
)
def test_a_router_seen_twice_is_no_loop(routers):
    assert routing_loop([None if router == "-" else router for router in routers]) is None


def test_a_route_without_repeats_is_never_a_loop():
    for seed in range(300):
        chance = random.Random(seed)
        routers = [None if chance.random() < 0.3 else f"r{ttl}" for ttl in range(chance.randint(0, MOST_HOPS))]
        assert routing_loop(routers) is None


def test_a_loop_with_lost_replies_is_found():
    for seed in range(300):
        chance = random.Random(seed)
        length, before = chance.randint(1, 5), chance.randint(0, 6)
        around = [f"r{number}" for number in range(length)]
        routers = [f"s{ttl}" for ttl in range(before)] + list(islice(cycle(around), 30 - before))
        kept = [None if index >= before and chance.random() < 0.1 else router for index, router in enumerate(routers)]

        first_ttl, found = routing_loop(kept)

        assert set(found) == set(around), (seed, kept)
        assert before < first_ttl <= before + 2 * length, (seed, kept)


def test_the_sentence_names_the_loop():
    assert (
        not_reached_text(hops(["x", *["a", "b"] * 14]), 0) == "not reached: routing loop from hop 2 on, a and b in turn"
    )
    assert not_reached_text(hops(["x", *["a"] * 9]), 12) == "not reached: routing loop from hop 2 on, at each hop a"
    assert "a, b, c, d and 2 more in turn" in not_reached_text(hops("abcdef" * 5), 0)
    assert "a and a silent router in turn" in not_reached_text(hops(["a", None] * 9 + ["a"]), 12)


def test_without_a_loop_the_sentence_has_the_lost_packets():
    assert not_reached_text(hops("abc"), 15) == "not reached: 15 of 15 packets lost after hop 3"
    assert not_reached_text([], 15) == "not reached: 15 of 15 packets lost at all hops"


def test_a_longer_route_than_was_traced_has_no_lost_packets():
    assert not_reached_text(hops("abc"), 0) == "not reached within 3 hops, which all replied"


def test_a_search_in_a_loop_ends_with_its_name():
    world = World({0: ["x", *["a", "b"] * 40, "far"]}, dead=[0])
    round_ = round_for(world)

    world.run(round_)

    text = not_reached_text(round_.hops(0), round_.searches[0].lost_beyond)
    assert text == "not reached: routing loop from hop 2 on, a and b in turn"
