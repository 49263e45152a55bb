"""tcp-ping against real sockets between namespaces: open, closed, filtered and rejected ports, and a planted delay."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.tcp_ping.spec import SERIES_BYTES, TcpPingSpec, TcpPingTarget
from tests.net.test_ping import FAR, NEAR_SECOND, Sites, joined_namespaces, run

OPEN, CLOSED = 8443, 8444
MEASURE = """
import sys, msgspec
from probes.contract import Deadline
from probes.tcp_ping.probe import TcpPingProbe
from probes.tcp_ping.spec import TcpPingSpec
spec = msgspec.json.decode(sys.stdin.buffer.read(), type=TcpPingSpec)
sys.stdout.buffer.write(msgspec.json.encode(TcpPingProbe().run(spec, Deadline(60))))
"""
LISTEN = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
print("ready", flush=True)
while True:
    connection, peer = server.accept()
    print(peer[0].removeprefix("::ffff:"), len(connection.recv(100)), flush=True)
    connection.close()
"""
families = pytest.mark.parametrize("family", [4, 6])


@pytest.fixture(scope="module")
def sites(namespaces_required: None, root_required: None) -> Iterator[Sites]:
    with joined_namespaces() as joined:
        yield joined


@contextmanager
def listener(sites: Sites) -> Iterator[list[str]]:
    """A listener in the far namespace. Yields a list that has at the end a line for each connection: the peer, and the
    bytes that it sent."""
    command = ["ip", "netns", "exec", sites.far, sys.executable, "-c", LISTEN, str(OPEN)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield lines
    finally:
        process.terminate()
        lines += process.communicate()[0].splitlines()


@contextmanager
def far_rule(sites: Sites, rule: str) -> Iterator[None]:
    """An nftables rule for what arrives in the far namespace, with a counter."""
    nft = ("ip", "netns", "exec", sites.far, "nft")
    run(*nft, "add table inet probe; add chain inet probe in { type filter hook input priority 0; }")
    try:
        run(*nft, f"add rule inet probe in {rule}")
        yield
    finally:
        run(*nft, "delete table inet probe")


def counted(sites: Sites) -> int:
    """The packets that met the rule."""
    command = ["ip", "netns", "exec", sites.far, "nft", "-j", "list", "chain", "inet", "probe", "in"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["nftables"]
    [expressions] = [entry["rule"]["expr"] for entry in listed if "rule" in entry]
    packets: int = next(expression["counter"]["packets"] for expression in expressions if "counter" in expression)
    return packets


def measure(sites: Sites, family: int, port: int, source: str | None = None, **numbers: object) -> Burst:
    target = TcpPingTarget(address=FAR[family], family=family, source=source)
    spec = TcpPingSpec(targets=(target,), port=port, **{"count": 8, "spacing_s": 0.05, "timeout_s": 0.5} | numbers)
    done = subprocess.run(
        ["ip", "netns", "exec", sites.near, sys.executable, "-c", MEASURE],
        input=msgspec.json.encode(spec),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    [burst] = msgspec.json.decode(done.stdout, type=tuple[Burst, ...])
    return burst


@families
def test_an_open_port_is_timed_by_the_kernel_and_sent_no_data(sites, family):
    with listener(sites) as connections:
        burst = measure(sites, family, OPEN)

    assert (burst.outcome, burst.address, burst.family) == (Outcome.MEASURED, FAR[family], family)
    assert (burst.sent, burst.received, burst.packet_bytes) == (8, 8, SERIES_BYTES)
    assert (burst.stamp, burst.detail, burst.errors) == ("kernel", None, ())
    assert all(rtt_ms is not None and 0 < rtt_ms < 100 for rtt_ms in burst.rtts_ms)
    assert [line.split()[1] for line in connections] == ["0"] * 8


@families
def test_a_closed_port_answers_by_rst(sites, family):
    burst = measure(sites, family, CLOSED)

    assert (burst.outcome, burst.sent, burst.received, burst.stamp) == (Outcome.MEASURED, 8, 8, "user")
    assert all(rtt_ms is not None and 0 < rtt_ms < 100 for rtt_ms in burst.rtts_ms)
    assert f"8 answered by RST (port {CLOSED} is closed)" in str(burst.detail)


@families
def test_a_dropped_syn_is_lost_and_never_sent_again(sites, family):
    with far_rule(sites, f"tcp dport {OPEN} counter drop"):
        # Beyond 1 s, when the kernel would send the first SYN again. A busy machine may wake the program late: with the
        # longest timeout, 0.9 s, a tenth of a second would be enough for a second SYN.
        burst = measure(sites, family, OPEN, count=4, spacing_s=0.5, timeout_s=0.5)
        syns = counted(sites)

    assert (burst.outcome, burst.sent, burst.received, burst.rtts_ms) == (Outcome.MEASURED, 4, 0, (None,) * 4)
    assert (burst.stamp, burst.late, syns) == (None, 0, 4)


@pytest.mark.parametrize(
    ("reason", "name"), [("port-unreachable", "port_unreachable"), ("admin-prohibited", "administratively_prohibited")]
)
def test_an_icmp_error_is_no_answer(sites, reason, name):
    """The kernel reports port unreachable as a refused connection, too."""
    with far_rule(sites, f"tcp dport {OPEN} counter reject with icmpx type {reason}"):
        burst = measure(sites, 4, OPEN, count=3)

    assert (burst.outcome, burst.sent, burst.received) == (Outcome.MEASURED, 3, 0)
    assert [(error.router, error.count) for error in burst.errors] == [(FAR[4], 3)]
    assert name in burst.errors[0].name


@families
def test_handshakes_come_from_the_source_address(sites, family):
    with listener(sites) as connections:
        burst = measure(sites, family, OPEN, source=NEAR_SECOND[family], count=3)

    assert burst.received == 3
    assert {line.split()[0] for line in connections} == {NEAR_SECOND[family]}


def test_without_a_route_nothing_was_sent(sites):
    target = TcpPingTarget(address="203.0.113.7")
    spec = TcpPingSpec(targets=(target,), port=OPEN, count=2, spacing_s=0.05, timeout_s=0.2)
    done = subprocess.run(
        ["ip", "netns", "exec", sites.near, sys.executable, "-c", MEASURE],
        input=msgspec.json.encode(spec),
        capture_output=True,
        timeout=60,
        check=True,
    )

    [burst] = msgspec.json.decode(done.stdout, type=tuple[Burst, ...])

    assert (burst.outcome, burst.sent) == (Outcome.NO_ROUTE, 0)


def test_a_delay_of_20_ms_is_measured_by_syn_ack_and_rst(lab):
    server = lab.popen("rome", sys.executable, "-c", LISTEN, str(OPEN))
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        medians_ms = {}
        for port in (OPEN, CLOSED):
            options = ("--port", str(port), "-c", "9", "--spacing-s", "0.1", "--json")
            done = lab.exec("bern", sys.executable, "-m", "probes", "tcp-ping", lab.address("rome"), *options)
            assert done.returncode == 0, done.stderr
            burst = json.loads(done.stdout)
            assert (burst["sent"], burst["received"]) == (9, 9)
            medians_ms[port] = statistics.median(burst["rtts_ms"])
    finally:
        server.terminate()
        server.wait()

    # The relay adds up to a millisecond; a RST is timed by the program, on a busy machine too.
    assert 20.0 <= medians_ms[OPEN] < 23.0
    assert 20.0 <= medians_ms[CLOSED] < 25.0
