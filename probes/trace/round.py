"""A round of traces: which probe goes out when, and where routes join. No I/O; times in seconds.

Targets are not probed below a join with another's route (a stop set, as in Doubletree).
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from probes.trace.pacing import RouterPacing
from probes.trace.round_bounds import MOST_CHECKS, WINDOW_HOPS
from probes.trace.search import EXCEEDED, Answer, EarlierRoute, Join, RouteSearch, made_hops
from probes.trace.spec import MOST_HOPS, Hop, TraceSpec

# Flows that find all next hops of a number with 95% confidence (MDA; Augustin et al., "Multipath tracing with Paris
# traceroute", E2EMON 2007).
STOP_AFTER = (6, 11, 16, 21, 27, 33)

# Targets without a known route begin at this rate, so that later targets join earlier routes.
NEW_TARGETS_PER_S = 5.0


UNSHARED_OF = 8
# One target of `UNSHARED_OF`, at most this many, is traced on its own each round: in time every target is.
MOST_UNSHARED = 40


COMPARED = -2
COMPARED_FLOWS = 8
# Of each flow to the destination, to see whether load balancing changes the RTT.
COMPARED_ATTEMPTS = 5


class TtlProbe(NamedTuple):
    rank: int  # the target's
    ttl: int
    attempt: int  # -1 for a distance probe, `COMPARED` to compare flows
    flow: int = 0  # 0 is the main flow


class TraceRound:
    """The searches of a round and the queue of their probes."""

    def __init__(
        self,
        spec: TraceSpec,
        expected: Sequence[EarlierRoute | None],
        free_at_s: dict[Hashable, float],
        now_s: float,
        *,
        can_tell_distance: bool = True,
        one_by_one: bool = False,
        dice: random.Random | None = None,
    ) -> None:
        """`expected` are known routes; `can_tell_distance` means reply TTLs are read."""
        self._spec = spec
        self._dice = dice or random.Random()
        self._pacing: RouterPacing[TtlProbe] = RouterPacing(
            spec.router_spacing_s, spec.max_packets_per_s, free_at_s, self._dice
        )
        self._shares = spec.shares_near_hops and len(expected) > 1 and spec.flows == 1
        self._can_tell_distance = can_tell_distance
        self.one_by_one = one_by_one
        self._backlog: list[list[TtlProbe]] = [[] for _ in expected]
        self._claims: dict[tuple[int, str], int] = {}
        self._routers_at: dict[int, set[str]] = {}
        self._waiting_for: dict[int, set[int]] = {}
        self.packets = 0
        self.searches = [RouteSearch(spec.max_hops, spec.attempts, spec.max_packets, route) for route in expected]
        self._open = set(range(len(expected)))
        unshared = min(len(expected) // UNSHARED_OF + 1, MOST_UNSHARED)
        self._unshared = set(self._dice.sample(range(len(expected)), min(unshared, len(expected))))
        self._start(now_s)

    def _start(self, now_s: float) -> None:
        order = list(range(len(self.searches)))
        self._dice.shuffle(order)
        new = 0
        for rank in sorted(order, key=lambda rank: self.searches[rank].expected is None):
            search = self.searches[rank]
            delay_s = new / NEW_TARGETS_PER_S if self._shares else 0.0
            new += search.expected is None
            if self._can_tell_distance and (search.expected is None or not search.expected.reached):
                search.hop(MOST_HOPS + 1).pending = 1
                self._pacing.add(("distance", rank), TtlProbe(rank, MOST_HOPS, -1), now_s + delay_s)
            else:
                self._begin(rank, now_s + delay_s)

    def due(self, now_s: float) -> list[TtlProbe]:
        taken = self._pacing.take(now_s)
        self.packets += len(taken)
        return taken

    def next_at_s(self) -> float | None:
        """When a probe is due next; None while all wait for answers."""
        return self._pacing.next_at_s()

    @property
    def is_over(self) -> bool:
        return not self._open

    def answered(self, probe: TtlProbe, answer: Answer | None, now_s: float) -> None:
        """Enter a probe's answer, None after timeout or refusal."""
        search = self.searches[probe.rank]
        if probe.attempt == -1:
            del search.hops[MOST_HOPS + 1]
            search.note_distance(answer)
            self._begin(probe.rank, now_s)
            return
        hop = search.hop(probe.ttl)
        hop.pending -= 1
        if probe.attempt == COMPARED:
            hop.compared.setdefault(probe.flow, []).append(answer)
        elif probe.flow:
            hop.flow_answers[probe.flow] = answer
        else:
            hop.answers[probe.attempt] = answer
        if answer is not None and answer.event == EXCEEDED:
            self._routers_at.setdefault(probe.ttl, set()).add(answer.address)
            self._pacing.note(answer.address, now_s - answer.rtt_ms / 1000)
            if probe.attempt == 0 and self._shares:
                self._claims.setdefault((probe.ttl, answer.address), probe.rank)
        if self._backlog[probe.rank]:
            self._queue(self._backlog[probe.rank].pop(0), now_s)
        if not search.is_awaiting:
            self._advance(probe.rank, now_s)
        for rank in self._waiting_for.pop(probe.rank, ()):
            self._advance(rank, now_s)

    def hops(self, rank: int) -> tuple[Hop, ...]:
        return made_hops(self.searches, rank)

    def _begin(self, rank: int, now_s: float) -> None:
        search = self.searches[rank]
        search.begin()
        is_known = search.expected is not None and search.expected.hops
        self._add(rank, self._walk_down(rank, MOST_HOPS if is_known else WINDOW_HOPS), now_s)

    def _advance(self, rank: int, now_s: float) -> None:
        search = self.searches[rank]
        if rank not in self._open or search.is_awaiting:
            return
        window = search.above() or search.confirms()
        if not window and search.join is None:
            owner = self._owner(rank)
            if owner is not None and self._awaits(owner, search.low):
                self._waiting_for.setdefault(owner, set()).add(rank)
                return
            join = search.join = None if owner is None else self._joined(rank, owner)
            window = self._walk_down(rank, WINDOW_HOPS) if join is None else []
        window = window or search.repeats(self._shared_ttls(rank))
        if window:
            self._add(rank, window, now_s)
        elif not self._add_flows(rank, now_s) and not self._compare_flows(rank, now_s):
            self._open.discard(rank)

    def _walk_down(self, rank: int, most: int) -> list[int]:
        search = self.searches[rank]
        taken = []
        for ttl in range(search.low - 1, max(0, search.low - 1 - most), -1):
            router = self._expected(rank, ttl)
            owner = self._claims.setdefault((ttl, router), rank) if self._shares and router is not None else rank
            if ttl < search.high and router is not None and self._may_join(rank, owner, ttl):
                if self._pacing.waiting(router) >= MOST_CHECKS:
                    search.join = Join(owner, ttl + 1)
                    break
                taken.append(ttl)
                break
            taken.append(ttl)
        if taken:
            search.low = taken[-1]
        return taken

    def _shared_ttls(self, rank: int) -> list[int]:
        """Hops that get further attempts for another target."""
        if not self._shares:
            return []
        routers = ((ttl, hop.router) for ttl, hop in self.searches[rank].hops.items())
        end = self.searches[rank].end
        return [
            ttl
            for ttl, router in routers
            if router is not None and ttl != end and self._claims.get((ttl, router), rank) != rank
        ]

    def _owner(self, rank: int) -> int | None:
        """The target that this one may have joined at its lowest hop."""
        search = self.searches[rank]
        lowest = search.hops.get(search.low)
        answer = None if lowest is None else lowest.answers.get(0)
        if not self._shares or answer is None or answer.event != EXCEEDED:
            return None
        owner = self._claims.get((search.low, answer.address), rank)
        return owner if self._may_join(rank, owner, search.low) else None

    def _awaits(self, rank: int, ttl: int) -> bool:
        hop = self.searches[rank].hops.get(ttl)
        return hop is not None and hop.pending > 0 and 0 not in hop.answers

    def _joined(self, rank: int, owner: int) -> Join | None:
        """The join, if the owner's route used that router this round."""
        ttl = self.searches[rank].low
        mine, theirs = (self.searches[each].hops.get(ttl) for each in (rank, owner))
        if mine is None or theirs is None:
            return None
        ours, other = mine.answers.get(0), theirs.answers.get(0)
        same = ours is not None and other is not None and ours.address == other.address
        return Join(owner, ttl) if same else None

    def _may_join(self, rank: int, owner: int, ttl: int) -> bool:
        """Whether the owner's route is independent, and matched below `ttl` before."""
        if owner == rank or rank in self._unshared:
            return False
        join = self.searches[owner].join
        while join is not None:
            if join.rank == rank:
                return False
            join = self.searches[join.rank].join
        mine, theirs = self.searches[rank].expected, self.searches[owner].expected
        if mine is None or theirs is None:
            return True
        pairs = zip(mine.hops[: ttl - 1], theirs.hops[: ttl - 1], strict=False)
        return all(here is None or there is None or here == there for here, there in pairs)

    def _expected(self, rank: int, ttl: int) -> str | None:
        """Router at a TTL by this round, the last, or all others."""
        search = self.searches[rank]
        hop = search.hops.get(ttl)
        if hop is not None and hop.router is not None:
            return hop.router
        if search.expected is not None and search.expected.at(ttl) is not None:
            return search.expected.at(ttl)
        routers = self._routers_at.get(ttl, ())
        return next(iter(routers)) if len(routers) == 1 and self._shares else None

    def _add(self, rank: int, ttls: Sequence[int], now_s: float) -> None:
        """Queue main-flow probes in random order, further attempts last."""
        search = self.searches[rank]
        probes = []
        for ttl in ttls:
            hop = search.hop(ttl)
            probes.append(TtlProbe(rank, ttl, hop.sent))
            hop.sent += 1
            hop.pending += 1
        probes.sort(key=lambda probe: (probe.attempt, self._dice.random()))
        if self.one_by_one:
            self._backlog[rank] += probes[1:]
            probes = probes[:1]
        for probe in probes:
            self._queue(probe, now_s)

    def _add_flows(self, rank: int, now_s: float) -> bool:
        """Queue further flows to hops that may balance (MDA-Lite); False if none."""
        search = self.searches[rank]
        end = search.end if search.end is not None else search.last_reply
        probes = []
        for ttl in range(search.low, end + 1):
            hop = search.hop(ttl)
            routers = len(search.routers(ttl))
            needed = STOP_AFTER[min(routers, len(STOP_AFTER)) - 1] if routers else 1
            for flow in range(1 + len(hop.flow_answers), min(needed, self._spec.flows)):
                probes.append(TtlProbe(rank, ttl, hop.sent, flow))
                hop.pending += 1
        for probe in probes:
            self._queue(probe, now_s)
        return bool(probes)

    def _compare_flows(self, rank: int, now_s: float) -> bool:
        """Queue comparison probes of each flow, once; False if nothing to compare."""
        search = self.searches[rank]
        end = search.reached_at
        if self._spec.flows == 1 or end is None or search.has_compared or self.one_by_one:
            return False
        search.has_compared = True
        flows = range(min(self._spec.flows, COMPARED_FLOWS))
        for flow in [flow for _ in range(COMPARED_ATTEMPTS) for flow in flows]:
            search.hop(end).pending += 1
            # Each flow at the pace of a router: hosts do not limit echo replies to so few.
            self._pacing.add(("flow", rank, flow), TtlProbe(rank, end, COMPARED, flow), now_s)
        return True

    def _queue(self, probe: TtlProbe, now_s: float) -> None:
        router = self._expected(probe.rank, probe.ttl)
        self._pacing.add((probe.rank, probe.ttl) if router is None else router, probe, now_s)
