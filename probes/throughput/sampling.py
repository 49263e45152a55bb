"""Sample a running test from outside its tool: the kernel's TCP counters of its streams, and its CPU time.

`ToolSampler` samples every `SAMPLE_EVERY_S` seconds in a thread, since the counters disappear when the tool ends. In:
the tool's process ID and the address of its streams. Out: `KernelCounts`, and the share of time for which the tool was
running or runnable. Figures are None if the system does not provide them (no `ss` of iproute2, no /proc) or the test
was too short to be sampled.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from probes.throughput.hosts.load import HostLoadSampler
from probes.throughput.hosts.spec import HostLoad
from probes.throughput.spec import KernelCounts

SAMPLE_EVERY_S = 0.2
SS_TIMEOUT_S = 2.0
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


IDLE_RATIO = 0.01
"""CPU share below which a thread is still waiting for the test to begin."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """Address of this host's streams: the peer and its port, or with `from_port` the local port it connected to."""

    peer: str
    port: int
    from_port: bool = False


class ToolSampler:
    """Samples a process and its streams while the context is open; its results are complete after that."""

    def __init__(
        self, pid: int, streams: StreamAddress | None, count: int = 1, *, peer: str | None = None, waits: bool = False
    ) -> None:
        """`streams` is None if this host does not send; `count` is the number of streams. `peer` is the other end, for
        which the tool `waits` if it is the server."""
        self._pid = pid
        self._streams = streams
        self._count = count
        self._busy_s: dict[str, list[tuple[float, float]]] = {}
        self._sockets: dict[str, str] = {}
        self._load = HostLoadSampler(pid, peer, waits=waits)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def kernel_counts(self) -> KernelCounts | None:
        """The kernel's counters at the last sample."""
        return kernel_counts(self._sockets.values(), self._count)

    def wanted_ratio(self) -> float | None:
        """CPU demand of the busiest thread, from its first activity to the last sample; None with fewer than two."""
        spans = [(_first_busy_sample(samples), samples[-1]) for samples in self._busy_s.values()]
        ratios = [
            (last[1] - first[1]) / (last[0] - first[0]) for first, last in spans if last[0] - first[0] >= SAMPLE_EVERY_S
        ]
        return max(ratios, default=None)

    def host_load(self) -> HostLoad | None:
        """The load of this host while the streams were active."""
        return self._load.host_load()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            threads = scheduled_s(self._pid)
            for thread, (ran_s, waited_s) in threads.items():
                self._busy_s.setdefault(thread, []).append((time.monotonic(), ran_s + waited_s))
            if threads:
                self._load.sample({thread: ran_s for thread, (ran_s, _) in threads.items()})
            if self._streams is not None:
                for line in socket_lines(self._streams):
                    self._sockets[" ".join(line.split()[2:4])] = line


def _first_busy_sample(samples: list[tuple[float, float]]) -> tuple[float, float]:
    """The last sample before a thread became active (a server waits for its client), or the first if it never did."""
    for before, after in itertools.pairwise(samples):
        if after[1] - before[1] > IDLE_RATIO * (after[0] - before[0]):
            return before
    return samples[0]


def scheduled_s(pid: int) -> dict[str, tuple[float, float]]:
    """Seconds that each thread of a process ran, and waited to run (/proc, schedstat); empty if not available."""
    seconds = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # A thread may end between being listed and being read.
        with contextlib.suppress(OSError, ValueError):
            ran_ns, waited_ns, _ = path.read_text().split()
            seconds[path.parent.name] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return seconds


def socket_lines(streams: StreamAddress) -> list[str]:
    """Lines of `ss`, a line per connection; empty if `ss` fails."""
    host = f"[{streams.peer}]" if ":" in streams.peer else streams.peer
    side = "sport" if streams.from_port else "dport"
    command = ["ss", "-tinOH", "state", "established", "dst", host, side, "=", f":{streams.port}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SS_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line for line in done.stdout.splitlines() if "bytes_sent:" in line]


def kernel_counts(lines: Iterable[str], streams: int) -> KernelCounts | None:
    """Parse lines of `ss -tinO`, for the `streams` connections that sent most: iperf3 also has a control connection.

    None if fewer connections sent data. `ss` omits zeros. The receiver of a test sends no data, so `lastrcv`, the time
    since the last received data, is the age of the connection.
    """
    carrying = sorted((line for line in lines if "busy:" in line), key=lambda line: -_number(line, "bytes_sent"))
    carrying = carrying[:streams]
    if len(carrying) < streams:
        return None

    def total(name: str) -> int:
        return round(sum(_number(line, name) for line in carrying))

    def mean_s(name: str) -> float:
        return sum(_number(line, name) for line in carrying) / len(carrying) / 1000.0

    rates_bps = [_rate_bps(line) for line in carrying]
    return KernelCounts(
        age_s=mean_s("lastrcv"),
        busy_s=mean_s("busy"),
        peer_window_limited_s=mean_s("rwnd_limited"),
        send_buffer_limited_s=mean_s("sndbuf_limited"),
        resent_bytes=total("bytes_retrans"),
        duplicates=total("dsack_dups"),
        reordering_seen=total("reord_seen"),
        acknowledged_bytes=total("bytes_acked") if all("bytes_acked:" in line for line in carrying) else None,
        delivery_rate_bps=sum(rate for rate in rates_bps if rate is not None) if any(rates_bps) else None,
        rtt_min_ms=min((_number(line, "minrtt") for line in carrying if "minrtt:" in line), default=None),
    )


def _number(line: str, name: str) -> float:
    match = re.search(rf"\b{name}:([\d.]+)", line)
    return float(match[1]) if match else 0.0


def _rate_bps(line: str) -> float | None:
    """Parse the delivery rate. Older versions of `ss` round it to a unit, newer versions write it in full."""
    match = re.search(r"\bdelivery_rate ([\d.]+)([KMGT]?)bps", line)
    return float(match[1]) * UNITS[match[2]] if match else None
