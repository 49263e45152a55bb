"""Capacity cycles of an agent, with a fake probe in place of the network; when they are due; their limits."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest

from probes.capacity.kind import KIND
from probes.capacity.limits import CapacityLimits
from probes.capacity.probe import MAX_PACKETS
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityTarget, CapacityTask, CapacityVerdict
from probes.contract import Outcome, ProbeError
from probes.ping.limits import PingLimits
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.limits.read import LimitsError, read_limits
from probes.site.runner.cycle import Cycles
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.schedule import cycle_entries
from probes.site.spool.spool import Spool
from probes.site.wire import Plan
from tests.facts import lacks
from tests.spools import count_queued
from tests.unit.site.test_spool import next_batch

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class CapacityProbe:
    """Returns 50 Mbit/s after 14 s; calls `meanwhile` in the middle."""

    def __init__(self, clock, meanwhile=lambda: None, sent=184):
        self.clock = clock
        self.meanwhile = meanwhile
        self.sent = sent
        self.specs: list[CapacitySpec] = []

    def can_run(self, spec):
        return []

    def run(self, spec, deadline):
        self.specs.append(spec)
        started_at = self.clock()
        self.clock.now += timedelta(seconds=14)
        self.meanwhile()
        return CapacityRun(
            target=spec.address,
            address=spec.address,
            family=spec.family,
            started_at=started_at,
            outcome=Outcome.MEASURED,
            verdict=CapacityVerdict.MEASURED,
            capacity_bps=50e6,
            sent=self.sent,
            received=self.sent,
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
    return [] if batch is None else sorted(batch.results, key=lambda delivered: delivered.path_id)


def task(*addresses, test="narrowest", every_s=3600, **fields):
    targets = tuple(
        CapacityTarget(path_id=number, spec=CapacitySpec(address=address, **fields))
        for number, address in enumerate(addresses, start=1)
    )
    return CapacityTask(test=test, every_s=every_s, targets=targets)


def make_cycles(spool, limits, own_tests, probe, *, now):
    """The runner of cycles for this kind with this probe."""
    permit = Permit(limits, now=now)
    cycles = Cycles(spool, permit, own_tests, now=now, elapsed_s=lambda: now().timestamp())
    return SimpleNamespace(run=partial(cycles.run, replace(KIND, probe=lambda: probe)))


def test_a_cycle_measures_its_paths_sequentially(spool, own_tests, clock):
    probe = CapacityProbe(clock)

    make_cycles(spool, Limits(), own_tests, probe, now=clock).run(task("192.0.2.1", "192.0.2.2"))

    first, second = spooled(spool)
    assert (first.path_id, first.test, first.result.capacity_bps) == (1, "narrowest", 50e6)
    assert (second.path_id, second.result.address) == (2, "192.0.2.2")
    assert abs(first.result.started_at - second.result.started_at) == timedelta(seconds=14)
    assert not first.during_test


def test_a_result_is_spooled_before_the_next_path_is_measured(spool, own_tests, clock):
    waiting = []
    probe = CapacityProbe(clock, meanwhile=lambda: waiting.append(count_queued(spool)))

    make_cycles(spool, Limits(), own_tests, probe, now=clock).run(task("192.0.2.1", "192.0.2.2", "192.0.2.3"))

    assert waiting == [0, 1, 2]


def test_the_order_of_paths_differs_from_cycle_to_cycle(spool, own_tests, clock):
    probe = CapacityProbe(clock)
    cycles = make_cycles(spool, Limits(), own_tests, probe, now=clock)
    addresses = [f"192.0.2.{number}" for number in range(1, 9)]

    for _ in range(3):
        clock.now += timedelta(hours=1)
        cycles.run(task(*addresses))

    orders = [tuple(spec.address for spec in probe.specs[start : start + 8]) for start in (0, 8, 16)]
    assert all(sorted(order) == addresses for order in orders)
    assert len(set(orders)) > 1


def test_a_host_name_stays_the_target(spool, own_tests, clock):
    probe = CapacityProbe(clock)

    limits = Limits(networks=Networks(allowed=("127.0.0.1/32",)))
    make_cycles(spool, limits, own_tests, probe, now=clock).run(task("localhost"))

    assert probe.specs[0].address == "127.0.0.1"
    (delivered,) = spooled(spool)
    assert (delivered.result.target, delivered.result.address) == ("localhost", "127.0.0.1")


def test_forbidden_and_failing_tests_do_not_stop_the_others(spool, own_tests, clock):
    limits = Limits(networks=Networks(forbidden=("198.51.100.0/24",)))
    probe = CapacityProbe(clock)

    make_cycles(spool, limits, own_tests, probe, now=clock).run(
        task("198.51.100.1", "nowhere.invalid", "192.0.2.1", "224.0.0.1")
    )

    results = [delivered.result for delivered in spooled(spool)]
    assert [result.outcome for result in results] == [
        Outcome.NOT_PERMITTED,
        Outcome.DNS_FAILURE,
        Outcome.MEASURED,
        Outcome.NOT_PERMITTED,
    ]
    assert "networks.forbidden" in results[0].detail
    assert [spec.address for spec in probe.specs] == ["192.0.2.1"]


def test_a_probe_error_is_stored_as_its_outcome(spool, own_tests, clock):
    def fail():
        raise ProbeError("deadline reached after 3 of 42 trains", outcome=Outcome.MISSED)

    make_cycles(spool, Limits(), own_tests, CapacityProbe(clock, fail), now=clock).run(task("192.0.2.1"))

    (delivered,) = spooled(spool)
    assert (delivered.result.outcome, delivered.result.verdict) == (Outcome.MISSED, None)
    assert delivered.result.detail == "deadline reached after 3 of 42 trains"


def test_trains_keep_the_spacing_of_pings(spool, own_tests, clock):
    probe = CapacityProbe(clock)
    cycles = make_cycles(spool, Limits(ping=PingLimits(min_spacing_s=0.3)), own_tests, probe, now=clock)

    cycles.run(task("192.0.2.1"))
    cycles.run(task("192.0.2.2", spacing_s=0.5))

    assert [spec.spacing_s for spec in probe.specs] == [0.3, 0.5]


def test_an_address_gets_at_most_the_allowed_packets_per_hour(spool, own_tests, clock):
    limits = Limits(capacity=CapacityLimits(max_packets_per_hour=2 * MAX_PACKETS))
    cycles = make_cycles(spool, limits, own_tests, CapacityProbe(clock), now=clock)

    for _ in range(3):
        cycles.run(task("192.0.2.1"))
    clock.now = NOW + timedelta(hours=1, seconds=20)
    cycles.run(task("192.0.2.1"))

    results = [delivered.result for delivered in spooled(spool)]
    by_time = sorted(results, key=lambda result: result.started_at)
    assert [result.outcome.value for result in by_time] == ["measured", "measured", "not_permitted", "measured"]
    figures = f" {MAX_PACKETS} to 192.0.2.1 ", " 368 ", "an hour", f" {2 * MAX_PACKETS} allowed"
    assert lacks(by_time[2].detail, "capacity.max_packets_per_hour:", *figures) == []


def test_a_concurrent_test_of_this_site_is_recorded(spool, own_tests, clock):
    with own_tests.running():
        make_cycles(spool, Limits(), own_tests, CapacityProbe(clock), now=clock).run(task("192.0.2.1"))

    (delivered,) = spooled(spool)
    assert delivered.during_test


def test_paths_that_do_not_fit_into_the_period_are_missed(spool, own_tests, clock):
    cycles = make_cycles(spool, Limits(), own_tests, CapacityProbe(clock), now=clock)

    cycles.run(task(*[f"192.0.2.{number}" for number in range(1, 6)], every_s=60))

    outcomes = sorted(delivered.result.outcome.value for delivered in spooled(spool))
    assert outcomes == ["measured"] * 3 + ["missed"] * 2  # begun at 0, 14 and 28 s; 42 s leaves no 30 s


def test_a_cycle_that_overlaps_the_previous_is_busy(spool, own_tests, clock):
    cycles = None

    def meanwhile():
        second = threading.Thread(target=cycles.run, args=(task("192.0.2.1"),))
        second.start()
        second.join(timeout=20)
        assert not second.is_alive()

    probe = CapacityProbe(clock, meanwhile)
    cycles = make_cycles(spool, Limits(), own_tests, probe, now=clock)
    cycles.run(task("192.0.2.1"))

    assert sorted(delivered.result.outcome.value for delivered in spooled(spool)) == ["busy", "measured"]
    assert len(probe.specs) == 1


def test_two_concurrent_tests_take_turns(spool, own_tests, clock):
    at_work, most = [], []

    def meanwhile():
        at_work.append(1)
        most.append(len(at_work))
        at_work.pop()

    cycles = make_cycles(spool, Limits(), own_tests, CapacityProbe(clock, meanwhile), now=clock)
    addresses = [f"192.0.2.{number}" for number in range(1, 30)]
    threads = [threading.Thread(target=cycles.run, args=(task(*addresses, test=name),)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(spooled(spool)) == 58
    assert set(most) == {1}


@pytest.mark.parametrize("value", ["-1", '"many"', "1.5"])
def test_an_invalid_packet_limit_is_reported(tmp_path, value):
    path = tmp_path / "limits.toml"
    path.write_text(f"[capacity]\nmax_packets_per_hour = {value}\n")

    with pytest.raises(LimitsError, match=r"limits\.toml:2: \[capacity\]: max_packets_per_hour"):
        read_limits(path)


def plan(site):
    return Plan(version="v1", site=site, mesh="test", capacity=(task("192.0.2.1"),))


def test_sites_are_spread_over_the_whole_period():
    entries = {site: cycle_entries(plan(site), KIND)[0] for site in ("slac", "cern", "in2p3", "ornl")}

    phases = [phase_s for _, _, _, phase_s in entries.values()]
    assert all(0 <= phase_s < 3600 for phase_s in phases)
    assert min(abs(a - b) for a in phases for b in phases if a != b) > 60
    assert entries["slac"][:3] == ("capacity narrowest", "narrowest", 3600)
    assert cycle_entries(None, KIND) == []


def test_a_plan_without_capacity_tests_is_read():
    old = b'{"version": "v1", "site": "slac", "mesh": "test", "ping": [], "throughput": []}'

    assert msgspec.json.decode(old, type=Plan).capacity == ()
