"""The plan of a site's agent."""

import base64
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import msgspec
import pytest
from msgspec.structs import replace

from monitor.mesh.apply import apply
from monitor.mesh.document.reader import MeshError, parse, read
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.stamp import StampEntry
from monitor.mesh.kinds.throughput import ThroughputEntry, ThroughputSettings
from monitor.mesh.models import Host, Measurement, MeasurementPeriod, Mesh, Path, Site, Slot, SlotHost, Uplink
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import destination_tests, endings, on_demand, slots
from probes.contract import Outcome
from probes.packets.egress import Egress
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.wire import Plan
from probes.stamp.spec import AnsweredPeer, ReflectorPlan
from probes.transfers.spec import ThroughputSpec
from tests.db.mesh.test_slots import document

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EXAMPLE = read(FilePath(__file__).parent.parent.parent.parent / "mesh.example.toml")


@pytest.fixture
def applied():
    apply(EXAMPLE, NOW)


def plan_of(name, now=NOW):
    return plan_for(Site.objects.get(name=name), now)


def path_id(source, destination):
    return Path.objects.get(source__name=source, destination__name=destination).pk


def test_a_site_pings_from_its_own_hosts(applied):
    plan = plan_of("cern")

    assert (plan.site, plan.mesh) == ("cern", "Three laboratories")
    targets = (
        PingTarget(address="192.0.2.10", family=4, source="198.51.100.10", path_id=path_id("cern", "slac")),
        PingTarget(address="pinger.example.org", family=4, source="198.51.100.10", path_id=path_id("cern", "niit")),
    )
    spec = PingSpec(
        targets=tuple(sorted(targets, key=lambda target: target.path_id or 0)),
        packet_bytes=(100, 1000),
        count=10,
        spacing_s=1.0,
        timeout_s=2.0,
    )
    assert plan.ping == (PingTask(test="pinger", every_s=60, spec=spec),)


def test_a_site_without_an_agent_has_nothing_to_measure(applied):
    slots.plan_slots(NOW)

    assert (plan_of("niit").ping, plan_of("niit").throughput) == ((), ())


def test_both_ends_of_a_throughput_test_have_their_roles(applied):
    slots.plan_slots(NOW)

    client, server = plan_of("cern").throughput, plan_of("slac").throughput

    assert len(client) == len(server) == Slot.objects.count() >= 1
    assert {slot.role for slot in client} == {"client"}
    assert {slot.role for slot in server} == {"server"}
    assert [msgspec.structs.replace(slot, role="server") for slot in client] == list(server)
    first = client[0]
    row = Slot.objects.get(pk=first.slot_id)
    assert (first.starts_at, first.ends_at) == (row.starts_at, row.ends_at)
    assert (first.path_id, first.test) == (path_id("cern-throughput", "slac"), "tcp")
    assert len(first.spec.one_time_key) == 64
    assert msgspec.structs.replace(first.spec, one_time_key=None) == ThroughputSpec(
        address="192.0.2.10", family=4, source="198.51.100.11", port=5201, duration_s=10, omit_s=0, streams=1
    )


def test_two_sites_share_a_key_in_all_tests_of_an_hour():
    """Agents derive an RSA key pair of each key, in half a second of processor time."""
    apply(document(3, ThroughputEntry("tcp", every_s=600, duration_s=10)), NOW)
    keys_of, uses_of = defaultdict(list), defaultdict(set)
    for now in (NOW, NOW + timedelta(hours=1)):
        slots.plan_slots(now)
        for name in ("s1", "s2", "s3"):
            for slot in plan_of(name, now).throughput:
                path = Path.objects.get(pk=slot.path_id)
                use = (*sorted((path.source.name, path.destination.name)), f"{slot.starts_at:%H}")
                keys_of[use].append(slot.spec.one_time_key)
                uses_of[slot.spec.one_time_key].add(use)

    pairs = [("s1", "s2"), ("s1", "s3"), ("s2", "s3")]
    assert {use for use in keys_of if use[2] in ("12", "13")} == {(*pair, h) for pair in pairs for h in ("12", "13")}
    assert all(len(keys) > 4 and len(set(keys)) == 1 for use, keys in keys_of.items() if use[2] == "12")
    assert all(len(uses) == 1 for uses in uses_of.values()), "no two pairs or hours have the same key"


def test_each_end_gets_the_iperf3_version_of_the_other(applied):
    slots.plan_slots(NOW)
    sites = {site.name: site for site in Site.objects.all()}
    versions = {sites["cern"].pk: "3.22", sites["slac"].pk: "3.18"}

    planned = {name: plan_for(sites[name], NOW, versions).throughput for name in ("cern", "slac")}

    assert {slot.spec.peer_iperf3 for slot in planned["cern"]} == {"3.18"}
    assert {slot.spec.peer_iperf3 for slot in planned["slac"]} == {"3.22"}
    assert {slot.spec.peer_iperf3 for slot in plan_of("slac").throughput} == {None}
    assert plan_for(sites["slac"], NOW, {sites["slac"].pk: "3.18"}).version == plan_of("slac").version


def test_a_slot_is_in_the_plan_until_it_has_ended_or_is_closed(applied):
    slots.plan_slots(NOW)
    first = plan_of("cern").throughput[0]
    just_before = first.ends_at - timedelta(seconds=1)

    assert first in plan_of("cern", just_before).throughput
    assert first not in plan_of("cern", first.ends_at).throughput
    endings.close_slot(first.slot_id, "measured")
    assert first not in plan_of("cern", just_before).throughput


def test_equal_content_has_an_equal_version(applied):
    slots.plan_slots(NOW)
    plan = plan_of("cern")

    assert plan.version == plan_of("cern", NOW + timedelta(seconds=1)).version
    assert plan.version != plan_of("slac").version
    assert plan.version != plan_of("cern", NOW + timedelta(hours=2)).version
    Mesh.objects.update(name="Another")
    assert plan.version != plan_of("cern").version


def test_a_change_of_the_mesh_gives_a_new_version(applied):
    before = plan_of("slac").version
    slower = replace(EXAMPLE.tests[0], every_s=120)

    apply(replace(EXAMPLE, tests=(slower, EXAMPLE.tests[1])), NOW)

    assert plan_of("slac").ping[0].every_s == 120
    assert plan_of("slac").version != before


def test_a_host_name_is_not_a_source_address(applied):
    with_host_name = replace(EXAMPLE.sites[0], hosts=(replace(EXAMPLE.sites[0].hosts[0], address="slac.example.org"),))
    apply(replace(EXAMPLE, sites=(with_host_name, *EXAMPLE.sites[1:])), NOW)

    assert {target.source for target in plan_of("slac").ping[0].spec.targets} == {None}


def test_a_plan_is_unchanged_by_the_wire(applied):
    slots.plan_slots(NOW)
    plan = plan_of("cern")

    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_plan_takes_three_queries_and_a_fourth_with_slots(applied, django_assert_num_queries):
    site = Site.objects.get(name="cern")
    with django_assert_num_queries(3):
        plan_for(site, NOW)
    slots.plan_slots(NOW)
    plan_of("slac")

    with django_assert_num_queries(4):
        assert plan_for(site, NOW).throughput


ONE_WAY = StampEntry("oneway", every_s=60, packet_bytes=200, port=8620)


def with_stamp(*tests):
    """The example with STAMP between all its sites, beside these other tests of the group."""
    groups = (replace(EXAMPLE.groups[0], tests=(*tests, "oneway")), *EXAMPLE.groups[1:])
    apply(replace(EXAMPLE, tests=(*EXAMPLE.tests, ONE_WAY), groups=groups), NOW)


def test_agents_share_a_key_and_other_reflectors_have_none():
    with_stamp("pinger")
    (slac,), (cern,) = plan_of("slac").stamp, plan_of("cern").stamp
    keys = {target.path_id: target.key for task in (slac, cern) for target in task.spec.targets}
    back, there = path_id("cern", "slac"), path_id("slac", "cern")

    assert (slac.test, slac.every_s, slac.spec.packet_bytes) == ("oneway", 60, 200)
    assert plan_of("slac").stamp_reflector == ReflectorPlan(
        peers=(AnsweredPeer(address="198.51.100.10", family=4, key=keys[back]),), port=8620
    )
    assert plan_of("cern").stamp_reflector == ReflectorPlan(
        peers=(AnsweredPeer(address="192.0.2.10", family=4, key=keys[there]),), port=8620
    )
    assert len({keys[back], keys[there]}) == 2
    assert all(len(base64.b64decode(keys[number])) == 32 for number in (back, there))
    assert keys[path_id("slac", "niit")] is keys[path_id("cern", "niit")] is None
    assert {target.port for target in slac.spec.targets} == {8620}
    assert plan_of("niit").stamp_reflector is msgspec.UNSET


@pytest.mark.parametrize(("tests", "is_series"), [(("pinger",), False), ((), True)])
def test_stamp_gives_bursts_only_to_paths_without_pings(tests, is_series):
    with_stamp(*tests)
    (task,) = plan_of("slac").stamp
    periods = MeasurementPeriod.objects.filter(measurement__test__name="oneway", ended_at=None)

    assert {target.is_path_series for target in task.spec.targets} == {is_series}
    assert {tuple(row.packet_bytes) for row in periods} == {(200,) if is_series else ()}


def test_without_stamp_a_plan_has_no_reflector_and_no_query_for_it(applied, django_assert_num_queries):
    site = Site.objects.get(name="slac")
    with django_assert_num_queries(3):
        plan = plan_for(site, NOW)

    assert b"stamp_reflector" not in msgspec.json.encode(plan)


SPLIT = """
[mesh]
name = "split"
[[site]]
name = "campus"
latitude_deg = 0
longitude_deg = 0
country = "CH"
[[site.host]]
address = "198.51.100.10"
interface = "vrf-science"
namespace = "wan"
[[site.host.peer]]
sites = ["cern"]
address = "10.20.0.10"
[[site.host.peer]]
sites = ["niit"]
source = "10.0.0.10"
[[site]]
name = "cern"
latitude_deg = 0
longitude_deg = 0
country = "CH"
[[site.host]]
address = "10.20.0.20"
[[site]]
name = "niit"
latitude_deg = 0
longitude_deg = 0
country = "PK"
[[site.host]]
address = "192.0.2.30"
[[site]]
name = "slac"
latitude_deg = 0
longitude_deg = 0
country = "US"
[[site.host]]
address = "192.0.2.40"
[[test]]
name = "pinger"
kind = "ping"
every_s = 60
dscp = 46
[[test]]
name = "tcp"
kind = "throughput"
every_s = 3600
[[test]]
name = "oneway"
kind = "stamp"
every_s = 60
dscp = 46
[[group]]
name = "all"
shape = "mesh"
sites = ["campus", "cern", "niit", "slac"]
tests = ["pinger", "tcp", "oneway"]
"""


def test_each_site_has_the_addresses_meant_for_it():
    apply(parse(SPLIT.encode(), "mesh.toml"), NOW)
    slots.plan_slots(NOW)

    out = {target.address: (target.source, target.leaves_by) for target in plan_of("campus").ping[0].spec.targets}
    by_vrf = Egress(interface="vrf-science", namespace="wan", dscp=46)
    assert out == {
        "10.20.0.20": ("10.20.0.10", by_vrf),
        "192.0.2.30": ("10.0.0.10", by_vrf),
        "192.0.2.40": ("198.51.100.10", by_vrf),
    }
    (stamp_task,) = plan_of("campus").stamp
    in_vrf = Egress(interface="vrf-science", namespace="wan")
    assert stamp_task.spec.dscp == 46
    assert {target.leaves_by for target in stamp_task.spec.targets} == {in_vrf}
    assert {peer.egress for peer in plan_of("campus").stamp_reflector.peers} == {in_vrf}
    assert {peer.egress for peer in plan_of("cern").stamp_reflector.peers} == {msgspec.UNSET}
    campus_of = {}
    for site in ("cern", "niit", "slac"):
        path = path_id(site, "campus")
        [target] = [target for target in plan_of(site).ping[0].spec.targets if target.path_id == path]
        campus_of[site] = target.address
        assert target.leaves_by == Egress(dscp=46)
    assert campus_of == {"cern": "10.20.0.10", "niit": "198.51.100.10", "slac": "198.51.100.10"}
    assert apply(parse(SPLIT.encode(), "mesh.toml"), NOW + timedelta(hours=1)).is_empty
    served = [
        slot.spec.source
        for slot in plan_of("niit").throughput
        if slot.path_id == path_id("campus", "niit") and slot.role == "server"
    ]
    # A test from behind NAT comes from the address that the other site sees.
    assert set(served) <= {"198.51.100.10"}


PUBLIC = """
[mesh]
name = "public"
[[site]]
name = "campus"
latitude_deg = 0
longitude_deg = 0
country = "CH"
[[site.host]]
address = "192.0.2.10"
[[site]]
name = "exchange"
latitude_deg = 0
longitude_deg = 0
country = "NL"
agent = false
[[site.host]]
address = "192.0.2.20"
iperf3_ports = [5201, 5210]
[[test]]
name = "to"
kind = "throughput"
every_s = 1800
[[test]]
name = "back"
kind = "throughput"
every_s = 1800
reverse = true
[[group]]
name = "there"
shape = "between"
from = ["campus"]
to = ["exchange"]
tests = ["to"]
[[group]]
name = "here"
shape = "between"
from = ["exchange"]
to = ["campus"]
tests = ["back"]
"""


def test_a_public_server_needs_no_agent_in_either_direction():
    apply(parse(PUBLIC.encode(), "mesh.toml"), NOW)
    slots.plan_slots(NOW)

    planned = {slot.test: slot for slot in plan_of("campus").throughput}

    assert planned.keys() == {"to", "back"}
    for name, is_reverse in (("to", False), ("back", True)):
        slot, spec = planned[name], planned[name].spec
        assert (slot.role, spec.reverse) == ("client", is_reverse)
        assert (spec.address, spec.source, list(spec.ports)) == ("192.0.2.20", "192.0.2.10", list(range(5201, 5211)))
        assert (spec.one_time_key, spec.peer_iperf3) == (None, None)
    assert planned["to"].path_id == path_id("campus", "exchange")
    assert planned["back"].path_id == path_id("exchange", "campus")


def test_without_its_ports_a_site_without_an_agent_is_not_tested():
    closed = PUBLIC.replace("iperf3_ports = [5201, 5210]\n", "")

    with pytest.raises(MeshError, match='test "to" has no path to measure here'):
        parse(closed.encode(), "mesh.toml")


BEHIND_NAT = FilePath(__file__).parents[2] / "fixtures" / "mesh" / "good" / "behind_nat.toml"


def test_an_end_behind_nat_connects_in_every_throughput_test():
    apply(read(BEHIND_NAT), NOW)
    slots.plan_slots(NOW)
    inwards = path_id("slac", "cern")

    tests = plan_of("cern").throughput

    assert {(slot.test, slot.path_id == inwards) for slot in tests} == {
        (test, is_inwards) for test in ("tcp", "back") for is_inwards in (True, False)
    }
    for slot in tests:
        assert (slot.role, slot.spec.reverse) == ("client", slot.path_id == inwards)
        assert (slot.spec.address, slot.spec.source) == ("192.0.2.1", "198.51.100.1")
    assert {slot.role for slot in plan_of("slac").throughput} == {"server"}
    asked = on_demand.ask(Path.objects.in_use().get(pk=inwards), ThroughputSettings(), by="test", now=NOW)
    assert asked.request.parameters["reverse"]


def with_tests_of_all(sites):
    """A full mesh that pings each minute and tests each hour, with the slots of the next hour."""
    pings = PingEntry("pinger", every_s=60)
    apply(document(sites, pings, ThroughputEntry("tcp", every_s=3600)), NOW)
    slots.plan_slots(NOW)


def periods_of(name, without):
    """The slots that a host of this site takes part in, and none of another, as in a plan, oldest first."""
    rows = Slot.objects.filter(hosts__host__site__name=name).exclude(hosts__host__site__name=without)
    return tuple(
        (int(row.starts_at.timestamp()) - 1, int(row.ends_at.timestamp())) for row in rows.order_by("starts_at")
    )


def test_a_plan_has_the_tests_between_a_destination_and_third_sites():
    with_tests_of_all(4)
    until_s = int(NOW.timestamp()) + 2 * destination_tests.WINDOW_S

    tests = plan_of("s1").tests_at_destinations

    for name in ("s2", "s3", "s4"):
        to_come = tuple(period for period in periods_of(name, without="s1") if period[0] + 1 < until_s)
        assert len(to_come) > 1
        assert tests[path_id("s1", name)] == to_come


def test_it_does_not_matter_whether_a_test_at_a_destination_has_a_result():
    with_tests_of_all(3)
    slot = Slot.objects.exclude(hosts__host__site__name="s1").earliest("starts_at")
    during = slot.starts_at + timedelta(seconds=2)
    before = plan_of("s1", during)

    endings.close_slot(slot.pk, Outcome.MEASURED, "", 10**8)
    destination_tests._kept = None

    assert plan_of("s1", during) == before
    assert (int(slot.starts_at.timestamp()) - 1, int(slot.ends_at.timestamp())) in {
        period for of_path in before.tests_at_destinations.values() for period in of_path
    }


def test_a_test_asked_for_is_in_the_next_plan_of_third_sites():
    with_tests_of_all(3)
    before = plan_of("s1")
    measurement = Measurement.objects.get(path__source__name="s2", path__destination__name="s3", test__name="tcp")
    begins = NOW + timedelta(minutes=15)
    slot = Slot.objects.create(measurement=measurement, starts_at=begins, ends_at=begins + timedelta(seconds=14))
    SlotHost.objects.filter(starts_at__lt=slot.ends_at, ends_at__gt=begins).delete()
    hosts = measurement.path.source_id, measurement.path.destination_id
    slots.take([(slot, hosts, ())])

    after = plan_of("s1").tests_at_destinations

    begin_s = int(begins.timestamp())
    assert all((begin_s - 1, begin_s + 14) in after[path_id("s1", name)] for name in ("s2", "s3"))
    assert all((begin_s - 1, begin_s + 14) not in of_path for of_path in before.tests_at_destinations.values())


@pytest.mark.parametrize(("same_uplink", "is_loaded"), [(True, True), (False, False)])
def test_a_test_of_another_host_loads_a_destination_on_its_uplink(same_uplink, is_loaded):
    with_tests_of_all(3)
    beside = Host.objects.get(name="s2")
    uplinks = [Uplink.objects.create(site=beside.site, name=name) for name in ("a", "b")]
    Host.objects.filter(pk=beside.pk).update(uplink=uplinks[0])
    other = Host.objects.create(
        site=beside.site, name="s2-b", address="192.0.2.200", family=4, uplink=uplinks[0 if same_uplink else 1]
    )
    Slot.objects.all().delete()
    begins = NOW + timedelta(minutes=5)
    measurement = Measurement.objects.get(path__source__name="s2", path__destination__name="s3", test__name="tcp")
    slot = Slot.objects.create(measurement=measurement, starts_at=begins, ends_at=begins + timedelta(seconds=14))
    slots.take([(slot, (other.pk, measurement.path.destination_id), ())])

    assert (path_id("s1", "s2") in plan_of("s1").tests_at_destinations) is is_loaded


def test_plans_of_a_window_cost_no_query_of_its_tests(django_assert_num_queries):
    with_tests_of_all(3)
    plan = plan_of("s1")
    site = Site.objects.get(name="s2")

    with django_assert_num_queries(4):
        assert plan_for(site, NOW + timedelta(seconds=1)).tests_at_destinations
    assert plan_of("s1", NOW + timedelta(seconds=2)).version == plan.version
