"""An internet of trees for tests of trace rounds: it answers probes after a delay, and counts them by router."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from probes.trace.round import TraceRound, TtlProbe
from probes.trace.search import EXCEEDED, REACHED, Answer, EarlierRoute
from probes.trace.spec import TraceSpec, TraceTarget

RTT_S = 0.02


class World:
    """Routes by rank: the routers from TTL 1 on, then the destination. `silent` routers never reply."""

    def __init__(
        self,
        routes: Mapping[int, Sequence[str]],
        *,
        silent: Sequence[str] = (),
        dead: Sequence[int] = (),
        seed: int = 1,
    ) -> None:
        self.routes = routes
        self.silent = set(silent)
        self.dead = set(dead)
        self.dice = random.Random(seed)
        self.expired: Counter[str] = Counter()
        self.times_s: dict[str, list[float]] = defaultdict(list)
        self.probes: list[TtlProbe] = []

    def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
        route = self.routes[probe.rank]
        if probe.ttl >= len(route):
            return None if probe.rank in self.dead else Answer(route[-1], 1.0, REACHED, (), 65 - len(route))
        router = route[probe.ttl - 1]
        self.expired[router] += 1
        self.times_s[router].append(now_s)
        return None if router in self.silent else Answer(router, 1.0, EXCEEDED)

    def run(self, round_: TraceRound, until_s: float = 5000.0) -> float:
        """Run the round to its end. Returns how long it took."""
        now_s, pending, order = 0.0, [], 0
        while not round_.is_over:
            for probe in round_.due(now_s):
                self.probes.append(probe)
                answer = self.answer(probe, now_s)
                order += 1
                heapq.heappush(pending, (now_s + (RTT_S if answer is not None else 2.0), order, probe, answer))
            nearest = [at_s for at_s in (round_.next_at_s(), pending[0][0] if pending else None) if at_s is not None]
            assert nearest, "the round waits for nothing"
            now_s = max(now_s, min(nearest))
            assert now_s < until_s, "the round does not end"
            while pending and pending[0][0] <= now_s:
                _, _, probe, answer = heapq.heappop(pending)
                round_.answered(probe, answer, now_s)
        return now_s

    def spacing_s(self) -> float:
        """The shortest interval between two probes that expired at the same router."""
        gaps = [later - earlier for times in self.times_s.values() for earlier, later in pairwise(times)]
        return min(gaps, default=float("inf"))


def spec_for(targets: int, **fields: object) -> TraceSpec:
    return TraceSpec(targets=tuple(TraceTarget(address=f"198.51.100.{n}") for n in range(targets)), **fields)


def round_for(world: World, expected: Sequence[EarlierRoute | None] | None = None, **fields: object) -> TraceRound:
    targets = len(world.routes)
    expected = [None] * targets if expected is None else expected
    return TraceRound(spec_for(targets, **fields), expected, {}, 0.0, dice=world.dice)


def routes_seen(round_: TraceRound) -> list[EarlierRoute]:
    return [
        EarlierRoute(tuple(hop.address for hop in round_.hops(rank)), search.reached_at is not None)
        for rank, search in enumerate(round_.searches)
    ]


def tree(targets: int, *, near: int = 4, regions: int = 10, far: int = 3) -> dict[int, list[str]]:
    """Routes that share `near` routers, then those of their region, then have some of their own."""
    return {
        rank: [
            *(f"near{ttl}" for ttl in range(1, near + 1)),
            *(f"region{rank % regions}.{ttl}" for ttl in (1, 2)),
            *(f"own{rank}.{ttl}" for ttl in range(1, far + 1)),
            f"host{rank}",
        ]
        for rank in range(targets)
    }
