"""The packets that traces and sentinels may send: a share of those of the pings.

Scheduled traces always send a packet to each hop; what they send beyond it, and the sentinels, stay within the share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import msgspec

from probes.contract import CycleKind, CycleTask
from probes.trace.kind import KIND
from probes.trace.spec import TraceTask

SHARE = 0.15
FORGET_S = 3600.0
"""Unused packets and debts of much longer ago than this do not count."""


class TraceBudget:
    """Counts echo requests, and with them the packets that are left. Thread-safe."""

    def __init__(self, sent: Callable[[], int], *, now_s: Callable[[], float] = time.monotonic) -> None:
        """`sent` is the number of packets that traces and sentinels have sent so far."""
        self._sent = sent
        self._now_s = now_s
        self._lock = threading.Lock()
        self._left = 0.0
        self._counted = sent()
        self._at_s = now_s()
        self._has_pings = False

    def note_pings(self, requests: int) -> None:
        """Count echo requests of the pings."""
        with self._lock:
            self._has_pings |= requests > 0
            self._update()
            self._left += SHARE * requests

    def left(self) -> int:
        """The packets that may be sent now."""
        with self._lock:
            self._update()
            return max(0, math.floor(self._left))

    def within(self, kind: CycleKind, task: CycleTask) -> CycleTask:
        """A scheduled cycle with the packets that are left; other kinds than traces as they are, and traces of a site
        that sends no pings."""
        if kind.name != KIND.name or not isinstance(task, TraceTask) or not self._has_pings or not task.spec.targets:
            return task
        most = self.left() // len(task.spec.targets)
        given = task.spec.max_packets
        spec = msgspec.structs.replace(task.spec, max_packets=most if given is None else min(most, given))
        return msgspec.structs.replace(task, spec=spec)

    def _update(self) -> None:
        now_s, sent = self._now_s(), self._sent()
        self._left = self._left * math.exp((self._at_s - now_s) / FORGET_S) - (sent - self._counted)
        self._counted, self._at_s = sent, now_s
