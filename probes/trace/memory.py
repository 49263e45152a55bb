"""What the last rounds of this process saw: the route to each target, and when each router was last probed.

Only for planning: it tells how far away a destination is and which hops targets share. Results never come from it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

from probes.trace.search import EarlierRoute

FORGET_S = 3600.0


class RouteMemory:
    """Routes by target. Thread-safe. `packets` is the number of packets sent by all that uses this memory."""

    def __init__(self) -> None:
        self.packets = 0
        self._lock = threading.Lock()
        self._routes: dict[Hashable, tuple[float, EarlierRoute]] = {}
        self.free_at_s: dict[Hashable, float] = {}

    def route(self, target: Hashable) -> EarlierRoute | None:
        """The last route to a target within the hour, if any."""
        with self._lock:
            seen_s, route = self._routes.get(target, (0.0, None))
        return route if route is not None and time.monotonic() - seen_s < FORGET_S else None

    def note_sent(self, packets: int) -> None:
        """Count packets that were sent."""
        with self._lock:
            self.packets += packets

    def learn(self, routes: dict[Hashable, EarlierRoute]) -> None:
        """Remember the routes of a round. A silent hop of an unchanged route keeps the router that it had."""
        now_s = time.monotonic()
        with self._lock:
            for target, route in routes.items():
                self._routes[target] = now_s, _completed(route, self._routes.get(target, (0.0, None))[1])
            self._routes = {target: entry for target, entry in self._routes.items() if now_s - entry[0] < FORGET_S}
            for router in [router for router, free_s in self.free_at_s.copy().items() if free_s < now_s]:
                self.free_at_s.pop(router, None)


def _completed(route: EarlierRoute, before: EarlierRoute | None) -> EarlierRoute:
    if before is None or not (route.reached and before.reached and route.agrees(before)):
        return route
    pairs = zip(route.hops, before.hops, strict=True)
    return EarlierRoute(tuple(here if here is not None else there for here, there in pairs), reached=True)
