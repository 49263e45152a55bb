"""Runs one scenario in a lab and gives the report of it, with all that the diagnosis can use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.diagnosis.reading import Json, trimmed
from tests.diagnosis.scenarios import RECEIVER, RTT_MS, SENDER, Scenario, at
from tests.lab import RunningLab, wait_until

LAB = str(Path(__file__).parent / "two-ends.toml")
CLEAN_PATH = ("--rate-mbps", "50", "--queue-ms", "100", "--loss", "0", "--reorder", "0")
SAMPLE_S = 0.2
SAMPLE_SOCKETS = f"while :; do ss -tinOH 'dport = :5201' >> \"$0\"; sleep {SAMPLE_S}; done"


def prepare(lab: RunningLab) -> None:
    """Make repeats independent: the kernel else starts a connection with what the last one to that address learned."""
    at(lab, SENDER, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")


def run(lab: RunningLab, scenario: Scenario, rtt_ms: float = RTT_MS) -> Json:
    """One transfer under the scenario, as a trimmed report."""
    lab.set(f"{SENDER}-{RECEIVER}", "--both", *CLEAN_PATH, "--rtt-ms", str(rtt_ms))
    if scenario.path:
        lab.set(f"{SENDER}-{RECEIVER}", *scenario.path)
    with scenario.around(lab) as server_options:
        return _transfer(lab, scenario, server_options)


def _transfer(lab: RunningLab, scenario: Scenario, server_options: tuple[str, ...]) -> Json:
    receiver = SENDER if scenario.local else RECEIVER
    server = lab.popen(receiver, "iperf3", "-s", "-1", "-J", "-i", "0.1", *server_options)
    sockets, seen = None, lab.run_dir / "sockets"
    seen.write_text("")
    try:
        wait_until(lambda: ":5201" in lab.exec(receiver, "ss", "-tlnH").stdout, "iperf3 listens")
        sockets = lab.popen(SENDER, "sh", "-c", SAMPLE_SOCKETS, str(seen))
        options = ["-J", "-i", "0.1", "-C", scenario.control, "--get-server-output", "-t", str(scenario.duration_s)]
        client = lab.popen(SENDER, "iperf3", *options, "-c", lab.address(receiver), *scenario.client)
        scheduled = Scheduled([client.pid, server.pid])
        output, _ = client.communicate(timeout=60)
        cpu = scheduled.percent()
    finally:
        _end(server)
        if sockets is not None:
            _end(sockets)
    assert client.returncode == 0, output
    report = json.loads(output)
    return trimmed(report, last_samples(seen.read_text(), report["start"]["test_start"]["num_streams"]), cpu)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def last_samples(lines: str, streams: int) -> list[str]:
    """The last sample of each stream: of the connections that carried most, as iperf3 has another for control."""
    last: dict[str, tuple[int, str]] = {}
    for line in lines.splitlines():
        sent = re.search(r"bytes_sent:(\d+)", line)
        if sent is not None:
            last[line.split()[3]] = (int(sent[1]), line)
    return [line for _, line in sorted(last.values(), reverse=True)[:streams]]


@dataclass
class Scheduled:
    """How much of the time processes ran, or were ready and waited to run, from when they were iperf3 on.

    iperf3's own figure is processor time alone: on a machine with other work a starved process has little of that.
    """

    pids: list[int]
    _samples: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def percent(self) -> tuple[float | None, float | None]:
        """Of the first process, then of the second; None where the kernel does not tell."""
        self._ended.set()
        self._thread.join()
        first, second = (self._percent(pid) for pid in self.pids)
        return first, second

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            if all(_is_iperf3(pid) for pid in self.pids):
                for pid in self.pids:
                    self._samples.setdefault(pid, []).append((time.monotonic(), _scheduled_ns(pid)))

    def _percent(self, pid: int) -> float | None:
        samples = self._samples.get(pid, [])
        if len(samples) < 2:
            return None
        (begin_s, begin_ns), (end_s, end_ns) = samples[0], samples[-1]
        return round((end_ns - begin_ns) / (end_s - begin_s) / 1e7, 1)


def _is_iperf3(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "iperf3"
    except OSError:
        return False


def _scheduled_ns(pid: int) -> int:
    """Time on a processor and time in its queue (/proc/PID/schedstat, first two fields)."""
    ran, waited, _ = os.fsdecode(Path(f"/proc/{pid}/schedstat").read_bytes()).split()
    return int(ran) + int(waited)
