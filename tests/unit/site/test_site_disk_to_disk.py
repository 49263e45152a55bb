"""Disk-to-disk slots at a site: its rules, both ends, and the spooled results; no network here."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from probes.contract import Outcome, ProbeError
from probes.disk_to_disk.kind import KIND
from probes.disk_to_disk.limits import DiskLimits
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSlot, DiskToDiskSpec
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.limits.read import LimitsError, read_limits
from probes.site.limits.usage import Usage
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Declined, Permit
from probes.site.runner.slot import Slots
from probes.site.spool.spool import Spool
from probes.site.wire import Plan, read_slot
from probes.throughput.limits import ThroughputLimits
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec
from tests.facts import lacks
from tests.unit.site.test_site_runs import NOW, Clock, spooled

SPEC = DiskToDiskSpec(address="192.0.2.2", source="192.0.2.1", duration_s=10, file_bytes=5_000_000, one_time_key="k")
MEASURED = DiskToDiskRun(
    target="192.0.2.2",
    address="192.0.2.2",
    family=4,
    started_at=NOW,
    outcome=Outcome.MEASURED,
    file_bytes=5_000_000,
    moved_bytes=5_000_000,
    carried_bytes=16_000_000,
    disk_to_disk_bps=8e6,
    memory_to_memory_bps=9e6,
)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool.sqlite3")


@pytest.fixture
def folder(tmp_path):
    there = tmp_path / "disk"
    there.mkdir()
    return str(there)


class Ends:
    """Records the spec passed to each end, and returns or raises `end`."""

    def __init__(self, end=MEASURED):
        self.end = end
        self.asked = []
        self.declined = []

    def can_run(self, spec):
        return []

    def run(self, spec, deadline):
        self.asked.append(spec)
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def serve(self, spec, deadline):
        self.run(spec, deadline)
        return "received"

    def decline(self, spec, outcome, detail, deadline):
        self.declined.append((outcome, detail))


def slot(**fields):
    defaults = {
        "slot_id": 5,
        "path_id": 7,
        "test": "files",
        "role": "client",
        "starts_at": NOW,
        "ends_at": NOW + timedelta(seconds=65),
        "spec": SPEC,
    }
    return DiskToDiskSlot(**{**defaults, **fields})


def make_slots(spool, clock, ends, limits):
    usage = Usage(limits, now=clock)
    own_tests = OwnTests(now=clock)
    kind = replace(KIND, probe=lambda: ends, far_end=lambda: ends)
    permit = Permit(limits, usage, now=clock)
    return Slots(spool, permit, own_tests, kinds=[kind], now=clock), own_tests, usage


def allowing(folder, **fields):
    return Limits(disk=DiskLimits(folder=folder, min_free_bytes=0), **fields)


def test_a_senders_slot_uses_the_sites_folder_and_spools_once(spool, clock, folder):
    ends = Ends()
    slots, own_tests, usage = make_slots(spool, clock, ends, allowing(folder))

    slots.run(slot())
    slots.run(slot())

    (result,) = spooled(spool)
    assert (result.slot_id, result.path_id, result.test, result.result) == (5, 7, "files", MEASURED)
    (spec,) = ends.asked
    assert (spec.folder, spec.spec.address) == (folder, "192.0.2.2")
    assert own_tests.overlap(NOW, NOW), "pings during the transfer are tagged"
    assert usage.today() == (20.0, 8 * 16_000_000)
    assert spool.unfinished_slots() == []


def test_a_receivers_slot_leaves_no_result(spool, clock, folder):
    ends = Ends(end=None)
    slots, own_tests, _ = make_slots(spool, clock, ends, allowing(folder))

    slots.run(slot(role="server"))

    assert spooled(spool) == []
    assert ends.asked[0].folder == folder
    assert own_tests.overlap(NOW, NOW)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_transfer_starting_with_the_sites_hours_is_permitted(spool, clock, folder, role):
    ends = Ends()
    limits = allowing(folder, throughput=ThroughputLimits(hours=("12:00-13:00",)))
    slots, *_ = make_slots(spool, clock, ends, limits)
    clock.now = slots.starts_at(slot(role=role))

    slots.run(slot(role=role))

    assert len(ends.asked) == 1
    assert ends.declined == []


RULES = [
    ({"disk": DiskLimits()}, ("disk.folder: ", "none", "no file may be written")),
    (
        {"disk": DiskLimits(folder="/dev/shm", max_file_bytes=4e6)},
        ("disk.max_file_bytes: 5,000,000 wanted", " 4,000,000 allowed"),
    ),
    (
        {"disk": DiskLimits(folder="/dev/shm", min_free_bytes=1e17)},
        ("disk.min_free_bytes: ", " 5,000,000 ", "would leave"),
    ),
    (
        {"throughput": ThroughputLimits(max_duration_s=19)},
        ("throughput.max_duration_s: 20 s wanted", " 19 s allowed"),
    ),
    (
        {"throughput": ThroughputLimits(hours=("20:00-06:00",))},
        ("throughput.hours: 12:00 UTC", " 20 s ", "not within", " 20:00-06:00"),
    ),
]


@pytest.mark.parametrize(("fields", "facts"), RULES)
def test_a_forbidden_transfer_names_the_rule(spool, clock, fields, facts):
    ends = Ends()
    slots, *_ = make_slots(spool, clock, ends, Limits(**fields))

    slots.run(slot())

    (result,) = spooled(spool)
    assert (result.result.outcome, lacks(result.result.detail, *facts)) == (Outcome.NOT_PERMITTED, [])
    assert result.result.detail.startswith(facts[0])
    assert result.result.disk_to_disk_bps is None
    assert ends.asked == []


@pytest.mark.parametrize(("fields", "facts"), RULES)
def test_the_sender_learns_the_rule_that_forbids_the_receiver(spool, clock, caplog, fields, facts):
    ends = Ends()
    slots, *_ = make_slots(spool, clock, ends, Limits(**fields))

    slots.run(slot(role="server"))

    ((outcome, detail),) = ends.declined
    assert (outcome, lacks(detail, *facts)) == (Outcome.NOT_PERMITTED, [])
    assert detail.startswith(facts[0])
    assert ends.asked == []
    assert lacks(caplog.text, "disk-to-disk slot 5:", "not served", *facts) == []


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_peer_in_a_forbidden_network_is_not_contacted(spool, clock, folder, role):
    ends = Ends()
    limits = allowing(folder, networks=Networks(forbidden=("192.0.2.0/24",)))
    slots, *_ = make_slots(spool, clock, ends, limits)

    slots.run(slot(role=role))

    assert (ends.asked, ends.declined) == ([], [])


def test_minutes_of_the_day_count_both_kinds_of_tests(spool, clock, folder):
    ends = Ends()
    limits = allowing(folder, throughput=ThroughputLimits(max_minutes_per_day=0.5))
    slots, *_ = make_slots(spool, clock, ends, limits)

    slots.run(slot())
    slots.run(slot(slot_id=6))

    first, second = spooled(spool)
    assert first.result.outcome is Outcome.MEASURED
    assert lacks(second.result.detail, "throughput.max_minutes_per_day:", " 20 s ", " 0.3 minutes today") == []


@pytest.mark.parametrize("late_s", [6, 60])
def test_a_slot_that_is_noticed_too_late_is_missed(spool, clock, folder, late_s):
    clock.now = NOW + timedelta(seconds=late_s)
    slots, *_ = make_slots(spool, clock, Ends(), allowing(folder))

    slots.run(slot())

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.tool) == (Outcome.MISSED, "fetch")


def test_a_failure_is_spooled_as_its_outcome(spool, clock, folder):
    failed = ProbeError("the receiver: /data: No space left on device; make room", outcome=Outcome.TOOL_FAILURE)
    slots, *_ = make_slots(spool, clock, Ends(failed), allowing(folder))

    slots.run(slot())

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.disk_to_disk_bps) == (Outcome.TOOL_FAILURE, None)
    assert "No space left" in result.result.detail


def test_a_slot_that_ran_when_the_agent_was_killed_is_missed(spool, clock, folder):
    slots, *_ = make_slots(spool, clock, Ends(), allowing(folder))
    spool.claim_slot(slot(), NOW)

    slots.settle(None)

    (result,) = spooled(spool)
    assert result.result.outcome is Outcome.MISSED
    assert lacks(result.result.detail, "agent", "restarted") == []


def test_slots_of_both_kinds_are_due_and_distinct_when_parsed(spool, clock, folder):
    throughput = ThroughputSlot(
        slot_id=6,
        path_id=7,
        test="tcp",
        role="client",
        starts_at=NOW,
        ends_at=NOW,
        spec=ThroughputSpec(address="192.0.2.2"),
    )
    plan = Plan(version="1", site="cern", mesh="m", throughput=(throughput,), disk_to_disk=(slot(),))
    slots, *_ = make_slots(spool, clock, Ends(), allowing(folder))

    assert slots.due(plan) == [throughput, slot()]
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert [read_slot(msgspec.json.encode(slot)) for slot in plan.slots] == [throughput, slot()]


def test_a_plan_without_disk_to_disk_tests_is_read():
    plan = msgspec.json.decode(b'{"version": "1", "site": "cern", "mesh": "m"}', type=Plan)

    assert plan.slots == ()


def test_a_folder_that_is_not_absolute_is_an_error(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text('[disk]\nfolder = "disk"\n')

    with pytest.raises(LimitsError) as refused:
        read_limits(file)
    assert lacks(str(refused.value), "limits.toml:2: [disk]: folder", "absolute path", 'not "disk"') == []


def test_a_receiver_that_declines_raises_the_rule(clock):
    permit = Permit(Limits(), now=clock)

    with pytest.raises(Declined, match=r"disk\.folder"), permit.server(KIND, slot(role="server")):
        pytest.fail("permitted")
