"""Routes and router probe times of this process's last rounds, for planning only, never for results."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

from probes.trace.search import EarlierRoute

FORGET_S = 3600.0


class RouteMemory:
    """Routes by target; `packets` counts packets sent by all users. Thread-safe."""

    def __init__(self) -> None:
        self.packets = 0
        self._lock = threading.Lock()
        self._routes: dict[Hashable, tuple[float, EarlierRoute]] = {}
        self.free_at_s: dict[Hashable, float] = {}

    def route(self, target: Hashable) -> EarlierRoute | None:
        """The last route within the hour, if any."""
        with self._lock:
            seen_s, route = self._routes.get(target, (0.0, None))
        return route if route is not None and time.monotonic() - seen_s < FORGET_S else None

    def note_sent(self, packets: int) -> None:
        with self._lock:
            self.packets += packets

    def learn(self, routes: dict[Hashable, EarlierRoute]) -> None:
        """Remember routes; a silent hop of an unchanged route keeps its router."""
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
