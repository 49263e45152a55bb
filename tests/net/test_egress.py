"""Where packets leave: by source address, interface or VRF, from a namespace, with a DSCP, as seen at the far end."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import msgspec
import pytest

from probes.contract import Deadline, Outcome
from probes.packets.egress import Egress
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.stamp.limits import StampLimits
from probes.stamp.probe import measure as measure_stamp
from probes.stamp.reflector.service import ReflectorService
from probes.stamp.spec import AnsweredPeer, ReflectorPlan, StampBurst, StampSpec, StampTarget
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget
from tests.net.test_ping import run, wait_for_answer

EXPEDITED = 46
MEASURE = """
import sys, msgspec
from probes.contract import Deadline
from probes.packets.burst import measure
from probes.packets.spec import PingSpec
from probes.tcp_ping.probe import TcpPingProbe
from probes.tcp_ping.spec import TcpPingSpec
body = sys.stdin.buffer.read()
if sys.argv[1] == "ping":
    bursts = measure(msgspec.json.decode(body, type=PingSpec), Deadline(60), plain=sys.argv[2] == "plain")
else:
    bursts = TcpPingProbe().run(msgspec.json.decode(body, type=TcpPingSpec), Deadline(60))
sys.stdout.buffer.write(msgspec.json.encode(bursts))
"""
REQUESTS = ("icmp type echo-request", "icmpv6 type echo-request", "tcp flags syn / syn,ack")
STAMP_UDP_PORT = 8620
families = pytest.mark.parametrize("family", [4, 6])


@dataclass(frozen=True)
class TwoLinks:
    """A near namespace joined to a far one by two links, `one` and `two`; its route leads over `one`. The far one has
    the address `FAR`."""

    near: str
    far: str


def near_address(family: int, link: int) -> str:
    return f"10.8.{link}.1" if family == 4 else f"fd08:{link}::1"


FAR = {4: "10.8.9.9", 6: "fd08:9::9"}


@pytest.fixture(scope="module")
def links(namespaces_required: None, root_required: None) -> Iterator[TwoLinks]:
    name = f"egress-{secrets.token_hex(3)}"
    two = TwoLinks(f"{name}-near", f"{name}-far")
    with ExitStack() as undo:
        for namespace in (two.near, two.far):
            run("ip", "netns", "add", namespace)
            undo.callback(run, "ip", "netns", "delete", namespace)
            run("ip", "-n", namespace, "link", "set", "lo", "up")
        for family in (4, 6):
            prefix = {4: 32, 6: 128}[family]
            run("ip", "-n", two.far, "address", "add", f"{FAR[family]}/{prefix}", "dev", "lo")
        for number, link in ((1, "one"), (2, "two")):
            run("ip", "-n", two.near, "link", "add", link, "type", "veth", "peer", link, "netns", two.far)
            for namespace, last in ((two.near, 1), (two.far, 2)):
                run("ip", "-n", namespace, "address", "add", f"10.8.{number}.{last}/24", "dev", link)
                run("ip", "-n", namespace, "address", "add", f"fd08:{number}::{last}/64", "dev", link, "nodad")
                run("ip", "-n", namespace, "link", "set", link, "up")
            for family, gateway in ((4, f"10.8.{number}.2"), (6, f"fd08:{number}::2")):
                metric = ("metric", str(100 * number))
                run("ip", "-n", two.near, "route", "add", FAR[family], "via", gateway, "dev", link, *metric)
        for address in FAR.values():
            wait_for_answer(two.near, address)
        yield two


@contextmanager
def counting(links: TwoLinks, dscp: int = EXPEDITED) -> Iterator[dict[tuple[str, str], int]]:
    """Counts what arrives at the far end, by link and whether it has the DSCP ("marked") or not ("plain"). The echo
    requests, SYNs and STAMP packets to FAR alone."""
    counts: dict[tuple[str, str], int] = {}
    nft = ("ip", "netns", "exec", links.far, "nft")
    rules = ["add table inet seen", "add chain inet seen in { type filter hook input priority 0; }"]
    for link in ("one", "two"):
        for family, condition in ((4, f"ip daddr {FAR[4]}"), (6, f"ip6 daddr {FAR[6]}")):
            word = "ip" if family == 4 else "ip6"
            for protocol in (*REQUESTS, f"udp dport {STAMP_UDP_PORT}"):
                match = f"iifname {link} {condition} {protocol}"
                for name, dscp_is in (("marked", f"== {dscp}"), ("plain", f"!= {dscp}")):
                    comment = f'comment "{link}-{name}"'
                    rules.append(f"add rule inet seen in {match} {word} dscp {dscp_is} counter {comment}")
    run(*nft, "; ".join(rules))
    try:
        yield counts
        listed = subprocess.run([*nft, "list", "table", "inet", "seen"], capture_output=True, text=True, check=True)
        for packets, link, name in re.findall(r'counter packets (\d+) .*comment "(\w+)-(\w+)"', listed.stdout):
            counts[link, name] = counts.get((link, name), 0) + int(packets)
    finally:
        run(*nft, "delete table inet seen")


def measure(namespace: str | None, kind: str, family: int, egress: Egress, source: str | None = None) -> Burst:
    """Measure `FAR` from a namespace, by pings (with `plain` sockets, too) or handshakes with a closed port."""
    spec: PingSpec | TcpPingSpec
    if kind == "tcp-ping":
        tcp_target = TcpPingTarget(address=FAR[family], family=family, source=source, egress=egress)
        spec = TcpPingSpec(targets=(tcp_target,), port=7, count=4, spacing_s=0.05, timeout_s=0.5)
    else:
        target = PingTarget(address=FAR[family], family=family, source=source, egress=egress)
        spec = PingSpec(
            targets=(target,), packet_bytes=(100,), count=4, spacing_s=0.02, timeout_s=0.5, late_s=0.1,
            priming_bytes=None, check_rate_limit=False,
        )  # fmt: skip
    within = [] if namespace is None else ["ip", "netns", "exec", namespace]
    done = subprocess.run(
        [*within, sys.executable, "-c", MEASURE, kind.partition(" ")[0], kind.partition(" ")[2]],
        input=msgspec.json.encode(spec),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    [burst] = msgspec.json.decode(done.stdout, type=tuple[Burst, ...])
    return burst


@families
@pytest.mark.parametrize("kind", ["ping", "ping plain", "tcp-ping"])
def test_packets_carry_the_dscp_to_the_far_end(links, kind, family):
    with counting(links) as counts:
        burst = measure(links.near, kind, family, Egress(dscp=EXPEDITED))

    assert (burst.outcome, burst.sent, burst.received) == (Outcome.MEASURED, 4, 4)
    assert burst.source_address == near_address(family, 1)
    assert counts == {("one", "marked"): 4, ("one", "plain"): 0, ("two", "marked"): 0, ("two", "plain"): 0}


@families
@pytest.mark.parametrize("kind", ["ping", "tcp-ping"])
def test_packets_leave_by_the_interface(links, kind, family):
    """The route leads over the other one."""
    with counting(links) as counts:
        burst = measure(links.near, kind, family, Egress(interface="two"))

    assert (burst.received, burst.source_address) == (4, near_address(family, 2))
    assert (counts["one", "plain"], counts["two", "plain"]) == (0, 4)


@families
@pytest.mark.parametrize("kind", ["ping", "tcp-ping"])
def test_the_agent_sends_from_another_namespace(links, kind, family):
    burst = measure(None, kind, family, Egress(namespace=links.near), near_address(family, 2))

    assert (burst.outcome, burst.received, burst.source_address) == (Outcome.MEASURED, 4, near_address(family, 2))


@pytest.mark.parametrize("kind", ["ping", "tcp-ping"])
@pytest.mark.parametrize(
    ("egress", "words"),
    [
        (Egress(interface="nonesuch0"), "interface 'nonesuch0' cannot be used: No such device"),
        (Egress(namespace="nonesuch"), "no network namespace 'nonesuch'"),
    ],
)
def test_a_missing_interface_or_namespace_is_no_loss(links, kind, egress, words):
    burst = measure(links.near, kind, 4, egress)

    assert (burst.outcome, burst.sent, burst.source_address) == (Outcome.NO_ROUTE, 0, None)
    assert words in str(burst.detail)


@families
@pytest.mark.parametrize("kind", ["ping", "tcp-ping"])
def test_packets_leave_through_a_vrf(links, kind, family):
    made = subprocess.run(
        ["ip", "-n", links.near, "link", "add", "science", "type", "vrf", "table", "77"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this kernel has no VRF: {made.stderr.strip()}")
    gateway = {4: "10.8.2.2", 6: "fd08:2::2"}[family]
    try:
        run("ip", "-n", links.near, "link", "set", "science", "up")
        run("ip", "-n", links.near, "link", "set", "two", "master", "science")
        subprocess.run(
            ["ip", "-n", links.near, "route", "add", FAR[family], "via", gateway, "vrf", "science"], check=False
        )
        with counting(links) as counts:
            burst = measure(links.near, kind, family, Egress(interface="science"))
    finally:
        run("ip", "-n", links.near, "link", "delete", "science")

    assert burst.received == 4
    assert (counts["one", "plain"], counts["two", "plain"]) == (0, 4)


@contextmanager
def reflecting(*peers: AnsweredPeer) -> Iterator[ReflectorService]:
    """The reflectors of an agent for these peers."""
    plan = ReflectorPlan(peers=peers, port=STAMP_UDP_PORT)
    service = ReflectorService(lambda: plan, StampLimits(), lambda address: None)
    service.refresh()
    stop = threading.Event()
    try:
        yield service
    finally:
        stop.set()
        service.run(stop)


def stamp(egress: Egress, family: int, *, dscp: int = 0, source: str | None = None) -> StampBurst:
    target = StampTarget(address=FAR[family], family=family, port=STAMP_UDP_PORT, egress=egress, source=source)
    spec = StampSpec(targets=(target,), count=4, spacing_s=0.02, timeout_s=0.5, late_s=0.0, dscp=dscp)
    [burst] = measure_stamp(spec, Deadline(60))
    return burst


@families
def test_stamp_leaves_by_the_interface_and_is_reflected_in_a_namespace(links, family):
    """The reflector answers the address of the second link alone; the route leads over the first."""
    peer = AnsweredPeer(address=near_address(family, 2), family=family, egress=Egress(namespace=links.far))
    with reflecting(peer), counting(links) as counts:
        burst = stamp(Egress(namespace=links.near, interface="two"), family, dscp=EXPEDITED)
        by_route = stamp(Egress(namespace=links.near), family)

    assert (burst.outcome, burst.sent, burst.received, burst.forward.dscp) == (Outcome.MEASURED, 4, 4, EXPEDITED)
    assert (by_route.sent, by_route.received) == (4, 0)
    assert (counts["one", "marked"], counts["two", "plain"]) == (0, 0)
    assert min(counts["two", "marked"], counts["one", "plain"]) >= 4


@families
def test_reflectors_of_two_interfaces_answer_their_own_peers(links, family):
    peers = [
        AnsweredPeer(
            address=near_address(family, link), family=family, egress=Egress(namespace=links.far, interface=name)
        )
        for link, name in ((1, "one"), (2, "two"))
    ]
    with reflecting(*peers):
        bursts = [
            stamp(Egress(namespace=links.near, interface=name), family, source=near_address(family, link))
            for name, link in (("one", 1), ("two", 2), ("two", 1))
        ]

    assert [burst.received for burst in bursts] == [4, 4, 0]


@families
def test_a_reflector_of_any_interface_answers_beside_that_of_an_interface(links, family):
    peers = (
        AnsweredPeer(address=near_address(family, 1), family=family, egress=Egress(namespace=links.far)),
        AnsweredPeer(
            address=near_address(family, 2), family=family, egress=Egress(namespace=links.far, interface="two")
        ),
    )
    with reflecting(*peers):
        bursts = [stamp(Egress(namespace=links.near, interface=name), family) for name in ("one", "two")]

    assert [burst.received for burst in bursts] == [4, 4]


def test_stamp_by_a_missing_interface_is_no_loss(links):
    burst = stamp(Egress(namespace=links.near, interface="nonesuch0"), 4)

    assert (burst.outcome, burst.sent) == (Outcome.NO_ROUTE, 0)
    assert "interface 'nonesuch0' cannot be used: No such device" in str(burst.detail)


PROBES = (sys.executable, "-m", "probes")


def json_of(*arguments: str) -> dict[str, object]:
    """What `python -m probes … --json` prints."""
    done = subprocess.run([*PROBES, *arguments, "--json"], capture_output=True, text=True, check=False, timeout=60)
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(("kind", "family"), [("ping", 4), ("tcp-ping", 6), ("stamp", 4), ("stamp", 6)])
def test_commands_send_from_a_namespace_by_an_interface(links, kind, family):
    egress = ("--namespace", links.near, "--interface", "two", "--dscp", str(EXPEDITED))
    options = ("-c", "3", "--spacing-s", "0.05", "--timeout-s", "0.5", *egress)
    own = {
        "ping": ("--sizes", "100", "--no-priming", "--late-s", "0.1"),
        "tcp-ping": ("--port", "7"),
        "stamp": ("--port", str(STAMP_UDP_PORT)),
    }
    with ExitStack() as stack:
        counts = stack.enter_context(counting(links))
        if kind == "stamp":
            stack.enter_context(reflecting_command(links, near_address(family, 2)))
        told = json_of(kind, FAR[family], *options, *own[kind])

    assert (told["outcome"], told["received"], told["source_address"]) == ("measured", 3, near_address(family, 2))
    assert counts["two", "marked"] >= 3
    assert counts["two", "plain"] == counts["one", "marked"] == counts["one", "plain"] == 0


@contextmanager
def reflecting_command(links: TwoLinks, peer: str) -> Iterator[None]:
    """`python -m probes stamp --reflect` in the far namespace by link two; it runs in this one."""
    options = ("--peer", peer, "--port", str(STAMP_UDP_PORT), "--namespace", links.far, "--interface", "two")
    command = [*PROBES, "stamp", "--reflect", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "answering" in process.stderr.readline()
            yield
        finally:
            process.terminate()


def test_results_name_the_source_as_json(links):
    """`python -m probes ping --json` too."""
    command = ["ip", "netns", "exec", links.near, sys.executable, "-m", "probes", "ping", FAR[4], "-c", "1"]
    done = subprocess.run(
        [*command, "--sizes", "100", "--no-priming", "--json"], capture_output=True, text=True, check=True, timeout=60
    )

    assert json.loads(done.stdout)["source_address"] == near_address(4, 1)
