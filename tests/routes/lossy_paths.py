"""Simulated traces of a path with a lossy link, from both ends, over routers that limit replies or are silent.

Packets cross directed links, one by one: a probe to a hop goes along the route, its reply along the way back of that
router, which need not be the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.analysis.routes.onset import HopCounts

ASYMMETRIC = 0.4
ONWARD = 0.2
"""Of routers on one of the routes only, those whose replies first go on along it."""
LIMITED = 0.15

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LossyPath:
    """Counts from both ends and the truth. `forward` and `reverse` are the nodes of both routes, ends included."""

    forward: tuple[int, ...]
    reverse: tuple[int, ...]
    forward_counts: list[HopCounts]
    reverse_counts: list[HopCounts]
    lossy: Link | None
    loss_ratio: float
    limited: frozenset[int]
    numbers: dict[int, int]

    def as_numbers(self, *, of_reverse: bool) -> list[int]:
        """The AS of each node of a route."""
        return [self.numbers[node] for node in (self.reverse if of_reverse else self.forward)]


def lossy_path(seed: int, *, silent: float = 0.15, has_loss: bool = True, probes: int | None = None,
               has_history: bool = False, must_limit: bool = False) -> LossyPath:  # fmt: skip
    """A path of 6 to 15 hops. `probes` are those sent to each hop, 60 to 600 by default; the ends get ten times as
    many, as they are pinged."""
    random = np.random.default_rng(seed)
    length = int(random.integers(6, 16))
    forward = tuple(range(length + 1))
    back = list(forward)
    if random.random() < ASYMMETRIC:
        x, y = sorted(random.choice(length + 1, 2, replace=False))
        back[x + 1 : y] = [100 + place for place in range(max(int(y - x - 1 + random.integers(-1, 2)), 1))]
    reverse = tuple(back[::-1])
    numbers = dict.fromkeys(forward, 0)
    for node in forward[1:]:
        numbers[node] = numbers[node - 1] + int(random.random() < 0.45)
    by_other_as = random.random() < 0.5
    for place, node in enumerate(back):
        numbers.setdefault(node, 50 if by_other_as else numbers[back[place - 1]])
    links = [*pairwise(forward), *pairwise(reverse)]
    lossy = links[int(random.integers(len(links)))] if has_loss else None
    ratio = float(np.exp(random.uniform(np.log(0.01), np.log(0.5)))) if has_loss else 0.0
    routers = (set(forward) | set(reverse)) - {0, length}
    silences = {router for router in sorted(routers) if random.random() < silent}
    limited = {router: random.uniform(0.05, 0.95) for router in sorted(routers) if random.random() < LIMITED}
    if must_limit:
        limited[int(random.integers(1, length))] = random.uniform(0.05, 0.95)
        silences -= limited.keys()
    count = int(np.exp(random.uniform(np.log(60), np.log(600)))) if probes is None else probes
    shape = _Network(forward, reverse, lossy, ratio, {**limited, **dict.fromkeys(silences, 1.0)}, random)
    return LossyPath(
        forward, reverse, shape.counts(forward, count, has_history), shape.counts(reverse, count, has_history),
        lossy, ratio, frozenset(limited), numbers,
    )  # fmt: skip


class _Network:
    def __init__(self, forward: tuple[int, ...], reverse: tuple[int, ...], lossy: Link | None, ratio: float,
                 limits: dict[int, float], random: np.random.Generator) -> None:  # fmt: skip
        self._routes = {forward[-1]: forward, reverse[-1]: reverse}
        self._lossy, self._ratio, self._limits, self._random = lossy, ratio, limits, random
        self._onward = {router for router in (*forward, *reverse) if random.random() < ONWARD}

    def counts(self, route: tuple[int, ...], probes: int, has_history: bool) -> list[HopCounts]:
        result = []
        for ttl in range(1, len(route)):
            sent = probes * (10 if ttl == len(route) - 1 else 1)
            way = [*pairwise(route[: ttl + 1]), *self._way_back(route, ttl)]
            crossings = sum(link == self._lossy for link in way)
            history = probes * 5 if has_history else 0
            result.append(
                HopCounts(sent, self._lost(route[ttl], sent, crossings), history, self._lost(route[ttl], history, 0))
            )
        return result

    def _way_back(self, route: tuple[int, ...], ttl: int) -> list[Link]:
        """Along the route of the other end if the router is on it, otherwise first to a router that is: mostly back."""
        home = self._routes[route[0]]
        here, links = ttl, []
        step = 1 if route[ttl] in self._onward else -1
        while route[here] not in home:
            links.append((route[here], route[here + step]))
            here += step
        rest = home[home.index(route[here]) :]
        return [*links, *pairwise(rest)]

    def _lost(self, router: int, sent: int, crossings: int) -> int:
        """The loss varies from trace to trace, of three probes each."""
        traces = max(sent // 3, 1)
        ratio = (
            np.minimum(self._ratio * self._random.lognormal(-0.1, 0.45, traces), 1.0) if crossings else np.zeros(traces)
        )
        arrived = (1.0 - ratio) ** crossings * (1.0 - 1e-4) * (1.0 - self._limits.get(router, 0.0))
        each = np.full(traces, sent // traces)
        each[: sent - each.sum()] += 1
        return int(sent - self._random.binomial(each, arrived).sum())


def is_right(path: LossyPath, near_ttl: int, far_ttl: int, is_of_reverse: bool) -> bool:
    """Whether the lossy link is among those between the two hops, in either direction."""
    route = path.reverse if is_of_reverse else path.forward
    links = set(pairwise(route[near_ttl : far_ttl + 1]))
    return path.lossy is not None and (path.lossy in links or path.lossy[::-1] in links)
