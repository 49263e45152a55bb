"""Deliver the spool to the centre, oldest first; a batch leaves only with its receipt.

Failing batches are halved until a bad result is alone and quarantined, unless the centre rejects even an empty batch;
on 5xx by `quarantine_candidates`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime

import msgspec

import probes
from probes.site.delivery.backoff import BackOff
from probes.site.delivery.centre import Centre, CentreError, CentreTimeout
from probes.site.health import Health
from probes.site.spool.spool import NoRoom, Spool
from probes.site.wire import Batch, Receipt

# Failures alone before quarantine: if every other request fails, 1 good result of 16 is quarantined.
FAILURES_ALONE = 4
# More of them are no culprits: the centre takes nothing.
MAX_CANDIDATES = 1000


class QuarantineCandidates:
    """Failures by sequence number, and which results may be tried again."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._due: set[int] = set()

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def sequences(self) -> frozenset[int]:
        return frozenset(self._failures)

    def due(self) -> int | None:
        """The oldest to be tried alone now; None without any."""
        return min(self._due, default=None)

    def failed(self, sequence: int) -> bool:
        """Note that a result failed alone; return whether it is surely the culprit."""
        if sequence not in self._failures or sequence in self._due:
            if len(self._failures) == MAX_CANDIDATES:
                self.clear()
            self._failures[sequence] = self._failures.get(sequence, 0) + 1
            self._due.discard(sequence)
        return self._failures[sequence] >= FAILURES_ALONE

    def accepted(self, sequences: Iterable[int]) -> None:
        """Clear accepted results of suspicion."""
        taken = set(sequences)
        for sequence in taken:
            self._failures.pop(sequence, None)
        if taken:
            self._due = set(self._failures)

    def forget(self, sequence: int) -> None:
        self._failures.pop(sequence, None)
        self._due.discard(sequence)

    def clear(self) -> None:
        self._failures.clear()
        self._due.clear()


logger = logging.getLogger(__name__)

# First batch after a start or a failure: the centre may just be back, and all agents with it.
FIRST_RESULTS = 250
MAX_RESULTS = 8000
MAX_BATCH_BYTES = 2 * 2**20
QUICK_S, SLOW_S = 2.0, 10.0
# Period over which a mesh's sites start to send their backlogs after an outage of the centre.
SPREAD_S = 30.0
TOO_LARGE, TOO_SLOW = 413, 408
UNREADABLE = (400, 422)
# 503: the centre cannot store now; a smaller batch may pass, and no result is at fault.
SERVER_ERROR, NOT_NOW = 500, 503
# Consecutive 5xx answers to the same batch before it is halved.
FAILURES = 3
# Number of a batch without results, which only tests whether the centre can read our batches.
NOTHING = 0


def utc_now() -> datetime:
    return datetime.now(UTC)


class DeliveryLoop:
    """Delivers a spool to a centre in a single thread at a time; any may call `run`.

    `spread` is the site's number from 0 to 1.
    """

    def __init__(
        self,
        spool: Spool,
        centre: Centre,
        *,
        health: Callable[[Batch], Health | None] = lambda _: None,
        spread: Callable[[], float] = lambda: 0.0,
        back_off: BackOff | None = None,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spool = spool
        self._centre = centre
        self._health = health
        self._spread = spread
        self.last_accepted_at: datetime | None = None
        self._back_off = back_off if back_off is not None else BackOff()
        self._now = now
        self._clock = clock
        self._max_results = FIRST_RESULTS
        self._is_after_outage = True
        self._not_before = clock()
        self._timed_out: int | None = None
        self._failing: tuple[int, int] = (NOTHING, 0)  # the batch that was answered 5xx last, and how often
        self._candidates = QuarantineCandidates()
        self._running = threading.Lock()

    def run(self) -> int:
        if not self._back_off.may_try() or self._clock() < self._not_before:
            return 0
        if not self._running.acquire(blocking=False):
            return 0
        try:
            return self._deliver_all()
        except NoRoom as error:
            logger.error("deliver: %s; retry in %.0f s", error, self._back_off.failed())
            return 0
        finally:
            self._running.release()

    def _deliver_all(self) -> int:
        delivered = 0
        while self._clock() >= self._not_before and (batch := self._next_batch()) is not None:
            began_s = self._clock()
            try:
                receipt = self._centre.deliver(msgspec.structs.replace(batch, health=self._health(batch)))
            except CentreError as error:
                if not self._recover(batch, error):
                    self._give_up(batch, error)
                    return delivered
            else:
                self._accepted(batch, receipt, self._clock() - began_s)
                delivered += len(batch.sequences)
        return delivered

    def _next_batch(self) -> Batch | None:
        due = self._candidates.due()
        if due is not None:
            batch = self._form(only=due)
            if batch is not None:
                return batch
            self._candidates.forget(due)  # the spool had to drop it
        candidates = self._candidates.sequences
        batch = self._form(without=candidates)
        if batch is None and candidates:
            batch = self._form(only=min(candidates)) or self._form()
        return batch

    def _form(self, *, only: int | None = None, without: Collection[int] = ()) -> Batch | None:
        return self._spool.next_batch(
            max_results=self._max_results,
            max_bytes=MAX_BATCH_BYTES,
            now=self._now(),
            agent_version=probes.__version__,
            only=only,
            without=without,
        )

    def _accepted(self, batch: Batch, receipt: Receipt, took_s: float) -> None:
        self._back_off.succeeded()
        self._timed_out = None
        self._candidates.accepted(batch.sequences)
        self.last_accepted_at = self._now()
        self._spool.acknowledge(batch.number, receipt.refused)
        if took_s < QUICK_S:
            self._max_results = min(MAX_RESULTS, self._max_results * 2)
        elif took_s > SLOW_S:
            self._max_results = max(1, self._max_results // 2)
        if self._is_after_outage and batch.queued > FIRST_RESULTS:
            self._not_before = self._clock() + self._spread() * SPREAD_S
        self._is_after_outage = False

    def _recover(self, batch: Batch, error: CentreError) -> bool:
        """Halve the batch or quarantine its bad result; return whether to retry at once."""
        if error.status == TOO_LARGE:
            self._halve(batch, str(error))
            return True
        if error.status is not None and error.status >= SERVER_ERROR:
            return self._recover_from_server_error(batch, error)
        if error.status not in UNREADABLE or error.reason is None or not self._reads_our_batches():
            return False
        self._halve(batch, f"the centre answered {error.status}: {error.reason}")
        return True

    def _recover_from_server_error(self, batch: Batch, error: CentreError) -> bool:
        number, failures = self._failing
        failures = failures + 1 if number == batch.number else 1
        self._failing = batch.number, failures
        if failures < FAILURES or not self._reads_our_batches():
            return False
        reason = f"the centre answered {error.status} to it, and took others"
        if len(batch.sequences) > 1:
            self._halve(batch, f"the centre answered {error.status}")
            return True
        if error.status == NOT_NOW:
            return False
        [sequence] = batch.sequences
        if self._candidates.failed(sequence):
            self._halve(batch, reason)
            self._candidates.forget(sequence)
            return True
        logger.warning("deliver: the centre answers %s to result %d; it is sent last", error.status, sequence)
        self._spool.release_batch(batch.number)
        return False

    def _reads_our_batches(self) -> bool:
        nothing = Batch(
            spool=self._spool.id, number=NOTHING, agent_version=probes.__version__, sent_at=self._now(), results=()
        )
        try:
            self._centre.deliver(nothing)
        except CentreError:
            return False
        return True

    def _halve(self, batch: Batch, reason: str) -> None:
        kept = self._spool.halve_batch(batch.number, reason)
        self._max_results = max(1, len(batch.sequences) // 2)
        logger.warning(
            "deliver: batch %d of %d results: %s; halved to %d", batch.number, len(batch.sequences), reason, kept
        )

    def _give_up(self, batch: Batch, error: CentreError) -> None:
        self._is_after_outage = True
        self._max_results = min(self._max_results, FIRST_RESULTS)
        if isinstance(error, CentreTimeout) or error.status == TOO_SLOW:
            self._take_smaller(batch, is_stored=False if error.status == TOO_SLOW else None)
        pause_s = self._back_off.failed(error.retry_after_s)
        logger.warning(
            "deliver: batch %d (%d results, %d more in the backlog): %s; retry in %.0f s",
            batch.number,
            len(batch.sequences),
            batch.queued,
            error,
            pause_s,
        )

    def _take_smaller(self, batch: Batch, *, is_stored: bool | None) -> None:
        """Make new batches smaller; halve this batch too if it is not stored or timed out before."""
        self._max_results = max(1, self._max_results // 2)
        if (is_stored is False or self._timed_out == batch.number) and len(batch.sequences) > 1:
            self._spool.halve_batch(batch.number, "it timed out")
        self._timed_out = batch.number
