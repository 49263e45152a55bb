"""Run a scenario in a lab, with the probe at its sender, and return the probe's result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from probes.throughput.spec import ThroughputRun, ThroughputSpec
from tests.diagnosis.scenarios import RECEIVER, RTT_MS, SENDER, Scenario, at
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
