"""Routes of a path and the periods of its flows are those of all traces in order of time, in whatever order and how
often traces are delivered."""

from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.archive.ingest.traces import store_traces
from monitor.archive.models import PathRoute, Route, Trace
from tests.db.mesh_of_three import HOUR, NOW, make_mesh
from tests.db.trace_rows import address, delivered, hop, trace

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
LETTER_OF = {address(letter): letter for letter in "ABCDXYZ"}


@pytest.fixture
def path():
    return make_mesh().slac_cern


def store(path, *traces):
    with transaction.atomic():
        store_traces([delivered(path, run) for run in traces], NOW)


def at(minute, hops, *, flow=1, reached=True):
    return trace(hops, at=HOUR + minute * MINUTE, flow=flow, reached=reached)


def letters(hops):
    return "".join(LETTER_OF.get(hop, "*") for hop in hops)


def minutes(moment):
    return None if moment is None else (moment - HOUR) // MINUTE


def routes():
    """Hops and number of each route, whether it was reached, its first trace, and since when each hop is known."""
    return [
        (row.number, letters(row.hops), row.reached_at is not None, minutes(row.first_at), row.learned_at)
        for row in Route.objects.order_by("number")
    ]


def periods():
    """Flow, hops of the route, and first trace, last trace and end of each period, in minutes."""
    hops = {row.pk: letters(row.hops) for row in Route.objects.all()}
    rows = PathRoute.objects.order_by("flow", "since")
    return [
        (row.flow, hops[row.route_id], minutes(row.since), minutes(row.last_at), minutes(row.until)) for row in rows
    ]


def hops_of_traces():
    """What is left of the hops of each trace, together with its route."""
    hops = {row.pk: letters(row.hops) for row in Route.objects.all()}
    shown = []
    for row in Trace.objects.order_by("measured_at", "flow"):
        unknown = row.unknown_ttls or []
        seen = hops.get(row.route_id, "*" * len(row.sent))[: len(row.sent)].ljust(len(row.sent), "*")
        shown.append("".join("*" if ttl in unknown else letter for ttl, letter in enumerate(seen, 1)))
    return shown


def test_a_new_route_ends_the_period_of_the_old(path):
    store(path, at(0, "ABD"), at(10, "ABD"), at(20, "ACD"), at(30, "ABD"))

    assert [route[:4] for route in routes()] == [(1, "ABD", True, 0), (2, "ACD", True, 20)]
    assert periods() == [(1, "ABD", 0, 10, 20), (1, "ACD", 20, 20, 30), (1, "ABD", 30, 30, None)]


def test_silent_hops_are_no_change_and_are_filled_in(path):
    store(path, at(0, "A*D"), at(10, "*BD"), at(20, "AB", reached=False), at(30, "***", reached=False))

    assert [route[:3] for route in routes()] == [(1, "ABD", True)]
    assert periods() == [(1, "ABD", 0, 20, None)]
    assert hops_of_traces() == ["A*D", "*BD", "AB", "***"]
    assert Trace.objects.get(measured_at=HOUR + 30 * MINUTE).route_id is None


def test_flows_over_different_routes_are_no_change(path):
    store(path, *(at(minute, "ABD" if flow else "ACD", flow=flow) for minute in (0, 10, 20) for flow in (0, 1)))

    assert periods() == [(0, "ACD", 0, 20, None), (1, "ABD", 0, 20, None)]


def test_a_router_that_refuses_is_no_hop_of_the_route(path):
    whole = at(10, "AB", reached=False)
    refused = replace(whole, hops=(*whole.hops, hop(3, "B", error="host_unreachable")))
    store(path, at(0, "ABD"), refused)

    assert periods() == [(1, "ABD", 0, 10, None)]
    assert Trace.objects.get(measured_at=refused.started_at).errors == {"3": ["host_unreachable", address("B")]}


def test_a_trace_that_is_silent_where_the_routes_differ_is_no_bound(path):
    store(path, at(0, "ABD"), at(10, "ABD"), at(20, "A*D"))
    store(path, at(30, "ACD"))

    assert periods() == [(1, "ABD", 0, 10, 30), (1, "ACD", 30, 30, None)]


def test_the_silent_hops_of_a_flow_are_not_those_of_another(path):
    """The first traces of flow 2 might be of the route of flow 1; the last is not, and the flow has not changed."""
    store(path, at(0, "ABD", flow=1), at(0, "A*D", flow=2))
    store(path, at(10, "A*D", flow=2))
    store(path, at(20, "ACD", flow=2))

    assert periods() == [(1, "ABD", 0, 0, None), (2, "ACD", 0, 20, None)]
    assert hops_of_traces() == ["ABD", "A*D", "A*D", "ACD"]
    assert set(Trace.objects.filter(flow=2).values_list("route_id", flat=True)) == {Route.objects.get(number=2).pk}


def test_a_hop_that_an_old_period_shows_late_parts_it_from_a_newer(path):
    store(path, at(0, "A*D", flow=1), at(10, "ABD", flow=2))
    store(path, at(20, "ACD", flow=1))
    store(path, at(30, "ABD", flow=2))

    assert [route[:4] for route in routes()] == [(1, "ACD", True, 0), (2, "ABD", True, 10)]
    assert periods() == [(1, "ACD", 0, 20, None), (2, "ABD", 10, 30, None)]
    assert hops_of_traces() == ["A*D", "ABD", "ACD", "ABD"]


def test_periods_from_before_their_hops_were_kept_show_those_of_the_route(path):
    store(path, at(0, "ABD"), at(10, "A*D"))
    PathRoute.objects.update(learned_at=None, reached_at=None)
    store(path, at(20, "*BD"))
    store(path, at(30, "ACD"))

    assert periods() == [(1, "ABD", 0, 20, 30), (1, "ACD", 30, 30, None)]


def test_a_late_trace_divides_a_period(path):
    store(path, at(0, "ABD"), at(10, "ABD"), at(30, "ABD"))
    store(path, at(20, "ACD"))

    assert periods() == [(1, "ABD", 0, 10, 20), (1, "ACD", 20, 20, 30), (1, "ABD", 30, 30, None)]


def test_a_route_keeps_its_row_when_an_earlier_trace_comes(path):
    store(path, at(10, "ABD"), at(20, "ACD"))
    before = {letters(row.hops): row.pk for row in Route.objects.all()}
    store(path, at(0, "AXD"))

    after = {letters(row.hops): row.pk for row in Route.objects.all()}
    assert {name: after[name] for name in before} == before
    assert [route[1] for route in routes()] == ["AXD", "ABD", "ACD"]


def expected(traces):
    """The routes and periods by definition: those of each flow, and then a route for each in order of their begin."""
    spans = []
    for flow in {run.flow for run in traces}:
        of_flow = []
        for run in sorted((run for run in traces if run.flow == flow), key=lambda run: run.started_at):
            seen = seen_in(run)
            if seen[0] and of_flow and all(fits(*seen, *other) for _, other in of_flow[-1]):
                of_flow[-1].append((minutes(run.started_at), seen))
            elif seen[0]:
                of_flow.append([(minutes(run.started_at), seen)])
        for span, following in zip(of_flow, [*of_flow[1:], None], strict=True):
            until = following and following[0][0]
            lasts = [at for at, seen in span if following is None or not fits(*seen, *following[0][1])]
            spans.append((span[0][0], flow, lasts[-1], until, merged(seen for _, seen in span)))
    known, placed = [], []
    for since, flow, last_at, until, shown in sorted(spans, key=lambda span: span[:2]):
        place = next((place for place, route in enumerate(known) if fits(*shown, *route)), len(known))
        known[place:] = [merged([*known[place : place + 1], shown]), *known[place + 1 :]]
        placed.append((flow, place, since, last_at, until))
    return known, [
        (flow, known[place][0], *times) for flow, place, *times in sorted(placed, key=lambda p: (p[0], p[2]))
    ]


def seen_in(run):
    hops = letters([hop.address for hop in run.hops])
    return (hops if run.reached else hops.rstrip("*")), run.reached


def merged(routes):
    routes = list(routes)
    length = max(len(hops) for hops, _ in routes)
    columns = zip(*(hops.ljust(length, "*") for hops, _ in routes), strict=True)
    return "".join(next((hop for hop in column if hop != "*"), "*") for column in columns), any(r for _, r in routes)


def fits(hops, reached, known, known_reached):
    if (reached and len(known) > len(hops)) or (known_reached and len(hops) > len(known)):
        return False
    return all("*" in pair or pair[0] == pair[1] for pair in zip(hops, known, strict=False)) and not (
        reached and known_reached and len(hops) != len(known)
    )


some_traces = st.lists(
    st.builds(
        at,
        st.integers(0, 9),
        st.text("ABX*", min_size=1, max_size=3).map(lambda hops: hops if hops.strip("*") else "A"),
        flow=st.integers(1, 2),
        reached=st.booleans(),
    ).map(lambda run: run if not run.reached or run.hops[-1].address else at_end(run)),
    min_size=1,
    max_size=9,
    unique_by=lambda run: (run.started_at, run.flow),
)


def at_end(run):
    return at(minutes(run.started_at), letters([hop.address for hop in run.hops])[:-1] + "D", flow=run.flow)


@given(some_traces, st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_and_repetition_gives_the_same_periods(path, traces, data):
    for model in (Trace, PathRoute, Route):
        model.objects.all().delete()
    shuffled = data.draw(st.permutations([*traces, *traces[: len(traces) // 2]]))
    cut = data.draw(st.integers(0, len(shuffled)))
    for run in shuffled[:cut]:
        store(path, run)
    store(path, *shuffled[cut:])

    in_any_order = routes(), periods(), hops_of_traces()
    assert ([(hops, reached) for _, hops, reached, _, _ in in_any_order[0]], in_any_order[1]) == expected(traces)
    seen = [
        letters([hop.address for hop in run.hops]) for run in sorted(traces, key=lambda run: (run.started_at, run.flow))
    ]
    assert in_any_order[2] == seen

    for model in (Trace, PathRoute, Route):
        model.objects.all().delete()
    store(path, *traces)
    assert (routes(), periods(), hops_of_traces()) == in_any_order
