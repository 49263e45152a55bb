"""Changes of route and load balancing: the worked example of Shao et al., and simulated days of balanced traces.

The example is of docs/path_analysis.md in github.com/WenqinSHAO/rtt (MIT): seven flows in turn, five times, a letter
for each route.
"""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import product

import pytest

from monitor.analysis.routes.compare import RouteHops, is_compatible
from monitor.analysis.routes.timeline import (
    Contradiction,
    Flow,
    FlowPeriod,
    KnownHops,
    RouteTrace,
    Timeline,
    find_routes,
)
from tests.routes.balanced import START, balanced_traces, planted_at

FLOWS = [2, 3, 4, 5, 6, 0, 1]
EXAMPLE = "bbcbbab" + "baakbab" + "baabbab" + "baabbab" + "baabkab"


def changes(traces):
    """Flow, last trace before and first after of each change, in minutes."""
    timeline = Timeline()
    timeline.follow(traces)
    return [
        (period.flow.number, minutes(period.last_at), minutes(period.until))
        for period in sorted(timeline.ended, key=lambda period: period.until)
    ]


def minutes(moment):
    return (moment - START) // timedelta(minutes=1)


def traces_of(letters, flow=1, every_min=10):
    return [
        RouteTrace(
            START + timedelta(minutes=every_min * place),
            Flow("icmp", flow),
            RouteHops(tuple(None if letter == "." else letter for letter in hops), True),
        )
        for place, hops in enumerate(letters)
    ]


def test_each_flow_changes_where_its_own_route_does():
    """Flows 3 and 4 take another route, flow 5 deviates once, flow 6 at the end."""
    traces = [
        RouteTrace(START + timedelta(minutes=place), Flow("icmp", FLOWS[place % 7]), RouteHops((letter,), True))
        for place, letter in enumerate(EXAMPLE)
    ]

    assert changes(traces) == [(3, 1, 8), (4, 2, 9), (5, 3, 10), (5, 10, 17), (6, 25, 32)]


def test_a_change_lies_between_the_traces_that_show_both_routes():
    """The third trace is silent where the routes differ, so the change is before or after it."""
    assert changes(traces_of(["abc", "abc", "a.c", "axc", "axc"])) == [(1, 10, 30)]


def test_silent_hops_are_filled_and_no_change():
    timeline = Timeline()
    timeline.follow(traces_of(["a..d", ".bc.", "ab.d", "....", "abcd"]))

    (route,) = find_routes((), timeline.periods)
    assert route.known.hops == ["a", "b", "c", "d"]
    assert timeline.ended == []


def test_an_unfinished_trace_is_no_change():
    first, second, third = traces_of(["abcd"] * 3)
    unfinished = RouteTrace(second.at, second.flow, RouteHops(("a", "b"), False))

    assert changes([first, unfinished, third]) == []


def test_a_route_that_comes_back_has_its_number():
    timeline = Timeline()
    timeline.follow(traces_of(["abc", "axc", "a.c", "abc", "abc"]))

    find_routes((), timeline.periods)
    assert [period.route.number for period in timeline.periods] == [1, 2, 1]


def test_flows_share_a_route_only_where_nothing_parts_them():
    """The first trace of flow 2 might be of the route of flow 1."""
    timeline = Timeline()
    traces = [*traces_of(["abc", "abc"], flow=1), *traces_of(["a.c", "axc"], flow=2), *traces_of(["a.c"], flow=3)]
    timeline.follow(sorted(traces, key=lambda trace: trace.order))

    routes = find_routes((), timeline.periods)
    assert [route.known.hops for route in routes] == [["a", "b", "c"], ["a", "x", "c"]]
    assert [period.route.number for period in timeline.periods] == [1, 2, 1]
    assert timeline.ended == []


ROUTES = [
    RouteHops(hops, reached)
    for length in (1, 2, 3)
    for hops in product(("a", "b", None), repeat=length)
    for reached in (False, True)
    if hops[-1] is not None
]


@pytest.mark.parametrize("seed", range(20))
def test_the_last_contradiction_is_that_of_the_last_contrary_trace(seed):
    """By brute force over each trace of random periods."""
    generator = random.Random(seed)
    for _ in range(100):
        timeline, followed = Timeline(), []
        for place in range(8):
            trace = RouteTrace(START + timedelta(minutes=place), Flow("icmp", 1), generator.choice(ROUTES))
            if timeline.follow([trace]) and timeline.ended:
                contrary = [before.at for before in followed if not is_compatible(before.route, trace.route)]
                assert timeline.ended[0].last_at == contrary[-1]
                break
            followed.append(trace)


def test_a_period_whose_contradicted_traces_were_not_followed_is_undated():
    flow = Flow("icmp", 1)
    restored = FlowPeriod(flow, START, START + timedelta(minutes=5), KnownHops(["a", "b"], [START, START], START))
    timeline = Timeline({flow: restored})

    timeline.follow([RouteTrace(START + timedelta(minutes=9), flow, RouteHops(("c", None, "b"), True))])

    assert restored.undated == Contradiction(ttls=(1,), at_end=True)
    assert (restored.last_at, restored.until) == (START + timedelta(minutes=5), START + timedelta(minutes=9))


@pytest.mark.parametrize(("flows", "every_min"), [(1, 10), (4, 1), (16, 1)])
def test_a_balanced_day_with_silent_hops_has_no_change(flows, every_min):
    for seed in range(10):
        assert changes(balanced_traces(seed, flows=flows, every_min=every_min)) == []


@pytest.mark.parametrize("flows", [4, 16])
def test_a_balanced_day_has_the_planted_routes(flows):
    """Each of as many as there are flows at most, complete, and compatible with no other."""
    for seed in range(10):
        timeline = Timeline()
        timeline.follow(balanced_traces(seed, flows=flows))
        routes = find_routes((), timeline.periods)
        whole = {tuple(period.shown.hops) for period in timeline.periods}
        assert {tuple(route.known.hops) for route in routes} == whole
        assert len(routes) == len(whole)
        assert not any(None in hops for hops in whole)


@pytest.mark.parametrize(("flows", "every_min", "most_late"), [(1, 10, 0.35), (4, 1, 0.75), (16, 1, 0.75)])
def test_planted_changes_are_found_where_they_happened(flows, every_min, most_late):
    """Exactly one change of each flow, and its bounds hold the truth. The first trace may be silent at the change."""
    late = 0
    for seed in range(20):
        change_at = planted_at(seed + 1000, every_min)
        found = changes(balanced_traces(seed, flows=flows, every_min=every_min, change_at=change_at))
        assert sorted(flow for flow, _, _ in found) == list(range(flows))
        assert all(last_before < change_at <= first_after for _, last_before, first_after in found)
        late += found[0][2] != change_at
    assert late <= most_late * 20
