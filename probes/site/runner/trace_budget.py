"""The packets that traces and sentinels may send: a share of those of the pings.

Scheduled traces always send a packet to each hop; what they send beyond it, and the sentinels, stay within the share.
An agent that has just started may send ten minutes' share in advance, so that its sentinels begin with its first
cycles; the share is smaller by as much over its first hour.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import msgspec

from probes.contract import CycleKind, CycleTask
from probes.ping.kind import KIND as PING
from probes.ping.spec import PingTask
from probes.site.wire import Plan
from probes.trace.kind import KIND
from probes.trace.spec import TraceTask

SHARE = 0.15
ADVANCE, ADVANCED_S = 1 / 6, 3600.0
"""How much of the share of the first hour may be sent in advance."""
FORGET_S = 3600.0
"""Unused packets and debts of much longer ago than this do not count."""


def echo_requests_per_hour(plan: Plan | None) -> float:
    """The echo requests that the pings of a plan send in an hour."""
    tasks = [task for task in plan.of(PING) if isinstance(task, PingTask)] if plan is not None else []
    return sum(len(task.spec.targets) * task.spec.requests * 3600.0 / task.every_s for task in tasks)


class TraceBudget:
    """Counts echo requests, and with them the packets that are left. Thread-safe."""

    def __init__(
        self,
        sent: Callable[[], int],
        planned_per_hour: Callable[[], float] = lambda: 0.0,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sent` is the number of packets that traces and sentinels have sent so far, `planned_per_hour` that of echo
        requests that the pings are to send."""
        self._sent = sent
        self._planned_per_hour = planned_per_hour
        self._now_s = now_s
        self._lock = threading.Lock()
        self._left = 0.0
        self._counted = sent()
        self._at_s = now_s()
        self._advanced_at_s: float | None = None

    def note_pings(self, requests: int) -> None:
        """Count echo requests of the pings."""
        with self._lock:
            self._update()
            if requests > 0 and self._advanced_at_s is None:
                self._advanced_at_s = self._at_s
                self._left += SHARE * ADVANCE * self._planned_per_hour()
            self._left += self._share() * requests

    def left(self) -> int:
        """The packets that may be sent now."""
        with self._lock:
            self._update()
            return max(0, math.floor(self._left))

    def within(self, kind: CycleKind, task: CycleTask) -> CycleTask:
        """A scheduled cycle with the packets that are left; other kinds than traces as they are, and traces of a site
        that sends no pings."""
        if (
            kind.name != KIND.name
            or not isinstance(task, TraceTask)
            or self._advanced_at_s is None
            or not task.spec.targets
        ):
            return task
        most = self.left() // len(task.spec.targets)
        given = task.spec.max_packets
        spec = msgspec.structs.replace(task.spec, max_packets=most if given is None else min(most, given))
        return msgspec.structs.replace(task, spec=spec)

    def _share(self) -> float:
        if self._advanced_at_s is None or self._at_s - self._advanced_at_s >= ADVANCED_S:
            return SHARE
        return SHARE * (1.0 - ADVANCE) if self._planned_per_hour() else SHARE

    def _update(self) -> None:
        now_s, sent = self._now_s(), self._sent()
        self._left = self._left * math.exp((self._at_s - now_s) / FORGET_S) - (sent - self._counted)
        self._counted, self._at_s = sent, now_s
