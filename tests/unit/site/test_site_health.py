"""The kernel's report of a machine's health, parsed from samples of running machines."""

import platform
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.delivery.centre_clock import CentreClock
from probes.site.delivery.health_report import HealthReporter, clock_offs, poorest_stamp
from probes.site.health import (
    TIMEX_BYTES,
    ClockOff,
    Health,
    InterfaceDrops,
    KernelClock,
    kernel_clock_of,
    parse_loadavg,
    parse_net_dev,
    read_health,
)
from probes.site.spool.results import UncheckedResult
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, Delivered
from probes.transfers.iperf3 import authentication
from probes.transfers.spec import ThroughputRun

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

# The result of adjtimex on a virtual machine (Linux 6.18, x86-64) without NTP; it returned 5.
NOT_KEPT = bytes.fromhex(
    "0000000000000000000000000000000000000000000000000024f400000000000024f4000000000040000000000000000200000000000000"
    "01000000000000000000f401000000005bca016b00000000462d0800000000001027000000000000"
).ljust(208, b"\0")
# struct timex as in adjtimex(2), with the compiler's layout; the size is computed by Python's `struct`.
TIMEX = "@I4li3l2l3li5li44x"

# From Linux 6.18, after 700 packets were sent through a tunnel with a queue of ten; the drops of lo and eth1.77 were
# added.
NET_DEV = (Path(__file__).parents[2] / "fixtures" / "proc" / "net_dev.txt").read_text()


def test_an_unsynchronised_clock_is_reported():
    assert kernel_clock_of(5, NOT_KEPT) == KernelClock(
        state="error",
        is_synchronised=False,
        offset_s=0.0,
        frequency_ppm=0.0,
        max_error_s=16.0,
        estimated_error_s=16.0,
    )


@pytest.mark.skipif(platform.architecture()[0] != "64bit", reason="the layout of 64-bit Linux")
def test_an_ntp_clock_offset_in_nanoseconds_is_converted():
    def timex(status):
        values = [0, -1500, 65536 * -3, 2500, 12, status, 7, 1, 32768000, 1_763_740_800, 5, 10000, *[0] * 8, 37]
        return struct.pack(TIMEX, *values)

    kernel_clock = kernel_clock_of(0, timex(status=0x2001))

    assert struct.calcsize(TIMEX) == TIMEX_BYTES == len(NOT_KEPT)
    assert (kernel_clock.state, kernel_clock.is_synchronised) == ("ok", True)
    assert (kernel_clock.offset_s, kernel_clock.frequency_ppm) == (-1.5e-6, -3.0)
    assert (kernel_clock.max_error_s, kernel_clock.estimated_error_s) == (0.0025, 12e-6)
    assert kernel_clock_of(0, timex(status=0x0001)).offset_s == -1.5e-3


def test_the_load_of_the_last_minute_is_the_first_figure():
    assert parse_loadavg("2.92 2.06 1.74 6/169 3991\n") == 2.92


def test_interfaces_are_listed_by_drops_without_loopback():
    assert parse_net_dev(NET_DEV) == (
        InterfaceDrops(interface="eth1.77", received=905, sent=2),
        InterfaceDrops(interface="wan0", received=0, sent=691),
    )


def test_the_health_of_this_machine_can_be_read():
    health = read_health()

    assert health.cpus >= 1
    assert health.load_1min >= 0.0
    assert msgspec.json.decode(msgspec.json.encode(health), type=Health) == health


def delivered(at=AT, stamp="kernel", clock_off_s=None):
    result = Burst(
        target="cern",
        address="192.0.2.2",
        family=4,
        packet_bytes=100,
        started_at=at,
        outcome=Outcome.MEASURED if stamp else Outcome.NO_ROUTE,
        stamp=stamp,
    )
    return Delivered(sequence=1, path_id=7, test="pinger", result=result, clock_off_s=clock_off_s)


def throughput():
    run = ThroughputRun(target="cern", address=None, family=4, started_at=AT, outcome=Outcome.MISSED)
    return Delivered(sequence=2, path_id=7, test="tcp", result=run)


def test_the_least_accurate_stamp_of_a_batch_is_reported():
    assert poorest_stamp([delivered(stamp="hardware"), delivered(stamp="user"), delivered(), throughput()]) == "user"
    assert poorest_stamp([delivered(stamp="hardware"), delivered()]) == "kernel"
    assert poorest_stamp([delivered(stamp=None), throughput()]) is None


def test_the_period_of_a_batch_with_a_wrong_clock_is_reported():
    minute = timedelta(minutes=1)
    results = [
        delivered(AT),
        delivered(AT + 2 * minute, clock_off_s=-3.0),
        delivered(AT + minute, clock_off_s=-2.5),
        delivered(AT + 3 * minute),
    ]

    assert clock_offs(results) == (ClockOff(since=AT + minute, until=AT + 2 * minute, offset_s=-3.0),)
    assert clock_offs(results[:1]) == ()


@pytest.mark.parametrize(
    "steps_s",
    [
        (3600.0, None, -3600.0, None, 86_400.0, None, -86_400.0, None),
        (120.0, -120.0, None, 120.0),
        (3600.0, None, 3600.0),
        (3600.0, 3605.0),
    ],
    ids=str,
)
def test_each_setting_of_a_clock_is_a_period_of_its_own(steps_s):
    """Starts far off are corrected when they are spooled; the others are stored by the site's clock."""
    results = []
    for place, off_s in enumerate(steps_s):
        began = AT + timedelta(seconds=70 * place)
        stored = began if off_s is None or abs(off_s) > 300 else began + timedelta(seconds=off_s)
        results += [delivered(stored + timedelta(seconds=s), clock_off_s=off_s) for s in (0, 20, 40)]

    periods = clock_offs(results[::-1])

    assert [period.offset_s for period in periods] == [off_s for off_s in steps_s if off_s is not None]
    assert {(period.until - period.since).total_seconds() for period in periods} == {40.0}


def test_an_undecodable_result_does_not_prevent_the_report():
    unchecked = UncheckedResult(sequence=3, path_id=7, test="x", result={"kind": "telepathy"}, clock_off_s=9.0)

    assert clock_offs([delivered(AT, clock_off_s=2.0), unchecked]) == (ClockOff(since=AT, until=AT, offset_s=2.0),)
    assert poorest_stamp([unchecked, delivered()]) == "kernel"


def test_a_delivery_carries_the_health_of_agent_and_machine(tmp_path):
    clock = CentreClock(wall_s=lambda: 1000.5, steady_s=lambda: 100.0)
    clock.note(99.0, "999.5", "999.5", 100.0)
    spool = Spool(tmp_path / "spool.sqlite3")
    batch = Batch(spool="s", number=1, agent_version="0.1.0", sent_at=AT, results=(delivered(clock_off_s=2.0),))

    health = HealthReporter(clock, spool).for_batch(batch)

    assert (health.clock_offset_s, health.clock_uncertainty_s) == (0.5, pytest.approx(0.5, abs=1e-5))
    assert (health.stamp, health.lost_ticks) == ("kernel", 0)
    assert health.clock_offs == (ClockOff(since=AT, until=AT, offset_s=2.0),) == (health.clock_off,)
    assert health.cpus >= 1


def test_a_new_iperf3_is_reported_within_a_minute(tmp_path, monkeypatch):
    installed, times_s = iter(("3.12", "3.22")), iter((1000.0, 1059.0, 1060.0))
    monkeypatch.setattr(authentication, "version", lambda: next(installed))
    reporter = HealthReporter(CentreClock(), Spool(tmp_path / "spool.sqlite3"), now_s=lambda: next(times_s))

    assert [reporter.current().iperf3 for _ in range(3)] == ["3.12", "3.12", "3.22"]
