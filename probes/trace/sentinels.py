"""Sentinels: two probes per burst of pings that expire at routers of the last trace.

A reply from elsewhere shows a changed route; silence shows nothing, as routers limit ICMP errors. They have the pings'
flow.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from probes.contract import Deadline, ProbeError
from probes.packets.addresses import SocketAddress
from probes.packets.icmp.channel import Channel
from probes.packets.resolve import resolve
from probes.trace.engine.session import TraceSession, run_sessions
from probes.trace.memory import RouteMemory
from probes.trace.pacing import RouterPacing
from probes.trace.round import TtlProbe
from probes.trace.search import EXCEEDED, REACHED, Answer, EarlierRoute
from probes.trace.spec import TraceSpec

PER_BURST = 2


class Sentinel(NamedTuple):
    """A probe that is to expire at `router`."""

    ttl: int
    router: str


def choose(route: EarlierRoute, turn: int) -> list[Sentinel]:
    """Choose the last known router, and another by `turn`, from the far end."""
    routers = route.hops[:-1] if route.reached else route.hops
    known = [Sentinel(ttl, router) for ttl, router in enumerate(routers, start=1) if router is not None]
    others = known[-2::-1]
    return [*known[-1:], *([others[turn % len(others)]] if others else [])]


@dataclass
class RouteWatch:
    """The sentinels of a target so far."""

    turn: int = 0
    route: EarlierRoute | None = None
    unexpected: set[Sentinel] = field(default_factory=set)
    # unexpected routers of unchanged routes: per-packet load balancing
    alternatives: set[Sentinel] = field(default_factory=set)

    def sentinels(self, route: EarlierRoute) -> list[Sentinel]:
        if route is not self.route:
            # A trace has been made since.
            if self.route is None or not route.agrees(self.route):
                self.alternatives.clear()
            else:
                self.alternatives |= self.unexpected
            self.unexpected.clear()
        self.route = route
        chosen = choose(route, self.turn)
        self.turn += 1
        return chosen

    def has_changed(self, replies: Sequence[Sentinel]) -> bool:
        route = self.route
        strangers = {
            reply for reply in replies if route is None or route.at(reply.ttl) not in (None, reply.router)
        } - self.alternatives
        self.unexpected |= strangers
        return bool(strangers)


class SentinelRound:
    """A cycle's sentinels by target rank, each sent once, paced as traces."""

    def __init__(
        self,
        spec: TraceSpec,
        sentinels: Sequence[Sequence[Sentinel]],
        free_at_s: dict[Hashable, float],
        now_s: float,
    ) -> None:
        self.one_by_one = False
        self.packets = 0
        self.replies: dict[int, list[Sentinel]] = defaultdict(list)
        self._pacing: RouterPacing[TtlProbe] = RouterPacing(
            spec.router_spacing_s, spec.max_packets_per_s, free_at_s, random.Random()
        )
        self._awaited = 0
        for rank, chosen in enumerate(sentinels):
            for sentinel in chosen:
                self._pacing.add(sentinel.router, TtlProbe(rank, sentinel.ttl, 0), now_s)
                self._awaited += 1

    @property
    def is_over(self) -> bool:
        return self._awaited == 0

    def due(self, now_s: float) -> list[TtlProbe]:
        taken = self._pacing.take(now_s)
        self.packets += len(taken)
        return taken

    def next_at_s(self) -> float | None:
        return self._pacing.next_at_s()

    def answered(self, probe: TtlProbe, answer: Answer | None, now_s: float) -> None:
        self._awaited -= 1
        if answer is not None and answer.event in (EXCEEDED, REACHED):
            self.replies[probe.rank].append(Sentinel(probe.ttl, answer.address))
            if answer.event == EXCEEDED:
                self._pacing.note(answer.address, now_s)


Key = tuple[str, int, str | None, SocketAddress]


class SentinelProbe:
    """Sends sentinels, and remembers which routers replied. For a single thread; `memory` is the traces'."""

    def __init__(self, memory: RouteMemory) -> None:
        self._memory = memory
        self._watches: dict[Key, RouteWatch] = {}

    def run(self, spec: TraceSpec, deadline: Deadline, most_packets: int) -> tuple[int, ...]:
        """Indexes of targets with changed routes.

        Targets without a trace, or beyond `most_packets`, get no sentinels.
        """
        answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
        indexes: dict[Key, list[int]] = defaultdict(list)
        for index, target in enumerate(spec.targets):
            answer = answers[target.address, target.family]
            if not isinstance(answer, ProbeError):
                indexes["icmp", target.family, target.source, answer].append(index)
        sentinels = self._choose(indexes, most_packets)
        by_socket: dict[tuple[int, str | None], list[Key]] = defaultdict(list)
        for key in sentinels:
            by_socket[key[1], key[2]].append(key)
        changed: list[int] = []
        for (family, source), keys in by_socket.items():
            for key in self._send(spec, family, source, {key: sentinels[key] for key in keys}, deadline):
                changed += indexes[key]
        return tuple(sorted(changed))

    def _choose(self, keys: Mapping[Key, object], most_packets: int) -> dict[Key, list[Sentinel]]:
        """Choose sentinels, one per router, last routers first."""
        routes = {key: route for key in keys if (route := self._memory.route(key)) is not None}
        order = list(routes)
        random.shuffle(order)
        chosen = {key: self._watches.setdefault(key, RouteWatch()).sentinels(routes[key]) for key in order}
        taken: set[str] = set()
        kept: dict[Key, list[Sentinel]] = defaultdict(list)
        for place in range(PER_BURST):
            for key in order:
                sentinel = chosen[key][place] if place < len(chosen[key]) else None
                if sentinel is not None and sentinel.router not in taken and len(taken) < most_packets:
                    taken.add(sentinel.router)
                    kept[key].append(sentinel)
        return kept

    def _send(
        self,
        spec: TraceSpec,
        family: int,
        source: str | None,
        sentinels: Mapping[Key, Sequence[Sentinel]],
        deadline: Deadline,
    ) -> list[Key]:
        try:
            channel = Channel(family, source)
        except ProbeError:
            # The next cycle of traces reports it.
            return []
        keys = list(sentinels)
        round_ = SentinelRound(spec, list(sentinels.values()), self._memory.free_at_s, time.monotonic())
        short = msgspec.structs.replace(spec, protocol="icmp", max_hops=1, attempts=PER_BURST, flows=1)
        try:
            run_sessions([TraceSession(channel, [key[3] for key in keys], round_, short)], deadline)
        finally:
            channel.close()
            self._memory.note_sent(round_.packets)
        return [key for rank, key in enumerate(keys) if self._watches[key].has_changed(round_.replies[rank])]
