"""A queue on disk where each result is stored before its delivery to the centre, at least once.

SQLite (WAL, full sync), one writing process, any thread. A batch is the same until acknowledged or split, also after a
crash.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from probes.contract import Slot
from probes.site.health import Dropped
from probes.site.spool import ledger, losses, results, slots
from probes.site.spool.claimed_cycles import ClaimedCycles
from probes.site.spool.clock_correction import correct_clock, correct_without_cycle
from probes.site.spool.database import NoRoom, SpoolDatabase, SpoolError, value
from probes.site.spool.ledger import Cycle
from probes.site.spool.unsaved import Unsaved
from probes.site.wire import Batch, BurstBlock, Delivered, GapReason, Refusal, ToDeliver

__all__ = ["NoRoom", "Spool", "SpoolError"]

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
MAX_AGE = timedelta(days=90)
FILLING_RATIO = 0.25


class Spool:
    """An open spool, dropping and counting the oldest beyond `max_bytes` and `max_age`.

    `clock_off_s` flags results; `ahead_s` is the lead of the cycles' clock `now_s` over a steady clock.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_age: timedelta = MAX_AGE,
        clock_off_s: Callable[[], float | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
        ahead_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._read_clock_off_s = clock_off_s
        self._last_wrong_s: float | None = None
        self._now_s = now_s
        self._max_bytes = max_bytes
        self._max_age_s = max_age.total_seconds()
        self._unsaved = Unsaved()
        self._slots_unsaved: set[int] = set()
        self._cycles = ClaimedCycles(ahead_s, now_s())
        self._sent_gap_id = 0
        self._database = SpoolDatabase(path)
        with self._database.reading() as connection:
            self.id: str = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]
            self._bytes = results.count_bytes(connection)

    def close(self) -> None:
        self._database.close()

    def _clock_off_s(self) -> float | None:
        """The clock's error, or the last known before it was corrected."""
        off_s = self._read_clock_off_s()
        if off_s is not None:
            self._last_wrong_s = off_s
        return off_s

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that also writes earlier unsaved changes. Raises `NoRoom`."""
        try:
            with self._database.transaction(self._unsaved.clear) as connection:
                self._unsaved.write(connection, sent_up_to=self._sent_gap_id)
                yield connection
        except BaseException:
            with self._database.reading() as connection:
                self._bytes = results.count_bytes(connection)
            raise

    def _try_to_write(self, write: Callable[[sqlite3.Connection], object] = lambda _: None) -> bool:
        """Run `write` in a transaction; False without room."""
        try:
            with self._transaction() as connection:
                write(connection)
        except NoRoom as error:
            logger.error("%s", error)
            return False
        return True

    def put(
        self,
        delivered: Sequence[ToDeliver],
        *,
        cycle: Cycle | None = None,
        more: bool = False,
        ends_slot: int | None = None,
    ) -> bool:
        """Store results; if True they survive any crash, if False they are lost and counted.

        `cycle` ends with them unless `more`; the slot `ends_slot` ends in the same transaction.
        """
        self._cycles.follow_clock(self._database, self._unsaved)
        now_s = self._now_s()
        bodies = [results.encode(message) for message in self._corrected(delivered, cycle, now_s)]
        try:
            with self._transaction() as connection:
                results.insert(connection, bodies, now_s)
                self._bytes += sum(len(body) for body, _ in bodies)
                if ends_slot is not None:
                    slots.end(connection, ends_slot)
                if cycle is not None and not more:
                    ledger.end(connection, self._cycles.find(cycle).cycle)
                self._make_room(connection, now_s)
                ledger.record_heartbeat(connection, now_s)
        except NoRoom as error:
            self._keep_unsaved(delivered, cycle)
            logger.error("%s: %d results lost", error, sum(block or 1 for _, block in bodies))
            return False
        finally:
            if not more and cycle is not None:
                self._cycles.forget(cycle)
        return True

    def _corrected(self, delivered: Sequence[ToDeliver], cycle: Cycle | None, now_s: float) -> Iterator[ToDeliver]:
        off_s = self._clock_off_s()
        if cycle is None:
            return correct_without_cycle(delivered, off_s, self._last_wrong_s, now_s)
        begun = self._cycles.find(cycle)
        flagged_s = off_s if begun.off_s is None else begun.off_s
        return correct_clock(delivered, begun.cycle, flagged_s=flagged_s, now_s=now_s)

    def _keep_unsaved(self, delivered: Sequence[ToDeliver], cycle: Cycle | None) -> None:
        with self._database.reading():
            kinds = itertools.chain.from_iterable(map(results.kinds_of, delivered))
            self._unsaved.add(kinds, None if cycle is None else self._cycles.find(cycle).cycle)

    def _make_room(self, connection: sqlite3.Connection, now_s: float) -> None:
        dropped: Counter[tuple[str, str]] = Counter()
        for sequence, body, spooled_s, block in results.oldest_waiting(connection):
            if self._bytes > self._max_bytes:
                reason = losses.TOO_MANY
            elif spooled_s is not None and now_s - spooled_s > self._max_age_s:
                reason = losses.TOO_OLD
            else:
                break
            results.delete(connection, sequence)
            self._bytes -= len(body)
            header = results.read_header(body, block)
            dropped[header.kind, reason] += block or 1
            self._note_gap(connection, GapReason.DROPPED, header.of_cycle)
        for (kind, reason), count in dropped.items():
            logger.error("spool: %s: the %d oldest results of kind %s were dropped", reason, count, kind)
            losses.add_dropped(connection, kind, reason, count)

    def _note_gap(self, connection: sqlite3.Connection, reason: GapReason, cycle: Cycle | None) -> None:
        if cycle is not None:
            ledger.add_gap(connection, reason, cycle, cycle, sent_up_to=self._sent_gap_id)

    def record_start(self, last_heartbeat_s: float | None = None) -> None:
        """Record the agent's start: cycles missed since its last heartbeat become a gap. Call once, first."""
        self._cycles.follow_clock(self._database, self._unsaved)
        self._cycles.began_s = self._now_s()
        self._unsaved.add_start(self._cycles.began_s, last_heartbeat_s)
        self._try_to_write()

    def set_planned(self, newest: Iterable[Cycle]) -> None:
        """Set the repeated tests, with the newest begun cycle of each."""
        self._cycles.follow_clock(self._database, self._unsaved)
        self._try_to_write(lambda connection: self._cycles.set_planned(connection, newest, self._now_s()))

    def claim_cycle(self, cycle: Cycle) -> bool:
        """Claim a cycle, even on a full disk, and account for earlier cycles; False if claimed before."""
        self._cycles.follow_clock(self._database, self._unsaved)
        off_s = self._clock_off_s()
        try:
            with self._transaction() as connection:
                lost = self._cycles.claim(connection, cycle)
                ledger.record_heartbeat(connection, self._now_s())
        except NoRoom as error:
            logger.error("%s; measurements continue", error)
            lost = range(0)
        if lost is not None:
            self._cycles.begin(cycle, off_s, lost)
        return lost is not None

    @property
    def lost_cycles(self) -> int:
        return self._cycles.lost

    def end_cycle(self, cycle: Cycle, *, failed: bool = False) -> None:
        """End a cycle without more results; a failed cycle may have none."""
        self._cycles.follow_clock(self._database, self._unsaved)

        def end(connection: sqlite3.Connection) -> None:
            now_as = self._cycles.find(cycle).cycle
            ledger.end(connection, now_as)
            if failed:
                self._note_gap(connection, GapReason.AGENT_FAILED, now_as)

        if not self._try_to_write(end):
            self._keep_unsaved([], cycle)
        self._cycles.forget(cycle)

    def next_batch(
        self,
        *,
        max_results: int,
        max_bytes: int,
        now: datetime,
        agent_version: str,
        only: int | None = None,
        without: Collection[int] = (),
    ) -> Batch | None:
        """The unacknowledged batch, else a new batch; None when nothing waits.

        `max_results` and `max_bytes` (of JSON) limit new batches, but a single result always fits. `only` takes a
        single sequence. Raises `NoRoom`.
        """
        self._cycles.follow_clock(self._database, self._unsaved)
        with self._transaction() as connection:
            number = value(connection, "acknowledged") + 1
            batch, blocks = self._read_batch(connection, number)
            if not batch and not blocks:
                block = results.oldest_waiting_block(connection, max_results, only=only, without=without)
                if block is not None:
                    self._tell_apart(connection, block)
                results.fill_batch(connection, number, max_results, max_bytes, only=only, without=without)
                batch, blocks = self._read_batch(connection, number)
            if not batch and not blocks:
                return None
            queued = results.count_waiting(connection)
            is_last = queued == 0 and not self._unsaved.count
            account, self._sent_gap_id = ledger.account(connection, self._now_s(), is_last=is_last)
            return Batch(
                spool=self.id,
                number=number,
                agent_version=agent_version,
                sent_at=now,
                results=tuple(batch),
                blocks=tuple(blocks) or msgspec.UNSET,
                queued=queued,
                dropped=losses.count_dropped(connection) + self._unsaved.count,
                account=account,
            )

    def _read_batch(self, connection: sqlite3.Connection, number: int) -> tuple[list[Delivered], list[BurstBlock]]:
        batch, blocks = [], []
        for sequence, body, block in results.bodies_of_batch(connection, number):
            try:
                if block is None:
                    batch.append(msgspec.structs.replace(results.decode(body), sequence=sequence))
                else:
                    blocks.append(results.decode_block(body, sequence, block))
            except msgspec.DecodeError as error:
                self._quarantine(connection, sequence, f"cannot be read from the spool: {error}")
        return batch, blocks

    def _tell_apart(self, connection: sqlite3.Connection, block: int) -> None:
        try:
            self._bytes += results.tell_apart(connection, block)
        except (msgspec.DecodeError, ValueError) as error:
            self._quarantine(connection, block, f"cannot be read from the spool: {error}")

    def acknowledge(self, number: int, refused: Iterable[Refusal] = ()) -> None:
        """Remove a delivered batch; quarantine the refused results."""
        with self._transaction() as connection:
            if number != value(connection, "acknowledged") + 1:
                return
            for refusal in refused:
                block = results.block_with(connection, refusal.sequence)
                if block is not None:
                    self._tell_apart(connection, block)
                self._quarantine(connection, refusal.sequence, refusal.reason)
            freed_bytes = results.delete_batch(connection, number)
            connection.execute("UPDATE meta SET value = ? WHERE name = 'acknowledged'", (number,))
            ledger.delete_sent_gaps(connection, self._sent_gap_id)
            self._bytes -= freed_bytes

    def halve_batch(self, number: int, reason: str) -> int:
        """Halve a batch too large for the centre, or quarantine its single result; returns the results left."""
        with self._transaction() as connection:
            sizes = results.sizes_in_batch(connection, number)
            half = sum(size for _, size in sizes) // 2
            if half == 0:
                self._quarantine(connection, sizes[0][0], reason)
                return 0
            if sizes[0][1] > half:
                self._tell_apart(connection, sizes[0][0])
                sizes = results.sizes_in_batch(connection, number)
            totals = list(itertools.accumulate(size for _, size in sizes))
            rows = bisect.bisect_right(totals, half)
            results.release(connection, [sequence for sequence, _ in sizes[rows:]])
            return totals[rows - 1] if rows else 0

    def release_batch(self, number: int) -> None:
        with self._transaction() as connection:
            results.release_batch(connection, number)

    def _quarantine(self, connection: sqlite3.Connection, sequence: int, reason: str) -> None:
        body_and_size = results.read_body(connection, sequence)
        if body_and_size is None:
            return
        body, block = body_and_size
        logger.error("spool: result %d quarantined: %s", sequence, reason)
        losses.quarantine(connection, sequence, reason, body)
        results.delete(connection, sequence)
        self._bytes -= len(body)
        self._note_gap(connection, GapReason.SET_ASIDE, results.read_header(body, block).of_cycle)

    @property
    def has_results(self) -> bool:
        """Whether there are results to deliver; reads no file."""
        return self._bytes > 0

    @property
    def is_filling(self) -> bool:
        """Whether a quarter of its room is taken."""
        return self._bytes > FILLING_RATIO * self._max_bytes

    def count_dropped(self) -> int:
        with self._database.reading() as connection:
            return losses.count_dropped(connection) + self._unsaved.count

    def dropped_by_kind(self) -> tuple[Dropped, ...]:
        """Dropped results by kind and reason, without unsaved drops."""
        with self._database.reading() as connection:
            return losses.dropped_by_kind(connection)

    def count_quarantined(self) -> int:
        with self._database.reading() as connection:
            return losses.count_quarantined(connection)

    def quarantined(self) -> list[Refusal]:
        with self._database.reading() as connection:
            return losses.quarantined(connection)

    def claim_slot(self, slot: Slot, now: datetime) -> bool:
        """Take a slot for this agent. False if it was taken before."""
        try:
            with self._transaction() as connection:
                return slots.claim(connection, slot, now) and slot.slot_id not in self._slots_unsaved
        except NoRoom as error:
            logger.error("%s; measurements continue", error)
        if slot.slot_id in self.claimed_slots():
            return False
        self._slots_unsaved.add(slot.slot_id)
        return True

    def end_slot(self, slot_id: int) -> None:
        """End a slot without a result of ours (we were the server)."""
        self._try_to_write(lambda connection: slots.end(connection, slot_id))

    def claimed_slots(self) -> set[int]:
        with self._database.reading() as connection:
            return slots.claimed_numbers(connection) | self._slots_unsaved

    def unfinished_slots(self) -> list[Slot]:
        """Slots that ran when the agent was killed."""
        with self._database.reading() as connection:
            return slots.unfinished(connection)

    def forget_slots(self, before: datetime) -> None:
        self._try_to_write(lambda connection: slots.forget_ended(connection, before))
