"""Captures that both ends take of a real transfer in the lab, where losses are planted in one direction."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from monitor.analysis.packets import CaptureLosses, LostWhere, connections_of, figures_of, lost_between, read_capture
from monitor.archive.diagnosis.capture_findings import parts_of
from probes.transfers.spec import CapturedHeaders, ThroughputRun, ThroughputSpec
from tests.diagnosis.runs import LAB
from tests.lab import RunningLab, wait_until

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("iperf3", "tcptrace")) and not os.environ.get("CI"),
    reason="needs iperf3 and tcptrace",
)

RUN = """
import sys, msgspec
from probes.contract import Deadline
from probes.throughput.probe import Iperf3Probe, Iperf3Server
from probes.transfers.spec import ThroughputSpec
spec = msgspec.json.decode(sys.argv[2], type=ThroughputSpec)
if sys.argv[1] == "client":
    result = Iperf3Probe().run(spec, Deadline(30))
else:
    result = Iperf3Server().serve(spec, Deadline(40)).capture
print(msgspec.json.encode(result).decode())
"""
SENDER, RECEIVER = "bern", "rome"


@pytest.fixture(scope="module")
def two_ends(namespaces_required: None) -> Iterator[RunningLab]:
    with RunningLab(LAB) as lab:
        yield lab


def transfer(lab: RunningLab, *path: str, streams: int = 1) -> tuple[ThroughputRun, CapturedHeaders, int, int]:
    """A transfer on this path: its result, the capture of the receiver, and the packets that the lab dropped forward
    and back."""
    lab.set(f"{SENDER}-{RECEIVER}", "--both", "--rate-mbps", "20", "--queue-ms", "300", "--loss", "0")
    lab.set(*path)
    directions = (SENDER, RECEIVER), (RECEIVER, SENDER)
    before = [dropped(lab, *direction) for direction in directions]
    spec = ThroughputSpec(
        address=lab.address(RECEIVER),
        source=lab.address(SENDER),
        duration_s=3,
        streams=streams,
        capture_packets=20_000,
    )
    encoded = msgspec.json.encode(spec).decode()
    server = lab.popen(RECEIVER, sys.executable, "-c", RUN, "server", encoded)
    try:
        wait_until(lambda: ":5201" in lab.exec(RECEIVER, "ss", "-tlnH").stdout, "iperf3 listens")
        client = lab.exec(SENDER, sys.executable, "-c", RUN, "client", encoded)
        assert client.returncode == 0, client.stderr
        printed, _ = server.communicate(timeout=60)
    finally:
        server.kill()
        server.communicate()
    forward, back = (dropped(lab, *direction) - lost for direction, lost in zip(directions, before, strict=True))
    far = msgspec.json.decode(printed.splitlines()[-1], type=CapturedHeaders)
    return msgspec.json.decode(client.stdout, type=ThroughputRun), far, forward, back


def dropped(lab: RunningLab, source: str, destination: str) -> int:
    counts = lab.counts(source, destination)
    return counts.dropped_loss + counts.dropped_queue


def connections(capture: CapturedHeaders):
    assert capture.reason is None
    return connections_of(read_capture(zlib.decompress(capture.pcap_zlib)))


def between(near: CapturedHeaders, far: CapturedHeaders) -> CaptureLosses:
    return lost_between(connections(near), connections(far), parts_of(near.parts), parts_of(far.parts))


def retransmitted_by_tcptrace(capture: CapturedHeaders, folder: Path) -> int:
    """Of the only connection, by its sender."""
    (folder / "it.pcap").write_bytes(zlib.decompress(capture.pcap_zlib))
    printed = subprocess.run(["tcptrace", "-n", "-l", folder / "it.pcap"], capture_output=True, text=True, check=True)
    [counts] = re.findall(r"rexmt data pkts: +(\d+) +rexmt data pkts: +(\d+)", printed.stdout)
    return max(map(int, counts))


def test_lost_data_is_lost_on_the_way_there(two_ends, tmp_path):
    run, far, forward, back = transfer(two_ends, f"{SENDER}-{RECEIVER}", "--loss", "0.01")

    near = connections(run.capture)
    losses, [figures] = between(run.capture, far), [figures_of(connection) for connection in near]
    assert forward > 5
    assert back == 0
    assert losses.where is LostWhere.DATA
    # The lab drops packets of the tool's own connection and of the last window too, which nobody acknowledges: of 25
    # transfers up to 7 of 59.
    assert losses.lost_packets == pytest.approx(forward, rel=0.2, abs=12)
    assert losses.sent_acks > 100
    assert losses.lost_acks == 0
    assert figures.resent_packets == retransmitted_by_tcptrace(run.capture, tmp_path)
    assert figures.resent_packets == pytest.approx(run.retransmits, rel=0.15, abs=10)


def test_lost_acks_are_lost_on_the_way_back(two_ends):
    run, far, forward, back = transfer(two_ends, f"{RECEIVER}-{SENDER}", "--loss", "0.05", streams=2)

    near = connections(run.capture)
    losses = between(run.capture, far)
    assert len(near) == 2, "the tool's own connection is left out"
    assert forward == 0
    assert losses.where is LostWhere.ACKS
    assert losses.lost_acks == pytest.approx(back, rel=0.2, abs=12)
