"""Watches a test from outside the tool that makes it: what the kernel counts of its streams, its time on a processor.

`Watch` looks every `EVERY_S` seconds from a thread of its own, since all of it is gone when the tool ends. In: the
tool's process, and where its streams go. Out: `KernelCounts`, and the share of the time in which the tool ran or waited
to run. What the system does not tell is None: `ss` (of iproute2) missing, no /proc, a test too short to be looked at.
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

from probes.throughput.spec import KernelCounts

EVERY_S = 0.2
SS_TIMEOUT_S = 2.0
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


WAITED_RATIO = 0.01
"""Of a processor: a thread that wants less than this is waiting for the test to begin."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Where streams of this host go: to a peer, at its port, or from our port where the peer has connected."""

    peer: str
    port: int
    from_port: bool = False


class Watch:
    """Looks at a process and its streams for as long as the context is open."""

    def __init__(self, pid: int, streams: Streams | None, count: int = 1) -> None:
        """`streams` are those of this host, so many; None where it is not this host that sends."""
        self._pid = pid
        self._streams = streams
        self._count = count
        self._busy_s: dict[str, list[tuple[float, float]]] = {}
        self._sockets: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def kernel_counts(self) -> KernelCounts | None:
        """What the kernel counted until the last look. To be asked after the end."""
        return kernel_counts(self._sockets.values(), self._count)

    def wanted_ratio(self) -> float | None:
        """Of the busiest thread, from when it began to work to the last look; None without two looks. As above."""
        spans = [(_beginning(looks), looks[-1]) for looks in self._busy_s.values()]
        ratios = [(last[1] - first[1]) / (last[0] - first[0]) for first, last in spans if last[0] - first[0] >= EVERY_S]
        return max(ratios, default=None)

    def _look_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            for thread, busy_s in scheduled_s(self._pid).items():
                self._busy_s.setdefault(thread, []).append((time.monotonic(), busy_s))
            if self._streams is not None:
                for line in socket_lines(self._streams):
                    self._sockets[" ".join(line.split()[2:4])] = line


def _beginning(looks: list[tuple[float, float]]) -> tuple[float, float]:
    """The look after which a thread began to work: a server waits for its client before. The first if it never did."""
    for before, after in itertools.pairwise(looks):
        if after[1] - before[1] > WAITED_RATIO * (after[0] - before[0]):
            return before
    return looks[0]


def scheduled_s(pid: int) -> dict[str, float]:
    """Of each thread of a process, seconds on a processor and in the queue for one (/proc, schedstat); empty where the
    kernel does not tell."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # A thread may end between being listed and being read.
        with contextlib.suppress(OSError, ValueError):
            ran_ns, waited_ns, _ = path.read_text().split()
            found[path.parent.name] = (int(ran_ns) + int(waited_ns)) / 1e9
    return found


def socket_lines(streams: Streams) -> list[str]:
    """What `ss` says of these connections, a line each; nothing where it cannot say."""
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
    """The counts in lines of `ss -tinO`, of the connections that carried most: iperf3 has another one for control.

    None where fewer carried anything. `ss` leaves out what is zero. The receiver of a test sends no data, so that
    `lastrcv`, the time since some came, is the age of the connection.
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
        delivery_rate_bps=sum(rate for rate in rates_bps if rate is not None) if any(rates_bps) else None,
        rtt_min_ms=min((_number(line, "minrtt") for line in carrying if "minrtt:" in line), default=None),
    )


def _number(line: str, name: str) -> float:
    found = re.search(rf"\b{name}:([\d.]+)", line)
    return float(found[1]) if found else 0.0


def _rate_bps(line: str) -> float | None:
    """Older versions round the rate to a unit, newer ones write it out."""
    found = re.search(r"\bdelivery_rate ([\d.]+)([KMGT]?)bps", line)
    return float(found[1]) * UNITS[found[2]] if found else None
