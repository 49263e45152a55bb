"""Headers that the kernel captured of a real test, compared with what tcpdump captured beside it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import zlib
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from monitor.analysis.packets import connections_of, figures_of, read_capture
from monitor.analysis.packets.connections import FIN
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.slot import Slots
from probes.site.spool.spool import Spool
from probes.throughput.limits import ThroughputLimits
from probes.throughput.spec import ThroughputSlot
from probes.transfers.capture.headers import HeaderCapture
from probes.transfers.spec import ThroughputSpec
from tests.unit.site.test_spool import next_batch

pytestmark = pytest.mark.usefixtures("root_required")
SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], 0), family=family) as server:
    print(server.getsockname()[1], flush=True)
    with server.accept()[0] as client:
        while client.recv(1 << 16):
            pass
"""


@pytest.fixture
def receiver():
    """Starts a process that receives what comes, and returns its port."""
    processes = []

    def start(address):
        process = subprocess.Popen([sys.executable, "-c", SERVER, address], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return int(process.stdout.readline())

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def send(address, port, chunks, chunk_bytes=20_000):
    with socket.create_connection((address, port)) as sender:
        for _ in range(chunks):
            sender.sendall(bytes(chunk_bytes))
        sender.shutdown(socket.SHUT_WR)
        sender.recv(1)


def has_ended(connection):
    """Whether both ends have sent their FIN."""
    return all(any(segment.flags & FIN for segment in way.segments) for way in connection.directions)


def transfer_of(packed):
    [connection] = connections_of(read_capture(zlib.decompress(packed.pcap_zlib)))
    return figures_of(connection)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_it_holds_the_packets_of_the_test_that_tcpdump_sees(address, receiver, tmp_path):
    port, other = receiver(address), receiver(address)
    file = tmp_path / "it.pcap"
    command = ["tcpdump", "-U", "-Z", "root", "-B", "8192", "-s", "128", "-i", "lo", "-w", file, f"tcp port {port}"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE) as tcpdump,
        ExitStack() as at_the_end,
        HeaderCapture(address, port, 10_000) as capture,
    ):
        at_the_end.callback(tcpdump.terminate)
        while b"listening" not in (line := tcpdump.stderr.readline()):
            assert line, "tcpdump has ended"
        send(address, port, 50)
        send(address, other, 3)
        deadline = time.monotonic() + 20
        while True:
            [connection] = connections_of(read_capture(file.read_bytes()) if file.exists() else []) or [None]
            # A busy kernel may send a segment twice.
            if connection is not None and has_ended(connection) and connection.sender.payload_bytes >= 1_000_000:
                break
            assert time.monotonic() < deadline, "tcpdump has not written what was sent"
            time.sleep(0.1)
        packed = capture.captured()
    ours, theirs = transfer_of(packed), figures_of(connection)

    assert capture.reason is None
    assert packed.left_out_packets == 0
    assert ours.unique_bytes == 1_000_000
    assert (ours.data_packets, ours.resent_packets, ours.mss_bytes, ours.window_max_bytes) == (
        theirs.data_packets,
        theirs.resent_packets,
        theirs.mss_bytes,
        theirs.window_max_bytes,
    )
    assert b"\x00" * 200 not in zlib.decompress(packed.pcap_zlib), "payload was kept"


def test_it_is_bounded(receiver):
    """Of more packets than fit it keeps the first."""
    port = receiver("127.0.0.1")
    with HeaderCapture("127.0.0.1", port, 40) as capture:
        send("127.0.0.1", port, 300, 1000)
        packed = capture.captured()

    assert packed.packets <= 40
    assert packed.left_out_packets > 0
    assert transfer_of(packed).handshake_ms is not None


def test_without_a_transfer_there_is_nothing(receiver):
    with HeaderCapture("127.0.0.1", receiver("127.0.0.1"), 100) as capture:
        assert capture.captured() is None
        assert capture.reason is None


def test_without_permission_it_says_what_is_missing():
    code = (
        "import os; from probes.transfers.capture.headers import HeaderCapture; os.setgid(65534); os.setuid(65534)\n"
        "with HeaderCapture('127.0.0.1', 5201, 100) as capture: print(capture.reason, capture.captured())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed == "capturing needs CAP_NET_RAW None\n"


@pytest.mark.skipif(shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed")
def test_agents_deliver_the_headers_that_their_limits_allow(tmp_path):
    """The client's site allows them, the server's does not; the test runs at both."""
    client, server = "127.77.7.1", "127.77.7.2"
    with socket.socket() as probe:
        probe.bind((server, 0))
        port = probe.getsockname()[1]
    starts_at = datetime.now(UTC) + timedelta(seconds=2)
    spec = ThroughputSpec(address=server, source=client, port=port, duration_s=1, capture_packets=20_000)
    spools = {}
    threads = []
    for role, allowed in (("server", 0), ("client", 3000)):
        limits = Limits(
            networks=Networks(allowed=("127.77.0.0/16",)),
            throughput=ThroughputLimits(max_capture_packets=allowed),
        )
        spools[role] = Spool(tmp_path / f"{role}.sqlite3")
        slot = ThroughputSlot(
            slot_id=1, path_id=1, test="tcp", role=role, starts_at=starts_at,
            ends_at=starts_at + timedelta(seconds=20), spec=spec,
        )  # fmt: skip
        slots = Slots(spools[role], Permit(limits), OwnTests())
        threads.append(threading.Thread(target=slots.run, args=(slot,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    results = {role: next_batch(spool, max_results=10).results[0].result for role, spool in spools.items()}
    assert {role: result.outcome for role, result in results.items()} == {"server": "measured", "client": "measured"}
    assert 100 < results["client"].capture.packets <= 3000
    assert transfer_of(results["client"].capture).unique_bytes > 1_000_000
    assert results["server"].capture.packets == 0
    assert "max_capture_packets" in results["server"].capture.reason
