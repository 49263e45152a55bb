"""Changes of route and load balancing: the worked example of Shao et al., and simulated days of balanced traces.

The example is of docs/path_analysis.md in github.com/WenqinSHAO/rtt (MIT): seven flows in turn, five times, a letter
for each route.
"""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from monitor.analysis.routes.changes import (
    FlowTrace,
    extend_backward,
    find_changes,
    include_forward,
    segments,
)
from monitor.analysis.routes.compare import RouteHops
from tests.routes.balanced import START, balanced_traces

FLOWS = [2, 3, 4, 5, 6, 0, 1]
EXAMPLE = "bbcbbab" + "baakbab" + "baabbab" + "baabbab" + "baabkab"


def example():
    return [
        FlowTrace(START + timedelta(minutes=30 * place), FLOWS[place % 7], RouteHops((letter,), True))
        for place, letter in enumerate(EXAMPLE)
    ]


def shown(parts):
    """Segments as in the document: first, last, and the route of each flow, "." where it was not traced."""
    return [
        (part.first, part.last, "".join(part.routes[flow].hops[0] if flow in part.routes else "." for flow in range(7)))
        for part in parts
    ]


def test_forward_inclusion_ends_a_segment_at_a_contradiction():
    assert shown(include_forward(example())) == [
        (0, 7, "abbbcbb"), (8, 16, "abbaakb"), (17, 31, "abbaabb"), (32, 34, "ab....k")
    ]  # fmt: skip


def test_backward_extension_begins_a_prevalent_map_earlier():
    assert shown(extend_backward(example(), include_forward(example()), 7)) == [
        (0, 7, "abbbcbb"), (8, 10, "...aak."), (11, 31, "abbaabb"), (32, 34, "ab....k")
    ]  # fmt: skip


def test_split_and_merge_finds_single_deviating_traces():
    assert shown(segments(example())) == [
        (0, 2, "..bbc.."), (3, 9, "abbaabb"), (10, 10, ".....k."), (11, 31, "abbaabb"), (32, 32, "......k"),
        (33, 34, "ab....."),
    ]  # fmt: skip


def test_the_changes_are_where_the_map_from_flow_to_route_breaks():
    """The last segment contradicts no map before it: its flows were not traced during the deviation."""
    result = find_changes(example())

    assert [(change.at - START) // timedelta(minutes=30) for change in result] == [3, 10, 11, 32]
    assert [(change.flow, change.before.hops[0], change.after.hops[0]) for change in result] == [
        (3, "b", "a"), (5, "b", "k"), (5, "k", "b"), (6, "b", "k")
    ]  # fmt: skip


def traces_of(letters, flow=0, every_s=600):
    return [
        FlowTrace(
            START + timedelta(seconds=every_s * place),
            flow,
            RouteHops(tuple(None if letter == "." else letter for letter in letters_of), True),
        )
        for place, letters_of in enumerate(letters)
    ]


def test_a_change_lies_between_the_traces_that_show_both_routes():
    """The third trace is silent where the routes differ, so the change is before or after it."""
    (change,) = find_changes(traces_of(["abc", "abc", "a.c", "axc", "axc"]))

    minutes = [(moment - START) // timedelta(minutes=1) for moment in (change.earliest, change.latest)]
    assert minutes == [10, 30]
    assert (change.before.hops, change.after.hops) == (("a", "b", "c"), ("a", "x", "c"))


def test_silent_hops_are_filled_and_no_change():
    (part,) = segments(traces_of(["a..d", ".bc.", "ab.d", "....", "abcd"]))

    assert part.routes[0].hops == ("a", "b", "c", "d")


def test_an_unfinished_trace_is_no_change():
    traces = traces_of(["abcd"] * 3)
    unfinished = FlowTrace(traces[1].at, 0, RouteHops(("a", "b"), False))

    assert find_changes([traces[0], unfinished, traces[2]]) == []


@pytest.mark.parametrize(("flows", "every_min"), [(1, 10), (4, 1), (16, 1)])
def test_a_balanced_day_with_silent_hops_has_no_change(flows, every_min):
    for seed in range(10):
        assert find_changes(balanced_traces(seed, flows=flows, every_min=every_min)) == []


@pytest.mark.parametrize(("flows", "every_min", "most_late"), [(1, 10, 0.35), (4, 1, 0.75), (16, 1, 0.75)])
def test_planted_changes_are_found_where_they_happened(flows, every_min, most_late):
    """Exactly one change, its bounds hold the truth, and at most a few traces tell the first that shows it: a trace of
    which the changed hop is silent cannot."""
    wrong, late = 0, 0
    for seed in range(20):
        change_at = random.Random(seed + 1000).randrange(300, 1100, every_min)
        result = find_changes(balanced_traces(seed, flows=flows, every_min=every_min, change_at=change_at))
        truth = START + timedelta(minutes=change_at)
        wrong += not (len(result) == 1 and result[0].earliest < truth <= result[0].latest)
        late += not (result and result[0].latest == truth)
    assert wrong == 0
    assert late <= most_late * 20
