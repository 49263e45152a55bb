"""Comparing routes: a silent hop is unknown, a trace that did not arrive knows the beginning of its route."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.routes.compare import RouteHops, is_compatible, merge

routes = st.builds(RouteHops, st.lists(st.sampled_from([None, "A", "B"]), max_size=4).map(tuple), st.booleans())


def route(hops, *, reached=True):
    return RouteHops(tuple(None if hop == "*" else hop for hop in hops), reached)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (route("ABC"), route("ABC")),
        (route("A*C"), route("ABC")),
        (route("A*C"), route("*BC")),
        (route("AB", reached=False), route("ABCD")),
        (route("ABC", reached=False), route("ABC")),
        (route("", reached=False), route("ABC")),
        (route("AB", reached=False), route("*BC", reached=False)),
    ],
)
def test_silence_and_an_early_end_are_no_difference(first, second):
    assert is_compatible(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (route("ABC"), route("AXC")),
        (route("AC"), route("ABC")),
        (route("A*C"), route("A**C")),
        (route("ABCD", reached=False), route("ABC")),
        (route("AX", reached=False), route("ABC")),
    ],
)
def test_another_address_or_length_is_another_route(first, second):
    assert not is_compatible(first, second)
    assert not is_compatible(second, first)
    with pytest.raises(ValueError, match="different"):
        merge(first, second)


def test_a_silent_hop_is_filled_in_from_the_other_route():
    assert merge(route("A*C"), route("AB*", reached=False)) == route("ABC")
    assert merge(route("AB", reached=False), route("A**D")) == route("AB*D")


@given(routes, routes)
def test_merging_is_symmetric_and_knows_both(first, second):
    assert is_compatible(first, second) == is_compatible(second, first)
    if is_compatible(first, second):
        merged = merge(first, second)
        assert merged == merge(second, first)
        assert merge(merged, first) == merge(merged, second) == merged


@given(routes, routes, routes)
def test_different_routes_stay_different_when_filled_in(first, second, third):
    if not is_compatible(first, second) and is_compatible(second, third):
        assert not is_compatible(first, merge(second, third))


@given(st.lists(routes, min_size=3, max_size=3))
def test_merging_three_gives_the_same_in_any_order(three):
    if all(is_compatible(*pair) for pair in permutations(three, 2)):
        try:
            results = [merge(merge(a, b), c) for a, b, c in permutations(three)]
        except ValueError:
            return
        assert len(set(results)) == 1


def test_a_route_without_any_reply_is_unknown():
    assert route("**", reached=False).is_unknown
    assert not route("*A", reached=False).is_unknown
