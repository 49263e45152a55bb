"""The ping engine compared with `fping`, `ping` and `icmplib`, in a single run, on loopback and between namespaces: 2
minutes.

RTTs under load are compared with a packet capture on the near end of a veth pair: the timestamps of `tcpdump` are the
kernel's, taken where a packet leaves through the interface and where it arrives from it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import icmplib
import numpy as np

from probes.contract import Deadline
from probes.packets.burst import measure_all
from probes.packets.spec import Burst, PingSpec, PingTarget
from tests.bench import Row
from tests.capture import captured_round_trips_ms
from tests.net.test_ping import FAR, Sites, joined_namespaces

TARGETS = 4000
ROUNDS = 10
PACKET_BYTES = 100
SAMPLES = 500
SAMPLE_SPACING_S = 0.02

MEMORY = """
import json, re
from pathlib import Path
from probes.contract import Deadline
from probes.packets.burst import measure
from probes.packets.spec import PingSpec, PingTarget
def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
before = peak_mib()
targets = tuple(PingTarget(address=f"127.{1 + n // 60000}.{n // 250 % 240}.{1 + n % 250}") for n in range(10_000))
bursts = measure(PingSpec(targets=targets, count=10, spacing_s=0.5, priming_bytes=None), Deadline(120.0))
print(json.dumps([before, peak_mib(), sum(burst.received for burst in bursts)]))
"""


def run() -> list[Row]:
    """Measure everything; comparisons with a missing tool are left out."""
    alone = measured(1, count=SAMPLES, spacing_s=SAMPLE_SPACING_S)
    before = own_cpu_s()
    paced = measured(TARGETS, count=ROUNDS, spacing_s=1.0)
    ours_us, kernel_us = (own_cpu_s() - before) * 1e6 / (TARGETS * ROUNDS)
    shift_us = abs(median_us(paced) - median_us(alone))
    return [
        Row(f"CPU per echo, {TARGETS} targets paced 1/s each: ours", f"{ours_us:.1f} µs"),
        Row("of that in the kernel", f"{kernel_us:.1f} µs"),
        *against_fping(ours_us),
        *flat_out(),
        Row("median loopback RTT, 1 target: ours", f"{median_us(alone):.1f} µs", "< 2 µs"),
        *rtts_of_others(),
        Row(f"median loopback RTT, {TARGETS} targets: ours", f"{median_us(paced):.1f} µs", "< 2 µs"),
        Row(f"shift of our median from 1 to {TARGETS} targets", f"{shift_us:.1f} µs", "< 2 µs"),
        *under_load(),
        *memory(),
    ]


def measured(targets: int, *, count: int, spacing_s: float) -> Sequence[Burst]:
    """Our bursts to the first loopback addresses, in columns as an agent measures them."""
    spec = PingSpec(
        targets=tuple(PingTarget(address=address) for address in addresses(targets)),
        packet_bytes=(PACKET_BYTES,),
        count=count,
        spacing_s=spacing_s,
        timeout_s=1.0,
        priming_bytes=None,
    )
    return measure_all(spec, Deadline(60.0))


def addresses(count: int) -> list[str]:
    return [f"127.1.{number // 250}.{1 + number % 250}" for number in range(count)]


def median_us(bursts: Sequence[Burst]) -> float:
    return 1000 * statistics.median(rtt for burst in bursts for rtt in burst.rtts_ms if rtt is not None)


def flat_out() -> list[Row]:
    """More is requested than can be sent; the schedule must be delayed, without losses."""
    started, before = time.monotonic(), own_cpu_s()
    bursts = measured(TARGETS, count=200, spacing_s=0.01)
    elapsed_s = time.monotonic() - started
    cpu_s, kernel_s = own_cpu_s() - before
    sent, received = sum(burst.sent for burst in bursts), sum(burst.received for burst in bursts)
    return [
        Row("echoes per second, one process", f"{received / elapsed_s:,.0f}", "200,000"),
        Row("CPU of each; of that in the kernel", f"{cpu_s * 1e6 / sent:.1f} µs; {kernel_s * 1e6 / sent:.1f} µs"),
        Row("lost of them, all of it false", f"{sent - received} of {sent}", "0"),
    ]


def against_fping(ours_us: float) -> list[Row]:
    """fping with the same targets, size and pacing: a packet every 1/TARGETS s."""
    if shutil.which("fping") is None:
        return [Row("CPU per echo: fping", "fping is not installed")]
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "targets"
        listed.write_text("\n".join(addresses(TARGETS)))
        before = children_cpu_s()
        fping("-C", str(ROUNDS), "-p", "1000", "-i", str(1000 / TARGETS), "-f", str(listed))
        theirs_us = (children_cpu_s() - before) * 1e6 / (TARGETS * ROUNDS)
    return [
        Row("CPU per echo, the same: fping", f"{theirs_us:.1f} µs"),
        Row("ratio, ours to fping", f"{ours_us / theirs_us:.2f}", "≤ 0.4"),
    ]


def own_cpu_s() -> np.ndarray:
    """CPU time of this process, in all and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([used.ru_utime + used.ru_stime, used.ru_stime])


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fping(*options: str, within: Sequence[str] = ()) -> str:
    command = [*within, "fping", "-q", "-b", str(PACKET_BYTES), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def rtts_of_others() -> list[Row]:
    rows = []
    count, period_ms = str(SAMPLES), str(round(1000 * SAMPLE_SPACING_S))
    if shutil.which("fping") is not None:
        other_rtts_ms = fping_rtts_ms(fping("-C", count, "-p", period_ms, addresses(1)[0]))
        rows.append(Row("median loopback RTT, 1 target: fping", f"{1000 * np.nanmedian(other_rtts_ms):.1f} µs"))
    if shutil.which("ping") is not None:
        command = ["ping", "-c", count, "-i", str(SAMPLE_SPACING_S), "-s", str(PACKET_BYTES), addresses(1)[0]]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        other_rtts_ms = [float(rtt) for rtt in re.findall(r"time=([\d.]+) ms", lines)]
        rows.append(Row("median loopback RTT, 1 target: ping", f"{1000 * statistics.median(other_rtts_ms):.1f} µs"))
    host = icmplib.ping(addresses(1)[0], count=SAMPLES, interval=SAMPLE_SPACING_S, payload_size=PACKET_BYTES)
    rows.append(Row("median loopback RTT, 1 target: icmplib", f"{1000 * statistics.median(host.rtts):.1f} µs"))
    return rows


def fping_rtts_ms(fping_output: str) -> list[float]:
    """RTTs from the output of `fping -C` for a single target; NaN where lost."""
    return [float("nan") if rtt == "-" else float(rtt) for rtt in fping_output.partition(" : ")[2].split()]


def under_load() -> list[Row]:
    """The difference between each tool's RTTs and those on the wire while every core is busy."""
    missing = [tool for tool in ("fping", "tcpdump", "ip") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        return [Row("RTT error under load", f"needs root, and {', '.join(missing) or 'nothing else'}")]
    with joined_namespaces() as sites, busy_cores(), TemporaryDirectory() as folder:
        ours_us = error_us(sites, Path(folder) / "ours", ours_between(sites))
        theirs_us = error_us(sites, Path(folder) / "fping", fping_between(sites))
    rows = []
    for name, errors_us in (("ours", ours_us), ("fping", theirs_us)):
        median, high = np.percentile(errors_us, (50, 99))
        rows.append(Row(f"RTT error, cores busy: {name}, median; p99", f"{median:.1f} µs; {high:.1f} µs"))
    ratio = np.percentile(ours_us, 99) / np.percentile(theirs_us, 99)
    return [*rows, Row("RTT error, cores busy: ours / fping, p99", f"{ratio:.2f}", "≤ 0.5")]


def error_us(sites: Sites, capture: Path, measuring: Iterator[list[float]]) -> np.ndarray:
    """The absolute difference of a tool's RTTs from those of a capture on its interface, in order."""
    command = ["ip", "netns", "exec", sites.near, "tcpdump", "-i", "wan", "-s", "128", "-U", "-w", str(capture)]
    options = ["--time-stamp-precision=nano", "--immediate-mode", "icmp"]
    tcpdump = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    try:
        assert tcpdump.stderr is not None
        assert "listening on" in tcpdump.stderr.readline()
        shown_ms = np.array(next(measuring))
    finally:
        time.sleep(1.0)
        tcpdump.terminate()
        tcpdump.communicate()
    true_ms = captured_round_trips_ms(capture.read_bytes())
    assert len(true_ms) == len(shown_ms), f"{len(true_ms)} round trips captured, {len(shown_ms)} told"
    both = ~np.isnan(true_ms) & ~np.isnan(shown_ms)
    return 1000 * np.abs(shown_ms - true_ms)[both]


def ours_between(sites: Sites) -> Iterator[list[float]]:
    [burst] = sites.measure(
        PingTarget(address=FAR[4]), count=SAMPLES, spacing_s=SAMPLE_SPACING_S, check_rate_limit=False
    )
    yield [float("nan") if rtt is None else rtt for rtt in burst.rtts_ms]


def fping_between(sites: Sites) -> Iterator[list[float]]:
    period_ms = str(round(1000 * SAMPLE_SPACING_S))
    yield fping_rtts_ms(fping("-C", str(SAMPLES), "-p", period_ms, FAR[4], within=("ip", "netns", "exec", sites.near)))


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with other work."""
    with ExitStack() as started:
        for _ in range(os.cpu_count() or 1):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            started.callback(process.wait)
            started.callback(process.kill)
        yield


def memory() -> list[Row]:
    """The maximum resident memory of a process that measures 10,000 targets with 20 packets each."""
    ran = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    before_mib, peak_mib, received = json.loads(ran.stdout)
    return [
        Row("memory at 10,000 targets × 20 packets, largest", f"{peak_mib:.0f} MiB", "≤ 120 MB"),
        Row("of that Python and NumPy before anything is sent", f"{before_mib:.0f} MiB"),
        Row("received of the 200,000", f"{received:,}"),
    ]
