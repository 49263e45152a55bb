"""Real iperf3 on loopback addresses: a successful test, and each kind of failure."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from probes.contract import Deadline, Outcome, ProbeError
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.slot import Slots
from probes.site.spool.spool import Spool
from probes.throughput import kind as throughput
from probes.throughput.probe import Iperf3Probe
from probes.throughput.spec import ThroughputSlot
from probes.transfers import source_filter
from probes.transfers.iperf3 import authentication
from probes.transfers.iperf3 import transfer as iperf3
from probes.transfers.iperf3.authentication import is_supported
from probes.transfers.iperf3.errors import ServerBusy
from probes.transfers.iperf3.transfer import serve
from probes.transfers.spec import ThroughputSpec
from tests.iperf3_runs import measure
from tests.unit.site.test_spool import next_batch

pytestmark = pytest.mark.skipif(
    shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed"
)

CLIENT, SERVER, STRANGER = "127.77.1.1", "127.77.2.1", "127.77.3.1"


@pytest.fixture
def port():
    """A free port."""
    with socket.socket() as probe:
        probe.bind((SERVER, 0))
        return probe.getsockname()[1]


class Server(threading.Thread):
    """`serve` in a thread; `wait_listening` returns once a connection would be accepted."""

    def __init__(self, spec, seconds=20.0):
        super().__init__()
        self.spec = spec
        self.deadline = Deadline(seconds)
        self.served = None

    def run(self):
        self.served = serve(self.spec, self.deadline)


def sockets(port, state):
    """Number of TCP sockets at our `port` in a state, by the kernel's state numbers."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == state for row in rows)


def listening(port):
    """Whether a socket listens on `port` here, without connecting to it."""
    return sockets(port, "0A") > 0


def wait_until(true, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def spec(port, **fields):
    return ThroughputSpec(**{"address": SERVER, "source": CLIENT, "port": port, "duration_s": 1, **fields})


@pytest.mark.parametrize("streams", [1, 3])
def test_a_transfer_between_two_ends_is_measured(port, streams):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, streams=streams), Deadline(15))
    server.join()

    assert (run.outcome, run.detail) == (Outcome.MEASURED, None)
    assert (run.target, run.address, run.streams) == (SERVER, SERVER, streams)
    assert run.throughput_bps == pytest.approx(run.received_bytes * 8 / run.duration_s, rel=1e-6)
    assert 0.9 < run.duration_s < 2.5
    sent, received = run.transfer.sent, run.transfer.received
    assert sum(sent.sent_bytes) == pytest.approx(run.sent_bytes, rel=0.01)
    assert sum(received.received_bytes) == pytest.approx(run.received_bytes, rel=0.05)
    assert len(sent.end_s) >= 5, "intervals of 0.1 s"
    assert min(sent.cwnd_bytes) > 0
    assert max(sent.peer_window_bytes) > 0, "a window of 0 is a receiver that waits for the processor"
    assert 0.0 < run.transfer.sender_cpu.total_ratio < 10.0
    assert 0.0 < run.transfer.receiver_cpu.total_ratio < 10.0
    assert server.served is not None
    assert not listening(port)


def test_without_a_server_the_test_is_refused(port):
    run = measure(spec(port), Deadline(10))

    assert (run.outcome, run.throughput_bps) == (Outcome.REFUSED, None)
    assert "Connection refused" in run.detail


def test_a_server_in_use_is_busy(port):
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
    assert server.served is not None


def established(port):
    """Connections to `port`: iperf3 has a connection for control and another for each stream."""
    return sockets(port, "01")


def test_a_server_killed_during_the_test_is_a_failure(port):
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


def test_a_test_beyond_its_deadline_is_stopped(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    began = time.monotonic()

    run = measure(spec(port, duration_s=30), Deadline(1))
    server.join()

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert re.fullmatch(r"iperf3 did not finish .*: [1-9][\d,]* bytes transferred", run.detail)
    assert time.monotonic() - began < 15


def test_a_late_hanging_test_is_missed_at_the_end_of_its_slot(port, tmp_path):
    starts_at = datetime.now(UTC) - timedelta(seconds=2)
    late = ThroughputSlot(
        slot_id=1,
        path_id=1,
        test="tcp",
        role="client",
        starts_at=starts_at,
        ends_at=starts_at + timedelta(seconds=7),
        spec=spec(port, duration_s=2),
    )
    spool = Spool(tmp_path / "spool.sqlite3")
    limits = Limits(networks=Networks(allowed=("127.77.0.0/16",)))
    server = subprocess.Popen(
        ["iperf3", "-s", "-1", "-p", str(port), "-B", SERVER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stopper = threading.Thread(
        target=lambda: (wait_until(lambda: established(port) >= 2), server.send_signal(signal.SIGSTOP))
    )
    try:
        wait_until(lambda: listening(port))
        stopper.start()
        kind = replace(throughput.KIND, far_end=lambda: SimpleNamespace(serve=serve))
        Slots(spool, Permit(limits), OwnTests(), kinds=[kind]).run(late)
        stopper.join()
    finally:
        server.kill()
        server.wait()

    (delivered,) = next_batch(spool, max_results=10).results
    run = delivered.result
    assert (run.outcome, run.throughput_bps) == (Outcome.MISSED, None)
    assert re.match(r"started 2\.\d s late, its slot ended before it finished: iperf3 did not finish", run.detail)


def test_a_server_without_a_client_fails(port):
    server = Server(spec(port), seconds=0.5)
    server.start()
    server.join()

    assert server.served is None
    assert not listening(port)


def test_a_stranger_that_only_connects_does_not_end_the_server(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    with socket.create_connection((SERVER, port), source_address=(CLIENT, 0)) as other_program:
        other_program.sendall(b"GET / HTTP/1.0\r\n\r\n")
    wait_until(lambda: listening(port))

    deadline = time.monotonic() + 10
    while (run := measure(spec(port), Deadline(5))).outcome in (Outcome.REFUSED, Outcome.BUSY):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    server.join()

    assert run.outcome is Outcome.MEASURED
    assert server.served is not None


def test_a_port_in_use_is_waited_for(port):
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
    assert server.served is not None


def test_the_kernels_counts_are_in_the_result(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, duration_s=3, streams=2), Deadline(15))
    server.join()

    kernel = run.transfer.kernel
    # The last sample is early by up to 0.2 s and a busy machine's delay.
    assert 1.0 < kernel.age_s < 4.0
    assert 0.0 < kernel.busy_s <= kernel.age_s + 0.1
    assert 0.0 <= kernel.peer_window_limited_s <= kernel.busy_s
    assert 0.0 < run.transfer.sender_cpu.wanted_ratio <= 1.05


def test_options_reach_the_kernel(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, congestion_control="reno", mss_bytes=1000, rate_bps=8_000_000, streams=2), Deadline(15))
    server.join()

    assert run.congestion_control == "reno"
    assert (run.transfer.mss_bytes, run.asked_bps) == (1000, 8e6)
    # Two streams together keep the rate; a burst of a block of 128 kB each is on top of a second's 1 MB.
    assert run.received_bytes <= 1e6 * run.duration_s + 2 * 131_072 + 1


def test_in_reverse_the_server_sends_and_reports_intervals(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, reverse=True), Deadline(15))
    server.join()

    assert (run.outcome, run.reverse) == (Outcome.MEASURED, True)
    assert min(run.transfer.sent.cwnd_bytes) > 0
    assert sum(run.transfer.received.received_bytes) == pytest.approx(run.received_bytes, rel=0.05)
    assert run.transfer.kernel is None
    assert server.served is not None


def test_udp_keeps_its_rate_and_counts_datagrams(port):
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, protocol="udp", rate_bps=4_000_000), Deadline(15))
    server.join()

    assert (run.outcome, run.protocol) == (Outcome.MEASURED, "udp")
    assert run.sent_bytes * 8 == pytest.approx(4e6 * 1.0, rel=0.3)
    assert run.transfer.udp.packets > 0
    assert run.transfer.udp.out_of_order == 0
    assert run.retransmits is None


def stranger(port, source, *options):
    """Another user's iperf3, from another address."""
    command = ["iperf3", "-c", SERVER, "-p", str(port), "-B", source, "-t", "1", "--connect-timeout", "1000", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("filtered", [True, False])
def test_a_stranger_is_refused_during_the_slot(port, filtered, monkeypatch):
    if not filtered:
        monkeypatch.setattr(iperf3, "filter_listener", lambda *_: False)
    server = Server(spec(port))
    server.start()
    wait_until(lambda: listening(port))
    wait_until(lambda: not filtered or refuses(port))

    theirs = stranger(port, STRANGER)

    assert server.is_alive(), "the stranger ended the server"
    assert (theirs.returncode == 0) is not filtered
    assert until_measured(spec(port)).outcome is Outcome.MEASURED
    server.join()
    assert server.served is not None


def refuses(port):
    """Whether a stranger's connection gets no answer."""
    with socket.socket() as knocking:
        knocking.bind((STRANGER, 0))
        knocking.settimeout(0.3)
        try:
            knocking.connect((SERVER, port))
        except TimeoutError:
            return True
        except ConnectionRefusedError:
            return False  # an earlier connection used up the server, and it is restarted
    return False


def until_measured(test_spec):
    """Retry while the server is being restarted."""
    deadline = time.monotonic() + 10
    while (run := measure(test_spec, Deadline(5))).outcome in (Outcome.REFUSED, Outcome.BUSY):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return run


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_transfer_over_ipv6_with_the_peer_only_filter(port, protocol):
    test_spec = ThroughputSpec(
        address="::1", source="::1", family=6, port=port, duration_s=1, protocol=protocol, rate_bps=4_000_000
    )
    server = Server(test_spec)
    server.start()

    run = until_measured(test_spec)
    server.join()

    assert (run.outcome, run.detail, run.address, run.family) == (Outcome.MEASURED, None, "::1", 6)
    assert run.received_bytes * 8 == pytest.approx(4e6, rel=0.3)
    assert server.served is not None


@pytest.fixture
def authentication_required():
    if not is_supported() and not os.environ.get("CI"):
        pytest.skip("this iperf3 is built without authentication")


@pytest.mark.usefixtures("authentication_required")
def test_with_the_slots_one_time_key_the_peer_is_accepted(port):
    """Both ends know each other's build, as with a plan of the centre."""
    mine = spec(port, one_time_key="of this slot", peer_iperf3=authentication.version())
    server = Server(mine)
    server.start()
    wait_until(lambda: listening(port))

    run = measure(mine, Deadline(15))
    server.join()

    assert (run.outcome, run.detail) == (Outcome.MEASURED, None)
    assert server.served is not None


@pytest.mark.usefixtures("authentication_required")
@pytest.mark.parametrize("key", [None, "of another slot"])
def test_without_the_one_time_key_everybody_is_refused(port, key):
    server = Server(spec(port, one_time_key="of this slot"), seconds=6.0)
    server.start()
    wait_until(lambda: listening(port))

    run = measure(spec(port, one_time_key=key), Deadline(5))
    server.join()

    assert (run.outcome, run.throughput_bps, server.served) == (Outcome.NOT_PERMITTED, None, None)
    assert "test authorization failed" in run.detail


OF_3_22 = "iperf 3.22 (cJSON 1.7.15)\nOptional features available: {}\n"


@pytest.mark.usefixtures("authentication_required")
@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ("zerocopy", "this host's iperf3 is built without authentication"),
        ("authentication", "no password padding in common with the peer's iperf3 3.12; update the older version"),
    ],
    ids=["built without", "another padding"],
)
def test_a_client_that_cannot_authenticate_reports_the_reason(port, monkeypatch, features, reason):
    """The server still requires a key, since it knows nothing about its client."""
    server = Server(spec(port, one_time_key="of this slot"), seconds=6.0)
    server.start()
    wait_until(lambda: listening(port))
    monkeypatch.setattr(authentication, "_version_text", lambda: OF_3_22.format(features))

    run = measure(spec(port, one_time_key="of this slot", peer_iperf3="3.12"), Deadline(5))
    server.join()

    assert run.outcome is Outcome.NOT_PERMITTED
    assert run.detail.endswith(reason)


@pytest.mark.usefixtures("authentication_required")
def test_ends_without_a_common_padding_test_without_a_key(port, monkeypatch):
    """Then only the address is checked, as with a build without authentication."""
    server = Server(spec(port, one_time_key="of this slot", peer_iperf3="3.22"))
    server.start()
    wait_until(lambda: listening(port))
    monkeypatch.setattr(authentication, "_version_text", lambda: OF_3_22.format("authentication"))

    run = measure(spec(port, one_time_key="of this slot", peer_iperf3="3.12"), Deadline(15))
    server.join()

    assert (run.outcome, run.detail) == (Outcome.MEASURED, None)
    assert server.served is not None


def test_the_receiver_reports_its_waits_the_sender_its_kernel(port):
    """With `reverse` the listening end sends: its kernel's counters are only known there."""
    server = Server(spec(port, reverse=True))
    server.start()
    wait_until(lambda: listening(port))
    time.sleep(0.5)  # it waits for its client, which is not part of the test

    began_s = time.monotonic()
    run = measure(spec(port, reverse=True, duration_s=2), Deadline(15))
    server.join()
    took_s = time.monotonic() - began_s

    assert (run.outcome, run.reverse, run.transfer.kernel) == (Outcome.MEASURED, True, None)
    # Busy is the time with data in the socket: none while a starved sender has not written more.
    assert 0.0 < server.served.kernel.busy_s <= took_s
    used = run.transfer.sender_cpu.total_ratio
    assert server.served.wanted_ratio > 0.5 * used > 0.0


SERVER_OF_DATAGRAMS = """
import socket, sys
listening = socket.create_server((sys.argv[1], 0))
port = listening.getsockname()[1]
print(port, flush=True)
control, _ = listening.accept()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((sys.argv[1], port))
print("bound", flush=True)
control.recv(1)
datagrams.setblocking(False)
came = []
try:
    while True:
        came.append(datagrams.recvfrom(100)[1][0])
except BlockingIOError:
    print(*sorted(set(came)), flush=True)
"""
"""As in iperf3: a socket for datagrams after a client has connected, which accepts the first datagrams."""


@pytest.mark.parametrize("kept", [True, False])
def test_a_strangers_datagrams_do_not_reach_later_sockets(kept):
    command = [sys.executable, "-c", SERVER_OF_DATAGRAMS, SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, ExitStack() as stack:
        port = int(server.stdout.readline())
        if kept:
            stack.enter_context(source_filter.DatagramFilter(CLIENT, server.pid, streams=1))
        control = stack.enter_context(socket.create_connection((SERVER, port), source_address=(CLIENT, 0)))
        assert server.stdout.readline() == "bound\n"
        for _ in range(20):
            send_datagram(STRANGER, port)
            time.sleep(0.02)
        send_datagram(CLIENT, port)
        control.send(b"r")

        assert server.stdout.readline().split() == ([CLIENT] if kept else [CLIENT, STRANGER])


def send_datagram(source, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        sender.sendto(b"hello", (SERVER, port))


@pytest.mark.parametrize("streams", [1, 3])
def test_all_streams_of_a_udp_test_are_counted(port, streams):
    chart = spec(port, protocol="udp", rate_bps=2_000_000, streams=streams)
    server = Server(chart)
    server.start()
    wait_until(lambda: listening(port))

    run = measure(chart, Deadline(15))
    server.join()

    assert (run.outcome, run.detail, run.streams) == (Outcome.MEASURED, None, streams)
    assert run.transfer.udp.lost_packets <= 0.02 * run.transfer.udp.packets
    assert server.served is not None


@pytest.fixture
def two_ports():
    """Two free ports in a row."""
    for first in range(20000 + os.getpid() % 20000, 60000, 2):
        with ExitStack() as bound:
            try:
                for number in (first, first + 1):
                    bound.enter_context(socket.socket()).bind((SERVER, number))
            except OSError:
                continue
            return first, first + 1
    raise AssertionError("no free ports")


def run_public_server(bound, port):
    """A server that anybody may use, until the context ends."""
    process = subprocess.Popen(["iperf3", "-s", "-B", SERVER, "-p", str(port)], stdout=subprocess.DEVNULL)
    bound.callback(process.wait)
    bound.callback(process.terminate)
    until = time.monotonic() + 20
    while not listening(port):
        assert time.monotonic() < until
        time.sleep(0.02)


def occupy(bound, port):
    """A test of somebody else at this port."""
    command = ["iperf3", "-c", SERVER, "-B", STRANGER, "-p", str(port), "-t", "60", "-b", "1M"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    bound.callback(process.wait)
    bound.callback(process.terminate)
    until = time.monotonic() + 20
    while sockets(port, "01") < 2:
        assert time.monotonic() < until
        time.sleep(0.02)


def public_spec(ports, **fields):
    return ThroughputSpec(address=SERVER, source=CLIENT, duration_s=1, port=ports[0], last_port=ports[1], **fields)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_busy_port_of_a_public_server_is_passed_over(two_ports, reverse):
    with ExitStack() as bound:
        run_public_server(bound, two_ports[0])
        run_public_server(bound, two_ports[1])
        occupy(bound, two_ports[0])

        runs = [Iperf3Probe().run(public_spec(two_ports, reverse=reverse), Deadline(20)) for _ in range(3)]

    assert {(run.outcome, run.reverse) for run in runs} == {(Outcome.MEASURED, reverse)}
    assert all(run.throughput_bps > 1e6 for run in runs)
    assert {run.detail for run in runs} == {f"port {two_ports[1]}"}


def test_a_public_server_with_all_ports_busy_is_busy(two_ports):
    with ExitStack() as bound:
        for number in two_ports:
            run_public_server(bound, number)
            occupy(bound, number)

        with pytest.raises(ServerBusy, match="2 of 2 ports busy"):
            Iperf3Probe().run(public_spec(two_ports), Deadline(20))


def test_a_public_server_that_does_not_listen_is_refused(two_ports):
    with pytest.raises(ProbeError, match="2 refused") as refused:
        Iperf3Probe().run(public_spec(two_ports), Deadline(20))

    assert refused.value.outcome is Outcome.REFUSED
