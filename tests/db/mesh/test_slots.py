"""Slots in the database: planned once, at most one at a time on a host, each with a single outcome."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from django.db import IntegrityError, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.agents.models import AgentToken, issue_token
from monitor.mesh import tasks
from monitor.mesh.apply import apply
from monitor.mesh.document.entries import HostEntry, MeshDocument, MeshGroup, SiteEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Measurement, Site, Slot, SlotHost
from monitor.mesh.schedule import slots
from monitor.mesh.schedule.endings import GRACE_S, NOT_REPORTED, close_slot, expire_slots
from monitor.mesh.schedule.slots import plan_slots
from monitor.mesh.schedule.timetable import Timetable
from probes.contract import Outcome
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def document(sites=3, *tests):
    """A full mesh of sites, each with a host."""
    tests = tests or (ThroughputEntry("tcp", every_s=3600),)
    entries = tuple(
        SiteEntry(
            name=f"s{number}",
            latitude_deg=0.0,
            longitude_deg=0.0,
            country="CH",
            hosts=(HostEntry(name=f"s{number}", address=f"192.0.2.{number}"),),
        )
        for number in range(1, sites + 1)
    )
    names = tuple(site.name for site in entries)
    group = MeshGroup(name="all", sites=names, tests=tuple(test.name for test in tests))
    return MeshDocument("Mesh", None, entries, tests, (group,), {})


def taken():
    """(host, start, end) of each host that a slot takes."""
    return list(SlotHost.objects.values_list("host_id", "starts_at", "ends_at"))


def come(*names):
    """The agents of these sites have come to the centre."""
    for site in Site.objects.filter(name__in=names):
        issue_token(site.pk, NOW)
    AgentToken.objects.update(held_since=NOW)


def overlapping():
    return [(a, b) for a, b in combinations(taken(), 2) if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]]


def one_slot():
    apply(document(2), NOW)
    plan_slots(NOW)
    return Slot.objects.order_by("starts_at").first()


@given(
    sites=st.integers(2, 5),
    tests=st.lists(
        st.builds(
            ThroughputEntry,
            name=st.sampled_from(["x", "y", "z"]),
            every_s=st.sampled_from([120, 300, 600, 3600, 7200]),
            duration_s=st.integers(1, 60),
            omit_s=st.integers(0, 5),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda test: test.name,
    ),
    steps_s=st.lists(st.integers(0, 2000), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_host_never_has_two_slots_at_a_time(sites, tests, steps_s):
    with transaction.atomic():
        now = NOW
        apply(document(sites, *tests), now)
        for step_s in steps_s:
            planned = plan_slots(now)
            now += timedelta(seconds=step_s)
            assert planned.collisions == 0

        assert overlapping() == []
        for slot in Slot.objects.filter(outcome=None).prefetch_related("hosts").select_related("measurement__path"):
            path = slot.measurement.path
            assert {(host.host_id, host.starts_at, host.ends_at) for host in slot.hosts.all()} == {
                (host_id, slot.starts_at, slot.ends_at) for host_id in (path.source_id, path.destination_id)
            }
        transaction.set_rollback(True)  # hypothesis runs all examples in the single transaction of the test


def test_the_database_refuses_two_slots_on_a_host_at_a_time():
    slot = one_slot()
    host = slot.hosts.first()
    row = SlotHost(slot=slot, host_id=host.host_id, starts_at=slot.ends_at - timedelta(seconds=1), ends_at=slot.ends_at)

    with pytest.raises(IntegrityError, match="one_slot_per_host_at_a_time"), transaction.atomic():
        row.save()


def test_the_database_accepts_adjacent_slots():
    slot = one_slot()
    Slot.objects.exclude(pk=slot.pk).delete()
    host = slot.hosts.first()

    SlotHost.objects.create(slot=slot, host_id=host.host_id, starts_at=slot.ends_at, ends_at=slot.ends_at + HOUR)

    assert overlapping() == []


def test_every_measurement_has_its_slots_of_the_next_hour():
    apply(document(3, ThroughputEntry("tcp", every_s=600)), NOW)

    planned = plan_slots(NOW)

    counts = Counter(Slot.objects.values_list("measurement_id", flat=True))
    assert planned.slots == Slot.objects.count()
    assert len(counts) == 6
    assert set(counts.values()) <= {6, 7}
    assert (planned.no_room, planned.collisions) == (0, 0)


def test_the_first_slots_of_a_new_mesh_are_within_minutes():
    apply(document(5), NOW)

    plan_slots(NOW)

    firsts = [
        Slot.objects.filter(measurement=measurement).earliest("starts_at") for measurement in Measurement.objects.all()
    ]
    assert min(slot.starts_at for slot in firsts) == NOW + timedelta(seconds=slots.LEAD_S)
    assert max(slot.ends_at for slot in firsts) <= NOW + timedelta(minutes=6)


def test_a_slot_lasts_the_transfer_plus_a_margin():
    apply(document(2, ThroughputEntry("tcp", every_s=3600, duration_s=20, omit_s=3)), NOW)

    plan_slots(NOW)

    assert {slot.ends_at - slot.starts_at for slot in Slot.objects.all()} == {timedelta(seconds=28)}


def test_planning_again_adds_only_new_slots():
    apply(document(4), NOW)
    plan_slots(NOW)
    before = set(Slot.objects.values_list("pk", flat=True))

    again = plan_slots(NOW + timedelta(seconds=30))

    assert again.slots + again.no_room <= 1
    assert before <= set(Slot.objects.values_list("pk", flat=True))


def test_a_day_of_planning_gives_each_period_a_slot():
    apply(document(3, ThroughputEntry("tcp", every_s=1800)), NOW)

    for half_minutes in range(0, 24 * 120, 20):
        plan_slots(NOW + timedelta(seconds=30 * half_minutes))

    for measurement in Measurement.objects.all():
        starts = Slot.objects.filter(measurement=measurement).values_list("starts_at", flat=True)
        periods = [int(at.timestamp()) // 1800 for at in starts]
        assert len(periods) == len(set(periods))
        assert sorted(periods) == list(range(min(periods), max(periods) + 1))
        assert len(periods) >= 48
    assert overlapping() == []


def test_a_retired_test_gets_no_more_slots():
    apply(document(3), NOW)
    plan_slots(NOW)

    apply(document(2), NOW)
    plan_slots(NOW + HOUR)

    retired = Measurement.objects.exclude(retired_at=None)
    assert retired.count() == 4
    assert not Slot.objects.filter(
        measurement__in=retired, starts_at__gt=NOW + timedelta(seconds=slots.IN_HAND_S)
    ).exists()


def test_a_slot_without_room_is_reported_once_and_stored(caplog):
    # Three hosts, six tests of 65 s: only one can run at a time, and 6 × 65 s do not fit into 300 s.
    apply(document(3, ThroughputEntry("tcp", every_s=300, duration_s=60)), NOW)

    planned = plan_slots(NOW)
    again = plan_slots(NOW + timedelta(seconds=1))

    busy = Slot.objects.filter(outcome=Outcome.BUSY)
    assert planned.no_room == busy.count() > 0
    assert again.no_room == 0
    assert lacks(caplog.text, f" {busy.count()} throughput tests", slots.NO_ROOM) == []
    assert not SlotHost.objects.filter(slot__in=busy).exists()
    assert {slot.detail for slot in busy} == {slots.NO_ROOM}


def test_a_slot_without_room_is_retried_when_the_mesh_changes():
    tight = ThroughputEntry("tcp", every_s=300, duration_s=60)
    apply(document(3, tight), NOW)
    plan_slots(NOW)
    crowded = Slot.objects.filter(outcome=Outcome.BUSY).count()

    apply(document(2, tight), NOW)
    planned = plan_slots(NOW)

    assert crowded > 0
    assert planned.no_room == 0
    assert not Slot.objects.filter(outcome=Outcome.BUSY, starts_at__gt=NOW + timedelta(minutes=5)).exists()


def test_hosts_taken_by_another_planner_cost_only_their_slot(monkeypatch):
    apply(document(4), NOW)
    plan_slots(NOW)
    first_slot = Slot.objects.order_by("starts_at").first()
    Slot.objects.exclude(pk=first_slot.pk).delete()
    before = set(taken())

    # As if the other planner's slot had appeared after this planner looked.
    monkeypatch.setattr(slots, "taken", lambda now, priorities: (Timetable(), []))
    planned = plan_slots(NOW)

    assert planned.collisions > 0
    assert planned.slots > 0
    assert before < set(taken())
    assert overlapping() == []


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_planners_plan_everything_once():
    apply(document(4), NOW)
    ready, results, errors = threading.Barrier(3), [], []

    def plan():
        try:
            ready.wait(timeout=30)
            results.append(plan_slots(NOW))
        except Exception as error:  # noqa: BLE001 - whatever it was, the test must see it
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=plan) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert errors == []
    assert sorted(result.slots for result in results)[:2] == [0, 0]
    assert [result.collisions for result in results] == [0, 0, 0]
    assert sum(result.slots for result in results) == Slot.objects.count() > 0
    assert overlapping() == []


def test_a_slot_is_closed_once():
    slot = one_slot()

    assert close_slot(slot.pk, Outcome.TOOL_FAILURE, "iperf3: no route")
    assert not close_slot(slot.pk, Outcome.MEASURED)

    slot.refresh_from_db()
    assert (slot.outcome, slot.detail) == ("tool_failure", "iperf3: no route")


def test_a_slot_that_does_not_exist_is_not_closed():
    assert not close_slot(123456, Outcome.MEASURED)


def test_an_unknown_outcome_is_refused():
    with pytest.raises(ValueError, match="good"):
        close_slot(one_slot().pk, "good")


def test_a_slot_without_a_report_is_missed_after_the_grace():
    slot = one_slot()
    grace = timedelta(seconds=GRACE_S)

    assert expire_slots(slot.ends_at + grace) == 0
    assert expire_slots(slot.ends_at + grace + timedelta(seconds=1)) == 1
    assert expire_slots(slot.ends_at + grace + timedelta(seconds=1)) == 0

    slot.refresh_from_db()
    assert (slot.outcome, slot.detail) == ("missed", NOT_REPORTED)


def test_a_late_result_replaces_missed():
    slot = one_slot()
    expire_slots(slot.ends_at + HOUR)

    assert close_slot(slot.pk, Outcome.MEASURED)

    slot.refresh_from_db()
    assert (slot.outcome, slot.detail) == ("measured", "")
    assert expire_slots(slot.ends_at + HOUR) == 0


def test_missed_replaces_nothing():
    slot = one_slot()
    close_slot(slot.pk, Outcome.REFUSED)

    assert not close_slot(slot.pk, Outcome.MISSED)


def test_the_task_plans_and_expires(monkeypatch):
    apply(document(3), NOW)
    monkeypatch.setattr(tasks.timezone, "now", lambda: NOW)
    come("s1", "s2", "s3")
    first = tasks.plan_slots()
    ended = Slot.objects.filter(ends_at__lt=NOW + HOUR).count()
    monkeypatch.setattr(tasks.timezone, "now", lambda: NOW + HOUR + timedelta(seconds=GRACE_S))
    second = tasks.plan_slots()

    assert first["planned"] > 0
    assert first["expired"] == 0
    assert second["expired"] == ended > 0


def test_planning_takes_a_fixed_number_of_queries(django_assert_max_num_queries):
    apply(document(12), NOW)

    with django_assert_max_num_queries(12):
        planned = plan_slots(NOW)

    assert planned.slots >= 132


def test_a_changed_length_applies_to_slots_that_have_not_begun():
    apply(document(2, ThroughputEntry("tcp", every_s=600)), NOW)
    plan_slots(NOW)
    running = Slot.objects.earliest("starts_at")
    later = running.starts_at + timedelta(seconds=5)

    apply(document(2, replace(ThroughputEntry("tcp", every_s=600), duration_s=60)), later)
    plan_slots(later)

    lengths = Counter((slot.ends_at - slot.starts_at).total_seconds() for slot in Slot.objects.all())
    assert Slot.objects.filter(pk=running.pk).exists()
    assert set(lengths) == {15, 65}
    assert overlapping() == []


def test_a_new_measurement_waits_for_the_agents_of_both_ends():
    """The server of an agent that is not there yet refuses every test."""
    apply(document(3), NOW)
    come("s1", "s2")

    plan_slots(NOW, waits_for_agents=True)
    pairs = Slot.objects.values_list("measurement__path__source__name", "measurement__path__destination__name")
    assert set(pairs) == {("s1", "s2"), ("s2", "s1")}

    come("s3")
    plan_slots(NOW + timedelta(seconds=30), waits_for_agents=True)
    assert len(set(pairs.all())) == 6


def test_an_agent_that_does_not_come_is_shown_by_its_tests():
    apply(document(2), NOW)
    come("s1")

    assert plan_slots(NOW + timedelta(minutes=59), waits_for_agents=True).slots == 0
    assert plan_slots(NOW + timedelta(minutes=61), waits_for_agents=True).slots > 0
