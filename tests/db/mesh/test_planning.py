"""Uplinks, priorities, slip and budgets in planning; and tests for which the receiver connects."""

from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from django.db import IntegrityError, transaction
from msgspec.structs import replace

from monitor.archive.queries.operation.ledger import ledger_of_path
from monitor.archive.queries.throughput.series import throughput_series
from monitor.mesh.apply import apply
from monitor.mesh.document.entries import HostEntry, MeshDocument, MeshGroup, SiteEntry
from monitor.mesh.document.reader import MeshError, parse
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Host, Slot, SlotUplink, Uplink
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import slots
from monitor.mesh.schedule.endings import close_slot
from monitor.mesh.schedule.on_demand import NoFreeSlot, Settings, ask, find_path
from monitor.mesh.schedule.slots import plan_slots
from probes.contract import Outcome
from probes.transfers.spec import ThroughputRun
from tests.db.mesh_of_three import batch, delivered
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def site(name, *hosts, uplink=None):
    entries = tuple(
        HostEntry(name=host, address=f"192.0.2.{sum(map(ord, host)) % 250 + 1}", uplink=uplink)
        for host in hosts or (name,)
    )
    return SiteEntry(name=name, latitude_deg=0.0, longitude_deg=0.0, country="CH", hosts=entries)


HOURLY_SIX = (ThroughputEntry("tcp", every_s=600),)


def mesh(*sites, tests=HOURLY_SIX, budgets=None):
    names = tuple(site.name for site in sites)
    group = MeshGroup(name="all", sites=names, tests=tuple(test.name for test in tests))
    return MeshDocument("Mesh", None, sites, tests, (group,), {}, budgets=budgets or {})


def shared(**options):
    """Two hosts of site a share its uplink; b and c have a host each."""
    return mesh(site("a", "a1", "a2", uplink="wan"), site("b"), site("c"), **options)


def at_once(names):
    """Pairs of slots that overlap in time, of those in which these hosts take part."""
    rows = Slot.objects.filter(outcome=None).select_related(
        "measurement__path__source", "measurement__path__destination"
    )
    intervals = [
        row for row in rows if {row.measurement.path.source.name, row.measurement.path.destination.name} & set(names)
    ]
    return [(a, b) for a, b in combinations(intervals, 2) if a.starts_at < b.ends_at and b.starts_at < a.ends_at]


def test_tests_that_share_an_uplink_exclude_each_other():
    apply(shared(), NOW)
    planned = plan_slots(NOW)

    assert planned.slots > 20
    assert at_once(["a1", "a2"]) == []
    taken = SlotUplink.objects.filter(uplink__name="wan")
    assert taken.count() == Slot.objects.filter(outcome=None, hosts__host__site__name="a").count() > 0


def test_without_the_uplink_they_would_run_in_parallel():
    apply(mesh(site("a", "a1", "a2"), site("b"), site("c")), NOW)
    plan_slots(NOW)

    assert at_once(["a1", "a2"]) != []


def test_the_database_refuses_two_slots_on_an_uplink_at_a_time():
    apply(shared(), NOW)
    plan_slots(NOW)
    reservation = SlotUplink.objects.order_by("starts_at").first()

    with pytest.raises(IntegrityError, match="one_slot_per_uplink_at_a_time"), transaction.atomic():
        SlotUplink.objects.create(
            slot=reservation.slot,
            uplink=reservation.uplink,
            starts_at=reservation.starts_at,
            ends_at=reservation.ends_at,
        )


def test_a_test_on_demand_waits_for_the_uplink():
    apply(shared(tests=(ThroughputEntry("tcp", every_s=86_400),)), NOW - timedelta(hours=5))
    first = ask(find_path("a1", "b"), Settings(), by="somebody", now=NOW)

    second = ask(find_path("c", "a2"), Settings(), by="somebody", now=NOW)

    assert second.starts_at >= first.ends_at


def test_an_uplink_is_added_and_removed_with_the_file():
    added = apply(shared(), NOW)
    assert [str(change) for change in added.select("added", "uplink")] == ["added uplink a/wan"]
    plan_slots(NOW)

    changes = apply(mesh(site("a", "a1", "a2"), site("b"), site("c")), NOW)

    assert [str(change) for change in changes.select("retired", "uplink")] == ["retired uplink a/wan"]
    assert "changed host a1: uplink a/wan → none" in [str(change) for change in changes.items]
    assert not Host.objects.exclude(uplink=None).exists()
    assert changes.slots_deleted > 0, "slots of these hosts are planned again"
    back = apply(shared(), NOW)
    assert Uplink.objects.get(retired_at=None).name == "wan"
    [again] = back.select("added", "uplink")
    assert lacks(str(again), "added uplink a/wan", "in use again", "history") == []
    assert "→" not in str(again)


def test_the_test_of_higher_priority_gets_the_time():
    usual = ThroughputEntry("usual", every_s=600, duration_s=150)
    both = (usual, ThroughputEntry("urgent", every_s=600, duration_s=100, priority=5))
    pair = (site("b"), site("c"))
    on_an_empty_table = times_in_an_empty_plan(mesh(*pair, tests=both), "urgent")
    apply(mesh(*pair, tests=(usual,)), NOW)
    plan_slots(NOW)
    before = times("usual")

    apply(mesh(*pair, tests=both), NOW)
    planned = plan_slots(NOW)

    assert planned.moved > 0
    assert at_once(["b"]) == []
    # Slots that agents already have run; after them, the urgent tests run as in an empty plan.
    later = NOW + timedelta(seconds=600)
    assert [at for at in times("urgent") if at > later] == [at for at in on_an_empty_table if at > later]
    assert [int(at.timestamp()) // 600 for at in times("usual")] == [int(at.timestamp()) // 600 for at in before]


def times(test):
    """The start times of all slots of a test, including those without room."""
    return sorted(Slot.objects.filter(measurement__test__name=test).values_list("starts_at", flat=True))


def times_in_an_empty_plan(document, test):
    with transaction.atomic():
        apply(document, NOW)
        plan_slots(NOW)
        start_times = times(test)
        transaction.set_rollback(True)
    return start_times


def test_a_test_that_may_not_slip_that_far_is_busy():
    tests = (
        ThroughputEntry("long", every_s=3600, duration_s=1700, priority=1),
        ThroughputEntry("short", every_s=600, slip_s=30),
    )
    apply(mesh(site("b"), site("c"), tests=tests), NOW)
    plan_slots(NOW)

    busy = Slot.objects.filter(outcome=Outcome.BUSY)
    assert {(slot.measurement.test.name, slot.detail) for slot in busy} == {("short", slots.TOO_LATE)}


def minutes(**of_scope):
    return {scope: {"max_minutes_per_day": most} for scope, most in of_scope.items()}


@pytest.mark.parametrize(("scope", "most"), [("path", 6), ("host", 12), ("uplink", 3)])
def test_tests_over_a_daily_budget_are_not_planned(scope, most):
    """A day of planning. By hand: the tests of 60 s that begin in the day are at most this many minutes for each."""
    test = ThroughputEntry("tcp", every_s=1800, duration_s=60)
    apply(shared(tests=(test,), budgets=minutes(**{scope: most})), NOW)
    midnight = NOW.replace(hour=0)

    for step in range(11 * 2):
        plan_slots(NOW + timedelta(minutes=30 * step))

    rows = Slot.objects.filter(starts_at__lt=midnight + timedelta(days=1), outcome=None)
    counts = {}
    for row in rows.select_related("measurement__path__source__uplink", "measurement__path__destination__uplink"):
        path = row.measurement.path
        names = {
            "path": [str(path)],
            "host": [path.source.name, path.destination.name],
            "uplink": [str(host.uplink) for host in (path.source, path.destination) if host.uplink],
        }[scope]
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    assert max(counts.values()) == most
    refused = Slot.objects.filter(outcome=Outcome.NOT_PERMITTED)
    assert refused.count() > 0
    for row in refused:
        assert row.detail.startswith(f"budget.{scope}.max_minutes_per_day: ")
        assert lacks(row.detail, " 60 s after", f" {most}.0 minutes") == []
        assert not row.hosts.exists()


def test_the_ledger_distinguishes_a_budget_from_limits():
    apply(mesh(site("b"), site("c"), budgets=minutes(path=0.1)), NOW)
    plan_slots(NOW)
    path = find_path("b", "c")
    other = Slot.objects.filter(measurement__path=path).order_by("starts_at").last()
    Slot.objects.filter(pk=other.pk).update(detail="throughput.hours: closed")

    lines = ledger_of_path(path.pk, NOW, NOW + HOUR)

    counts = {(line.outcome, line.reason): line.count for line in lines}
    assert counts[("not_permitted", "over_budget")] >= 4
    assert counts[("not_permitted", None)] == 1


def test_byte_budgets_use_carried_bytes_else_the_fastest_test():
    """1 GB per test was carried; a budget of 3.5 GB then has room for two more, by hand."""
    pinger = PingEntry("pinger", every_s=60)
    apply(mesh(site("b"), site("c"), tests=(pinger,), budgets={"path": {"max_bytes_per_day": 3.5e9}}), NOW)
    path = find_path("b", "c")
    first = ask(path, Settings(), by="somebody", now=NOW)
    close_slot(first.pk, Outcome.MEASURED, None, 10**9)

    later = NOW + timedelta(minutes=30)
    for _ in range(2):
        ask(path, Settings(), by="somebody", now=later)
    with pytest.raises(NoFreeSlot) as raised:
        ask(path, Settings(), by="somebody", now=later)

    refused = str(raised.value)
    assert refused.startswith("budget.path.max_bytes_per_day: ")
    assert lacks(refused, "about 1 GB after", " 3 GB", " b → c ", "2026-11-21", " 3.5 GB allowed") == []
    assert ask(path, Settings(duration_s=4), by="somebody", now=later).pk, "a shorter test has room"


def test_raising_a_budget_restores_the_tests():
    apply(mesh(site("b"), site("c"), budgets=minutes(path=0.1)), NOW)
    plan_slots(NOW)

    apply(mesh(site("b"), site("c"), budgets=minutes(path=1000)), NOW)
    planned = plan_slots(NOW)

    assert planned.slots >= 8
    assert not Slot.objects.filter(
        outcome=Outcome.NOT_PERMITTED, starts_at__gt=NOW + timedelta(seconds=slots.IN_HAND_S)
    ).exists()


def test_the_file_has_uplinks_budgets_priorities_and_slip():
    text = """
[mesh]
name = "Two"
[budget.path]
max_minutes_per_day = 20
[budget.host]
max_bytes_per_day = 50e9
[[site]]
name = "a"
latitude_deg = 1
longitude_deg = 1
country = "CH"
uplink = "wan"
[[site.host]]
address = "192.0.2.1"
[[site.host]]
name = "a2"
address = "192.0.2.2"
uplink = "lab"
[[site]]
name = "b"
latitude_deg = 1
longitude_deg = 1
country = "CH"
[[site.host]]
address = "192.0.2.3"
[[test]]
name = "tcp"
kind = "throughput"
every_s = 3600
reverse = true
priority = 5
slip_s = 600
[[group]]
name = "all"
shape = "mesh"
sites = ["a", "b"]
tests = ["tcp"]
"""
    document = parse(text.encode(), "mesh.toml")

    assert [host.uplink for site in document.sites for host in site.hosts] == ["wan", "lab", None]
    assert document.budgets == {"path": {"max_minutes_per_day": 20.0}, "host": {"max_bytes_per_day": 50e9}}
    [test] = document.tests
    assert (test.reverse, test.priority, test.slip_s, test.parameters["reverse"]) == (True, 5, 600, True)


def reverse_slot():
    apply(mesh(site("b"), site("c"), tests=(ThroughputEntry("tcp", every_s=3600, reverse=True),)), NOW)
    plan_slots(NOW)
    path = find_path("b", "c")
    return path, Slot.objects.filter(measurement__path=path).first()


def test_with_reverse_the_receiver_connects_to_the_sender():
    path, slot = reverse_slot()

    ends = [plan_for(site, NOW).throughput for site in (path.source.site, path.destination.site)]

    sender, receiver = (next(part for part in end if part.slot_id == slot.pk) for end in ends)
    assert (sender.role, receiver.role) == ("server", "client")
    assert sender.spec == receiver.spec
    assert (receiver.spec.address, receiver.spec.source) == (path.source.address, path.destination.address)
    assert receiver.spec.reverse
    assert receiver.path_id == path.pk


def test_its_result_belongs_to_the_path_of_the_data():
    path, slot = reverse_slot()
    run = ThroughputRun(
        target=path.source.address, address=path.source.address, family=4, started_at=slot.starts_at, reverse=True,
        outcome=Outcome.MEASURED, throughput_bps=9e6, duration_s=10.0,
    )  # fmt: skip

    receipt = store(path.destination.site.pk, batch(delivered(path, run, slot_id=slot.pk)), slot.ends_at)

    assert receipt.refused == ()
    [point] = throughput_series(path.pk, NOW, slot.ends_at)
    assert point.throughput_bps == 9e6
    back = find_path("c", "b")
    assert throughput_series(back.pk, NOW, slot.ends_at) == []


def test_tests_that_do_not_fit_on_an_uplink_are_reported():
    sites = "\n".join(
        f"""
[[site]]
name = "{name}"
latitude_deg = 1
longitude_deg = 1
country = "CH"
{'uplink = "wan"' if name == "a" else ""}
[[site.host]]
address = "192.0.2.{number}0"
[[site.host]]
name = "{name}2"
address = "192.0.2.{number}1"
"""
        for number, name in enumerate("ab", 1)
    )
    text = f"""
[mesh]
name = "Two"
{sites}
[[test]]
name = "tcp"
kind = "throughput"
every_s = 300
duration_s = 40
[[group]]
name = "all"
shape = "mesh"
sites = ["a", "b"]
tests = ["tcp"]
"""
    with pytest.raises(MeshError, match=r'uplink "wan".* site "a" .* 8 tests .*45 s .*every 300 s'):
        parse(text.encode(), "mesh.toml")


def test_a_test_with_changed_settings_is_planned_with_them():
    pair = (site("b"), site("c"))
    test = ThroughputEntry("tcp", every_s=600)
    apply(mesh(*pair, tests=(test,)), NOW)
    plan_slots(NOW)

    apply(mesh(*pair, tests=(replace(test, priority=3, slip_s=60),)), NOW)
    plan_slots(NOW)

    assert Slot.objects.filter(outcome=None).count() >= 10
