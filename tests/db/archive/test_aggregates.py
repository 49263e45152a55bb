"""Aggregate tests from mesh.toml to their result: planned together, each member stored, one result that never takes a
part for the whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import msgspec
import pytest

from monitor.archive.aggregates.settle import PINGS_ARRIVE_S, settle
from monitor.archive.models import AggregateMember, AggregateRun, ThroughputTest
from monitor.archive.queries.throughput.aggregates import aggregate_result, aggregate_results, newest_of_path
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import parse
from monitor.mesh.models import Path, Site, Slot, SlotHost, SlotUplink
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.endings import GRACE_S, expire_slots
from monitor.mesh.schedule.slots import IN_HAND_S, plan_slots
from probes.aggregate.spec import AggregateSlot, MemberServerReport, member_run
from probes.contract import Outcome
from probes.kinds import KINDS
from probes.packets.spec import Burst
from probes.site.wire import Batch, Delivered, Plan
from probes.transfers.spec import ReceivedIntervals, ThroughputRun, Transfer
from tests.deliveries import store

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
SITES = ("a", "b", "c", "d")
BITS = {"a": 12e6, "b": 9e6, "c": 9e6}


def mesh_text(test='shape = "many-to-one"\nsenders = ["a", "b", "c"]\nreceivers = ["d"]', more=""):
    sites = "".join(
        f'[[site]]\nname = "{name}"\nlatitude_deg = 0.0\nlongitude_deg = 0.0\ncountry = "CH"\n'
        f"{'uplink = ' + chr(34) + 'wan' + chr(34) if name == 'd' else ''}\n"
        f'[[site.host]]\naddress = "192.0.2.{10 * number}"\n'
        f'[[site.host]]\nname = "{name}-2"\naddress = "192.0.2.{10 * number + 1}"\n'
        for number, name in enumerate(SITES, 1)
    )
    return (
        f'[mesh]\nname = "Mesh"\n{sites}'
        '[[test]]\nname = "ping"\nkind = "ping"\nevery_s = 60\n'
        '[[group]]\nname = "all"\nshape = "mesh"\nsites = ["a", "b", "c", "d"]\ntests = ["ping"]\n'
        f'[[test]]\nname = "in"\nkind = "aggregate"\nevery_s = 3600\nduration_s = 10\n{test}\n{more}'
    )


def plan_mesh(**texts):
    apply(parse(mesh_text(**texts).encode(), "mesh.toml"), NOW)
    plan_slots(NOW)
    return Slot.objects.filter(measurement__test__kind="aggregate").order_by("pk")


def result(slot, bps, late_s=0.0, length_s=10, **fields):
    """The result of a member at a constant rate."""
    ends_s = tuple(number / 10 for number in range(1, length_s * 10 + 1))
    carried = (round(bps / 80),) * len(ends_s)
    began_at = slot.starts_at + timedelta(seconds=late_s)
    run = ThroughputRun(
        target="d",
        address="192.0.2.40",
        family=4,
        started_at=began_at - timedelta(milliseconds=200),
        outcome=Outcome.MEASURED,
        duration_s=float(length_s),
        throughput_bps=bps,
        sent_bytes=sum(carried),
        received_bytes=sum(carried),
        retransmits=3,
        transfer=Transfer(received=ReceivedIntervals(end_s=ends_s, received_bytes=carried), began_at=began_at),
    )
    return member_run(msgspec.structs.replace(run, **fields))


_numbers = iter(range(1, 10_000))


def deliver(slot, said, now=None, **fields):
    """Deliver a result by the agent of its source, or its destination for a report of the listening end."""
    path = slot.measurement.path
    host = path.destination if isinstance(said, MemberServerReport) else path.source
    delivered = Delivered(sequence=1, path_id=path.pk, test="in", result=said, slot_id=slot.pk, **fields)
    number = next(_numbers)
    batch = Batch(spool=f"{host.site.name}-{number}", number=1, agent_version="0", sent_at=NOW, results=(delivered,))
    receipt = store(host.site_id, batch, now or slot.ends_at)
    assert receipt.refused == ()


def deliver_all(slots, *, without=(), **late_s):
    for slot in slots:
        name = slot.measurement.path.source.name
        if name not in without:
            deliver(slot, result(slot, BITS[name], late_s.get(name, 0.0)))


def settled(slots, *, after_s=PINGS_ARRIVE_S):
    settle(slots[0].ends_at + timedelta(seconds=after_s))
    return aggregate_result(slots[0].pk)


def test_members_are_planned_at_one_time_with_all_their_hosts():
    slots = list(plan_mesh())

    assert len(slots) == 3
    assert {(slot.starts_at, slot.ends_at) for slot in slots} == {(slots[0].starts_at, slots[0].ends_at)}
    assert {slot.lead_id for slot in slots[1:]} == {slots[0].pk}
    assert {row.host.name for row in SlotHost.objects.filter(slot=slots[0])} == set(SITES)
    assert [row.uplink.name for row in SlotUplink.objects.filter(slot=slots[0])] == ["wan"]
    assert not SlotHost.objects.filter(slot__in=slots[1:]).exists()


def test_no_other_test_overlaps_an_aggregate_test():
    more = (
        '[[test]]\nname = "tcp"\nkind = "throughput"\nevery_s = 600\n'
        '[[group]]\nname = "pairs"\nshape = "between"\nfrom = ["a"]\nto = ["d"]\ntests = ["tcp"]\n'
    )
    together = list(plan_mesh(more=more))
    others = Slot.objects.filter(measurement__test__kind="throughput", outcome=None)

    assert others.count() >= 6
    for slot in others:
        assert slot.ends_at <= together[0].starts_at or slot.starts_at >= together[0].ends_at


def test_an_hour_has_one_run_however_often_it_is_planned():
    first = list(plan_mesh())
    for minutes in (1, 5, 20):
        plan_slots(NOW + timedelta(minutes=minutes))

    starts = {slot.starts_at for slot in Slot.objects.filter(measurement__test__kind="aggregate", lead=None)}
    assert first[0].starts_at in starts
    assert len({int(start.timestamp()) // 3600 for start in starts}) == len(starts)


def test_each_agent_gets_its_members_with_a_port_each():
    slots = list(plan_mesh())
    plan = plan_for(Site.objects.get(name="d"), NOW)

    assert [type(slot) for slot in plan.aggregate] == [AggregateSlot] * 3
    assert {slot.role for slot in plan.aggregate} == {"server"}
    assert sorted(slot.spec.port for slot in plan.aggregate) == [5201, 5202, 5203]
    for name, port in (("a", 5201), ("b", 5202), ("c", 5203)):
        (own,) = plan_for(Site.objects.get(name=name), NOW).aggregate
        assert (own.role, own.spec.port, own.spec.address) == ("client", port, "192.0.2.40")
        assert own.starts_at == slots[0].starts_at
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_one_to_many_and_pairs_are_planned_alike():
    more = (
        '[[test]]\nname = "both"\nkind = "aggregate"\nevery_s = 3600\nshape = "pairs"\n'
        'senders = ["a", "a-2"]\nreceivers = ["b", "b-2"]\n'
    )
    plan_mesh(test='shape = "one-to-many"\nsenders = ["a"]\nreceivers = ["b", "c"]', more=more)
    pairs = {
        (slot.measurement.test.name, slot.measurement.path.source.name, slot.measurement.path.destination.name)
        for slot in Slot.objects.filter(measurement__test__kind="aggregate")
    }

    assert pairs == {("in", "a", "b"), ("in", "a", "c"), ("both", "a", "b"), ("both", "a-2", "b-2")}
    out, both = Slot.objects.filter(lead=None).order_by("measurement__test__name").reverse()
    assert out.ends_at <= both.starts_at or both.ends_at <= out.starts_at


def test_all_members_are_deleted_with_a_changed_test():
    slots = list(plan_mesh())
    future = slots[0].starts_at - timedelta(seconds=IN_HAND_S + 60)
    text = mesh_text(test='shape = "many-to-one"\nsenders = ["a", "b"]\nreceivers = ["d"]')
    apply(parse(text.encode(), "mesh.toml"), min(future, NOW - timedelta(minutes=5)))

    assert not Slot.objects.filter(pk__in=[slot.pk for slot in slots]).exists()
    plan_slots(NOW)
    assert Slot.objects.filter(measurement__test__name="in").count() == 2


def test_the_result_has_the_sum_of_the_common_time():
    slots = list(plan_mesh())
    deliver_all(slots, b=2.0)
    run = settled(slots)

    assert (run.state, run.is_final, run.member_count, run.measured) == ("complete", True, 3, 3)
    assert run.sum_bps == pytest.approx(30e6, rel=1e-3)
    assert run.partial_sum_bps is None
    assert (run.start_spread_s, run.common_s) == pytest.approx((2.0, 8.0))
    assert run.fairness == pytest.approx(30**2 / (3 * (12**2 + 9**2 + 9**2)), rel=1e-3)
    assert [member.common_bps for member in run.members] == pytest.approx([12e6, 9e6, 9e6], rel=1e-3)
    assert [member.late_s for member in run.members] == pytest.approx([0.0, 2.0, 0.0])
    assert "All 3 members" in run.sentence


def test_members_are_no_throughput_tests_of_their_paths():
    slots = list(plan_mesh())
    deliver_all(slots)

    assert not ThroughputTest.objects.exists()
    assert AggregateMember.objects.count() == 3
    assert set(Slot.objects.filter(pk__in=[slot.pk for slot in slots]).values_list("outcome", flat=True)) == {
        "measured"
    }


def test_a_member_that_is_dead_leaves_a_part_that_is_called_so():
    slots = list(plan_mesh())
    deliver_all(slots, without=("b",))
    early = settled(slots, after_s=20)

    assert (early.state, early.is_final, early.sum_bps) == ("partial", False, None)
    assert "2 of 3" in early.sentence
    assert "no report yet" in early.sentence
    assert "b → d" in early.sentence

    expire_slots(slots[0].ends_at + timedelta(seconds=GRACE_S + 1))
    run = settled(slots, after_s=GRACE_S + 2)
    assert (run.state, run.is_final, run.measured, run.sum_bps) == ("partial", True, 2, None)
    assert run.partial_sum_bps == pytest.approx(21e6, rel=1e-3)
    (missing,) = run.missing
    assert (missing.source, missing.outcome, missing.throughput_bps, missing.common_bps) == ("b", "missed", None, None)
    assert "without a result: b → d" in run.sentence


def test_a_late_delivery_completes_a_final_result():
    slots = list(plan_mesh())
    deliver_all(slots, without=("b",))
    expire_slots(slots[0].ends_at + timedelta(seconds=GRACE_S + 1))
    assert settled(slots, after_s=GRACE_S + 2).state == "partial"
    (late,) = (slot for slot in slots if slot.measurement.path.source.name == "b")

    deliver(late, result(late, 9e6), now=late.ends_at + timedelta(days=3))
    settle(late.ends_at + timedelta(days=3, seconds=10))

    run = aggregate_result(slots[0].pk)
    assert (run.state, run.is_final, run.measured) == ("complete", True, 3)
    assert run.sum_bps == pytest.approx(30e6, rel=1e-3)


def test_a_refused_member_is_named_with_its_reason():
    slots = list(plan_mesh())
    deliver_all(slots, without=("c",))
    (refused,) = (slot for slot in slots if slot.measurement.path.source.name == "c")
    spec = plan_for(Site.objects.get(name="c"), NOW).aggregate[0].spec
    not_measured = KINDS["aggregate"].not_measured
    deliver(refused, not_measured(spec, refused.starts_at, Outcome.REFUSED, "connection refused"))
    reason = "throughput.max_parallel_tests: 2 tests run now, 2 allowed"
    report = MemberServerReport(family=4, started_at=refused.starts_at, outcome=Outcome.NOT_PERMITTED, detail=reason)
    deliver(refused, report)

    run = settled(slots)
    (missing,) = run.missing
    assert (run.state, run.is_final, missing.outcome) == ("partial", True, "not_permitted")
    assert reason in missing.detail


def test_members_that_never_sent_together_give_no_sum():
    slots = list(plan_mesh(test='shape = "many-to-one"\nsenders = ["a", "b"]\nreceivers = ["d"]'))
    deliver(slots[0], result(slots[0], 9e6, length_s=3))
    deliver(slots[1], result(slots[1], 9e6, late_s=2.5))

    run = settled(slots)
    assert (run.state, run.sum_bps, run.partial_sum_bps, run.fairness) == ("not simultaneous", None, None, None)


def test_no_result_where_no_member_measured():
    slots = list(plan_mesh())
    assert settled(slots) is None
    expire_slots(slots[0].ends_at + timedelta(seconds=GRACE_S + 1))

    run = settled(slots, after_s=GRACE_S + 2)
    assert (run.state, run.measured, run.sum_bps, run.partial_sum_bps) == ("failed", 0, None, None)


def test_a_wrong_clock_of_a_sender_is_corrected():
    slots = list(plan_mesh())
    deliver_all(slots, without=("c",))
    (off,) = (slot for slot in slots if slot.measurement.path.source.name == "c")
    deliver(off, result(off, 9e6, late_s=4.0), clock_off_s=4.0)

    run = settled(slots)
    assert run.start_spread_s == pytest.approx(0.0, abs=1e-3)
    assert run.common_s == pytest.approx(10.0)


def burst(at, rtt_ms, loaded_ms=None):
    rtts = (rtt_ms,) * 10
    return Burst(
        target="d",
        address="192.0.2.40",
        family=4,
        packet_bytes=100,
        started_at=at,
        outcome=Outcome.MEASURED,
        sent=10,
        received=10,
        rtts_ms=rtts if loaded_ms is None else (loaded_ms,) * 10,
        **({} if loaded_ms is None else {"loaded_rtts_ms": ()}),
    )


def test_harm_to_others_is_of_packets_that_share_a_host_or_uplink():
    slots = list(plan_mesh())
    deliver_all(slots)
    apart = Path.objects.get(source__name="a-2", destination__name="b-2")
    sharing = Path.objects.get(source__name="d-2", destination__name="a-2")
    for number, path in enumerate((apart, sharing), 1):
        results = [
            Delivered(
                sequence=minute,
                path_id=path.pk,
                test="ping",
                result=burst(slots[0].starts_at - timedelta(minutes=minute, seconds=10), 20.0 + minute / 100),
            )
            for minute in range(1, 30)
        ]
        under_load = burst(slots[0].starts_at + timedelta(seconds=1), 20.0, loaded_ms=80.0)
        results.append(Delivered(sequence=40, path_id=path.pk, test="ping", result=under_load, during_test=True))
        batch = Batch(spool=f"p{number}", number=1, agent_version="0", sent_at=NOW, results=tuple(results))
        assert store(path.source.site_id, batch, slots[0].ends_at).refused == ()

    (harmed,) = settled(slots).harm
    assert (harmed.path_id, harmed.shares, harmed.harm) == (sharing.pk, "uplink d/wan", "RTT higher")
    assert (harmed.loaded_sent, harmed.loaded_rtt_median_ms) == (10, 80.0)
    assert harmed.rest_sent == 290
    assert harmed.rest_rtt_median_ms == pytest.approx(20.15, abs=0.02)


def test_results_are_found_by_period_and_by_path():
    slots = list(plan_mesh())
    deliver_all(slots)
    settled(slots)
    since, until = NOW, NOW + timedelta(hours=2)

    assert [run.slot_id for run in aggregate_results(since, until, 10)] == [slots[0].pk]
    assert aggregate_results(until, until + timedelta(hours=1), 10) == []
    assert [run.slot_id for run in newest_of_path(slots[2].measurement.path_id, since, until, 10)] == [slots[0].pk]
    other = Path.objects.get(source__name="d", destination__name="a")
    assert newest_of_path(other.pk, since, until, 10) == []


def test_a_final_result_is_computed_once():
    slots = list(plan_mesh())
    deliver_all(slots)
    settled(slots)

    assert settle(slots[0].ends_at + timedelta(hours=1)) == 0
    assert AggregateRun.objects.count() == 1


def test_the_file_of_the_docs_is_valid():
    text = (FilePath(__file__).parents[3] / "docs" / "throughput.md").read_text().partition("## Aggregate tests")[2]
    example = text.split("```toml")[1].split("```")[0]

    parse(mesh_text(more=example.replace('"in"', '"in-2"')).encode(), "mesh.toml")
