"""Runs an agent's request-response servers by plan and limits.toml, one for each egress.

A peer that limits.toml forbids to measure is not answered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from probes.contract import ProbeError
from probes.packets.answered_peers import permitted_keys
from probes.packets.egress import ANY, Egress
from probes.peers import Peers
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.server import BlockServer, open_listener
from probes.request_response.spec import AnsweringPlan

logger = logging.getLogger(__name__)

REFRESH_S = 5.0
RESOLVE_EVERY_S = 300.0
NO_PEERS = AnsweringPlan(peers=())


@dataclass(frozen=True, slots=True, eq=False)
class _Serving:
    port: int
    server: BlockServer
    stop: threading.Event
    thread: threading.Thread

    def end(self) -> None:
        self.stop.set()
        self.thread.join()


class AnsweringService:
    """Keeps servers running by the plan; `forbids(address)` is the rule of limits.toml against an address."""

    def __init__(
        self,
        plan: Callable[[], AnsweringPlan | None],
        limits: RequestResponseLimits,
        forbids: Callable[[str], str | None],
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._forbids = forbids
        self._followed: AnsweringPlan | None = None
        self._resolved_for_s = 0.0
        self._running: dict[Egress, _Serving] = {}
        self._peers: dict[Egress, Peers] = {}
        self.problem: str | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            while True:
                self.refresh()
                if stop.wait(REFRESH_S):
                    return
        finally:
            for serving in self._running.values():
                serving.end()

    def refresh(self) -> None:
        plan = (self._plan() or NO_PEERS) if self._limits.serve else NO_PEERS
        self._resolved_for_s += REFRESH_S
        if plan != self._followed or self._resolved_for_s >= RESOLVE_EVERY_S:
            self._peers = self._peers_of(plan)
            self._followed, self._resolved_for_s = plan, 0.0
        for egress, serving in list(self._running.items()):
            peers = self._peers.get(egress)
            if peers is None or not len(peers) or serving.port != plan.port:
                self._running.pop(egress).end()
            else:
                serving.server.peers = peers
        problems = [
            self._begin(egress, peers, plan.port)
            for egress, peers in self._peers.items()
            if len(peers) and egress not in self._running
        ]
        self.problem = next((problem for problem in problems if problem is not None), None)

    def _peers_of(self, plan: AnsweringPlan) -> dict[Egress, Peers]:
        keys = permitted_keys(plan.peers, self._forbids, "request-response server")
        networks = self._limits.peers if self._limits.serve else ()
        return {egress: Peers(keys.get(egress, {}), networks if egress == ANY else ()) for egress in {ANY, *keys}}

    def _begin(self, egress: Egress, peers: Peers, port: int) -> str | None:
        try:
            listener = open_listener(port, egress)
        except ProbeError as error:
            if self.problem != str(error):
                logger.error("request-response server: %s", error)
            return str(error)
        server, stop = BlockServer(peers, self._limits), threading.Event()
        thread = threading.Thread(target=server.run, args=(listener, stop), name="request-response-server", daemon=True)
        thread.start()
        self._running[egress] = _Serving(port, server, stop, thread)
        logger.info("request-response server: answers %d peers on TCP port %d", len(peers), port)
        return None
