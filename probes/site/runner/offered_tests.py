"""Throughput tests of clients outside the mesh, toward an iperf3 server that limits.toml offers ([iperf3_server]).

Tests count in the day's use and mark packets under load.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum

from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage
from probes.site.runner.failures import failure_of
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.slot import LEAD
from probes.site.wire import Plan
from probes.throughput.limits import OfferedTest
from probes.throughput.offered_server import BusyServer, OfferedServer

logger = logging.getLogger(__name__)

POLL_S = 0.5
# Time beyond a test's length to connect and to exchange results, at long RTTs and for a busy client.
SET_UP_S = 5.0
# A client's test ends this long before a slot, as its server listens a `LEAD` ahead.
CLEAR_OF_SLOTS = LEAD + timedelta(seconds=1)
# After a server that could not listen.
RETRY_S = 30.0


class OfferState(Enum):
    OPEN = "open"
    BUSY = "busy"
    CLOSED = "closed"


class OfferedTests:
    """Offers the iperf3 server of a site, if its limits say so."""

    def __init__(
        self,
        limits: Limits,
        usage: Usage,
        own_tests: OwnTests,
        plan: Callable[[], Plan | None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limits = limits
        self._usage = usage
        self._own_tests = own_tests
        self._plan = plan
        self._now = now
        self._offer = limits.section("iperf3_server")
        longest_s = min(self._offer.max_duration_s, limits.section("throughput").max_duration_s) + SET_UP_S
        rate_bps = self._offer.max_bps
        self._test = OfferedTest(longest_s, None if rate_bps is None else int(rate_bps))
        self.problem: str | None = None

    def run(self, stop: threading.Event) -> None:
        """Offer the server until `stop`; returns at once if offered to no networks."""
        while self._offer.clients and not stop.is_set():
            try:
                self._run_once(stop)
                self.problem = None
            except Exception as error:  # noqa: BLE001 - failure_of is the rule
                problem = str(failure_of(error, "iperf3 server for others"))
                if self.problem != problem:
                    logger.error("iperf3 server for others: %s", problem)
                self.problem = problem
                stop.wait(RETRY_S)

    def state(self) -> tuple[OfferState, str]:
        """Whether a client's test may begin now, and the reason why not."""
        now = self._now()
        rule = self._limits.forbids_time("iperf3_server", now, self._test.length_s) or self._limits.forbids_time(
            "throughput", now, self._test.length_s
        )
        rule = rule or self._usage.forbids_offered(self._test)
        if rule is not None:
            return OfferState.CLOSED, rule
        if self._slot_within(timedelta(seconds=self._test.length_s)):
            return OfferState.BUSY, "a test of the mesh begins or runs"
        return OfferState.OPEN, ""

    def _run_once(self, stop: threading.Event) -> None:
        state, reason = self.state()
        if state is OfferState.OPEN:
            self._serve(stop)
            return
        logger.info("iperf3 server for others: %s: %s", state.value, reason)
        if state is OfferState.CLOSED:
            while not stop.wait(POLL_S) and self.state()[0] is state:
                pass
            return
        with BusyServer(self._offer, self._limits.networks.forbidden) as server:
            while not stop.is_set() and self.state()[0] is state:
                server.decline(POLL_S)

    def _serve(self, stop: threading.Event) -> None:
        with OfferedServer(self._offer, self._limits.networks.forbidden) as server:
            logger.info("iperf3 server for others: open on port %d", self._offer.port)
            while not server.wait_for_client(POLL_S):
                if stop.is_set() or self.state()[0] is not OfferState.OPEN:
                    break
            client = server.client
            if client is None:
                return
            if not server.serves_admitted():
                logger.warning("iperf3 server for others: rejected %s, which is in no network of it", client)
                return
            with self._usage.testing(self._test, client, offered=True) as used, self._own_tests.running():
                began = time.monotonic()
                ended = self._follow(server, stop)
                used.seconds, used.bits = time.monotonic() - began, server.bits
            logger.info("iperf3 server for others: %s for %.1f s: %s", client, used.seconds, ended)

    def _follow(self, server: OfferedServer, stop: threading.Event) -> str:
        began = time.monotonic()
        while not server.wait(POLL_S):
            if stop.is_set():
                return "ended: the agent stops"
            if time.monotonic() - began > self._test.length_s:
                return "ended: longer than the maximum"
            if self._slot_within(timedelta(0)):
                return "ended: a test of the mesh begins"
        return "finished"

    def _slot_within(self, margin: timedelta) -> bool:
        plan, now = self._plan(), self._now()
        latest = now + CLEAR_OF_SLOTS + margin
        return plan is not None and any(slot.ends_at > now and slot.starts_at <= latest for slot in plan.slots)
