"""Emulates an ordered path: a pure model with the clock passed in.

In order: random loss, bottleneck, policer, delay with jitter, reordering, duplication. Only reordering changes the
order.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from probes.lab.settings import PathSettings

# Time between jitter knots in multiples of its size; above 2, delay never falls faster than time runs.
JITTER_STRETCH = 4.0


class PathCounters(msgspec.Struct, kw_only=True):
    """Ground truth of a path, in packets.

    Always received + duplicated = forwarded + dropped_* + expired + failed + in transit.
    """

    received: int = 0
    forwarded: int = 0
    forwarded_bytes: int = 0  # IP packets, headers included
    dropped_loss: int = 0
    dropped_queue: int = 0
    dropped_policer: int = 0
    duplicated: int = 0
    reordered: int = 0  # left after a packet that arrived later (RFC 4737, section 3)
    failed: int = 0  # refused by the kernel
    dropped_links: int = 0  # by links of its route
    expired: int = 0  # TTL reached zero at a router


class EmulatedPath:
    """An ordered path. Times are seconds of the same monotonic clock."""

    __slots__ = (
        "_byte_s",
        "_delay_s",
        "_duplicate_ratio",
        "_free_at_s",
        "_hold_s",
        "_jitter",
        "_last_exit_s",
        "_loss_ratio",
        "_newest_left",
        "_policer",
        "_queue_s",
        "_random",
        "_reorder_ratio",
        "counts",
        "destination",
        "settings",
        "source",
    )

    def __init__(self, source: str, destination: str, settings: PathSettings, rng: random.Random) -> None:
        self.source = source
        self.destination = destination
        self.counts = PathCounters()
        self._random = rng.random
        self._free_at_s = 0.0
        self._last_exit_s = 0.0
        self._newest_left = -1
        self.change(settings)

    def change(self, settings: PathSettings) -> None:
        """Apply `settings` from now on. Packets in transit keep their departure time."""
        self.settings = settings
        self._delay_s = settings.delay_ms / 1e3
        self._jitter = _Jitter(settings.jitter_ms / 1e3, self._random)
        self._loss_ratio = settings.loss_ratio
        self._byte_s = 0.0 if settings.rate_mbps is None else 8 / (settings.rate_mbps * 1e6)
        self._queue_s = 0.0 if settings.rate_mbps is None else settings.queue_limit_bytes * self._byte_s
        self._policer = None if settings.policer_mbps is None else _Policer(settings, settings.policer_mbps)
        self._reorder_ratio = settings.reorder_ratio
        self._hold_s = settings.reorder_hold_ms / 1e3
        self._duplicate_ratio = settings.duplicate_ratio

    def admit(self, now_s: float, size_bytes: int) -> tuple[float, ...]:
        """Departure times of a packet that arrives at `now_s`: none if dropped, two if duplicated."""
        counts = self.counts
        counts.received += 1
        if self._loss_ratio and self._random() < self._loss_ratio:
            counts.dropped_loss += 1
            return ()
        start_s = sent_at_s = now_s
        if self._byte_s:
            start_s = max(now_s, self._free_at_s)
            sent_at_s = start_s + size_bytes * self._byte_s
            # A packet that arrives at an idle link is being sent, not queued.
            if start_s > now_s and sent_at_s - now_s > self._queue_s:
                counts.dropped_queue += 1
                return ()
            self._free_at_s = sent_at_s
        if self._policer is not None and not self._policer.passes(start_s, sent_at_s, size_bytes):
            counts.dropped_policer += 1
            return ()
        return self._exits(sent_at_s)

    def count_forwarded(self, number: int, size_bytes: int) -> None:
        """Count a forwarded packet; `number` is its arrival number on the path."""
        counts = self.counts
        counts.forwarded += 1
        counts.forwarded_bytes += size_bytes
        if number < self._newest_left:
            counts.reordered += 1
        else:
            self._newest_left = number

    def _exits(self, sent_at_s: float) -> tuple[float, ...]:
        delay_s = max(0.0, self._delay_s + self._jitter.at(sent_at_s))
        exit_s = max(sent_at_s + delay_s, self._last_exit_s)
        if self._reorder_ratio and self._random() < self._reorder_ratio:
            exit_s += self._hold_s
        else:
            self._last_exit_s = exit_s
        if self._duplicate_ratio and self._random() < self._duplicate_ratio:
            self.counts.duplicated += 1
            return (exit_s, exit_s)
        return (exit_s,)


class _Policer:
    """Token bucket, initially full (RFC 2697, single colour), without a queue."""

    __slots__ = ("_cell_bytes", "_depth_bytes", "_last_s", "_rate_bytes_s", "_tokens_bytes")

    def __init__(self, settings: PathSettings, rate_mbps: float) -> None:
        self._rate_bytes_s = rate_mbps * 1e6 / 8
        self._depth_bytes = self._tokens_bytes = float(settings.policer_bytes)
        self._cell_bytes = settings.policer_cell_bytes
        self._last_s = 0.0

    def passes(self, start_s: float, end_s: float, size_bytes: int) -> bool:
        if not self._cell_bytes:
            return self._takes(end_s, size_bytes)
        cells = -(-size_bytes // self._cell_bytes)
        cell_s = (end_s - start_s) / cells
        # After a lost cell, the other cells of the packet still take tokens.
        taken = sum(self._takes(start_s + (number + 1) * cell_s, self._cell_bytes) for number in range(cells))
        return taken == cells

    def _takes(self, now_s: float, size_bytes: int) -> bool:
        gained_bytes = (now_s - self._last_s) * self._rate_bytes_s
        self._tokens_bytes = min(self._depth_bytes, self._tokens_bytes + gained_bytes)
        self._last_s = now_s
        if self._tokens_bytes < size_bytes:
            return False
        self._tokens_bytes -= size_bytes
        return True


class _Jitter:
    """Zero-mean delay variation within ± `size_s`, linear between random knots.

    Independent values would reorder dense traffic or delay all of it.
    """

    __slots__ = ("_here_s", "_knot", "_next_s", "_random", "_size_s", "_spacing_s")

    def __init__(self, size_s: float, uniform: Callable[[], float]) -> None:
        self._size_s = size_s
        self._random = uniform
        self._spacing_s = JITTER_STRETCH * size_s
        self._knot = -1.0
        self._here_s = self._next_s = self._draw_s()

    def at(self, now_s: float) -> float:
        """The variation in seconds at `now_s`, which must not decrease."""
        if not self._size_s:
            return 0.0
        knot, rest = divmod(now_s, self._spacing_s)
        if knot > self._knot:
            self._here_s = self._next_s if knot == self._knot + 1 else self._draw_s()
            self._next_s = self._draw_s()
            self._knot = knot
        return self._here_s + (self._next_s - self._here_s) * (rest / self._spacing_s)

    def _draw_s(self) -> float:
        return (2 * self._random() - 1) * self._size_s
