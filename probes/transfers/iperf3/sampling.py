"""Samples a running test from outside: TCP counters of its streams, and CPU time.

Figures are None without sock_diag or /proc, or after too short a test.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Self

from probes.threads import ProbeThread
from probes.transfers.hosts.load import HostLoadSampler
from probes.transfers.hosts.spec import HostLoad
from probes.transfers.socket_counters import ConnectionCounters, SocketReader, StreamAddress
from probes.transfers.spec import KernelCounts

SAMPLE_EVERY_S = 0.2
# CPU share below which a thread is still waiting for the test to begin.
IDLE_RATIO = 0.01


class ToolSampler:
    """Samples a process and its streams within the context; then its results are complete."""

    def __init__(
        self, pid: int, streams: StreamAddress | None, count: int = 1, *, peer: str | None = None, waits: bool = False
    ) -> None:
        """`streams` is None if this host does not send; a server `waits` for its `peer`."""
        self._pid = pid
        self._streams = streams
        self._count = count
        self._busy_s: dict[str, list[tuple[float, float]]] = {}
        self._connections: dict[bytes, ConnectionCounters] = {}
        self._sampled_at_s: dict[bytes, float] = {}
        self._load = HostLoadSampler(pid, peer, waits=waits)
        self._ended = threading.Event()
        self._thread = ProbeThread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.finish()

    def kernel_counts(self) -> KernelCounts | None:
        return kernel_counts(self._connections.values(), self._count)

    def began_at(self) -> datetime | None:
        """When the last stream connected, by this host's clock, just before data."""
        carrying = _carrying(self._connections.values(), self._count)
        if carrying is None:
            return None
        began_s = max(self._sampled_at_s[counters.connection] - counters.age_s for counters in carrying)
        return datetime.fromtimestamp(began_s, UTC)

    def wanted_ratio(self) -> float | None:
        """CPU demand of the busiest thread; None with too few samples."""
        spans = [(_first_busy_sample(samples), samples[-1]) for samples in self._busy_s.values()]
        ratios = [
            (last[1] - first[1]) / (last[0] - first[0]) for first, last in spans if last[0] - first[0] >= SAMPLE_EVERY_S
        ]
        return max(ratios, default=None)

    def host_load(self) -> HostLoad | None:
        return self._load.host_load()

    def _sample(self) -> None:
        with contextlib.ExitStack() as stack:
            reader = None if self._streams is None else stack.enter_context(SocketReader(self._streams))
            self._sample_with(reader)

    def _sample_with(self, reader: SocketReader | None) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            threads = scheduled_s(self._pid)
            for thread, (ran_s, waited_s) in threads.items():
                self._busy_s.setdefault(thread, []).append((time.monotonic(), ran_s + waited_s))
            if threads:
                self._load.sample({thread: ran_s for thread, (ran_s, _) in threads.items()})
            asked_at_s = time.time()
            for counters in () if reader is None else reader.read():
                self._connections[counters.connection] = counters
                self._sampled_at_s[counters.connection] = (asked_at_s + time.time()) / 2


def _first_busy_sample(samples: list[tuple[float, float]]) -> tuple[float, float]:
    for before, after in itertools.pairwise(samples):
        if after[1] - before[1] > IDLE_RATIO * (after[0] - before[0]):
            return before
    return samples[0]


def scheduled_s(pid: int) -> dict[str, tuple[float, float]]:
    """Seconds that each thread ran and waited (/proc, schedstat)."""
    seconds = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # A thread may end between being listed and being read.
        with contextlib.suppress(OSError, ValueError):
            ran_ns, waited_ns, _ = path.read_text().split()
            seconds[path.parent.name] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return seconds


def kernel_counts(connections: Iterable[ConnectionCounters], streams: int) -> KernelCounts | None:
    """Sum up the `streams` connections that sent most; None with fewer.

    A sender receives no data, so the time since received data is the connection's age.
    """
    carrying = _carrying(connections, streams)
    if carrying is None:
        return None
    rates_bps = [row.delivery_rate_bps for row in carrying]
    return KernelCounts(
        age_s=fmean(row.age_s for row in carrying),
        busy_s=fmean(row.busy_s for row in carrying),
        peer_window_limited_s=fmean(row.peer_window_limited_s for row in carrying),
        send_buffer_limited_s=fmean(row.send_buffer_limited_s for row in carrying),
        resent_bytes=sum(row.resent_bytes for row in carrying),
        duplicates=sum(row.duplicates for row in carrying),
        reordering_seen=sum(row.reordering_seen for row in carrying),
        acknowledged_bytes=sum(row.acknowledged_bytes for row in carrying),
        delivery_rate_bps=sum(rates_bps) if any(rates_bps) else None,
        rtt_min_ms=min((row.rtt_min_ms for row in carrying if row.rtt_min_ms is not None), default=None),
        segment_bytes=max(row.segment_bytes for row in carrying) or None,
    )


def _carrying(connections: Iterable[ConnectionCounters], streams: int) -> list[ConnectionCounters] | None:
    sending = sorted((row for row in connections if row.busy_s > 0.0), key=lambda row: -row.sent_bytes)
    return None if len(sending) < streams else sending[:streams]
