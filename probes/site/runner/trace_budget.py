"""The packet budget of traces and sentinels: a share of the pings', ten minutes' of it in advance."""

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
# Part of the first hour's share that may be sent in advance.
ADVANCE, ADVANCED_S = 1 / 6, 3600.0
# Unused packets and debts of much longer ago than this do not count.
FORGET_S = 3600.0


def echo_requests_per_hour(plan: Plan | None) -> float:
    tasks = [task for task in plan.of(PING) if isinstance(task, PingTask)] if plan is not None else []
    return sum(len(task.spec.targets) * task.spec.requests * 3600.0 / task.every_s for task in tasks)


class TraceBudget:
    """Counts echo requests and the packets left. Thread-safe."""

    def __init__(
        self,
        sent: Callable[[], int],
        planned_per_hour: Callable[[], float] = lambda: 0.0,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sent` counts packets of traces and sentinels, `planned_per_hour` echo requests."""
        self._sent = sent
        self._planned_per_hour = planned_per_hour
        self._now_s = now_s
        self._lock = threading.Lock()
        self._left = 0.0
        self._counted = sent()
        self._at_s = now_s()
        self._advanced_at_s: float | None = None

    def note_pings(self, requests: int) -> None:
        with self._lock:
            self._update()
            if requests > 0 and self._advanced_at_s is None:
                self._advanced_at_s = self._at_s
                self._left += SHARE * ADVANCE * self._planned_per_hour()
            self._left += self._share() * requests

    def left(self) -> int:
        with self._lock:
            self._update()
            return max(0, math.floor(self._left))

    def within(self, kind: CycleKind, task: CycleTask) -> CycleTask:
        """Limit a scheduled trace cycle to the packets left."""
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
