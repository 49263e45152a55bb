"""Real iperf3 on loopback addresses: a test that works, and each way in which one does not."""

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from probes.contract import Deadline, Outcome
from probes.throughput.iperf3 import measure, serve
from probes.throughput.spec import ThroughputSpec

pytestmark = pytest.mark.skipif(
    shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed"
)

CLIENT, SERVER = "127.77.1.1", "127.77.2.1"


@pytest.fixture
def port():
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((SERVER, 0))
        return probe.getsockname()[1]


class Server(threading.Thread):
    """`serve` in a thread; `wait_listening` returns once a connection would be taken."""

    def __init__(self, spec, seconds=20.0):
        super().__init__()
        self.spec = spec
        self.deadline = Deadline(seconds)
        self.served = None

    def run(self):
        self.served = serve(self.spec, self.deadline)


def sockets(port, state):
    """How many TCP sockets at our `port` are in a state, as the kernel numbers them."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == state for row in rows)


def listening(port):
    """Whether a socket listens on `port` here, without touching it."""
    return sockets(port, "0A") > 0


def wait_until(true, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def spec(port, **fields):
    return ThroughputSpec(**{"address": SERVER, "source": CLIENT, "port": port, "duration_s": 1, **fields})


@pytest.mark.parametrize("streams", [1, 3])
def test_a_transfer_between_two_ends(port, streams):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, streams=streams), Deadline(15))
    server.join()

    assert (run.outcome, run.detail) == (Outcome.MEASURED, None)
    assert (run.target, run.address, run.streams) == (SERVER, SERVER, streams)
    assert run.throughput_bps == pytest.approx(run.received_bytes * 8 / run.duration_s, rel=1e-6)
    assert 0.9 < run.duration_s < 2.5
    assert sum(interval.transferred_bytes for interval in run.intervals) == pytest.approx(run.sent_bytes, rel=0.01)
    assert server.served is True
    assert not listening(port)


def test_nobody_listens(port):
    run = measure(spec(port), Deadline(10))

    assert (run.outcome, run.throughput_bps) == (Outcome.REFUSED, None)
    assert "Connection refused" in run.detail


def test_somebody_else_is_being_served(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    first = threading.Thread(target=measure, args=(spec(port, duration_s=3), Deadline(15)))
    first.start()
    wait_until(lambda: established(port) >= 2)

    run = measure(spec(port), Deadline(10))
    first.join()
    server.join()

    assert (run.outcome, run.throughput_bps) == (Outcome.BUSY, None)
    assert server.served is True


def established(port):
    """Connections to `port`: iperf3 has one for control and one for each stream."""
    return sockets(port, "01")


def test_the_server_is_killed_in_the_middle(port):
    server = subprocess.Popen(
        ["iperf3", "-s", "-1", "-p", str(port), "-B", SERVER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: listening(port))
    killer = threading.Thread(target=lambda: (wait_until(lambda: established(port) >= 2), server.kill()))
    killer.start()

    run = measure(spec(port, duration_s=5), Deadline(15))
    killer.join()
    server.wait()

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert run.detail


def test_a_test_that_outlives_its_time_is_stopped(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    began = time.monotonic()

    run = measure(spec(port, duration_s=30), Deadline(1))
    server.join()

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "had not ended" in run.detail
    assert time.monotonic() - began < 15


def test_nobody_comes(port):
    server = Server(spec(port), seconds=0.5)
    server.start()
    server.join()

    assert server.served is False
    assert not listening(port)


def test_a_stranger_who_only_connects_does_not_use_the_server_up(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    with socket.create_connection((SERVER, port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
    wait_until(lambda: listening(port))

    deadline = time.monotonic() + 10
    while (run := measure(spec(port), Deadline(5))).outcome in (Outcome.REFUSED, Outcome.BUSY):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    server.join()

    assert run.outcome is Outcome.MEASURED
    assert server.served is True


def test_a_port_that_is_taken_is_waited_for(port):
    with socket.socket() as holder:
        holder.bind((SERVER, port))
        holder.listen()
        server = Server(spec(port))
        server.start()
        wait_until(server.is_alive)
    wait_until(lambda: listening(port))

    run = measure(spec(port), Deadline(10))
    server.join()

    assert run.outcome is Outcome.MEASURED
    assert server.served is True
