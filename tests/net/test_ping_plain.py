"""The ping probe over plain sockets: between two namespaces, and on loopback as on a system other than Linux."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from probes.contract import Outcome
from probes.lab.namespaces import repository_environment
from probes.packets.spec import Burst, PingTarget
from tests.net import test_ping
from tests.net.test_ping import (
    ELSEWHERE,
    FAR,
    NEAR,
    NEAR_SECOND,
    NOBODY,
    NOBODY_USER,
    Sites,
    families,
    far,
    joined_namespaces,
    run,
)

OWN_CLOCK = "no kernel timestamps"
USERS = {"raw": 0, "datagram": NOBODY_USER}
"""Sockets by user: root is in no group that may open a datagram socket, and an ordinary user may open no other."""

AS_ELSEWHERE = """
import ctypes, errno, json, socket, sys, types
import msgspec, numpy.random, rich.table
sys.platform = "darwin"
LINUX_ONLY = ("MSG_ERRQUEUE", "SOCK_NONBLOCK", "SOCK_CLOEXEC", "IP_RECVERR", "IPV6_RECVERR", "SO_MARK", "SO_PEERCRED",
              "SO_BINDTODEVICE", "AF_PACKET", "AF_NETLINK", "MSG_CONFIRM", "MSG_CMSG_CLOEXEC")
for name in LINUX_ONLY:
    if hasattr(socket, name):
        delattr(socket, name)
del errno.ENONET
ctypes.CDLL = lambda *_, **__: types.SimpleNamespace()
from probes.__main__ import main
from probes.packets.spec import PingSpec, PingTarget
from probes.kinds import KINDS
targets = (PingTarget(address="127.0.0.1"), PingTarget(address="::1", family=6))
reasons = KINDS["ping"].probe().can_run(PingSpec(targets=targets))
if reasons:
    sys.exit(str(reasons))
sys.exit(main(["ping", "127.0.0.1", "::1", "--count", "3", "--spacing-s", "0.05", "--sizes", "16,1000", *sys.argv[1:]]))
"""


def as_elsewhere(*options: str) -> str:
    """Output of `probes ping` for loopback on a simulated system without Linux's own features."""
    ran = subprocess.run(
        [sys.executable, "-c", AS_ELSEWHERE, *options],
        env=repository_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_loopback_is_measured_where_the_system_is_not_linux():
    bursts = [json.loads(line) for line in as_elsewhere("--json").splitlines()]

    # Each target as soon as it is complete, its sizes in order.
    assert sorted((burst["address"], burst["packet_bytes"]) for burst in bursts) == [
        ("127.0.0.1", 16),
        ("127.0.0.1", 1000),
        ("::1", 16),
        ("::1", 1000),
    ]
    for burst in bursts:
        assert (burst["outcome"], burst["sent"], burst["received"]) == ("measured", 3, 3)
        assert (burst["stamp"], burst["stamps_lost"]) == ("user", 0)
        assert OWN_CLOCK in burst["detail"]
        assert all(rtt_ms > 0 for rtt_ms in burst["rtts_ms"])


def test_the_table_names_the_source_of_the_timestamps():
    assert f"; {OWN_CLOCK}" in as_elsewhere()


@pytest.fixture(scope="module")
def sites(namespaces_required: None, root_required: None) -> Iterator[Sites]:
    with joined_namespaces() as joined:
        run("ip", "netns", "exec", joined.near, "sysctl", "-qw", f"net.ipv4.ping_group_range=1 {2**31 - 1}")
        yield joined


Measure = Callable[..., tuple[Burst, ...]]


@pytest.fixture(params=["raw", "datagram"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def measure(sites: Sites, kind: str, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measures like `Sites.measure`, with a plain socket of this kind."""
    deadline = "Deadline(float(sys.argv[2]))"
    assert test_ping.MEASURE.count(deadline) == 1
    monkeypatch.setattr(test_ping, "MEASURE", test_ping.MEASURE.replace(deadline, f"{deadline}, plain=True"))

    def measured(*targets: PingTarget, **options: object) -> tuple[Burst, ...]:
        return sites.measure(*targets, **{"user": USERS[kind]} | options)  # type: ignore[arg-type]

    return measured


@families
def test_requests_of_every_size_are_answered_with_user_stamps(measure, kind, family):
    bursts = measure(far(family), packet_bytes=(16, 100, 1001, 65_000), count=5)

    assert [burst.packet_bytes for burst in bursts] == [16, 100, 1001, 65_000]
    for burst in bursts:
        assert (burst.outcome, burst.address, burst.family) == (Outcome.MEASURED, FAR[family], family)
        assert (burst.sent, burst.received, burst.duplicates, burst.reordered) == (5, 5, 0, 0)
        assert burst.stamp == "user"
        assert OWN_CLOCK in (burst.detail or "")
        assert burst.ttl == (64 if (family, kind) == (4, "raw") else None)
        assert all(rtt_ms is not None and 0 < rtt_ms < 100 for rtt_ms in burst.rtts_ms)


@families
def test_lost_replies_are_null_in_their_places(sites, measure, family):
    with sites.responder(family, "lose"):
        [burst] = measure(far(family))

    assert [number for number, rtt_ms in enumerate(burst.rtts_ms) if rtt_ms is None] == [2, 7]
    assert (burst.sent, burst.received) == (10, 8)


@families
def test_duplicates_are_counted_and_not_received_twice(sites, measure, family):
    with sites.responder(family, "double"):
        [burst] = measure(far(family))

    assert (burst.sent, burst.received, burst.duplicates, burst.reordered) == (10, 10, 2, 0)


@families
def test_a_reply_overtaken_by_another_is_reordered(sites, measure, family):
    with sites.responder(family, "swap"):
        [burst] = measure(far(family))

    assert (burst.received, burst.reordered, burst.duplicates) == (10, 1, 0)


@families
def test_a_reply_after_the_timeout_is_late_and_lost(sites, measure, family):
    with sites.responder(family, "delay"):
        [burst] = measure(far(family), spacing_s=0.2, timeout_s=0.25, count=5)

    assert [rtt_ms is None for rtt_ms in burst.rtts_ms] == [False, True, False, False, False]
    assert (burst.received, burst.late, burst.duplicates) == (4, 1, 0)


@families
def test_forged_cut_and_padded_replies_are_ignored(sites, measure, family):
    with sites.responder(family, "forge"):
        [burst] = measure(far(family))

    assert (burst.outcome, burst.sent, burst.received, burst.duplicates) == (Outcome.MEASURED, 10, 0, 0)


@families
def test_total_loss_is_a_measurement(measure, family):
    [burst] = measure(far(family, address=NOBODY[family]), timeout_s=0.2)

    assert (burst.outcome, burst.sent, burst.received) == (Outcome.MEASURED, 10, 0)
    assert (burst.rtts_ms, burst.stamp, burst.detail) == ((None,) * 10, None, None)


@families
def test_without_a_route_the_other_targets_are_measured(measure, family):
    dead, live = measure(far(family, address=ELSEWHERE[family]), far(family))

    assert (dead.outcome, dead.sent, dead.rtts_ms) == (Outcome.NO_ROUTE, 0, ())
    assert "unreachable" in (dead.detail or "")
    assert live.received == 10


@families
def test_requests_are_sent_from_the_source_if_it_is_local(sites, measure, family):
    run("ip", "-n", sites.far, "route", "add", "blackhole", NEAR_SECOND[family])
    try:
        first, second, foreign = measure(
            far(family, source=NEAR[family]),
            far(family, source=NEAR_SECOND[family]),
            far(family, source=ELSEWHERE[family]),
            timeout_s=0.3,
        )
    finally:
        run("ip", "-n", sites.far, "route", "delete", "blackhole", NEAR_SECOND[family])

    assert (first.received, second.received, foreign.received) == (10, 0, 10)


@families
def test_a_local_address_is_reported_at_any_rtt(measure, family):
    [burst] = measure(far(family, address=NEAR[family]), count=2)

    assert (burst.received, burst.stamp) == (2, "user")
    assert "local address" in (burst.detail or "")


@families
@pytest.mark.parametrize("kind", ["raw"], indirect=True)
def test_a_routers_error_reaches_a_raw_socket(sites, measure, family):
    network, setting = test_ping.ELSEWHERE_NETWORK[family], {4: "ipv4.ip_forward", 6: "ipv6.conf.all.forwarding"}
    run("ip", "-n", sites.near, "route", "add", network, "via", FAR[family])
    run("ip", "-n", sites.far, "route", "add", "prohibit", network)
    try:
        with test_ping.far_sysctl(sites, {f"net.{setting[family]}": "1"}):
            [burst] = measure(far(family, address=ELSEWHERE[family]), spacing_s=0.3, count=3)
    finally:
        run("ip", "-n", sites.far, "route", "delete", "prohibit", network)
        run("ip", "-n", sites.near, "route", "delete", network)

    [error] = burst.errors
    assert (burst.sent, burst.received) == (3, 0)
    assert (error.name, error.router) == ("administratively_prohibited", FAR[family])


@families
def test_many_hosts_share_the_socket(measure, family):
    many = test_ping.hosts(test_ping.MANY_NETWORK[family], 200)

    bursts = measure(*[far(family, address=host) for host in many], count=3, spacing_s=0.5)

    assert [(burst.target, burst.received, burst.duplicates) for burst in bursts] == [(host, 3, 0) for host in many]
