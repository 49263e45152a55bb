"""Delivers the spool to the centre, oldest first, until it is empty or the centre fails.

A batch leaves the spool only with its receipt. After a failure nothing is sent until the pause is over; a batch that
is too large is halved; every other batch is kept as it is and sent again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

import probes
from probes.site.backoff import BackOff
from probes.site.centre import Centre, CentreError
from probes.site.health import Health
from probes.site.spool import Spool
from probes.site.wire import Batch

logger = logging.getLogger(__name__)

MAX_RESULTS = 1000
MAX_BATCH_BYTES = 2 * 2**20
TOO_LARGE = 413


def utc_now() -> datetime:
    return datetime.now(UTC)


class Delivery:
    """Delivers one spool to one centre, each batch with the health that `health` gives for it. Any thread may call
    `run`; one at a time delivers."""

    def __init__(
        self,
        spool: Spool,
        centre: Centre,
        *,
        health: Callable[[Batch], Health | None] = lambda _: None,
        back_off: BackOff | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._spool = spool
        self._centre = centre
        self._health = health
        self.last_accepted_at: datetime | None = None
        self._back_off = back_off if back_off is not None else BackOff()
        self._now = now
        self._max_results = MAX_RESULTS
        self._running = threading.Lock()

    def run(self) -> int:
        """Deliver what waits; the number of results that the centre took charge of."""
        if not self._back_off.may_try() or not self._running.acquire(blocking=False):
            return 0
        try:
            return self._until_empty()
        finally:
            self._running.release()

    def _until_empty(self) -> int:
        delivered = 0
        while (batch := self._next_batch()) is not None:
            try:
                receipt = self._centre.deliver(msgspec.structs.replace(batch, health=self._health(batch)))
            except CentreError as error:
                if error.status == TOO_LARGE:
                    self._halve(batch, str(error))
                    continue
                self._give_up(batch, error)
                return delivered
            self._back_off.succeeded()
            self.last_accepted_at = self._now()
            self._spool.acknowledge(batch.number, receipt.refused)
            self._max_results = min(MAX_RESULTS, self._max_results * 2)
            delivered += len(batch.results)
        return delivered

    def _next_batch(self) -> Batch | None:
        return self._spool.next_batch(
            max_results=self._max_results,
            max_bytes=MAX_BATCH_BYTES,
            now=self._now(),
            agent_version=probes.__version__,
        )

    def _halve(self, batch: Batch, reason: str) -> None:
        kept = self._spool.halve_batch(batch.number, reason)
        self._max_results = max(1, len(batch.results) // 2)
        logger.warning("deliver: batch %d of %d results: %s; now %d", batch.number, len(batch.results), reason, kept)

    def _give_up(self, batch: Batch, error: CentreError) -> None:
        pause_s = self._back_off.failed(error.retry_after_s)
        logger.warning(
            "deliver: batch %d (%d results, %d more wait): %s; again in %.0f s",
            batch.number,
            len(batch.results),
            batch.queued,
            error,
            pause_s,
        )
