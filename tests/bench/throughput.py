"""Throughput tests over a veth link, compared with iperf3 by hand in alternating runs: three minutes.

The rates of both are the receiver's. The CPU time is what we add to iperf3's at both ends together: sampling its
streams and both hosts, the inventory, reading the report; a test by hand has none of it. Both ends and iperf3 share the
cores of this machine, so that the ratio of the rates scatters with all that runs beside: its range says by how much.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable

from probes.contract import Deadline, ProbeError
from probes.lab.direct_link import ADDRESSES, DirectLink
from probes.throughput.probe import Iperf3Probe, Iperf3Server
from probes.transfers.hosts.inventory import read_inventory, read_tcp_metrics
from probes.transfers.hosts.load import HostLoadSampler
from probes.transfers.spec import ThroughputRun, ThroughputSpec
from tests.bench import Row

PAIRS = 7
DURATION_S = 5
PORT = 5451
CONNECT_S = 15.0
ENDS = 2
HELPER_RUNS = 20
SETTINGS: tuple[tuple[str, dict[str, object]], ...] = (
    ("1 stream", {}),
    ("4 streams, zero-copy", {"streams": 4, "zero_copy": True}),
)


def run() -> list[Row]:
    """Measure each setting in alternating pairs, so that other load of the machine meets both alike."""
    rows = []
    with DirectLink(mtu_bytes=9000) as link:
        for name, fields in SETTINGS:
            spec = ThroughputSpec(
                address=ADDRESSES[1],
                source=ADDRESSES[0],
                port=PORT,
                duration_s=DURATION_S,
                **fields,  # type: ignore[arg-type]
            )
            ours_bps, theirs_bps, own_s = [], [], []
            for pair in range(PAIRS):
                for is_ours in (True, False) if pair % 2 else (False, True):
                    if is_ours:
                        before_s = own_cpu_s()
                        ours_bps.append(ours(link, spec))
                        own_s.append(own_cpu_s() - before_s)
                    else:
                        theirs_bps.append(by_hand(link, spec))
            rows += compared(
                name, ours_bps, theirs_bps, statistics.median(own_s) + link.submit(0, helpers_cpu_s).result()
            )
    rows.append(
        Row(
            "load of the machine (1 min, 15 min), both ends included",
            f"{os.getloadavg()[0]:.1f}, {os.getloadavg()[2]:.1f}",
        )
    )
    return rows


def compared(name: str, ours_bps: list[float], theirs_bps: list[float], added_s: float) -> list[Row]:
    """Rows of a setting: medians, their ratio, and that of the pairs with its spread."""
    ratios = sorted(ours / theirs for ours, theirs in zip(ours_bps, theirs_bps, strict=True))
    mine, hand = statistics.median(ours_bps), statistics.median(theirs_bps)
    return [
        Row(f"{name}: Soundings, median of {len(ours_bps)}", f"{mine / 1e9:.2f} Gbit/s", "≥ 10"),
        Row(f"{name}: iperf3 by hand, median", f"{hand / 1e9:.2f} Gbit/s"),
        Row(f"{name}: throughput, ratio of the medians", f"{mine / hand:.3f}", "≥ 0.99"),
        Row(
            f"{name}: throughput, ratios of the pairs",
            f"median {statistics.median(ratios):.3f}, range {ratios[0]:.3f} to {ratios[-1]:.3f}",
            "≥ 0.99",
        ),
        Row(
            f"{name}: CPU time added, both ends together",
            f"{1000 * added_s:.0f} ms in {DURATION_S} s, {added_s / DURATION_S / ENDS:.2%} of a core at each end",
            "< 1%",
        ),
    ]


def own_cpu_s() -> float:
    """CPU seconds of this process, without programs that it started."""
    times = os.times()
    return times.user + times.system


def helpers_cpu_s() -> float:
    """CPU seconds of the programs of a test beside iperf3, `ip` and `tc` at both ends."""
    before = os.times()
    for _ in range(HELPER_RUNS):
        read_inventory(ADDRESSES[1])
        read_tcp_metrics(ADDRESSES[1])
        HostLoadSampler(os.getpid(), ADDRESSES[1]).host_load()
    after = os.times()
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    return ENDS * spent_s / HELPER_RUNS


def ours(link: DirectLink, spec: ThroughputSpec) -> float:
    """The rate of a test by the agent's two ends."""
    serving = link.submit(1, Iperf3Server().serve, spec, Deadline(DURATION_S + CONNECT_S))
    run = link.submit(0, retried, lambda: Iperf3Probe().run(spec, Deadline(DURATION_S + CONNECT_S))).result()
    serving.result()
    assert run.throughput_bps is not None
    return run.throughput_bps


def retried(measure: Callable[[], ThroughputRun]) -> ThroughputRun:
    """Measure, again while nothing listens yet."""
    deadline = Deadline(CONNECT_S)
    while True:
        try:
            return measure()
        except ProbeError:
            if deadline.passed:
                raise
            time.sleep(0.05)


def by_hand(link: DirectLink, spec: ThroughputSpec) -> float:
    """The rate of the same test with iperf3's commands, at its usual interval of a second."""
    server = link.submit(
        1, subprocess.Popen, ["iperf3", "-s", "-1", "-p", str(PORT), "-J"], -1, None, None, subprocess.DEVNULL
    ).result()
    options = ["-P", str(spec.streams), *(["-Z"] if spec.zero_copy is True else [])]
    command = ["iperf3", "-c", spec.address, "-p", str(PORT), "-t", str(DURATION_S), "-J", *options]
    try:
        deadline = Deadline(CONNECT_S)
        while True:
            done = link.submit(0, lambda: subprocess.run(command, capture_output=True, text=True, check=False)).result()
            report = json.loads(done.stdout)
            if "error" not in report:
                return float(report["end"]["sum_received"]["bits_per_second"])
            if deadline.passed:
                raise RuntimeError(f"iperf3: {report['error']}")
            time.sleep(0.05)
    finally:
        server.wait(timeout=10)
