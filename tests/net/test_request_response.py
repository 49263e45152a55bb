"""Request and response over a path of the lab: round trips of a block in slow start and after it, the latency of a
plain client in the same run, and the retransmission timeout where a segment is lost."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

import pytest

from tests.lab import RunningLab, wait_until

CLIENT, SERVER = "bern", "rome"
RTT_MS = 20
PORT, PLAIN_PORT = 4821, 4822
BLOCK_BYTES = 65_536
INITIAL_WINDOW, MSS_BYTES = 10, 1448
"""RFC 6928, and an Ethernet MTU less 40 bytes of headers and 12 of timestamps."""
LEAST_TIMEOUT_MS = 200
"""Of Linux (TCP_RTO_MIN)."""
SERVER_PROGRAM = """
import socket, sys, threading
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.server import BlockServer, open_listener
from probes.peers import Peers
listener = open_listener(int(sys.argv[1]))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
BlockServer(Peers({}, [sys.argv[2]]), RequestResponseLimits()).run(listener, threading.Event())
"""
"""With Reno, as every system has it: BBR, the default of some, neither doubles its window nor forgets it when idle."""
PLAIN_SERVER = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
connection = server.accept()[0]
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while connection.recv(100):
    connection.sendall(bytes(int(sys.argv[2])))
"""
PLAIN_CLIENT = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(40):
    began = time.monotonic()
    connection.sendall(b"x" * 100)
    left = int(sys.argv[3])
    while left:
        left -= len(connection.recv(left))
    print(1000 * (time.monotonic() - began))
"""


def round_trips(block_bytes: int) -> int:
    """Round trips in which slow start sends a block: the window doubles in each."""
    segments, window, trips = ceil(block_bytes / MSS_BYTES), INITIAL_WINDOW, 0
    while segments > 0:
        segments, window, trips = segments - window, 2 * window, trips + 1
    return trips


@pytest.fixture
def path(start_lab: Callable[..., RunningLab]) -> RunningLab:
    """A path of 20 ms that is faster than the blocks need, with a server at its end."""
    lab = start_lab("three-sites")
    lab.set(f"{CLIENT}-{SERVER}", "--both", "--rate-mbps", "1000", "--rtt-ms", str(RTT_MS), "--loss", "0")
    for site in (CLIENT, SERVER):
        done = lab.exec(site, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
        assert done.returncode == 0, done.stderr
    return lab


@contextmanager
def listening(lab: RunningLab, port: int, *argv: str) -> Iterator[None]:
    """A program that listens on a port of the server's site."""
    process = lab.popen(SERVER, *argv)
    try:
        wait_until(lambda: f":{port}" in lab.exec(SERVER, "ss", "-tlnH").stdout, f"port {port} listens")
        yield
    finally:
        process.terminate()
        process.communicate()


def measured(lab: RunningLab, *options: str, times: int = 1) -> list[dict[str, Any]]:
    """So many runs of the command, as its JSON has them."""
    serve = (sys.executable, "-c", SERVER_PROGRAM, str(PORT), lab.address(CLIENT))
    with listening(lab, PORT, *serve):
        hosts = [lab.address(SERVER)] * times
        done = lab.exec(CLIENT, sys.executable, "-m", "probes", "request-response", *hosts, "--json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_block_takes_the_round_trips_of_slow_start_and_then_its_own(path):
    runs = measured(path, "--count", "20", times=4)
    with listening(path, PLAIN_PORT, sys.executable, "-c", PLAIN_SERVER, str(PLAIN_PORT), str(BLOCK_BYTES)):
        plain = path.exec(
            CLIENT, sys.executable, "-c", PLAIN_CLIENT, path.address(SERVER), str(PLAIN_PORT), str(BLOCK_BYTES)
        )
    plain_ms = [float(line) for line in plain.stdout.split()]
    # A busy machine adds to each time and takes from none: the least of several tells the round trips.
    least_ms = {
        name: min(run[name] for run in runs) for name in ("connect_ms", "first_ms", "after_idle_ms", "minimum_ms")
    }

    assert round_trips(BLOCK_BYTES) == 3
    assert {name: round(time_ms / RTT_MS) for name, time_ms in least_ms.items()} == {
        "connect_ms": 1,
        "first_ms": 3,
        "after_idle_ms": 3,
        "minimum_ms": 1,
    }
    assert least_ms["minimum_ms"] == pytest.approx(min(plain_ms), rel=0.25)
    for run in runs:
        assert run["transactions_per_s"] == pytest.approx(1000 / statistics.fmean(run["latencies_ms"]))


def test_a_lost_segment_costs_the_retransmission_timeout(path):
    path.set(f"{CLIENT}-{SERVER}", "--both", "--loss", "0.05")
    small = ("--response-bytes", "1000", "--count", "200", "--duration-s", "60", "--timeout-s", "30", "--idle-s", "0")
    [run] = measured(path, *small)
    slow = [latency_ms for latency_ms in run["latencies_ms"] if latency_ms >= LEAST_TIMEOUT_MS]

    assert run["minimum_ms"] == pytest.approx(RTT_MS, abs=RTT_MS / 2)
    assert slow
    assert run["maximum_ms"] >= LEAST_TIMEOUT_MS + RTT_MS - 1
    assert run["p99_ms"] >= LEAST_TIMEOUT_MS
    assert run["retransmits"] + run["far_retransmits"] >= 1
    assert len(slow) <= run["retransmits"] + run["far_retransmits"]
