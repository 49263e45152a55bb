"""Throughput tests on demand: their start, their slots beside planned tests, and their results."""

import html
import io
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from monitor.api.throughput_commands import run as run_command
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.models import ThroughputTest
from monitor.archive.queries.throughput import on_demand as outcomes
from monitor.archive.queries.throughput.on_demand import TestState, on_demand, wait
from monitor.archive.queries.throughput.series import throughput_series, throughput_summaries
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.apply import apply
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Measurement, Path, Site, Slot, SlotHost
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import slots
from monitor.mesh.schedule.endings import GRACE_S, expire_slots
from monitor.mesh.schedule.on_demand import (
    ON_DEMAND_LEAD_S,
    NoFreeSlot,
    OnDemandError,
    Settings,
    UnknownPath,
    ask,
    cancel,
    find_path,
)
from probes.contract import Deadline, Outcome
from probes.transfers.spec import ServerReport, ThroughputRun, not_measured
from tests.db.archive.test_transfers import real
from tests.db.mesh.test_slots import document, overlapping, taken
from tests.db.mesh_of_three import batch, delivered
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LEAD = timedelta(seconds=ON_DEMAND_LEAD_S)


@pytest.fixture
def path():
    apply(document(3, ThroughputEntry("tcp", every_s=3600, duration_s=10)), NOW)
    return find_path("s1", "s2")


def request_test(path, now=NOW, **settings):
    return ask(path, Settings(**settings), by="somebody", now=now)


def plan_of(path, now=NOW):
    """The slots of both ends."""
    return [plan_for(site, now).throughput for site in (path.source.site, path.destination.site)]


def report(slot, run, number=1, site=None):
    """Deliver an end's report on a slot, as its agent does."""
    path = slot.measurement.path
    report_result = delivered(path, run, number, slot_id=slot.pk, test="on-demand")
    receipt = store((site or path.source.site).pk, batch(report_result, number=number), slot.ends_at)
    assert receipt.refused == ()


def measured(slot, bps=9e6, **fields):
    values = {"target": "s2", "address": "192.0.2.2", "family": 4, "started_at": slot.starts_at, "duration_s": 10.0}
    return ThroughputRun(**{**values, "outcome": Outcome.MEASURED, "throughput_bps": bps, **fields})


def said_by_server(slot, outcome, detail, **fields):
    return ServerReport(family=4, started_at=slot.starts_at, outcome=outcome, detail=detail, **fields)


def test_an_on_demand_test_starts_in_15_s_in_both_plans(path):
    slot = request_test(path, duration_s=7, streams=4, window_bytes=65536, congestion_control="reno", mss_bytes=1200)

    assert slot.starts_at == NOW + timedelta(seconds=15)
    assert slot.ends_at - slot.starts_at == timedelta(seconds=7 + 5)
    [client], [server] = ([part for part in end if part.slot_id == slot.pk] for end in plan_of(path))
    assert (client.role, server.role) == ("client", "server")
    assert client.spec == server.spec
    assert (client.test, client.path_id) == ("on-demand", path.pk)
    assert len(client.spec.one_time_key) == 64
    setting_names = ("duration_s", "streams", "window_bytes", "congestion_control", "mss_bytes")
    assert [getattr(client.spec, name) for name in setting_names] == [7, 4, 65536, "reno", 1200]


def test_it_reserves_its_hosts_as_every_slot_does(path):
    slot = request_test(path)

    host = slot.hosts.first()
    assert {host.host_id for host in slot.hosts.all()} == {path.source_id, path.destination_id}
    with pytest.raises(IntegrityError, match="one_slot_per_host_at_a_time"), transaction.atomic():
        SlotHost.objects.create(slot=slot, host_id=host.host_id, starts_at=slot.starts_at, ends_at=slot.ends_at)


def test_several_tests_run_sequentially():
    apply(document(2, PingEntry("pinger", every_s=60)), NOW)
    path = find_path("s1", "s2")

    requested = [request_test(path, duration_s=10) for _ in range(3)]

    assert [slot.starts_at - NOW for slot in requested] == [LEAD, LEAD + 15 * SECOND, LEAD + 30 * SECOND]
    assert overlapping() == []


def test_a_planned_test_that_no_agent_has_yet_is_postponed(path):
    apply(document(2, ThroughputEntry("tcp", every_s=600, duration_s=10)), NOW)
    slots.plan_slots(NOW)
    horizon = NOW + timedelta(seconds=600)
    before = set(Slot.objects.filter(starts_at__lt=horizon).values_list("measurement", "starts_at"))

    slot = request_test(path, now=NOW, duration_s=300)

    planned = Slot.objects.filter(request=None, outcome=None, starts_at__lt=horizon)
    assert overlapping() == []
    # Tests that their agents already have run first: the new test comes after them, the others after it.
    in_hand = [planned_slot for planned_slot in before if planned_slot[1] <= NOW + timedelta(seconds=slots.IN_HAND_S)]
    assert in_hand != []
    assert {planned_slot for planned_slot in before if planned_slot in in_hand} <= set(
        planned.values_list("measurement", "starts_at")
    )
    assert slot.starts_at - NOW <= timedelta(seconds=slots.IN_HAND_S + 2 * 15)
    moved = before - set(planned.values_list("measurement", "starts_at"))
    assert all(at < slot.ends_at for _, at in moved)
    assert sorted(planned.values_list("measurement", flat=True)) == sorted(measurement for measurement, _ in before)


def test_a_postponed_test_without_room_is_reported(path):
    apply(document(2, ThroughputEntry("tcp", every_s=120, duration_s=10, slip_s=10)), NOW)
    slots.plan_slots(NOW)
    before = Slot.objects.filter(outcome=None).count()

    request_test(path, duration_s=600)

    busy = Slot.objects.filter(outcome=Outcome.BUSY)
    assert {slot.detail for slot in busy} == {slots.TOO_LATE}
    assert Slot.objects.filter(request=None).count() >= before
    assert busy.count() > 0


def test_a_test_that_cannot_start_within_an_hour_is_refused(path):
    request_test(path, duration_s=3600)
    before = (Slot.objects.count(), sorted(taken()))

    with pytest.raises(NoFreeSlot, match="reserved for the next hour"):
        request_test(path)

    assert (Slot.objects.count(), sorted(taken())) == before


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"duration_s": 0}, ("duration_s", "integer from 1 to 3600,", "not 0")),
        ({"streams": 129}, ("streams", "integer from 1 to 128,", "not 129")),
        ({"protocol": "sctp"}, ("protocol", '"tcp" or "udp"', 'not "sctp"')),
        ({"protocol": "udp"}, ("UDP", "needs", "rate_bps")),
        ({"congestion_control": "-F /etc/passwd"}, ("congestion_control", "'-F /etc/passwd'", "not a valid name")),
        ({"window_bytes": 1}, ("window_bytes", "integer from 2048 to 1073741824,", "not 1")),
    ],
)
def test_invalid_settings_are_reported(path, wrong, facts):
    with pytest.raises(OnDemandError) as raised:
        request_test(path, **wrong)

    assert str(raised.value).startswith(facts[0])
    assert lacks(str(raised.value), *facts) == []


def test_paths_are_found_by_sites_and_hosts_else_reported(path):
    assert find_path("s1", "s2", 4) == path
    with pytest.raises(UnknownPath, match=r"no path.* s1 .* nowhere .*in use"):
        find_path("s1", "nowhere")
    with pytest.raises(UnknownPath, match="over IPv6"):
        find_path("s1", "s2", 6)


@pytest.mark.parametrize(
    ("model", "change", "facts"),
    [
        (Site, {"has_agent": False}, ("site s2 ", "no agent")),
        ("host", {"for_throughput": False}, ("host s2 ", "not measure throughput")),
    ],
)
def test_a_path_whose_far_end_cannot_serve_is_refused(path, model, change, facts):
    rows = Site.objects if model is Site else Path.objects.get(pk=path.pk).destination.__class__.objects
    rows.filter(name="s2").update(**change)

    with pytest.raises(UnknownPath) as raised:
        request_test(Path.objects.with_hosts().get(pk=path.pk))

    assert lacks(str(raised.value), *facts) == []


def test_it_is_planned_then_running_then_ended(path):
    slot = request_test(path)

    states = [on_demand(slot.pk, at).state for at in (NOW, slot.starts_at, slot.ends_at)]
    assert states == [TestState.PLANNED, TestState.RUNNING, TestState.AWAITED]

    report(slot, measured(slot, sent_bytes=11_250_000))
    state = on_demand(slot.pk, slot.ends_at)
    assert (state.state, state.outcome, state.throughput_bps) == (TestState.ENDED, "measured", 9e6)
    assert (state.measured_at, state.asked_by, state.path_id) == (slot.starts_at, "somebody", path.pk)
    assert Slot.objects.get(pk=slot.pk).carried_bytes == 11_250_000


def test_it_has_ended_when_it_is_diagnosed(path):
    slot = request_test(path)
    run = msgspec.structs.replace(real("queue"), started_at=slot.starts_at)
    report(slot, run)

    assert on_demand(slot.pk, slot.ends_at).state is TestState.AWAITED
    diagnose_awaited(slot.ends_at)
    state = on_demand(slot.pk, slot.ends_at)
    assert (state.state, state.verdict) == (TestState.ENDED, "bottleneck queue")
    assert state.sentence.startswith("bottleneck at 9.65 Mbit/s")


def test_a_test_forbidden_by_the_senders_limits_names_the_rule(path):
    slot = request_test(path)
    spec = plan_of(path)[0][0].spec
    rule = "throughput.max_duration_s: 10 s wanted, 5 s allowed"

    report(slot, not_measured(spec, slot.starts_at, Outcome.NOT_PERMITTED, rule))

    state = on_demand(slot.pk, slot.ends_at)
    assert (state.state, state.outcome, state.detail, state.throughput_bps) == (
        TestState.ENDED, "not_permitted", rule, None,
    )  # fmt: skip


@pytest.mark.parametrize("server_first", [True, False])
def test_a_test_forbidden_by_the_receivers_limits_names_the_rule(path, server_first):
    slot = request_test(path)
    rule = "throughput.peers: 192.0.2.1 is in none of them"
    refused = not_measured(plan_of(path)[0][0].spec, slot.starts_at, Outcome.REFUSED, "Connection refused")
    reports = [(refused, path.source.site), (said_by_server(slot, Outcome.NOT_PERMITTED, rule), path.destination.site)]

    for number, (result, site) in enumerate(reversed(reports) if server_first else reports, 1):
        report(slot, result, number, site)

    state = on_demand(slot.pk, slot.ends_at)
    assert (state.outcome, state.detail) == ("not_permitted", f"the other end: {rule}")
    [point] = throughput_series(path.pk, NOW, slot.ends_at)
    assert (point.outcome, point.detail) == ("not_permitted", f"the other end: {rule}")


def test_the_servers_report_is_used_if_the_client_has_none(path):
    earlier, later = request_test(path), request_test(path)
    report(earlier, said_by_server(earlier, Outcome.MISSED, "nobody came"), 1, path.destination.site)
    report(later, said_by_server(later, Outcome.NOT_PERMITTED, "throughput.hours: closed"), 2, path.destination.site)

    expire_slots(later.ends_at + timedelta(seconds=GRACE_S + 1))

    ends = [on_demand(slot.pk, NOW) for slot in (earlier, later)]
    assert [ended.outcome for ended in ends] == ["missed", "not_permitted"]
    for ended, detail in zip(ends, ("nobody came", "throughput.hours: closed"), strict=True):
        assert lacks(ended.detail, "agent that connects", "not report", " 10 minutes", "other", detail) == []
        assert ended.detail.endswith(f": {detail}")


def test_a_site_may_report_its_own_part_only(path):
    slot = request_test(path)
    served = delivered(path, said_by_server(slot, Outcome.MEASURED, "served it"), 1, slot_id=slot.pk)
    backwards = delivered(path, measured(slot, reverse=True), 2, slot_id=slot.pk)
    nowhere = delivered(path, said_by_server(slot, Outcome.MEASURED, "served it"), 3)

    receipt = store(path.source.site.pk, batch(served, backwards, nowhere), slot.ends_at)

    reasons = {refusal.sequence: refusal.reason for refusal in receipt.refused}
    assert reasons[1] == reasons[2] == f"path {path.pk} does not end at this site"
    assert reasons[3] == f"path {path.pk} does not end at this site"
    assert store(path.destination.site.pk, batch(nowhere, number=2), slot.ends_at).refused[0].reason == (
        "served report without a slot"
    )


def test_its_result_is_listed_and_in_no_summary(path):
    slot = request_test(path)
    report(slot, measured(slot))
    roll_up(slot.ends_at)

    assert [point.test for point in throughput_series(path.pk, NOW, slot.ends_at)] == ["on-demand"]
    assert throughput_summaries(NOW, slot.ends_at) == []


def test_an_apply_keeps_it_unless_its_path_is_removed(path):
    slots.plan_slots(NOW)
    slot = request_test(path, duration_s=3000)
    later = request_test(path)

    apply(document(3, ThroughputEntry("tcp", every_s=1800)), NOW)
    assert Slot.objects.filter(pk__in=[slot.pk, later.pk]).count() == 2
    assert not Measurement.objects.in_use().filter(test__name="on-demand").exists()


def test_it_can_be_cancelled_until_an_agent_has_it(path):
    first = request_test(path, duration_s=100)
    second = request_test(path)

    assert not cancel(first.pk, NOW)
    assert cancel(second.pk, NOW)
    assert not cancel(second.pk, NOW)
    assert on_demand(second.pk, NOW) is None
    assert {row[0] for row in SlotHost.objects.values_list("slot")} >= {first.pk}


def test_a_planned_slot_is_not_an_on_demand_test(path):
    slots.plan_slots(NOW)

    assert on_demand(Slot.objects.first().pk, NOW) is None
    assert outcomes.latest(path.pk, NOW, NOW) is None
    with pytest.raises(LookupError, match="on-demand test 123456 not found"):
        wait(on_demand, 123456, Deadline(1))


def run_with(monkeypatch, *arguments, result=None):
    """The command with a stopped clock; `result` reports the slot's outcome as soon as it is waited for."""
    monkeypatch.setattr(run_command.timezone, "now", lambda: NOW)

    def ended(load, slot_id, deadline):
        slot = Slot.objects.get(pk=slot_id)
        if result is not None:
            report(slot, result(slot))
            diagnose_awaited(slot.ends_at)
        return on_demand(slot_id, slot.ends_at)

    monkeypatch.setattr(run_command, "wait", ended)
    out = io.StringIO()
    call_command("throughput", "run", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_requests_and_waits(path, monkeypatch):
    output = run_with(monkeypatch, "s1", "s2", "--streams", "4", "--wait", result=measured)

    slot = Slot.objects.exclude(request=None).get()
    assert slot.request.parameters["streams"] == 4
    begins, ended = output.splitlines()
    assert lacks(begins, f"test {slot.pk} ", "s1 → s2 ", " 12:00:15 UTC", " 15 s") == []
    assert ended == "measured: 9 Mbit/s"


def test_command_page_and_api_have_the_same_sentence(path, monkeypatch, client):
    output = run_with(
        monkeypatch, "s1", "s2", "--wait",
        result=lambda slot: msgspec.structs.replace(real("queue"), started_at=slot.starts_at),
    )  # fmt: skip

    sentence = ThroughputTest.objects.get().sentence
    during = {"since": f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "until": f"{NOW + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"}
    [listed] = client.get(f"/api/v1/paths/{path.pk}/throughput", during, headers={"host": "localhost"}).json()
    page = client.get(f"/paths/{path.pk}/", {**during, "period": "given"}, headers={"host": "localhost"})
    assert output.splitlines()[-1] == listed["sentence"] == sentence
    assert sentence in html.unescape(page.content.decode())


def test_the_command_without_wait_says_how_to_get_the_result(path, monkeypatch):
    assert "--wait" in run_with(monkeypatch, "s1", "s2")


def test_the_command_prints_a_single_json_object(path, monkeypatch):
    answer = json.loads(run_with(monkeypatch, "s1", "s2", "--json"))

    assert (answer["state"], answer["starts_at"], answer["outcome"]) == ("planned", "2026-11-21 12:00:15+00:00", None)


def test_the_command_fails_if_the_test_fails(path, monkeypatch):
    rule = "throughput.max_minutes_per_day: 10 s after 60.0 minutes today, 60 minutes allowed"
    spec = None

    def forbidden(slot):
        nonlocal spec
        spec = plan_of(path)[0][0].spec
        return not_measured(spec, slot.starts_at, Outcome.NOT_PERMITTED, rule)

    with pytest.raises(CommandError, match=r"not permitted: throughput\.max_minutes_per_day"):
        run_with(monkeypatch, "s1", "s2", "--wait", result=forbidden)
    with pytest.raises(CommandError, match="is awaited: no result yet"):
        run_with(monkeypatch, "s1", "s2", "--wait")
    with pytest.raises(CommandError, match=r"no path.* s1 .* s9 .*in use"):
        run_with(monkeypatch, "s1", "s9")
