"""Aggregate tests on demand: one time for all members, the bounds of the centre, and the result of the run."""

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from django.core.management import CommandError, call_command

from monitor.accounts import rate_limits
from monitor.alerts.models import AuditRecord
from monitor.api import limited_requests as limited
from monitor.api.throughput_commands import aggregate as command
from monitor.archive.aggregates.settle import settle
from monitor.archive.models import AggregateRun
from monitor.archive.queries.throughput.aggregates import aggregate_summaries, newest_final_runs
from monitor.archive.queries.throughput.on_demand import (
    TestState,
    latest,
    on_demand,
    on_demand_aggregate,
    on_demand_aggregates,
)
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Path, Site, Slot, SlotHost, SlotUplink
from monitor.mesh.models import Test as MeshTest
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import on_demand as single
from monitor.mesh.schedule.endings import GRACE_S, close_slot, expire_slots
from monitor.mesh.schedule.on_demand import (
    MOST_AT_A_TIME,
    MOST_BITS,
    MOST_SECONDS,
    AggregateSettings,
    NoFreeSlot,
    OnDemandError,
    UnknownPath,
    ask_aggregate,
    cancel,
    settings_of,
)
from monitor.mesh.schedule.slots import IN_HAND_S, LEAD_S
from probes.contract import Outcome
from tests.db.archive.test_aggregates import deliver, plan_mesh, result
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BLOCKS = '[[test]]\nname = "blocks"\nkind = "request-response"\nport = 5203\n'
SECOND_GROUP = '[[group]]\nname = "too"\nshape = "mesh"\nsites = ["a", "b", "c", "d"]\ntests = ["blocks"]\n'


@pytest.fixture
def planned():
    """The slots of the aggregate test of mesh.toml, from a, b and c to d."""
    return plan_mesh()


def together(*senders, to=("d",), shape="many-to-one", port=None, **settings):
    return AggregateSettings(
        shape, senders, to, ThroughputSettings(port=port or 5201, **settings), has_port=port is not None
    )


def request_test(*senders, now=NOW, **fields):
    return ask_aggregate(together(*(senders or ("a", "b")), **fields), by="somebody", now=now)


def members_of(lead):
    return [lead, *lead.members.order_by("pk")]


def overlapping():
    rows = SlotHost.objects.values_list("host_id", "starts_at", "ends_at")
    return [(a, b) for a, b in combinations(rows, 2) if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]]


def test_all_members_begin_together_in_the_plans_of_all_sites(planned):
    lead = request_test("a", "b", "c", duration_s=7, streams=2)

    slots = members_of(lead)
    assert {(slot.starts_at, slot.ends_at) for slot in slots} == {(lead.starts_at, lead.starts_at + 12 * SECOND)}
    assert lead.starts_at - NOW >= timedelta(seconds=LEAD_S)
    parts = {
        name: [
            part for part in plan_for(Site.objects.get(name=name), NOW).aggregate if part.test == "on-demand-aggregate"
        ]
        for name in "abcd"
    }
    assert [len(parts[name]) for name in "abcd"] == [1, 1, 1, 3]
    assert sorted(part.spec.port for part in parts["d"]) == [5201, 5202, 5203]
    assert {(part.role, part.spec.duration_s, part.spec.streams) for part in parts["d"]} == {("server", 7, 2)}
    assert parts["a"][0].spec.port == 5201


def test_the_first_slot_reserves_all_hosts_and_uplinks(planned):
    lead = request_test("a", "b")

    assert set(SlotHost.objects.filter(slot=lead).values_list("host__name", flat=True)) == {"a", "b", "d"}
    assert set(SlotUplink.objects.filter(slot=lead).values_list("uplink__name", flat=True)) == {"wan"}
    assert not SlotHost.objects.filter(slot__lead=lead).exists()
    assert overlapping() == []


def test_planned_tests_in_its_way_are_postponed(planned):
    before = Slot.objects.filter(request=None, outcome=None).count()
    start = planned.first().starts_at
    now = start - timedelta(seconds=IN_HAND_S + 60)

    lead = request_test("a", "b", now=now, duration_s=200)

    assert lead.starts_at == now + timedelta(seconds=LEAD_S)
    assert overlapping() == []
    moved = Slot.objects.filter(request=None, outcome=None)
    assert moved.count() == before
    assert min(moved.values_list("starts_at", flat=True)) >= lead.ends_at


def test_it_waits_for_another_test_of_a_member_host(planned):
    path = Path.objects.get(source__name="a", destination__name="b")
    other = single.ask(path, ThroughputSettings(duration_s=200), by="somebody", now=NOW)

    lead = request_test("b", "c")

    assert lead.starts_at >= other.ends_at
    assert overlapping() == []


def test_a_test_of_mesh_toml_is_run_with_its_settings(planned):
    lead = ask_aggregate(settings_of("in"), by="somebody", now=NOW)

    assert len(members_of(lead)) == 3
    assert lead.parameters["duration_s"] == 10
    assert lead.parameters["senders"] == ["a", "b", "c"]
    with pytest.raises(UnknownPath, match="it has in"):
        settings_of("out")


def test_ports_of_servers_that_always_listen_are_passed_over():
    plan_mesh(more=BLOCKS.replace("5203", "5206") + SECOND_GROUP)
    assert sorted(slot.parameters["port"] for slot in members_of(request_test("a", "b"))) == [5201, 5201]
    MeshTest.objects.filter(name="blocks").update(parameters={"port": 5202})

    assert request_test("a", "b", "c").parameters["port"] == 5203
    with pytest.raises(OnDemandError) as raised:
        request_test("a", "b", port=5201)
    assert lacks(str(raised.value), "TCP port 5202", '"d"', "request-response server", '"blocks"') == []


def test_a_throughput_test_on_such_a_port_is_refused():
    plan_mesh(more=BLOCKS.replace("5203", "5206") + SECOND_GROUP)
    path = Path.objects.get(source__name="a", destination__name="d")

    with pytest.raises(OnDemandError) as raised:
        single.ask(path, ThroughputSettings(port=5206), by="somebody", now=NOW)

    assert lacks(str(raised.value), "TCP port 5206", '"d"', "request-response server", '"blocks"') == []
    assert not Slot.objects.exclude(request=None).exists()


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"senders": ("a",)}, ("2 to 32 members", "not 1")),
        ({"senders": ("a", "a")}, ("senders", "twice")),
        ({"to": ("c", "d")}, ("many-to-one", "2 receivers")),
        ({"shape": "pairs"}, ("pairs", "1 receivers")),
        ({"duration_s": MOST_SECONDS, "omit_s": 1}, (str(MOST_SECONDS), "301")),
        ({"duration_s": 300, "rate_bps": MOST_BITS // 300}, ("20.0 Tbit", "10 are allowed")),
        ({"protocol": "udp"}, ("UDP", "rate_bps")),
        ({"reverse": True}, ("no reverse",)),
        ({"port": 65_535}, ("ports from 65535", "beyond")),
        ({"senders": ("a", "nowhere")}, ("no path in use", "nowhere → d")),
        ({"senders": ("a", "d-2")}, ("no path in use", "d-2 → d")),
    ],
)
def test_what_cannot_be_tested_is_refused_with_the_reason(planned, fields, facts):
    senders = fields.pop("senders", ("a", "b"))

    with pytest.raises(OnDemandError) as raised:
        request_test(*senders, **fields)

    assert lacks(str(raised.value), *facts) == []
    assert not Slot.objects.exclude(request=None).exists()


def test_a_site_without_an_agent_is_refused(planned):
    Site.objects.filter(name="b").update(has_agent=False)

    with pytest.raises(UnknownPath, match="site b has no agent"):
        request_test("a", "b")


def test_only_so_many_are_planned_at_a_time(planned):
    for _ in range(MOST_AT_A_TIME):
        request_test("a", "b")

    with pytest.raises(NoFreeSlot, match="planned or running"):
        request_test("a", "b")


def test_a_budget_counts_every_member():
    plan_mesh(more="[budget.host]\nmax_minutes_per_day = 1\n")

    with pytest.raises(NoFreeSlot, match="minutes"):
        request_test("a", "b", "c", duration_s=60)


def test_it_can_be_cancelled_with_all_members_until_an_agent_has_it(planned):
    first = request_test("a", "b", duration_s=100)
    second = request_test("b", "c")

    assert not cancel(first.pk, NOW)
    assert not cancel(members_of(second)[1].pk, NOW)
    assert cancel(second.pk, NOW)
    assert on_demand_aggregate(second.pk, NOW) is None
    assert set(Slot.objects.exclude(request=None)) == set(members_of(first))


def test_it_is_planned_running_awaited_and_ended_with_its_result(planned):
    lead = request_test("a", "b")
    slots = members_of(lead)
    states = [on_demand_aggregate(lead.pk, at).state for at in (NOW, lead.starts_at, lead.ends_at)]
    assert states == [TestState.PLANNED, TestState.RUNNING, TestState.AWAITED]

    deliver(slots[0], result(slots[0], 12e6))
    settle(lead.ends_at + SECOND)
    half = on_demand_aggregate(lead.pk, lead.ends_at + SECOND)
    assert (half.state, half.reported, half.result.state.value) == (TestState.AWAITED, 1, "partial")
    deliver(slots[1], result(slots[1], 9e6))
    settle(lead.ends_at + 2 * SECOND)

    ended = on_demand_aggregate(lead.pk, lead.ends_at + 2 * SECOND)
    assert (ended.state, ended.result.state.value, ended.asked_by) == (TestState.ENDED, "complete", "somebody")
    assert ended.result.sum_bps == pytest.approx(21e6, rel=1e-3)
    assert ended.result.fairness == pytest.approx(21**2 / (2 * (12**2 + 9**2)), rel=1e-3)
    assert ended.result.start_spread_s == 0
    assert [row.id for row in on_demand_aggregates(NOW, NOW)] == [lead.pk]


def test_a_silent_agent_leaves_a_partial_result(planned):
    lead = request_test("a", "b")
    deliver(lead, result(lead, 12e6))
    over = lead.ends_at + timedelta(seconds=GRACE_S + 1)
    settle(lead.ends_at + SECOND)
    assert on_demand_aggregate(lead.pk, over).state is TestState.AWAITED

    expire_slots(over)
    settle(over)

    ended = on_demand_aggregate(lead.pk, over)
    assert (ended.state, ended.result.state.value, ended.result.sum_bps) == (TestState.ENDED, "partial", None)
    assert ended.result.partial_sum_bps == pytest.approx(12e6, rel=1e-3)
    assert [member.outcome for member in ended.members] == ["measured", "missed"]


def test_a_sites_limits_are_in_the_result_with_the_rule(planned):
    lead = request_test("a", "b")
    rule = "throughput.max_duration_s: 10 s wanted, 5 s allowed"
    for slot in members_of(lead):
        close_slot(slot.pk, Outcome.NOT_PERMITTED, rule)
    settle(lead.ends_at + SECOND)

    ended = on_demand_aggregate(lead.pk, lead.ends_at + SECOND)
    assert (ended.state, ended.result.state.value) == (TestState.ENDED, "failed")
    assert {(member.outcome, member.detail) for member in ended.result.members} == {("not_permitted", rule)}


def test_its_run_is_in_no_figure_of_planned_tests(planned):
    lead = request_test("a", "b")
    for slot in members_of(lead):
        deliver(slot, result(slot, 9e6))
    later = lead.ends_at + timedelta(minutes=5)
    settle(later)
    assert AggregateRun.objects.get(pk=lead.pk).is_final

    paths = [slot.measurement.path_id for slot in members_of(lead)]
    assert newest_final_runs(NOW, later) == []
    assert aggregate_summaries(NOW, later, paths) == []
    assert on_demand(lead.pk, later) is None
    assert latest(paths[0], later, NOW) is None


def test_requests_and_cancellations_are_recorded_and_limited(planned, monkeypatch):
    lead = limited.ask_aggregate(together("a", "b", duration_s=100), "les", NOW)
    second = limited.ask_aggregate(together("b", "c"), "les", NOW)
    assert limited.cancel_aggregate(second.pk, "ann", NOW)
    assert not limited.cancel_aggregate(lead.pk, "ann", NOW)
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate: 12.3)

    with pytest.raises(limited.TooOften, match="wait 13 s"):
        limited.ask_aggregate(together("a", "b"), "les", NOW)

    assert list(AuditRecord.objects.order_by("pk").values_list("who", "what")) == [
        ("les", f"ran aggregate test {lead.pk} on demand: a, b → d, 100 s"),
        ("les", f"ran aggregate test {second.pk} on demand: b, c → d, 10 s"),
        ("ann", f"cancelled aggregate test {second.pk}"),
    ]


def run_command(monkeypatch, *arguments, rates=()):
    """The command with a stopped clock; the members report these rates as soon as they are waited for."""
    monkeypatch.setattr(command.timezone, "now", lambda: NOW)

    def ended(load, slot_id, deadline):
        lead = Slot.objects.get(pk=slot_id)
        for slot, rate_bps in zip(members_of(lead), rates, strict=False):
            deliver(slot, result(slot, rate_bps))
        settle(lead.ends_at + SECOND)
        return on_demand_aggregate(slot_id, lead.ends_at + SECOND)

    monkeypatch.setattr(command, "wait", ended)
    out = io.StringIO()
    call_command("throughput", "aggregate", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_the_result(planned, monkeypatch):
    output = run_command(monkeypatch, "--senders", "a", "b", "--receivers", "d", "--wait", rates=(12e6, 9e6))

    lead = Slot.objects.exclude(request=None).get(lead=None)
    assert lacks(output, f"aggregate test {lead.pk}", "2 members", "sum 21 Mbit/s", "a → d: 12 Mbit/s") == []
    plain = json.loads(run_command(monkeypatch, "in", "--json"))
    assert (plain["state"], plain["result"], len(plain["members"])) == ("planned", None, 3)


def test_the_command_fails_where_a_member_does_not_measure(planned, monkeypatch):
    with pytest.raises(CommandError, match="awaited, 1 of 3 members"):
        run_command(monkeypatch, "in", "--wait", rates=(12e6,))
    with pytest.raises(CommandError, match="give the name of a test"):
        run_command(monkeypatch)
    with pytest.raises(CommandError, match="2 to 32 members"):
        run_command(monkeypatch, "--senders", "a", "--receivers", "d")
