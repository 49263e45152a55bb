"""The ping engine beside `fping` and `ping`, in one run, on loopback addresses only. About 30 s."""

from __future__ import annotations

import re
import resource
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from probes.contract import Deadline
from probes.ping.burst import measure
from probes.ping.spec import Burst, PingSpec, PingTarget
from tests.bench import Row

TARGETS = 4000
ROUNDS = 4
PACKET_BYTES = 100


def run() -> list[Row]:
    """Measure everything; what another tool is needed for is left out where that tool is missing."""
    alone = measured(1, count=50, spacing_s=0.02)
    cpu_before = time.process_time()
    paced = measured(TARGETS, count=ROUNDS, spacing_s=1.0)
    ours_us = (time.process_time() - cpu_before) * 1e6 / (TARGETS * ROUNDS)
    shift_us = abs(median_us(paced) - median_us(alone))
    return [
        Row(f"CPU per echo, {TARGETS} targets paced 1/s each: ours", f"{ours_us:.1f} µs"),
        *against_fping(ours_us),
        *flat_out(),
        Row("median loopback RTT, 1 target: ours", f"{median_us(alone):.1f} µs"),
        *rtts_of_others(),
        Row(f"median loopback RTT, {TARGETS} targets: ours", f"{median_us(paced):.1f} µs"),
        Row(f"shift of our median from 1 to {TARGETS} targets", f"{shift_us:.1f} µs", "< 2 µs"),
    ]


def measured(targets: int, *, count: int, spacing_s: float) -> tuple[Burst, ...]:
    """Our bursts to the first so many loopback addresses."""
    spec = PingSpec(
        targets=tuple(PingTarget(address=address) for address in addresses(targets)),
        packet_bytes=(PACKET_BYTES,),
        count=count,
        spacing_s=spacing_s,
        timeout_s=1.0,
    )
    return measure(spec, Deadline(60.0))


def addresses(count: int) -> list[str]:
    return [f"127.1.{number // 250}.{1 + number % 250}" for number in range(count)]


def median_us(bursts: tuple[Burst, ...]) -> float:
    return 1000 * statistics.median(rtt for burst in bursts for rtt in burst.rtts_ms if rtt is not None)


def flat_out() -> list[Row]:
    """More is asked for than can be sent; the schedule gives way, and nothing may be lost."""
    started = time.monotonic()
    bursts = measured(TARGETS, count=50, spacing_s=0.01)
    elapsed_s = time.monotonic() - started
    sent, received = sum(burst.sent for burst in bursts), sum(burst.received for burst in bursts)
    return [
        Row("echoes per second, one process", f"{received / elapsed_s:,.0f}", "200,000"),
        Row("lost of them, all of it false", f"{sent - received} of {sent}", "0"),
    ]


def against_fping(ours_us: float) -> list[Row]:
    """fping with the same targets, size and pacing: one packet every 1/TARGETS s."""
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
        Row("ratio, ours to fping", f"{ours_us / theirs_us:.2f}", "≤ 0.2"),
    ]


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fping(*options: str) -> str:
    done = subprocess.run(
        ["fping", "-q", "-b", str(PACKET_BYTES), *options], capture_output=True, text=True, check=False
    )
    return done.stderr


def rtts_of_others() -> list[Row]:
    rows = []
    if shutil.which("fping") is not None:
        shown = fping("-C", "50", "-p", "20", addresses(1)[0]).partition(" : ")[2].split()
        rows.append(
            Row("median loopback RTT, 1 target: fping", f"{1000 * statistics.median(map(float, shown)):.1f} µs")
        )
    if shutil.which("ping") is not None:
        command = ["ping", "-c", "50", "-i", "0.02", "-s", str(PACKET_BYTES), addresses(1)[0]]
        shown = re.findall(
            r"time=([\d.]+) ms", subprocess.run(command, capture_output=True, text=True, check=False).stdout
        )
        rows.append(Row("median loopback RTT, 1 target: ping", f"{1000 * statistics.median(map(float, shown)):.1f} µs"))
    return rows
