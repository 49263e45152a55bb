"""Run a scenario in a lab, with the probe at its sender, and return the probe's result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from monitor.analysis.transfer import Verdict
from probes.transfers.spec import ThroughputRun, ThroughputSpec
from tests.diagnosis.scenarios import RECEIVER, RTT_MS, SENDER, SMALL_BUFFER_BYTES, Scenario, at, small_send_buffer
from tests.lab import RunningLab, wait_until

LAB = str(Path(__file__).parent / "two-ends.toml")
CLEAN_PATH = ("--rate-mbps", "50", "--queue-ms", "100", "--loss", "0", "--reorder", "0")


def prepare(lab: RunningLab) -> None:
    """Make repeats independent: otherwise the kernel starts a connection with metrics cached from the last
    connection."""
    at(lab, SENDER, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")


def run(lab: RunningLab, scenario: Scenario, rtt_ms: float = RTT_MS) -> ThroughputRun:
    """A single transfer under the scenario."""
    lab.set(f"{SENDER}-{RECEIVER}", "--both", *CLEAN_PATH, "--rtt-ms", str(rtt_ms))
    if scenario.path:
        lab.set(f"{SENDER}-{RECEIVER}", *scenario.path)
    with scenario.around(lab) as server_options:
        return _transfer(lab, scenario, server_options)


_WRITER = """
import fcntl, socket, struct, sys, termios, time
connection, written, most = socket.create_connection((sys.argv[1], 5201)), bytes(16384), 0
end = time.monotonic() + 1.5
while time.monotonic() < end:
    connection.send(written)
    (queued,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    most = max(most, queued)
print(most)
"""
_READER = """
import socket
listening = socket.create_server(("0.0.0.0", 5201))
print(flush=True)
connection, _ = listening.accept()
while connection.recv(1 << 20):
    pass
"""


def expected_verdict(lab: RunningLab, scenario: Scenario) -> Verdict:
    """The scenario's verdict; of a small send buffer only on a kernel that applies the setting.

    Linux 6.18 was seen to queue 900 kB over a path with delay where `net.ipv4.tcp_wmem` allows 131,072 bytes. There
    the sender has no limit of its own, and what limits is the queue of the path.
    """
    if scenario.around is not small_send_buffer or _queued_with_a_small_buffer(lab) <= 2 * SMALL_BUFFER_BYTES:
        return scenario.verdict
    return Verdict.BOTTLENECK_QUEUE


def _queued_with_a_small_buffer(lab: RunningLab) -> int:
    """The most bytes that were in the sender's buffer at once, not yet acknowledged."""
    lab.set(f"{SENDER}-{RECEIVER}", "--both", *CLEAN_PATH, "--rtt-ms", str(RTT_MS))
    with small_send_buffer(lab):
        reader = lab.popen(RECEIVER, sys.executable, "-c", _READER)
        try:
            assert reader.stdout is not None
            reader.stdout.readline()
            writer = lab.exec(SENDER, sys.executable, "-c", _WRITER, lab.address(RECEIVER))
        finally:
            _end(reader)
    assert writer.returncode == 0, writer.stderr
    return int(writer.stdout)


def _transfer(lab: RunningLab, scenario: Scenario, server_options: tuple[str, ...]) -> ThroughputRun:
    receiver = SENDER if scenario.local else RECEIVER
    spec = ThroughputSpec(
        address=lab.address(receiver),
        duration_s=scenario.duration_s,
        streams=scenario.streams,
        congestion_control=scenario.control,
    )
    server = lab.popen(receiver, "iperf3", "-s", "-1", "-J", "-i", "0.1", *server_options)
    try:
        wait_until(lambda: ":5201" in lab.exec(receiver, "ss", "-tlnH").stdout, "iperf3 listens")
        encoded_spec = msgspec.json.encode(spec).decode()
        done = lab.exec(
            SENDER, sys.executable, "-m", "tests.diagnosis.sender", encoded_spec, str(server.pid), *scenario.client
        )
    finally:
        _end(server)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=ThroughputRun)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
