"""Simulated traces of a path over routers that balance load by a hash of the flow."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from monitor.analysis.routes.compare import RouteHops
from monitor.analysis.routes.timeline import Flow, RouteTrace

START = datetime(2026, 3, 1, tzinfo=UTC)


def planted_at(seed: int, every_min: int) -> int:
    """The minute of the change that is planted in a day of traces."""
    return random.Random(seed).randrange(300, 1100, every_min)


def balanced_traces(
    seed: int,
    *,
    change_at: int | None = None,
    silent: float = 0.3,
    flows: int = 16,
    minutes: int = 1440,
    every_min: int = 1,
) -> list[RouteTrace]:
    """Traces of a path with two stages of routers that balance flows by a hash; at `change_at` minutes the route
    changes in a stage: other routers, or another hash."""
    generator = random.Random(seed)
    stages = [[f"10.{stage}.0.{router}" for router in range(4)] for stage in range(2)]
    hashes = [[generator.randrange(4) for _ in range(flows)] for _ in stages]
    kind = generator.choice(("routers", "hash", "length"))
    extra: list[str] = []
    result = []
    for minute in range(0, minutes, every_min):
        if minute == change_at:
            stage = generator.randrange(2)
            if kind == "routers":
                stages[stage] = [f"10.9.{stage}.{router}" for router in range(4)]
            elif kind == "hash":
                hashes[stage] = [(place + generator.randrange(1, 4)) % 4 for place in hashes[stage]]
            else:
                extra = ["10.8.0.1"]
        flow = generator.randrange(flows)
        hops = ["192.0.2.1", stages[0][hashes[0][flow]], "192.0.2.3", stages[1][hashes[1][flow]], *extra, "192.0.2.9"]
        hops[:-1] = [hop if generator.random() >= silent else None for hop in hops[:-1]]
        reached = generator.random() >= 0.02
        length = len(hops) if reached else generator.randrange(len(hops))
        while not reached and length and hops[length - 1] is None:
            length -= 1
        route = RouteHops(tuple(hops[:length]), reached)
        result.append(RouteTrace(START + timedelta(minutes=minute), Flow("icmp", flow), route))
    return result
