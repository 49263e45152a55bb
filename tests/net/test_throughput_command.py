"""`python -m probes throughput` against iperf3 on the loopback: its figures, and the capture that it writes."""

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from monitor.analysis.packets import connections_of, figures_of, read_capture

pytestmark = [
    pytest.mark.usefixtures("root_required"),
    pytest.mark.skipif(shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed"),
]
SERVER = "127.77.6.1"


@pytest.fixture
def port():
    """Of an iperf3 server."""
    with socket.socket() as probe:
        probe.bind((SERVER, 0))
        number = probe.getsockname()[1]
    with subprocess.Popen(["iperf3", "-s", "-B", SERVER, "-p", str(number)], stdout=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 20
        while subprocess.run(["ss", "-tlnH", f"sport = :{number}"], capture_output=True, check=True).stdout == b"":
            assert time.monotonic() < deadline, "iperf3 does not listen"
            time.sleep(0.05)
        yield number
        server.kill()


def throughput(*arguments):
    argv = [sys.executable, "-m", "probes", "throughput", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_it_writes_the_headers_of_its_test(port, tmp_path):
    file = tmp_path / "it.pcap"

    done = throughput(
        SERVER, "--port", port, "--duration-s", 1, "--streams", 2, "--capture", file, "--capture-packets", 2000
    )

    assert done.returncode == 0, done.stderr
    assert "bit/s" in done.stdout
    assert str(file) in done.stderr
    connections = connections_of(read_capture(file.read_bytes()))
    assert len(connections) == 2
    assert all(figures_of(connection).unique_bytes > 100_000 for connection in connections)


def test_without_a_server_there_is_neither_result_nor_file(tmp_path):
    file = tmp_path / "it.pcap"

    done = throughput(SERVER, "--port", 9, "--duration-s", 1, "--capture", file)

    assert done.returncode == 1
    assert "refused" in done.stdout
    assert not file.exists()


@pytest.mark.parametrize(
    "wrong", [("--streams", 0), ("--capture-packets", 20_001), ("--port", 65_536), ("--capture", "/nonexistent/a.pcap")]
)
def test_options_out_of_bounds_are_usage_errors(wrong):
    done = throughput(SERVER, *wrong)

    assert done.returncode == 2
    assert wrong[0] in done.stderr
