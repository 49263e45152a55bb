"""Traces from the mesh to the archive's queries: planned, stored exactly once, refused with a reason, queried."""

from datetime import timedelta
from pathlib import Path as FilePath

import msgspec
import pytest
from django.db import connection
from msgspec.structs import replace

from monitor.archive.models import NO_FLOW, PathRoute, RefusedResult, Route, Trace
from monitor.archive.queries.operation.ledger import ledger_of_path
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.queries.routes.flow_effects import newest_flow_effects
from monitor.archive.queries.routes.periods import (
    changes_between,
    paths_through,
    routes_at,
    routes_between,
    stored_routes,
)
from monitor.archive.queries.routes.traces import traces_at, traces_between
from monitor.archive.upkeep import records, retention
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import read
from monitor.mesh.kinds.trace import TraceEntry
from monitor.mesh.models import Measurement, MeasurementPeriod, Path, Site, Test
from monitor.mesh.plan import plan_for
from probes.contract import Deadline, Outcome
from probes.site.wire import Batch, Plan
from probes.trace.flow_effect import effect_of
from probes.trace.spec import FlowVerdict, MplsLabel, TraceReason, TraceSpec, TraceTarget, TraceTask, not_measured
from tests.db.mesh_of_three import HOUR, NOW, batch, make_mesh
from tests.db.trace_rows import FLOW, address, delivered, hop, trace
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
EXAMPLE = read(FilePath(__file__).parents[3] / "mesh.example.toml")
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def mesh():
    return make_mesh()


def deliver(path, *runs, number=1, **fields):
    results = (delivered(path, run, sequence, **fields) for sequence, run in enumerate(runs, 1))
    return store(path.source.site_id, batch(*results, number=number), NOW)


def test_the_comparison_of_flows_is_stored_and_the_newest_found(mesh):
    path = Path.objects.get(source__name="slac", destination__name="cern")
    rtts_ms = [[148.7] * 5, [153.5] * 5, [163.8] * 5] * 3
    differs, same = effect_of(rtts_ms), effect_of([[20.0] * 5] * 8)
    deliver(
        path,
        trace("AB", at=HOUR, flow_effect=same),
        trace("AB", at=HOUR + MINUTE, flow_effect=differs),
        trace("AB", at=HOUR + 2 * MINUTE),
    )

    stored = traces_between(path.pk, HOUR, HOUR + DAY)
    newest = newest_flow_effects([path.pk], HOUR + DAY)
    earlier = newest_flow_effects([path.pk], HOUR + MINUTE)

    assert [row.flow_effect for row in stored] == [same, differs, None]
    assert (newest[path.pk].at, newest[path.pk].effect) == (HOUR + MINUTE, differs)
    assert earlier[path.pk].effect.verdict is FlowVerdict.SAME
    assert newest_flow_effects([path.pk], HOUR + 4 * DAY) == {}


def test_a_site_gets_its_paths_of_a_trace_in_both_families():
    groups = (replace(EXAMPLE.groups[0], tests=("pinger", "routes")), *EXAMPLE.groups[1:])
    apply(replace(EXAMPLE, tests=(*EXAMPLE.tests, TraceEntry("routes", attempts=2)), groups=groups), NOW)

    plan = plan_for(Site.objects.get(name="cern"), NOW)

    def target(destination, address):
        path = Path.objects.get(source__name="cern", destination__name=destination)
        return TraceTarget(address=address, family=4, source="198.51.100.10", path_id=path.pk)

    targets = sorted(
        (target("slac", "192.0.2.10"), target("niit", "pinger.example.org")), key=lambda target: target.path_id
    )
    assert plan.trace == (TraceTask(test="routes", every_s=600, spec=TraceSpec(targets=tuple(targets), attempts=2)),)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_trace_is_stored_with_its_hops(mesh):
    hops = (
        hop(1, "A", is_inferred=True, rtts_ms=()),
        hop(2, "B", mpls=(MplsLabel(label=24001, traffic_class=0, ttl=1),), others=(address("X"),)),
        hop(3, "*"),
        hop(4, "D"),
    )
    receipt = deliver(mesh.slac_cern, trace(hops=hops, reason=TraceReason.RTT_STEP), during_test=True)

    (stored,) = traces_at(mesh.slac_cern.pk, HOUR)
    assert (receipt.accepted, receipt.refused) == (1, ())
    assert (stored.test, stored.outcome, stored.reason, stored.protocol) == ("routes", "measured", "rtt_step", "icmp")
    assert (stored.flow, stored.reached, stored.during_test, stored.address) == (FLOW, True, True, "192.0.2.2")
    assert [hop.address for hop in stored.hops] == [address("A"), address("B"), None, address("D")]
    assert [hop.rtts_ms for hop in stored.hops] == [[], [2.0, None, 2.5], [None] * 3, [4.0, None, 4.5]]
    assert [(hop.sent, hop.received) for hop in stored.hops] == [(0, 0), (3, 2), (3, 0), (3, 2)]
    assert [hop.is_inferred for hop in stored.hops] == [True, False, False, False]
    assert [(entry.label, entry.ttl) for entry in stored.hops[1].mpls] == [(24001, 1)]
    assert stored.hops[1].others == [address("X")]
    assert stored.route.hops == (address("A"), address("B"), None, address("D"))


def test_addresses_of_ipv6_are_equal_however_they_are_written(mesh):
    Path.objects.filter(pk=mesh.slac_cern.pk).update(family=6)
    written = ("2001:DB8:0:0::1", "2001:db8::1")
    for minute, text in enumerate(written):
        hops = (hop(1, "A", address=text),)
        run = trace(family=6, hops=hops, at=HOUR + minute * MINUTE, address=text)
        deliver(mesh.slac_cern, run, number=minute + 1)

    assert Route.objects.get().hops == ["2001:db8::1"]


def test_flows_traced_at_the_same_moment_are_all_stored(mesh):
    deliver(mesh.slac_cern, trace("ABD", flow=1), trace("ACD", flow=2), trace("ABD", flow=None), trace("ABD", flow=1))

    assert sorted(Trace.objects.values_list("flow", flat=True)) == [NO_FLOW, 1, 2]
    assert {stored.flow for stored in traces_at(mesh.slac_cern.pk, HOUR)} == {None, 1, 2}


def test_a_trace_that_was_not_measured_has_no_route(mesh):
    run = not_measured("cern", 4, HOUR, Outcome.NOT_PERMITTED, "networks.forbidden")
    deliver(mesh.slac_cern, run)

    (stored,) = traces_between(mesh.slac_cern.pk, HOUR, NOW)
    assert (stored.outcome, stored.hops, stored.route_id, stored.detail) == (
        "not_permitted", [], None, "networks.forbidden"
    )  # fmt: skip
    assert not Route.objects.exists()


def test_a_repeated_batch_is_stored_once_with_the_same_receipt(mesh):
    again = batch(delivered(mesh.slac_cern, trace("ABD"), 1), delivered(mesh.cern_slac, trace("DBA"), 2))
    over_the_wire = msgspec.json.decode(msgspec.json.encode(again), type=Batch)

    first = store(mesh.slac.pk, over_the_wire, NOW)
    second = store(mesh.slac.pk, over_the_wire, NOW + timedelta(hours=3))

    assert over_the_wire == again
    assert second == first
    assert (first.accepted, [refusal.sequence for refusal in first.refused]) == (1, [2])
    assert Trace.objects.count() == PathRoute.objects.count() == RefusedResult.objects.count() == 1


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (trace("AB", outcome=Outcome.NO_ROUTE, reached=False), "no_route, but with 2 hops"),
        (trace(), "reached, but without the address of the last hop"),
        (trace("A*"), "reached, but without the address of the last hop"),
        (trace(hops=(hop(2, "A"),)), "ttl 2 is the 1. hop"),
        (trace(hops=(hop(1, "A", address=None),), reached=False), "hop 1 replied, but without an address"),
        (trace(hops=(hop(1, "A", address="router"),)), "'router' is not an IP address"),
        (trace(hops=(hop(1, "A", others=("fe80::1%eth0",)),)), "is not an IP address"),
        (trace(hops=(hop(1, "A", rtts_ms=(-1.0,)),)), "Expected `float` >= 0.0"),
        (trace("A" * 65), "at `$.result.hops`"),
        (trace("A", flow=2**32), "at `$.result.flow`"),
        (trace("A", family=6), "IPv6 was measured, path {path} is IPv4"),
        (trace("A", at=NOW + timedelta(hours=1)), "is in the future"),
    ],
)
def test_an_impossible_trace_is_refused_with_its_reason(mesh, run, reason):
    receipt = deliver(mesh.slac_cern, run)

    assert receipt.accepted == 0
    assert reason.format(path=mesh.slac_cern.pk) in receipt.refused[0].reason
    assert not Trace.objects.exists()


def test_planned_traces_are_counted_by_their_outcome(mesh):
    test = Test.objects.create(name="routes", kind="trace", every_s=600)
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=HOUR - DAY)
    MeasurementPeriod.objects.create(measurement=measurement, started_at=HOUR - DAY, every_s=600)
    cycle = int(HOUR.timestamp()) // 600
    deliver(mesh.slac_cern, trace("ABD"), every_s=600, cycle=cycle)

    lines = ledger_of_path(mesh.slac_cern.pk, HOUR, HOUR + 30 * MINUTE)

    counts = {line.outcome: line.count for line in lines if line.test == "routes"}
    assert counts.pop("measured") == 1
    assert sum(counts.values()) == 2


def at(minute, hops, **fields):
    return trace(hops, at=HOUR + minute * MINUTE, **fields)


def route_at(path_id, moment):
    return routes_at([path_id], moment).get(path_id)


@pytest.fixture
def changed(mesh):
    """A path over B until minute 10, over C from minute 20 on; another path over B; the reverse of the first over A."""
    deliver(mesh.slac_cern, at(0, "ABD"), at(10, "ABD"), at(20, "ACD"), at(25, "ACD"))
    deliver(mesh.slac_anl, at(0, "BX"), number=2)
    deliver(mesh.cern_slac, at(0, "DA"))
    return mesh


def test_the_route_of_a_moment_is_that_of_the_last_trace_before(changed):
    path = changed.slac_cern.pk

    assert route_at(path, HOUR - MINUTE) is None
    assert route_at(path, HOUR + 5 * MINUTE).hops[1] == address("B")
    assert route_at(path, HOUR + 15 * MINUTE).hops[1] == address("B")
    assert route_at(path, HOUR + 20 * MINUTE).hops[1] == address("C")
    both = routes_at([path, changed.cern_slac.pk], HOUR + 5 * MINUTE)
    assert {path_id: period.number for path_id, period in both.items()} == {path: 1, changed.cern_slac.pk: 1}


def test_a_flow_that_is_no_longer_traced_is_not_the_present_route(mesh):
    deliver(mesh.slac_cern, at(0, "ABD", flow=1), at(10, "ACD", flow=2))

    assert route_at(mesh.slac_cern.pk, NOW).flow == 2
    assert route_at(mesh.slac_cern.pk, HOUR + 5 * MINUTE).flow == 1


def test_periods_of_a_window_are_those_that_reach_into_it(changed):
    path = changed.slac_cern.pk

    def numbers(since, until):
        return [period.number for period in routes_between([path], HOUR + since * MINUTE, HOUR + until * MINUTE)]

    assert (numbers(-9, 0), numbers(0, 20), numbers(15, 21), numbers(20, 99)) == ([], [1], [1, 2], [2])


def test_a_change_lies_between_two_traces(changed):
    (change,) = changes_between(HOUR, NOW)

    assert (change.path_id, change.flow) == (changed.slac_cern.pk, FLOW)
    assert (change.last_before_at, change.at) == (HOUR + 10 * MINUTE, HOUR + 20 * MINUTE)
    assert (change.before.hops[1], change.after.hops[1]) == (address("B"), address("C"))
    assert set(stored_routes([change.before_id, change.after_id])) == {change.before_id, change.after_id}
    assert changes_between(HOUR, NOW, [changed.slac_anl.pk]) == []


def test_paths_through_a_router_are_those_of_the_window(changed):
    def passages(since, until):
        found = paths_through(address("B"), HOUR + since * MINUTE, HOUR + until * MINUTE)
        return [(passage.path_id, passage.ttl) for passage in found]

    assert passages(0, 10) == [(changed.slac_cern.pk, 2), (changed.slac_anl.pk, 1)]
    assert passages(21, 30) == [(changed.slac_anl.pk, 1)]


def test_the_newest_result_may_be_a_trace(changed):
    assert newest_measurement_at() == HOUR + 25 * MINUTE


def test_routes_outlive_their_traces_but_not_their_retention(changed, settings):
    settings.RETENTION_DAYS = settings.RETENTION_DAYS | {"traces": 10, "routes": 20}

    retention.delete_old(NOW + 15 * DAY, Deadline(60))
    records.delete_old(NOW + 15 * DAY, Deadline(60))
    assert (PathRoute.objects.count(), Route.objects.count()) == (4, 4)

    Trace.objects.all().delete()
    records.delete_old(NOW + 40 * DAY, Deadline(60))
    left = {(row.path_id, row.until) for row in PathRoute.objects.all()}
    assert left == {(path.pk, None) for path in (changed.slac_cern, changed.slac_anl, changed.cern_slac)}
    assert Route.objects.count() == 3


def test_routes_are_kept_as_long_as_their_traces(changed, settings):
    settings.RETENTION_DAYS = settings.RETENTION_DAYS | {"traces": 0, "routes": 1}

    records.delete_old(NOW + 40 * DAY, Deadline(60))

    assert (PathRoute.objects.count(), Route.objects.count()) == (4, 4)


def test_a_batch_of_unchanged_routes_takes_few_statements(mesh, django_assert_max_num_queries):
    deliver(mesh.slac_cern, *(at(minute, "ABD", flow=flow) for minute in range(3) for flow in range(5)))
    more = [at(minute, "A*D", flow=flow) for minute in range(3, 20) for flow in range(5)]

    with django_assert_max_num_queries(25):
        deliver(mesh.slac_cern, *more, number=2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM route")
        assert cursor.fetchone() == (1,)
