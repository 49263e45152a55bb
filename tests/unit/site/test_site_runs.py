"""Ping cycles and throughput slots, with fake probes in place of the network."""

import logging
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import msgspec
import pytest

from probes.contract import LoadedPeriods, NotPermitted, Outcome, ProbeError
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping import kind as ping
from probes.ping.limits import PingLimits
from probes.ping.spec import PingTask
from probes.site.journal import LastProblemHandler
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner.cycle import Cycles
from probes.site.runner.destination_tests import DestinationTests
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.slot import Slots
from probes.site.spool.spool import Spool
from probes.site.wire import PLANNED_LATE, Plan
from probes.throughput import kind as throughput
from probes.throughput.limits import ThroughputLimits
from probes.throughput.probe import Iperf3Server
from probes.throughput.spec import ThroughputSlot
from probes.transfers.iperf3.report import ServerBusy, ToolFailure
from probes.transfers.iperf3.report import ServerRefused as Refused
from probes.transfers.iperf3.transfer import ServerStatistics
from probes.transfers.spec import KernelCounts, ServerReport, ThroughputRun, ThroughputSpec
from tests.facts import lacks
from tests.spools import count_queued
from tests.unit.site.test_spool import next_batch

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class PingProbe:
    """Answers for each target and size at once; calls `meanwhile` in the middle."""

    def __init__(self, clock, meanwhile=lambda: None):
        self.clock = clock
        self.meanwhile = meanwhile
        self.loaded_rtts_ms = None
        self.specs: list[PingSpec] = []

    def can_run(self, spec):
        return []

    def run(self, spec, deadline, load_periods):
        self.specs.append(spec)
        self.meanwhile()
        self.load_periods = load_periods()
        return tuple(
            Burst(
                target=target.address,
                address=target.address,
                family=target.family,
                packet_bytes=size,
                started_at=self.clock(),
                outcome=Outcome.MEASURED,
                sent=1,
                received=1,
                rtts_ms=(float(index),),
                loaded_rtts_ms=self.loaded_rtts_ms,
            )
            for index, target in enumerate(spec.targets)
            for size in spec.packet_bytes
        )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool.sqlite3")


@pytest.fixture
def own_tests(clock):
    return OwnTests(now=clock)


def spooled(spool):
    batch = next_batch(spool, max_results=1000)
    return [] if batch is None else list(batch.results)


def task(*addresses, test="pinger", **fields):
    targets = tuple(PingTarget(address=address, path_id=index) for index, address in enumerate(addresses, start=1))
    return PingTask(test=test, every_s=60, spec=PingSpec(targets=targets, **fields))


def make_cycles(spool, limits, own_tests, probe, *, now, tests_at=dict):
    """The runner of cycles for pings with this probe."""
    cycles = Cycles(spool, Permit(limits, now=now), own_tests, now=now, tests_at=tests_at)
    return SimpleNamespace(run=partial(cycles.run, replace(ping.KIND, probe=lambda: probe)), probe=probe)


def test_a_cycle_spools_a_burst_per_target_and_size(spool, own_tests, clock):
    make_cycles(spool, Limits(), own_tests, PingProbe(clock), now=clock).run(task("192.0.2.1", "192.0.2.2"))

    results = spooled(spool)
    assert [(result.path_id, result.result.packet_bytes) for result in results] == [
        (1, 100),
        (1, 1000),
        (2, 100),
        (2, 1000),
    ]
    assert {result.test for result in results} == {"pinger"}
    assert not any(result.during_test for result in results)


def test_two_paths_to_the_same_address_have_separate_bursts(spool, own_tests, clock):
    make_cycles(spool, Limits(), own_tests, PingProbe(clock), now=clock).run(task("192.0.2.1", "192.0.2.1"))

    assert {(result.path_id, result.result.rtts_ms) for result in spooled(spool)} == {(1, (0.0,)), (2, (1.0,))}


def test_a_host_name_is_resolved_once_and_stays_the_target(spool, own_tests, clock):
    probe = PingProbe(clock)

    limits = Limits(networks=Networks(allowed=("127.0.0.1/32",)))
    make_cycles(spool, limits, own_tests, probe, now=clock).run(task("localhost", packet_bytes=(100,)))

    assert probe.specs[0].targets[0].address == "127.0.0.1"
    (result,) = spooled(spool)
    assert (result.result.target, result.result.address) == ("localhost", "127.0.0.1")


def test_forbidden_and_failing_targets_do_not_stop_the_others(spool, own_tests, clock):
    probe = PingProbe(clock)
    limits = Limits(networks=Networks(forbidden=("198.51.100.0/24",)))
    cycle = task("198.51.100.1", "nowhere.invalid", "192.0.2.1", "224.0.0.1", packet_bytes=(100,))

    make_cycles(spool, limits, own_tests, probe, now=clock).run(cycle)

    outcomes = {result.path_id: result.result.outcome for result in spooled(spool)}
    assert outcomes == {
        1: Outcome.NOT_PERMITTED,
        2: Outcome.DNS_FAILURE,
        3: Outcome.MEASURED,
        4: Outcome.NOT_PERMITTED,
    }
    assert [target.address for target in probe.specs[0].targets] == ["192.0.2.1"]


def test_a_forbidden_burst_names_the_rule_and_sends_nothing(spool, own_tests, clock):
    limits = Limits(networks=Networks(forbidden=("192.0.2.0/24",)))
    probe = PingProbe(clock)

    make_cycles(spool, limits, own_tests, probe, now=clock).run(task("192.0.2.1", packet_bytes=(100,)))

    (result,) = spooled(spool)
    assert result.result.detail == "networks.forbidden: 192.0.2.1 is in 192.0.2.0/24"
    assert (result.result.sent, result.result.rtts_ms) == (0, ())
    assert probe.specs == []


def test_a_cycle_that_overlaps_the_previous_is_busy(spool, own_tests, clock):
    cycle = task("192.0.2.1", packet_bytes=(100,))
    cycles = make_cycles(spool, Limits(), own_tests, PingProbe(clock), now=clock)
    cycles.probe.meanwhile = lambda: cycles.run(cycle)

    cycles.run(cycle)

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.BUSY, Outcome.MEASURED]
    cycles.probe.meanwhile = lambda: None
    cycles.run(cycle)
    assert count_queued(spool) == 3


def test_a_probe_error_is_the_outcome_of_every_target(spool, own_tests, clock):
    def refuse():
        raise NotPermitted("no ICMP socket; set net.ipv4.ping_group_range")

    make_cycles(spool, Limits(), own_tests, PingProbe(clock, refuse), now=clock).run(task("192.0.2.1", "192.0.2.2"))

    results = spooled(spool)
    assert {result.result.outcome for result in results} == {Outcome.NOT_PERMITTED}
    assert {result.result.detail for result in results} == {"no ICMP socket; set net.ipv4.ping_group_range"}
    assert len(results) == 4


BUGS = [
    ZeroDivisionError(),
    RecursionError("deep"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    ValueError("a\0b"),
]


def count_bugs(run):
    """The bugs that the agent's journal counts while `run` runs."""
    handler = LastProblemHandler()
    logging.getLogger().addHandler(handler)
    try:
        run()
    finally:
        logging.getLogger().removeHandler(handler)
    return handler.bugs


def assert_is_fault_of_the_agent(result):
    assert result.outcome is Outcome.TOOL_FAILURE
    assert "unexpected error in the agent" in result.detail
    assert result.detail.isprintable()


@pytest.mark.parametrize("bug", BUGS, ids=repr)
def test_a_bug_in_a_cycle_is_a_failure_of_each_target(spool, own_tests, clock, bug):
    def fail():
        raise bug

    cycles = make_cycles(spool, Limits(), own_tests, PingProbe(clock, fail), now=clock)

    assert count_bugs(lambda: cycles.run(task("192.0.2.1", "192.0.2.2"))) == 1

    results = spooled(spool)
    assert len(results) == 4
    for result in results:
        assert_is_fault_of_the_agent(result.result)


class WaitingProbe:
    """A probe whose runs last until they are let go, each by itself."""

    def __init__(self, clock):
        self.clock = clock
        self.began = threading.Semaphore(0)
        self.may_end = [threading.Event() for _ in range(4)]
        self.ran = 0

    def can_run(self, spec):
        return []

    def run(self, spec, deadline, load_periods):
        number, self.ran = self.ran, self.ran + 1
        self.began.release()
        assert self.may_end[number].wait(20)
        return PingProbe(self.clock).run(spec, deadline, load_periods)


def even_task(*addresses, every_s=60):
    pattern = {"count": 10, "packet_bytes": (100,), "spacing_s": every_s / 10, "pattern": "even"}
    return msgspec.structs.replace(task(*addresses, test="even", **pattern), every_s=every_s)


def test_an_even_cycle_begins_while_the_one_before_awaits_replies(spool, own_tests, clock):
    """A third is busy, and none counts against the rate of its own test."""
    limits = Limits(ping=PingLimits(max_packets_per_s=0.17))
    probe = WaitingProbe(clock)
    with patch("probes.packets.engine.even_cycle.time.sleep"):
        cycles = make_cycles(spool, limits, own_tests, probe, now=clock)
        threads = [threading.Thread(target=cycles.run, args=(even_task("192.0.2.1"),)) for _ in range(2)]
        for thread in threads:
            thread.start()
            assert probe.began.acquire(timeout=20)
        cycles.run(even_task("192.0.2.1"))
        assert count_queued(spool) == 1
        for thread, event in zip(threads, probe.may_end, strict=False):
            event.set()
            thread.join(20)
        # The permits of both are given back: another cycle may use the whole rate.
        probe.may_end[2].set()
        cycles.run(even_task("192.0.2.1"))

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.BUSY, *[Outcome.MEASURED] * 3]


def test_a_ping_probe_gets_the_periods_of_throughput_tests(spool, own_tests, clock):
    clock.now = NOW - timedelta(seconds=20)
    with own_tests.running():
        clock.now = NOW - timedelta(seconds=10)
    cycles = make_cycles(spool, Limits(), own_tests, PingProbe(clock), now=clock)

    with own_tests.running():
        clock.now = NOW
        cycles.run(task("192.0.2.1", packet_bytes=(100,)))

    before, ten_s = NOW - timedelta(seconds=20), timedelta(seconds=10)
    assert cycles.probe.load_periods == LoadedPeriods([(before, before + ten_s), (before + ten_s, NOW)])


def test_a_probe_is_told_of_tests_at_its_destinations(spool, own_tests, clock):
    limits = Limits(networks=Networks(forbidden=("192.0.2.1/32",)))
    during = NOW, NOW + timedelta(seconds=12)
    probe = PingProbe(clock)
    planned = task("192.0.2.1", "192.0.2.2", "192.0.2.3")

    make_cycles(spool, limits, own_tests, probe, now=clock, tests_at=lambda: {1: [during], 3: [during]}).run(planned)

    # The first target is not permitted, so the third is the second of the spec.
    assert probe.load_periods == LoadedPeriods([], {1: [during]})


@pytest.mark.parametrize("clock_off_s", [None, 90.0])
def test_tests_at_destinations_are_by_the_clock_of_this_host(clock_off_s):
    begin_s = int(NOW.timestamp())
    plan = Plan(version="v1", site="slac", mesh="test", destination_tests={7: ((begin_s, begin_s + 14),)})
    tests = DestinationTests(lambda: msgspec.json.decode(msgspec.json.encode(plan), type=Plan), lambda: clock_off_s)

    off = timedelta(seconds=clock_off_s or 0.0)

    assert tests.periods() == {7: ((NOW + off, NOW + timedelta(seconds=14) + off),)}
    assert DestinationTests(lambda: None, lambda: None).periods() == {}


@pytest.mark.parametrize(("loaded_rtts_ms", "tagged"), [(None, False), ((5.0, None), False), ((), True)])
def test_a_burst_is_tagged_if_all_its_packets_were_under_load(spool, own_tests, clock, loaded_rtts_ms, tagged):
    """Other bursts report the packets under load separately."""
    probe = PingProbe(clock)
    probe.loaded_rtts_ms = loaded_rtts_ms

    with own_tests.running():
        make_cycles(spool, Limits(), own_tests, probe, now=clock).run(task("192.0.2.1", packet_bytes=(100,)))

    (result,) = spooled(spool)
    assert (result.during_test, result.result.loaded_rtts_ms) == (tagged, loaded_rtts_ms)


class ThroughputProbe:
    def __init__(self, *ends):
        self.ends = list(ends)
        self.ran = 0

    def can_run(self, spec):
        return []

    def run(self, spec, deadline):
        self.ran += 1
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        return end


GOOD = ThroughputRun(
    target="192.0.2.2", address="192.0.2.2", family=4, started_at=NOW, outcome=Outcome.MEASURED, throughput_bps=9e6
)


def slot(**fields):
    defaults = {
        "slot_id": 5,
        "path_id": 7,
        "test": "tcp",
        "role": "client",
        "starts_at": NOW,
        "ends_at": NOW + timedelta(seconds=15),
        "spec": ThroughputSpec(address="192.0.2.2", source="192.0.2.1", duration_s=10),
    }
    return ThroughputSlot(**{**defaults, **fields})


def make_slots(spool, own_tests, clock, probe=None, serve=lambda spec, deadline: ServerStatistics(), limits=None):
    probe = probe if probe is not None else ThroughputProbe(GOOD)
    far_end = SimpleNamespace(serve=serve, decline=Iperf3Server().decline)
    kind = replace(throughput.KIND, probe=lambda: probe, far_end=lambda: far_end)
    permit = Permit(limits if limits is not None else Limits(), now=clock)
    return Slots(spool, permit, own_tests, kinds=[kind], now=clock)


def test_a_clients_slot_is_measured_once_and_its_result_names_it(spool, own_tests, clock):
    probe = ThroughputProbe(GOOD)
    slots = make_slots(spool, own_tests, clock, probe)

    slots.run(slot())
    slots.run(slot())

    (result,) = spooled(spool)
    assert (result.slot_id, result.path_id, result.test, result.result) == (5, 7, "tcp", GOOD)
    assert probe.ran == 1
    assert own_tests.overlap(NOW, NOW)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize("late_s", [3.5, 6.0, 60.0, 3600.0])
def test_a_slot_that_is_noticed_too_late_is_missed(spool, own_tests, clock, late_s):
    clock.now = NOW + timedelta(seconds=late_s)
    probe = ThroughputProbe(GOOD)

    make_slots(spool, own_tests, clock, probe).run(slot())

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.detail) == (Outcome.MISSED, f"agent started {late_s} s late")
    assert result.result.throughput_bps is None
    assert probe.ran == 0


def test_a_slot_that_began_before_its_plan_arrived_is_not_late(spool, own_tests, clock):
    slots = make_slots(spool, own_tests, clock)
    old, new = slot(slot_id=4), slot(slot_id=5)
    plans = [Plan(version=str(number), site="cern", mesh="m", throughput=(old, new)[:number]) for number in (1, 2)]
    clock.now = NOW + timedelta(seconds=6)
    slots.learn(*plans)
    clock.now += timedelta(seconds=1)

    slots.run(old)
    slots.run(new)

    late, planned_late = (delivered.result.detail for delivered in spooled(spool))
    assert late == "agent started 7.0 s late"
    assert planned_late.startswith(PLANNED_LATE)
    assert "6.0 s after it began" in planned_late


class TimedProbe(ThroughputProbe):
    """Takes the given time, by the fake clock."""

    def __init__(self, clock, seconds, *ends):
        super().__init__(*ends)
        self.clock = clock
        self.seconds = seconds

    def run(self, spec, deadline):
        self.clock.now += timedelta(seconds=self.seconds)
        return super().run(spec, deadline)


NOT_ENDED = ToolFailure(
    "iperf3 did not finish within the time of the test: 9,000,000 bytes transferred",
    figures={"sent_bytes": 9_000_000, "duration_s": 10.0},
)


@pytest.mark.parametrize("servers_clock_ahead_s", [0.0, 0.7])
def test_a_late_test_cut_off_by_the_end_of_its_slot_is_missed(spool, own_tests, clock, servers_clock_ahead_s):
    clock.now = NOW + timedelta(seconds=2.5)
    probe = TimedProbe(clock, 12.5 - servers_clock_ahead_s, NOT_ENDED)

    make_slots(spool, own_tests, clock, probe).run(slot())

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.throughput_bps) == (Outcome.MISSED, None)
    assert lacks(result.result.detail, "started 2.5 s late", "slot ended before", str(NOT_ENDED)) == []


@pytest.mark.parametrize(("late_s", "lasted_s"), [(0.0, 15.0), (2.5, 5.0)])
def test_a_test_that_failed_on_its_own_was_not_missed(spool, own_tests, clock, late_s, lasted_s):
    """It had begun in time, or there was time left."""
    clock.now = NOW + timedelta(seconds=late_s)

    make_slots(spool, own_tests, clock, TimedProbe(clock, lasted_s, NOT_ENDED)).run(slot())

    (result,) = spooled(spool)
    run = result.result
    assert (run.outcome, run.detail) == (Outcome.TOOL_FAILURE, str(NOT_ENDED))
    assert (run.sent_bytes, run.duration_s) == (9_000_000, 10.0)
    assert run.started_at == NOW + timedelta(seconds=late_s), "when it began, as of every test"


def test_slow_preparation_is_done_before_a_test_begins(spool, own_tests, clock, monkeypatch):
    """On a machine that generates keys in 1.5 s, a client that is called 2 s ahead begins when its slot does."""
    deeds = []

    def prepare(secret):
        clock.now += timedelta(seconds=1.5)
        deeds.append((secret, clock.now))

    class Noting(ThroughputProbe):
        def run(self, spec, deadline):
            deeds.append(("runs", clock.now))
            return super().run(spec, deadline)

    def wait(seconds):
        clock.now += timedelta(seconds=seconds)

    monkeypatch.setattr("probes.transfers.iperf3.authentication.prepare_keys", prepare)
    slots = make_slots(spool, own_tests, clock, Noting(GOOD))
    monkeypatch.setattr(slots._pause, "wait", wait)
    keyed = slot(spec=msgspec.structs.replace(slot().spec, one_time_key="of this slot"))
    clock.now = slots.starts_at(keyed)

    slots.run(keyed)

    assert deeds == [("of this slot", NOW - timedelta(seconds=0.5)), ("runs", NOW)]
    assert not own_tests.overlap(NOW - timedelta(seconds=2), NOW - timedelta(seconds=0.1))


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_test_that_starts_with_its_sites_hours_is_permitted(spool, own_tests, clock, role):
    limits = Limits(throughput=ThroughputLimits(hours=("12:00-13:00",)))
    slots = make_slots(spool, own_tests, clock, limits=limits)
    clock.now = slots.starts_at(slot(role=role))

    slots.run(slot(role=role))

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.MEASURED]


def test_a_failure_is_spooled_as_its_outcome(spool, own_tests, clock):
    make_slots(spool, own_tests, clock, ThroughputProbe(ProbeError("iperf3 said no", outcome=Outcome.NO_ROUTE))).run(
        slot()
    )

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.detail) == (Outcome.NO_ROUTE, "iperf3 said no")
    assert result.result.throughput_bps is None


@pytest.mark.parametrize("bug", BUGS, ids=repr)
def test_a_bug_in_a_slot_ends_it_as_a_failure(spool, own_tests, clock, bug):
    slots = make_slots(spool, own_tests, clock, ThroughputProbe(bug))

    assert count_bugs(lambda: slots.run(slot())) == 1

    (result,) = spooled(spool)
    assert_is_fault_of_the_agent(result.result)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize("bug", BUGS, ids=repr)
def test_a_bug_in_the_listening_end_is_its_report(spool, own_tests, clock, bug):
    def serve(spec, deadline):
        raise bug

    slots = make_slots(spool, own_tests, clock, serve=serve)

    assert count_bugs(lambda: slots.run(slot(role="server"))) == 1

    (result,) = spooled(spool)
    assert_is_fault_of_the_agent(result.result)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize("change", [{"retransmits": -2}, {"sent_bytes": 2**70}, {"throughput_bps": float("nan")}])
def test_a_result_that_the_centre_would_refuse_is_a_failure(spool, own_tests, clock, change):
    slots = make_slots(spool, own_tests, clock, ThroughputProbe(msgspec.structs.replace(GOOD, **change)))

    slots.run(slot())

    (result,) = spooled(spool)
    assert_is_fault_of_the_agent(result.result)


def test_a_bug_in_preparation_ends_the_slot(spool, own_tests, clock, monkeypatch):
    def fail(spec):
        raise ZeroDivisionError

    slots = make_slots(spool, own_tests, clock)
    slots._kinds = {ThroughputSlot: replace(throughput.KIND, prepare=fail)}

    slots.run(slot())

    assert_is_fault_of_the_agent(spooled(spool)[0].result)


@pytest.mark.parametrize("first", [Refused("connection refused"), ServerBusy("the server is busy")])
def test_a_peer_that_is_down_or_busy_is_retried(spool, own_tests, clock, monkeypatch, first):
    monkeypatch.setattr("probes.site.runner.slot.TRY_AGAIN_S", 0.01)
    probe = ThroughputProbe(first, first, GOOD)

    make_slots(spool, own_tests, clock, probe).run(slot())

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.MEASURED]
    assert probe.ran == 3


def test_a_peer_that_never_answers_has_refused(spool, own_tests, clock, monkeypatch):
    monkeypatch.setattr("probes.site.runner.slot.TRY_AGAIN_S", 0.01)

    probe = TimedProbe(clock, 1.0, Refused("connection refused"))

    make_slots(spool, own_tests, clock, probe).run(slot())

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.REFUSED]
    assert probe.ran == 3


def test_limits_apply_to_both_ends(spool, own_tests, clock):
    served = []
    limits = Limits(throughput=ThroughputLimits(max_duration_s=5))
    slots = make_slots(spool, own_tests, clock, serve=lambda spec, deadline: served.append(spec), limits=limits)

    slots.run(slot())
    slots.run(slot(slot_id=6, role="server"))

    (sent, received) = spooled(spool)
    for result in (sent.result, received.result):
        assert result.outcome is Outcome.NOT_PERMITTED
        assert lacks(result.detail, "throughput.max_duration_s: 10 s wanted", " 5 s allowed") == []
    assert isinstance(received.result, ServerReport)
    assert served == []


def test_a_peer_in_a_forbidden_network_is_not_contacted(spool, own_tests, clock, caplog):
    served = []
    limits = Limits(networks=Networks(forbidden=("192.0.2.0/24",)))
    slots = make_slots(spool, own_tests, clock, serve=lambda spec, deadline: served.append(spec), limits=limits)

    slots.run(slot())
    slots.run(slot(slot_id=6, role="server"))

    assert [result.result.outcome for result in spooled(spool)] == [Outcome.NOT_PERMITTED] * 2
    assert served == []
    assert "not served: networks.forbidden: 192.0.2.1" in caplog.text


def test_a_server_listens_until_the_slots_end_without_a_client(spool, own_tests, clock):
    deadlines = []
    slots = make_slots(spool, own_tests, clock, serve=lambda spec, deadline: deadlines.append(deadline.remaining_s))
    clock.now = NOW - timedelta(seconds=2)

    slots.run(slot(role="server"))

    assert deadlines == [pytest.approx(17, abs=0.5)]
    (result,) = spooled(spool)
    assert (result.slot_id, result.path_id, result.test) == (5, 7, "tcp")
    assert (result.result.outcome, result.result.detail, result.result.sends) == (Outcome.MISSED, "nobody came", False)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize(("ends_s", "loaded"), [(-1.5, []), (12, [(-1, 12)])])
def test_a_server_is_under_load_from_its_slots_begin(spool, own_tests, clock, ends_s, loaded):
    """It listens from 2 s before the slot, when no client connects; a client's clock may be a second ahead."""

    def serve(spec, deadline):
        clock.now = NOW + timedelta(seconds=ends_s)

    clock.now = NOW - timedelta(seconds=2)

    make_slots(spool, own_tests, clock, serve=serve).run(slot(role="server"))

    assert [tuple((at - NOW).total_seconds() for at in period) for period in own_tests.periods()] == loaded


@pytest.mark.parametrize("reverse", [False, True])
def test_a_server_reports_its_own_statistics(spool, own_tests, clock, reverse):
    counts = KernelCounts(
        age_s=10.0, busy_s=9.0, peer_window_limited_s=0.0, send_buffer_limited_s=0.0, resent_bytes=0, duplicates=0,
        reordering_seen=0,
    )  # fmt: skip
    statistics = ServerStatistics(wanted_ratio=0.93, kernel=counts if reverse else None)
    spec = ThroughputSpec(address="192.0.2.1", source="192.0.2.2", reverse=reverse)

    make_slots(spool, own_tests, clock, serve=lambda spec, deadline: statistics).run(slot(role="server", spec=spec))

    (result,) = spooled(spool)
    assert (result.result.outcome, result.result.wanted_ratio) == (Outcome.MEASURED, 0.93)
    assert (result.result.sends, result.result.kernel) == (reverse, statistics.kernel)
    assert spool.unfinished_slots() == []


@pytest.mark.parametrize("role", ["client", "server"])
def test_both_ends_prepare_before_their_slot_begins(spool, own_tests, clock, role):
    assert make_slots(spool, own_tests, clock).starts_at(slot(role=role)) == NOW - timedelta(seconds=2)


def test_slots_of_the_next_minute_are_due_unless_claimed(spool, own_tests, clock):
    slots = make_slots(spool, own_tests, clock)
    planned = tuple(
        slot(slot_id=number, starts_at=NOW + timedelta(seconds=seconds), ends_at=NOW + timedelta(seconds=seconds + 15))
        for number, seconds in enumerate([-30, 0, 59, 61, 3600])
    )
    spool.claim_slot(planned[1], NOW)

    due = slots.due(Plan(version="v1", site="slac", mesh="test", throughput=planned))

    assert [slot.slot_id for slot in due] == [0, 2]


def test_a_slot_during_which_the_agent_was_killed_is_missed(spool, own_tests, clock):
    spool.claim_slot(slot(), NOW)
    spool.claim_slot(slot(slot_id=6, role="server"), NOW)
    slots = make_slots(spool, own_tests, clock)

    slots.settle(None)
    slots.settle(None)

    (result,) = spooled(spool)
    assert (result.slot_id, result.result.outcome) == (5, Outcome.MISSED)
    assert "restarted" in result.result.detail
    assert spool.unfinished_slots() == []


def test_slots_that_passed_while_the_agent_was_down_are_missed(spool, own_tests, clock):
    later = NOW + timedelta(minutes=10)
    planned = [
        slot(slot_id=1),
        slot(slot_id=2, role="server"),
        slot(slot_id=3, starts_at=later, ends_at=later + timedelta(seconds=15)),
    ]
    clock.now = NOW + timedelta(seconds=60)

    make_slots(spool, own_tests, clock).settle(Plan(version="v1", site="slac", mesh="test", throughput=planned))

    assert [(result.slot_id, result.result.outcome) for result in spooled(spool)] == [(1, Outcome.MISSED)]


def test_slots_of_past_days_are_deleted(spool, own_tests, clock):
    slots = make_slots(spool, own_tests, clock)
    slots.run(slot(slot_id=4))
    clock.now = NOW + timedelta(days=2)

    slots.run(slot(slot_id=5))

    assert spool.claimed_slots() == {5}


def test_a_slot_is_unchanged_by_the_queue():
    sent = slot()

    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(sent))), ThroughputSlot) == sent


def test_own_tests_can_be_recorded_from_many_threads(own_tests):
    def note():
        for _ in range(50):
            with own_tests.running():
                assert own_tests.overlap(NOW, NOW)

    threads = [threading.Thread(target=note) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert own_tests._running == []
