"""Periods of throughput tests on this host, to distinguish pings during a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from probes.contract import LoadPeriod

# Longer than any cycle of pings, which is compared with these periods at its end.
REMEMBERED = timedelta(hours=1)


class OwnTests:
    """The periods of our own tests, running ones included. Safe to use from any thread."""

    def __init__(self, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._running: list[datetime] = []
        self._ended: list[tuple[datetime, datetime]] = []

    @contextlib.contextmanager
    def running(self, delay: timedelta = timedelta(0)) -> Iterator[None]:
        """Record a test from `delay` after now until the context ends."""
        started_at = self._now() + delay
        with self._lock:
            self._running.append(started_at)
        try:
            yield
        finally:
            ended_at = self._now()
            with self._lock:
                self._running.remove(started_at)
                self._ended = [period for period in self._ended if period[1] > ended_at - REMEMBERED]
                if started_at <= ended_at:
                    self._ended.append((started_at, ended_at))

    def periods(self) -> list[LoadPeriod]:
        now = self._now()
        with self._lock:
            return [*self._ended, *((started_at, now) for started_at in self._running if started_at <= now)]

    def overlap(self, since: datetime, until: datetime) -> bool:
        """Whether a test of ours ran at any moment of [since, until]."""
        with self._lock:
            return any(started_at <= until for started_at in self._running) or any(
                started_at <= until and ended_at >= since for started_at, ended_at in self._ended
            )
