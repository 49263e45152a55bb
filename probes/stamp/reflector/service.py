"""Runs an agent's reflectors by plan and limits.toml, one for each egress.

Peers that limits.toml forbids to measure are not answered. A failure is logged once, and retried.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from probes.contract import NoRoute, ProbeError
from probes.packets.answered_peers import permitted_keys
from probes.packets.egress import ANY, Egress
from probes.peers import Peers
from probes.stamp.clocks import own_clock
from probes.stamp.engine.channel import ReflectorChannel
from probes.stamp.limits import StampLimits
from probes.stamp.reflector.arrivals import PeerArrivals
from probes.stamp.reflector.reflector import Reflector
from probes.stamp.reflector.replies import ReplyMaker
from probes.stamp.reflector.sessions import RateCap, SenderSessions
from probes.stamp.spec import ReflectorPlan

logger = logging.getLogger(__name__)

REFRESH_S = 5.0
RESOLVE_EVERY_S = 300.0
MS_PER_S = 1000.0
NO_PEERS = ReflectorPlan(peers=())


def open_channels(port: int, egress: Egress = ANY, *, shares_port: bool = False) -> list[ReflectorChannel]:
    """Open a socket of each family that this host has. Raises `ProbeError`."""
    channels: list[ReflectorChannel] = []
    missing: list[NoRoute] = []
    try:
        for family in (4, 6):
            try:
                channels.append(ReflectorChannel(family, port, egress=egress, shares_port=shares_port))
            except NoRoute as error:
                if egress != ANY:
                    missing.append(error)
    except ProbeError:
        for channel in channels:
            channel.close()
        raise
    if missing and not channels:
        raise missing[0]
    return channels


def reply_maker(peers: Peers, limits: StampLimits) -> ReplyMaker:
    rates = RateCap(limits.max_replies_per_peer_per_s, limits.max_replies_per_s)
    return ReplyMaker(peers, rates, SenderSessions(limits.max_sessions))


@dataclass(frozen=True, slots=True, eq=False)
class _Reflecting:
    """The reflector of an egress, with its thread."""

    port: int
    shares_port: bool  # another reflector has the port too
    reflector: Reflector
    stop: threading.Event
    thread: threading.Thread

    def end(self) -> None:
        self.stop.set()
        self.thread.join()
        self.reflector.close()


class ReflectorService:
    """Keeps reflectors running by the plan.

    `forbids(address)` is the limits' rule; `arrivals` gets peers' packets.
    """

    def __init__(
        self,
        plan: Callable[[], ReflectorPlan | None],
        limits: StampLimits,
        forbids: Callable[[str], str | None],
        arrivals: PeerArrivals | None = None,
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._forbids = forbids
        self._arrivals = arrivals or PeerArrivals()
        self._followed: ReflectorPlan | None = None
        self._resolved_for_s = 0.0
        self._rates = RateCap(limits.max_replies_per_peer_per_s, limits.max_replies_per_s)
        self._makers: dict[Egress, ReplyMaker] = {}
        self._arrived: dict[bytes, int] = {}
        self._running: dict[Egress, _Reflecting] = {}
        self.problem: str | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            while True:
                self.refresh()
                if stop.wait(REFRESH_S):
                    return
        finally:
            self._arrivals.begin(None)
            self._end(list(self._running))

    def refresh(self) -> None:
        """Adopt the plan's peers and port, and this host's clock error."""
        plan = (self._plan() or NO_PEERS) if self._limits.reflect else NO_PEERS
        self._resolved_for_s += REFRESH_S
        if plan != self._followed or self._resolved_for_s >= RESOLVE_EVERY_S:
            self._take_up_peers(plan)
            self._followed, self._resolved_for_s = plan, 0.0
        wanted = [egress for egress, maker in self._makers.items() if len(maker.peers)]
        namespaces = Counter(egress.namespace for egress in wanted)
        shared = {egress: namespaces[egress.namespace] > 1 for egress in wanted}
        before = set(self._running.values())
        self._end(
            [
                egress
                for egress, running in self._running.items()
                if (running.port, running.shares_port) != (plan.port, shared.get(egress))
            ]
        )
        problems = [self._begin(egress, plan.port, shared[egress]) for egress in wanted if egress not in self._running]
        self.problem = next((problem for problem in problems if problem is not None), None)
        self._count_arrivals(anew=set(self._running.values()) != before)
        if self._running:
            clock = own_clock()
            for maker in self._makers.values():
                maker.error_s = None if clock is None or clock.error_ms is None else clock.error_ms / MS_PER_S

    def _count_arrivals(self, *, anew: bool) -> None:
        reached = {address for egress in self._running for address in self._makers[egress].peers.addresses}
        if not anew:
            for address in reached:
                self._arrived.setdefault(address, 0)
            return
        self._arrived = dict.fromkeys(reached, 0)
        for maker in self._makers.values():
            maker.arrived = self._arrived
        self._arrivals.begin(self._arrived if self._running else None)

    def _take_up_peers(self, plan: ReflectorPlan) -> None:
        """Give reflectors their peers; that of `ANY` also gets the networks of limits.toml."""
        keys = permitted_keys(plan.peers, self._forbids, "stamp reflector")
        for egress in {ANY, *keys, *self._makers}:
            networks = self._limits.peers if self._limits.reflect and egress == ANY else ()
            peers = Peers(keys.get(egress, {}), networks)
            if egress in self._makers:
                self._makers[egress].peers = peers
            else:
                maker = ReplyMaker(peers, self._rates, SenderSessions(self._limits.max_sessions))
                maker.arrived = self._arrived
                self._makers[egress] = maker

    def _begin(self, egress: Egress, port: int, shares_port: bool) -> str | None:
        try:
            reflector = Reflector(open_channels(port, egress, shares_port=shares_port), self._makers[egress])
        except ProbeError as error:
            if self.problem != str(error):
                logger.error("stamp reflector: %s", error)
            return str(error)
        stop = threading.Event()
        thread = threading.Thread(target=reflector.run, args=(stop,), name="stamp-reflector", daemon=True)
        thread.start()
        self._running[egress] = _Reflecting(port, shares_port, reflector, stop, thread)
        logger.info("stamp reflector: answers %d peers on UDP port %d", len(self._makers[egress].peers), port)
        return None

    def _end(self, egresses: Iterable[Egress]) -> None:
        for egress in egresses:
            self._running.pop(egress).end()
