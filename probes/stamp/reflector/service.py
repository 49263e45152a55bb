"""The reflector of an agent: runs while the plan or limits.toml has peers, and follows both.

A peer that limits.toml forbids to measure is not answered either. What keeps the reflector from running is logged once,
and tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from probes.contract import Deadline, NoRoute, ProbeError
from probes.ping.resolve import RESOLVE_S, resolve
from probes.stamp.clocks import own_clock
from probes.stamp.engine.channel import ReflectorChannel
from probes.stamp.limits import StampLimits
from probes.stamp.reflector.arrivals import PeerArrivals
from probes.stamp.reflector.peers import Peers, RateCap, SenderSessions
from probes.stamp.reflector.reflector import Reflector
from probes.stamp.reflector.replies import ReplyMaker
from probes.stamp.spec import ReflectorPlan

logger = logging.getLogger(__name__)

REFRESH_S = 5.0
RESOLVE_EVERY_S = 300.0
MS_PER_S = 1000.0
NO_PEERS = ReflectorPlan(peers=())


def open_channels(port: int) -> list[ReflectorChannel]:
    """The sockets of a reflector, of each family that this host has. Raises ProbeError."""
    channels: list[ReflectorChannel] = []
    try:
        for family in (4, 6):
            try:
                channels.append(ReflectorChannel(family, port))
            except NoRoute:
                continue
    except ProbeError:
        for channel in channels:
            channel.close()
        raise
    return channels


def reply_maker(peers: Peers, limits: StampLimits) -> ReplyMaker:
    """Answers these peers within the limits."""
    rates = RateCap(limits.max_replies_per_peer_per_s, limits.max_replies_per_s)
    return ReplyMaker(peers, rates, SenderSessions(limits.max_sessions))


class ReflectorService:
    """Keeps a reflector running as the plan says. `forbids(address)` is the rule of limits.toml against an address;
    `arrivals` tells the packets of each peer while the reflector runs."""

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
        self._maker = reply_maker(Peers({}), limits)
        self._running: tuple[int, Reflector, threading.Event, threading.Thread] | None = None
        self.problem: str | None = None

    def run(self, stop: threading.Event) -> None:
        """Follow the plan until `stop` is set."""
        try:
            while True:
                self.refresh()
                if stop.wait(REFRESH_S):
                    return
        finally:
            self._end()

    def refresh(self) -> None:
        """Take up the current plan: peers, port, and the error of this host's clock."""
        plan = (self._plan() or NO_PEERS) if self._limits.reflect else NO_PEERS
        self._resolved_for_s += REFRESH_S
        if plan != self._followed or self._resolved_for_s >= RESOLVE_EVERY_S:
            self._maker.peers = self._peers(plan)
            for address in self._maker.peers.addresses:
                self._maker.arrived.setdefault(address, 0)
            self._followed, self._resolved_for_s = plan, 0.0
        port = plan.port if len(self._maker.peers) else None
        if self._running is not None and self._running[0] != port:
            self._end()
        if port is not None and self._running is None:
            self._begin(port)
        if self._running is not None:
            clock = own_clock()
            self._maker.error_s = None if clock is None or clock.error_ms is None else clock.error_ms / MS_PER_S

    def _peers(self, plan: ReflectorPlan) -> Peers:
        answers = resolve([(peer.address, peer.family) for peer in plan.peers], Deadline(RESOLVE_S))
        keys: dict[str, str | None] = {}
        for peer in plan.peers:
            answer = answers[peer.address, peer.family]
            rule = str(answer) if isinstance(answer, ProbeError) else self._forbids(answer[0])
            if isinstance(answer, ProbeError) or rule is not None:
                logger.warning("stamp reflector: %s is not answered: %s", peer.address, rule)
            else:
                keys[answer[0].partition("%")[0]] = peer.key
        return Peers(keys, self._limits.peers if self._limits.reflect else ())

    def _begin(self, port: int) -> None:
        try:
            reflector = Reflector(open_channels(port), self._maker)
        except ProbeError as error:
            if self.problem != str(error):
                logger.error("stamp reflector: %s", error)
            self.problem = str(error)
            return
        self.problem = None
        stop = threading.Event()
        thread = threading.Thread(target=reflector.run, args=(stop,), name="stamp-reflector", daemon=True)
        thread.start()
        self._running = port, reflector, stop, thread
        self._arrivals.begin(self._maker.arrived)
        logger.info("stamp reflector: answers %d peers on UDP port %d", len(self._maker.peers), port)

    def _end(self) -> None:
        if self._running is None:
            return
        _, reflector, stop, thread = self._running
        self._arrivals.begin(None)
        stop.set()
        thread.join()
        reflector.close()
        self._running = None
