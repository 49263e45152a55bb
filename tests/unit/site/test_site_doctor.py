"""The doctor's checks that do not depend on the machine: each result with its fix."""

import shutil
from datetime import UTC, datetime

import msgspec
import pytest

from probes.contract import CheckResult
from probes.site.doctor.check_host import about_privileges, check_programs, has_net_raw, is_in_range
from probes.site.doctor.run import lines
from probes.throughput.check import check_offered_server
from probes.throughput.limits import Iperf3ServerLimits
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec

# The lines of /proc/self/status of root, an ordinary user, and a service with AmbientCapabilities=CAP_NET_RAW.
STATUS = "Name:\tpython\nUid:\t0\t0\t0\t0\nCapInh:\t{0}\nCapPrm:\t{0}\nCapEff:\t{0}\nCapBnd:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("effective", "capable"),
    [("000001ffffffffff", True), ("0000000000000000", False), ("0000000000002000", True), ("000001ffffffdfff", False)],
)
def test_the_capability_is_read_from_the_effective_set(effective, capable):
    assert has_net_raw(STATUS.format(effective)) is capable


@pytest.mark.parametrize(
    ("group_range", "groups", "inside"),
    [
        ("1\t0\n", {0, 1, 1000}, False),
        ("0\t2147483647\n", {1000}, True),
        ("1000\t1000\n", {100, 1000}, True),
        ("1000\t1999\n", {999, 2000}, False),
    ],
)
def test_a_group_range_includes_both_ends(group_range, groups, inside):
    assert is_in_range(group_range, groups) is inside


@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("in_range", [True, False])
def test_either_way_to_open_a_socket_is_enough(capable, in_range):
    findings = list(about_privileges(capable, in_range, "1 0"))

    assert [finding.check for finding in findings] == ["privileges", "ping_group_range"]
    assert all(finding.is_good for finding in findings) is (capable or in_range)
    if not (capable or in_range):
        assert all('sysctl -w net.ipv4.ping_group_range="0 2147483647"' in finding.fix for finding in findings)


@pytest.mark.parametrize(("program", "advice"), [("iperf3", "iperf3"), ("ip", "iproute2")])
def test_a_missing_program_of_throughput_tests_has_a_fix(program, advice, monkeypatch):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else which(name))

    results = {result.check: result for result in check_programs(None)}

    assert not results[program].is_good
    assert advice in results[program].fix
    assert {"iperf3", "ip"} == results.keys()


def test_a_fix_is_printed_below_the_failed_check():
    good = CheckResult(check="iperf3", detail="/usr/bin/iperf3")
    bad = CheckResult(check="clock", detail="not synchronised by NTP", fix="timedatectl set-ntp true")

    assert lines([good, bad]) == [
        "OK   iperf3           /usr/bin/iperf3",
        "FAIL clock            not synchronised by NTP",
        "                      fix: timedatectl set-ntp true",
    ]
    assert msgspec.to_builtins(good) == {"check": "iperf3", "found": "/usr/bin/iperf3", "mend": None}


@pytest.mark.parametrize(("port", "is_good"), [(5200, True), (5201, False)])
def test_an_offered_server_needs_a_port_of_its_own(port, is_good):
    at = datetime(2026, 11, 21, 12, tzinfo=UTC)
    spec = ThroughputSpec(address="192.0.2.2")
    slot = ThroughputSlot(slot_id=1, path_id=1, test="t", role="server", starts_at=at, ends_at=at, spec=spec)

    assert list(check_offered_server(Iperf3ServerLimits(port=port), [slot])) == []
    (result,) = check_offered_server(Iperf3ServerLimits(port=port, clients=("203.0.113.0/24",)), [slot])
    assert result.is_good is is_good
