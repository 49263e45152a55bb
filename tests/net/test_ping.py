"""The ping probe between two namespaces. Where loss, order or forgery must be exact, a script of this test answers at
the far end instead of its kernel; its answer to each request is decided by the number in its payload."""

from __future__ import annotations

import ipaddress
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

import msgspec
import pytest

from probes.__main__ import main
from probes.contract import Outcome
from probes.packets.spec import Burst, PingSpec, PingTarget

NEAR = {4: "10.9.0.1", 6: "fd09::1"}
NEAR_SECOND = {4: "10.9.0.3", 6: "fd09::3"}
FAR = {4: "10.9.0.2", 6: "fd09::2"}
FAR_SECOND = {4: "10.9.0.4", 6: "fd09::4"}
NOBODY = {4: "10.9.0.77", 6: "fd09::77"}
ELSEWHERE = {4: "203.0.113.1", 6: "2001:db8::1"}
ELSEWHERE_NETWORK = {4: "203.0.113.0/24", 6: "2001:db8::/64"}
MANY_NETWORK = {4: "10.10.0.0/24", 6: "fd10::/64"}
"""All its addresses belong to the far end."""
NOBODY_USER = 65534
NARROW_MTU = 1300
NAMED_OTHERWISE = {(6, "unreachable"): "net_unreachable"}
"""A Linux router says "no route" over IPv6 where it says "host unreachable" over IPv4."""
LIMIT = """table ip limit_icmp {{
    chain input {{
        type filter hook input priority 0;
        meta l4proto icmp limit rate over {rate} burst 1 packets drop
    }}
}}"""
FIREWALL = """
table ip forbid {{
    chain output {{ type filter hook output priority 0; ip daddr {host} drop; }}
}}
"""
UNPRIMED = {"priming_bytes": None, "late_s": 0.2}
"""The far end's script numbers the requests, so these tests count from the first."""

MEASURE = """
import encodings.idna, os, sys, msgspec
from probes.contract import Deadline
from probes.packets.burst import measure
from probes.packets.spec import PingSpec
import numpy.random
spec = msgspec.json.decode(sys.stdin.buffer.read(), type=PingSpec)
user = int(sys.argv[1])
if user:
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
sys.stdout.buffer.write(msgspec.json.encode(measure(spec, Deadline(float(sys.argv[2])))))
"""

RESPOND = """
import socket, struct, sys
family, manner, first, second = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
v4 = family == 4
kind, protocol = (socket.AF_INET, socket.IPPROTO_ICMP) if v4 else (socket.AF_INET6, socket.IPPROTO_ICMPV6)
s = socket.socket(kind, socket.SOCK_RAW, protocol)
s.bind((first, 0))
from_second = socket.socket(kind, socket.SOCK_RAW, protocol)
from_second.bind((second, 0))
held = []
def answer(icmp, to, by=s):
    icmp = bytes([0 if v4 else 129, 0, 0, 0]) + icmp[4:]
    total = sum(struct.unpack(f">{len(icmp) // 2}H", icmp))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    by.sendto(icmp[:2] + struct.pack(">H", ~total & 0xFFFF) + icmp[4:], to)
print("ready", flush=True)
while True:
    data, to = s.recvfrom(70000)
    icmp = data[20:] if v4 else data
    if icmp[0] != (8 if v4 else 128):
        continue
    to = (to[0], 0) if v4 else (to[0], 0, 0, to[3])
    number = int.from_bytes(icmp[8:12], "big")  # of a single target; the header's own begins anywhere
    if manner == "tell":
        print(icmp[:4].hex(), len(icmp), flush=True)
    if manner == "lose" and number % 5 == 2:
        continue
    if manner == "corrupt" and number % 2:
        reply = bytes([0, 0, 0, 0]) + icmp[4:]
        total = sum(struct.unpack(f">{len(reply) // 2}H", reply))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        s.sendto(reply[:2] + struct.pack(">H", ~total & 0xFFFF) + reply[4:-1] + bytes([reply[-1] ^ 1]), to)
        continue
    if manner == "forge":
        answer(icmp[:12] + bytes(12) + icmp[24:], to)
        answer(icmp[:7] + bytes([icmp[7] ^ 1]) + icmp[8:], to)
        answer(icmp[:8] + struct.pack(">I", int.from_bytes(icmp[8:12], "big") ^ 1) + icmp[12:], to)
        answer(icmp[:8] + bytes([255] * 4) + icmp[12:], to)
        answer(icmp[:-2], to)
        answer(icmp + bytes(2), to)
        answer(icmp[:16], to)
        answer(icmp, to, from_second)
        continue
    if manner == "hop" and number == 4:
        s.setsockopt(*((socket.IPPROTO_IP, socket.IP_TTL) if v4 else (41, socket.IPV6_UNICAST_HOPS)), 50)
    if manner in ("swap", "delay") and number == 1:
        held.append((icmp, to))
        continue
    answer(icmp, to)
    if manner == "double" and number in (1, 3):
        answer(icmp, to)
    if number == 3:
        for late in held:
            answer(*late)
        held.clear()
"""


@dataclass(frozen=True)
class Sites:
    """Two namespaces joined by a veth pair."""

    near: str
    far: str

    def measure(
        self, *targets: PingTarget, user: int = 0, deadline_s: float = 60.0, **numbers: object
    ) -> tuple[Burst, ...]:
        """Measure from the near namespace, in a separate process."""
        spec = PingSpec(
            targets=targets,
            **{"packet_bytes": (100,), "count": 10, "spacing_s": 0.02, "timeout_s": 0.5} | UNPRIMED | numbers,
        )
        ran = subprocess.run(
            ["ip", "netns", "exec", self.near, sys.executable, "-c", MEASURE, str(user), str(deadline_s)],
            input=msgspec.json.encode(spec),
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return msgspec.json.decode(ran.stdout, type=tuple[Burst, ...])

    @contextmanager
    def responder(self, family: int, manner: str) -> Iterator[list[bytes]]:
        """A responder in the far namespace in place of its kernel. Yields a list that has its output at the end."""
        version = {4: "net.ipv4.icmp_echo_ignore_all", 6: "net.ipv6.icmp.echo_ignore_all"}[family]
        run("ip", "netns", "exec", self.far, "sysctl", "-qw", f"{version}=1")
        command = ["ip", "netns", "exec", self.far, sys.executable, "-c", RESPOND]
        process = subprocess.Popen(
            [*command, str(family), manner, FAR[family], FAR_SECOND[family]], stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            lines: list[bytes] = []
            yield lines
        finally:
            process.kill()
            lines += process.communicate()[0].splitlines()
            run("ip", "netns", "exec", self.far, "sysctl", "-qw", f"{version}=0")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@contextmanager
def joined_namespaces() -> Iterator[Sites]:
    name = f"ping-{secrets.token_hex(3)}"
    sites = Sites(f"{name}-near", f"{name}-far")
    with ExitStack() as undo:
        for namespace in (sites.near, sites.far):
            run("ip", "netns", "add", namespace)
            undo.callback(run, "ip", "netns", "delete", namespace)
        run("ip", "-n", sites.near, "link", "add", "wan", "type", "veth", "peer", "wan", "netns", sites.far)
        for namespace, addresses in ((sites.near, (NEAR, NEAR_SECOND)), (sites.far, (FAR, FAR_SECOND))):
            for address, preferred in zip(addresses, ("forever", "0"), strict=True):
                add = ("ip", "-n", namespace, "address", "add")
                run(*add, f"{address[4]}/24", "brd", "+", "dev", "wan")
                run(*add, f"{address[6]}/64", "dev", "wan", "nodad", "preferred_lft", preferred)
            run("ip", "-n", namespace, "link", "set", "lo", "up")
            run("ip", "-n", namespace, "link", "set", "wan", "up")
        for family, network in MANY_NETWORK.items():
            run("ip", "-n", sites.far, "route", "add", "local", network, "dev", "lo")
            run("ip", "-n", sites.near, "route", "add", network, "via", FAR[family])
        for address in (FAR[4], FAR[6]):
            wait_for_answer(sites.near, address)
        yield sites


def wait_for_answer(namespace: str, address: str) -> None:
    """IPv6 is not ready as soon as its interface is up."""
    until = time.monotonic() + 20
    while subprocess.run(
        ["ip", "netns", "exec", namespace, "ping", "-c", "1", "-W", "1", address], capture_output=True, check=False
    ).returncode:
        assert time.monotonic() < until, f"{address} does not answer"


@pytest.fixture(scope="module")
def sites(namespaces_required: None, root_required: None) -> Iterator[Sites]:
    with joined_namespaces() as joined:
        yield joined


@pytest.fixture
def near_route(sites: Sites) -> Iterator[Callable[..., None]]:
    """Adds routes in the near namespace, which are removed after the test."""
    with ExitStack() as undo:

        def add(*route: str) -> None:
            run("ip", "-n", sites.near, "route", "add", *route)
            undo.callback(run, "ip", "-n", sites.near, "route", "delete", *route)

        yield add


@contextmanager
def far_sysctl(sites: Sites, settings: dict[str, str]) -> Iterator[None]:
    """Kernel settings of the far namespace, restored afterwards."""
    command = ("ip", "netns", "exec", sites.far, "sysctl")
    with ExitStack() as undo:
        for name, value in settings.items():
            before = subprocess.run([*command, "-n", name], capture_output=True, text=True, check=True).stdout.strip()
            undo.callback(run, *command, "-qw", f"{name}={before}")
            run(*command, "-qw", f"{name}={value}")
        yield


@contextmanager
def far_limit(sites: Sites, rate: str) -> Iterator[None]:
    """A limit of the ICMP packets that the far end takes, one at a time, removed afterwards."""
    nft = ("ip", "netns", "exec", sites.far, "nft")
    run(*nft, LIMIT.format(rate=rate))
    try:
        yield
    finally:
        run(*nft, "delete table ip limit_icmp")


@pytest.fixture
def routed(sites: Sites) -> Iterator[Callable[[int, str], None]]:
    """Makes the far end the router to `ELSEWHERE`, with a route that answers with ICMP errors; removed after the
    test."""
    with ExitStack() as undo:
        setting = "net.ipv4.ping_group_range"
        run("ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=0 2147483647")
        undo.callback(run, "ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=1 0")
        undo.enter_context(far_sysctl(sites, {"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"}))

        def route(family: int, kind: str) -> None:
            network = ELSEWHERE_NETWORK[family]
            run("ip", "-n", sites.near, "route", "add", network, "via", FAR[family])
            undo.callback(run, "ip", "-n", sites.near, "route", "flush", "cache")
            undo.callback(run, "ip", "-n", sites.near, "route", "delete", network)
            if kind == "narrow":
                link = ("ip", "-n", sites.far, "link")
                run(*link, "add", "narrow", "mtu", str(NARROW_MTU), "type", "veth", "peer", "name", "narrow-end")
                undo.callback(run, *link, "delete", "narrow")
                run(*link, "set", "narrow-end", "up")
                run(*link, "set", "narrow", "up")
                run("ip", "-n", sites.far, "route", "add", network, "dev", "narrow")
            else:
                run("ip", "-n", sites.far, "route", "add", kind, network)
                undo.callback(run, "ip", "-n", sites.far, "route", "delete", kind, network)

        yield route


def hosts(network: str, count: int) -> list[str]:
    """The first addresses of a network."""
    return [str(host) for host in islice(ipaddress.ip_network(network).hosts(), count)]


families = pytest.mark.parametrize("family", [4, 6])


def far(family: int, **fields: object) -> PingTarget:
    return PingTarget(**{"address": FAR[family], "family": family} | fields)


@families
def test_requests_of_every_size_are_answered_with_kernel_stamps(sites, family):
    bursts = sites.measure(far(family), packet_bytes=(16, 100, 1001, 4000), count=5)

    assert [burst.packet_bytes for burst in bursts] == [16, 100, 1001, 4000]
    for burst in bursts:
        assert (burst.outcome, burst.address, burst.family) == (Outcome.MEASURED, FAR[family], family)
        assert (burst.sent, burst.received, burst.duplicates, burst.reordered) == (5, 5, 0, 0)
        assert (burst.ttl, burst.stamp, burst.detail) == (64, "kernel", None)
        assert all(rtt is not None and 0 < rtt < 100 for rtt in burst.rtts_ms)
    assert [burst.started_at for burst in bursts] == sorted(burst.started_at for burst in bursts)


@families
def test_lost_replies_are_null_in_their_places(sites, family):
    with sites.responder(family, "lose"):
        [burst] = sites.measure(far(family))

    assert [number for number, rtt in enumerate(burst.rtts_ms) if rtt is None] == [2, 7]
    assert (burst.sent, burst.received) == (10, 8)


@families
def test_duplicates_are_counted_and_not_received_twice(sites, family):
    with sites.responder(family, "double"):
        [burst] = sites.measure(far(family))

    assert (burst.sent, burst.received, burst.duplicates, burst.reordered) == (10, 10, 2, 0)


@families
def test_a_reply_overtaken_by_another_is_reordered(sites, family):
    with sites.responder(family, "swap"):
        [burst] = sites.measure(far(family))

    assert (burst.received, burst.reordered, burst.duplicates) == (10, 1, 0)
    assert burst.rtts_ms[1] is not None
    assert 30 < burst.rtts_ms[1] < 150  # held for two spacings of 20 ms, each sent within a tick of its time


@families
def test_a_reply_after_the_timeout_is_lost(sites, family):
    with sites.responder(family, "delay"):
        [burst] = sites.measure(far(family), spacing_s=0.2, timeout_s=0.25, count=5)

    assert [rtt is None for rtt in burst.rtts_ms] == [False, True, False, False, False]
    assert (burst.received, burst.late, burst.duplicates) == (4, 1, 0)


@families
def test_forged_cut_and_padded_replies_are_ignored(sites, family):
    with sites.responder(family, "forge"):
        [burst] = sites.measure(far(family))

    assert (burst.outcome, burst.sent, burst.received, burst.duplicates) == (Outcome.MEASURED, 10, 0, 0)


def test_a_corrupted_reply_is_ignored(sites):
    with sites.responder(4, "corrupt"):
        [burst] = sites.measure(far(4))

    assert [rtt is None for rtt in burst.rtts_ms] == [False, True] * 5


@families
def test_total_loss_is_a_measurement(sites, family):
    [burst] = sites.measure(far(family, address=NOBODY[family]), timeout_s=0.2)

    assert (burst.outcome, burst.sent, burst.received, burst.ttl) == (Outcome.MEASURED, 10, 0, None)
    assert burst.rtts_ms == (None,) * 10


@families
def test_without_a_route_nothing_is_sent(sites, family):
    [burst] = sites.measure(far(family, address=ELSEWHERE[family]))

    assert (burst.outcome, burst.sent, burst.rtts_ms) == (Outcome.NO_ROUTE, 0, ())
    assert "unreachable" in (burst.detail or "")


@families
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("unreachable", Outcome.NO_ROUTE), ("blackhole", Outcome.NO_ROUTE), ("prohibit", Outcome.NOT_PERMITTED)],
)
def test_each_kind_of_refusing_route_has_its_outcome(sites, near_route, family, kind, outcome):
    near_route(kind, ELSEWHERE[family])

    [burst] = sites.measure(far(family, address=ELSEWHERE[family]), count=2)

    assert (burst.outcome, burst.sent) == (outcome, 0)


def test_the_broadcast_address_of_a_network_is_refused(sites):
    [burst] = sites.measure(far(4, address="10.9.0.255"), count=2)

    assert burst.outcome is Outcome.NOT_PERMITTED
    assert "broadcast" in (burst.detail or "")


@families
def test_targets_without_a_route_do_not_disturb_the_others(sites, near_route, family):
    near_route("unreachable", ELSEWHERE_NETWORK[family])
    dead = [far(family, address=host) for host in hosts(ELSEWHERE_NETWORK[family], 20)]
    live = [far(family, address=host) for host in hosts(MANY_NETWORK[family], 20)]

    bursts = sites.measure(*(target for pair in zip(dead, live, strict=True) for target in pair), count=20)

    assert {(burst.outcome, burst.sent) for burst in bursts[0::2]} == {(Outcome.NO_ROUTE, 0)}
    assert {(burst.received, burst.stamp) for burst in bursts[1::2]} == {(20, "kernel")}
    # A send timestamp assigned to the wrong packet would be off by a spacing: 1 ms or more.
    assert statistics.median(rtt or 0 for burst in bursts[1::2] for rtt in burst.rtts_ms) < 0.5


def test_a_name_that_does_not_resolve_is_not_a_loss(sites):
    unknown, wrong_family, measured = sites.measure(
        PingTarget(address="nonesuch.invalid"), PingTarget(address=FAR[6], family=4), far(4), count=2
    )

    assert (unknown.outcome, unknown.address, unknown.sent) == (Outcome.DNS_FAILURE, None, 0)
    assert wrong_family.outcome is Outcome.DNS_FAILURE
    assert (measured.outcome, measured.received) == (Outcome.MEASURED, 2)


@families
def test_the_same_address_twice_gives_two_bursts_of_its_packets(sites, family):
    first, second = sites.measure(far(family, path_id=1), far(family, path_id=2))

    assert (first.received, first.duplicates) == (10, 0)
    assert first == second


@families
def test_a_priming_request_is_sent_and_not_counted(sites, family):
    with sites.responder(family, "lose"):
        [burst] = sites.measure(far(family), priming_bytes=56)

    # The far end drops the third and the eighth request; the first request is not counted.
    assert [number for number, rtt in enumerate(burst.rtts_ms) if rtt is None] == [1, 6]
    assert (burst.sent, burst.received) == (10, 8)


@families
def test_a_change_of_ttl_is_counted(sites, family):
    with sites.responder(family, "hop"):
        [burst] = sites.measure(far(family))

    assert (burst.ttl, burst.ttl_changes) == (64, 1)


@families
@pytest.mark.parametrize("user", [0, NOBODY_USER])
@pytest.mark.parametrize(
    ("route", "name"), [("unreachable", "host_unreachable"), ("prohibit", "administratively_prohibited")]
)
def test_a_routers_error_is_stored_with_its_address(sites, routed, family, user, route, name):
    routed(family, route)

    lost, fine = sites.measure(far(family, address=ELSEWHERE[family]), far(family), user=user, spacing_s=0.3, count=3)

    assert (lost.outcome, lost.sent, lost.received) == (Outcome.MEASURED, 3, 0)
    assert (fine.received, fine.errors, fine.stamp) == (3, (), "kernel")
    [error] = lost.errors
    expected = NAMED_OTHERWISE.get((family, route), name)
    assert (error.name, error.router) == (expected, FAR[family])
    assert 1 <= error.count <= 3  # a kernel sends this error at most once a second per address


@families
def test_a_routers_error_about_a_fragmented_request_is_stored(sites, routed, family):
    routed(family, "unreachable")

    [lost] = sites.measure(far(family, address=ELSEWHERE[family]), packet_bytes=(4000,), spacing_s=0.3, count=2)

    assert {error.router for error in lost.errors} == {FAR[family]}


@families
@pytest.mark.parametrize("user", [0, NOBODY_USER])
def test_a_request_too_large_for_the_path_gives_the_mtu(sites, routed, family, user):
    routed(family, "narrow")
    elsewhere = far(family, address=ELSEWHERE[family])

    [first] = sites.measure(elsewhere, user=user, packet_bytes=(1400,), dont_fragment=True, count=3)
    [second] = sites.measure(elsewhere, user=user, packet_bytes=(1400,), dont_fragment=True, count=3)

    assert (first.received, first.path_mtu_bytes) == (0, NARROW_MTU)
    assert [error.mtu_bytes for error in first.errors] == [NARROW_MTU]
    assert (second.outcome, second.sent, second.path_mtu_bytes) == (Outcome.NO_ROUTE, 0, NARROW_MTU)
    assert str(NARROW_MTU) in (second.detail or "")


@families
def test_a_request_larger_than_the_interface_is_reported(sites, family):
    large, small = sites.measure(far(family), packet_bytes=(65_000, 100), dont_fragment=True, count=2)

    assert (large.outcome, large.sent, large.path_mtu_bytes) == (Outcome.NO_ROUTE, 0, 1500)
    assert (small.outcome, small.received) == (Outcome.MEASURED, 2)


@families
def test_the_largest_request_is_fragmented_where_that_is_allowed(sites, family):
    [burst] = sites.measure(far(family), packet_bytes=(65_000,), count=3)

    assert (burst.sent, burst.received) == (3, 3)


def test_packets_refused_by_a_local_firewall_are_not_permitted(sites):
    run("ip", "netns", "exec", sites.near, "nft", FIREWALL.format(host=FAR_SECOND[4]))
    try:
        forbidden, allowed = sites.measure(far(4, address=FAR_SECOND[4]), far(4))
    finally:
        run("ip", "netns", "exec", sites.near, "nft", "delete table ip forbid")

    assert (forbidden.outcome, forbidden.sent) == (Outcome.NOT_PERMITTED, 0)
    assert "firewall" in (forbidden.detail or "")
    assert (allowed.received, allowed.stamp) == (10, "kernel")


def test_a_target_that_limits_its_replies_is_detected(sites):
    with far_sysctl(sites, {"net.ipv4.icmp_ratemask": "1", "net.ipv4.icmp_ratelimit": "1000"}):
        [limited] = sites.measure(far(4), count=25, spacing_s=0.4)

    assert limited.received < limited.sent
    assert limited.rate_limited is True


@pytest.mark.parametrize("count", [10, 20])
def test_a_limit_far_below_our_rate_is_detected(sites, count):
    with far_limit(sites, "1/second"):
        [limited] = sites.measure(far(4), count=count, spacing_s=0.2)

    assert 1 < limited.received < count / 2
    assert limited.rate_limited is True


def test_a_loss_independent_of_our_rate_is_no_rate_limit(sites):
    with sites.responder(4, "lose"):
        [lossy] = sites.measure(far(4), count=20, spacing_s=0.1)

    assert (lossy.received, lossy.rate_limited) == (16, False)


@families
def test_a_thousand_hosts_each_have_their_outcome(sites, near_route, family):
    near_route("unreachable", ELSEWHERE_NETWORK[family])
    live = hosts(MANY_NETWORK[family], 200)
    refused = {4: ["224.0.0.1", "255.255.255.255", "0.0.0.0"], 6: ["ff02::1", "::", "fe80::1"]}[family]
    expected = {
        **dict.fromkeys(live, Outcome.MEASURED),
        **dict.fromkeys(hosts(ELSEWHERE_NETWORK[family], 200), Outcome.NO_ROUTE),
        **dict.fromkeys(refused, Outcome.NOT_PERMITTED),
        **{f"host{number}.nonesuch.invalid": Outcome.DNS_FAILURE for number in range(100)},
        NEAR[family]: Outcome.MEASURED,
    }
    names = (list(expected) * 2)[:1000]

    bursts = sites.measure(*[far(family, address=name) for name in names], count=2, spacing_s=0.5)

    assert [burst.target for burst in bursts] == names
    assert [burst.outcome for burst in bursts] == [expected[name] for name in names]
    assert {burst.received for burst in bursts if burst.target in live} == {2}
    assert all(burst.detail for burst in bursts if burst.outcome is not Outcome.MEASURED)
    [own] = {burst.detail for burst in bursts if burst.target == NEAR[family]}
    assert "local address" in (own or "")


def test_a_link_local_address_is_measured_with_its_interface(sites):
    output = subprocess.run(
        ["ip", "-n", sites.far, "-j", "address", "show", "dev", "wan", "scope", "link"], capture_output=True, check=True
    )
    [local] = [entry["local"] for shows in json.loads(output.stdout) for entry in shows.get("addr_info", []) if entry]

    scoped, unscoped = sites.measure(far(6, address=f"{local}%wan"), far(6, address=local), count=2)

    assert (scoped.outcome, scoped.received) == (Outcome.MEASURED, 2)
    assert (unscoped.outcome, unscoped.sent) == (Outcome.NOT_PERMITTED, 0)
    assert f"{local}%INTERFACE" in (unscoped.detail or "")


@families
def test_all_requests_to_a_target_have_the_same_checksum(sites, family):
    """On the wire: each size, with another secret and identifier in each cycle; load balancers hash the checksum."""
    with sites.responder(family, "tell") as first:
        [small, large] = sites.measure(far(family), packet_bytes=(64, 1000), count=5)
    with sites.responder(family, "tell") as second:
        sites.measure(far(family), packet_bytes=(64,), count=5)

    assert (small.received, large.received) == (5, 5)
    lengths = [int(line.split()[1]) for line in first]
    assert (lengths.count(72), lengths.count(1008)) == (5, 5)
    [head] = {line.split()[0] for line in first + second}
    if family == 4:
        assert {small.flow, large.flow} == {int(head[4:], 16)}, "type and code, then the checksum"
    else:
        assert small.flow == large.flow


@families
def test_requests_are_sent_from_the_source_if_it_is_local(sites, family):
    run("ip", "-n", sites.far, "route", "add", "blackhole", NEAR_SECOND[family])
    try:
        first, second, foreign = sites.measure(
            far(family, source=NEAR[family]),
            far(family, source=NEAR_SECOND[family]),
            far(family, source=ELSEWHERE[family]),
            timeout_s=0.3,
        )
    finally:
        run("ip", "-n", sites.far, "route", "delete", "blackhole", NEAR_SECOND[family])

    assert (first.received, second.received, foreign.received) == (10, 0, 10)


def test_both_families_are_measured_together(sites):
    bursts = sites.measure(far(4), far(6))

    assert [(burst.address, burst.received) for burst in bursts] == [(FAR[4], 10), (FAR[6], 10)]


def test_sending_stops_in_time_for_the_last_reply(sites):
    [burst] = sites.measure(far(4), count=100, spacing_s=0.1, timeout_s=0.5, deadline_s=1.5)

    assert burst.outcome is Outcome.MEASURED
    assert 1 <= burst.sent == burst.received < 20
    assert "deadline" in (burst.detail or "")


@families
def test_an_unprivileged_user_measures_where_the_sysctl_allows(sites, family):
    setting = "net.ipv4.ping_group_range"
    run("ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=0 2147483647")
    try:
        bursts = sites.measure(far(family), user=NOBODY_USER, packet_bytes=(16, 100, 1001))
    finally:
        run("ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=1 0")

    for burst in bursts:
        assert (burst.outcome, burst.received, burst.duplicates) == (Outcome.MEASURED, 10, 0)
        assert (burst.ttl, burst.stamp) == (64, "kernel")


@families
def test_forgeries_are_ignored_by_the_unprivileged_socket(sites, family):
    setting = "net.ipv4.ping_group_range"
    run("ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=0 2147483647")
    try:
        with sites.responder(family, "forge"):
            [burst] = sites.measure(far(family), user=NOBODY_USER)
    finally:
        run("ip", "netns", "exec", sites.near, "sysctl", "-qw", f"{setting}=1 0")

    assert (burst.sent, burst.received) == (10, 0)


@families
def test_an_unprivileged_user_learns_which_setting_to_change(sites, family):
    run("ip", "netns", "exec", sites.near, "sysctl", "-qw", "net.ipv4.ping_group_range=1 0")

    [burst] = sites.measure(far(family), user=NOBODY_USER)

    assert (burst.outcome, burst.sent) == (Outcome.NOT_PERMITTED, 0)
    assert "net.ipv4.ping_group_range" in (burst.detail or "")
    assert "cap_net_raw" in (burst.detail or "")


def test_a_full_send_queue_delays_but_loses_nothing(sites):
    run("ip", "netns", "exec", sites.near, "tc", "qdisc", "add", "dev", "wan", "root", "tbf",
        "rate", "8mbit", "burst", "3000", "limit", "10000000")  # fmt: skip
    try:
        many = [far(4, address=host) for host in hosts(MANY_NETWORK[4], 50)]
        bursts = sites.measure(*many, packet_bytes=(1000,), count=20, spacing_s=0.01, timeout_s=5.0)
    finally:
        run("ip", "netns", "exec", sites.near, "tc", "qdisc", "delete", "dev", "wan", "root")

    assert sum(burst.sent for burst in bursts) == sum(burst.received for burst in bursts) == 1000
    assert {burst.stamp for burst in bursts} == {"kernel"}
    assert sum(burst.waited for burst in bursts) > 0


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", 4), ("::1", 6)])
def test_an_address_on_the_command_line_implies_its_family(capsys, host, family):
    status = main(["ping", host, "--count", "1", "--sizes", "100", "--json"])

    burst = json.loads(capsys.readouterr().out)
    assert (status, burst["family"], burst["address"], burst["received"]) == (0, family, host, 1)
