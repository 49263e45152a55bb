"""Paces probes of traces by router and total rate. No I/O; times in seconds."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

ProbeT = TypeVar("ProbeT")


class RouterPacing(Generic[ProbeT]):
    """Queues of probes by the router where they are expected to expire.

    `free_at_s` is shared by simultaneous rounds.
    """

    def __init__(
        self, spacing_s: float, packets_per_s: float, free_at_s: dict[Hashable, float], random: random.Random
    ) -> None:
        self._spacing_s = spacing_s
        self._packets_per_s = packets_per_s
        self._free_at_s = free_at_s
        self._random = random
        self._queues: dict[Hashable, deque[ProbeT]] = {}
        self._due: list[tuple[float, float, Hashable]] = []
        self._budget_at_s = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def waiting(self, router: Hashable) -> int:
        return len(self._queues.get(router, ()))

    def add(self, router: Hashable, probe: ProbeT, not_before_s: float) -> None:
        """Queue a probe that is expected to expire at `router`."""
        queue = self._queues.get(router)
        if queue is None:
            self._queues[router] = queue = deque()
            self._schedule(router, not_before_s)
        queue.append(probe)

    def note(self, router: Hashable, at_s: float) -> None:
        """Note an unexpected expiry at this router."""
        self._free_at_s[router] = max(self._free_at_s.get(router, 0.0), at_s + self._spacing_s)

    def take(self, now_s: float) -> list[ProbeT]:
        taken = []
        while self._due and self._due[0][0] <= now_s and self._budget_at_s <= now_s:
            _, _, router = heapq.heappop(self._due)
            free_at_s = self._free_at_s.get(router, 0.0)
            if free_at_s > now_s:
                # Another round has probed this router meanwhile.
                self._schedule(router, free_at_s)
                continue
            queue = self._queues[router]
            taken.append(queue.popleft())
            self._free_at_s[router] = now_s + self._spacing_s
            # Unused budget does not add up, but for what a single late wake-up leaves.
            self._budget_at_s = max(self._budget_at_s, now_s - BURST_S) + 1 / self._packets_per_s
            if queue:
                self._schedule(router, now_s + self._spacing_s)
            else:
                del self._queues[router]
        return taken

    def next_at_s(self) -> float | None:
        """When a probe is due next; None without any."""
        return max(self._due[0][0], self._budget_at_s) if self._due else None

    def _schedule(self, router: Hashable, at_s: float) -> None:
        at_s = max(at_s, self._free_at_s.get(router, 0.0))
        heapq.heappush(self._due, (at_s, self._random.random(), router))


# How much of the total rate may go out at once after a wait.
BURST_S = 0.2
