"""Store a batch of results exactly once, in one transaction; unstorable results are quarantined with the reason.

Repeated, reordered, split or concurrent deliveries change nothing and get the same receipt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
from django.db import transaction
from django.db.models import JSONField, Value

from monitor.archive.ingest.arrivals import BatchTooLarge, ParsedBatch
from monitor.archive.ingest.binary_copy import EPOCH, Integers, Rows, concatenate_rows, microseconds, pack, pack_columns
from monitor.archive.ingest.checks import CLOCK_SKEW, EARLIEST, CheckContext, KnownPath, are_sound, reason_to_refuse
from monitor.archive.ingest.failing_results import CANNOT_BE_STORED, find_culprits, reason_of
from monitor.archive.ingest.kinds import BURSTS, KIND_OF_RESULT, STORED_KINDS
from monitor.archive.ingest.ledger import (
    ReportedCycle,
    account_statements,
    record_account,
    record_cycles,
    reported_cycle,
)
from monitor.archive.ingest.store_results import store_bursts
from monitor.archive.models import RefusedResult
from monitor.archive.statements import statement
from monitor.archive.upkeep import retention
from monitor.prepared import SqlStatement, array_text, run_prepared, run_together, single_statement
from monitor.replicated import durable_transaction
from probes.bounds import LARGEST_BIGINT, LARGEST_INTEGER, LARGEST_SEQUENCE
from probes.contract import Outcome
from probes.site.wire import Delivered, Receipt, Refusal

# Maximum packed size of the rows; only a batch crafted to be large exceeds it.
LARGEST_PACKED_BYTES = 40 * 2**20
REFUSED_AT_ONCE = 500
LOCK_TIMEOUT_S = 5
# Agents close the connection after 30 s.
STATEMENT_TIMEOUT_S = 20
WITHOUT_WAITING = "SELECT set_config('synchronous_commit', 'off', TRUE)"
DAY_US = 86_400_000_000
# Latest accepted time, well below Python's last year, so that no time zone conversion overflows.
LATEST = datetime(9000, 1, 1, tzinfo=UTC)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SortedResults:
    """Results of a batch, sorted by table."""

    bursts: Rows = field(default_factory=lambda: concatenate_rows([]))
    runs: list[Delivered] = field(default_factory=list)  # all results that are not bursts
    cycles: dict[int, ReportedCycle] = field(default_factory=dict)  # by sequence number
    reasons: dict[int, str] = field(default_factory=dict)  # of refused results, by sequence number
    places: dict[int, int] = field(default_factory=dict)  # of refused results, by sequence number

    def refuse(self, sequence: int, reason: str, place: int) -> None:
        self.reasons.setdefault(sequence, reason)
        self.places.setdefault(sequence, place)

    def drop_refused(self) -> None:
        if self.reasons:
            self.bursts = self.bursts.without(self.reasons)
            self.runs = [run for run in self.runs if run.sequence not in self.reasons]
            self.cycles = {number: cycle for number, cycle in self.cycles.items() if number not in self.reasons}

    def sequences(self) -> Integers:
        """All sequence numbers in the batch."""
        return np.array([*self.numbers(), *self.reasons], np.int64)

    def numbers(self) -> list[int]:
        """Sequence numbers of the results to store."""
        return [*self.bursts.sequence.tolist(), *(run.sequence for run in self.runs)]

    def measured_from(self) -> datetime | None:
        """Earliest start of its measurements; None without any."""
        starts = [run.result.started_at for run in self.runs]
        if len(self.bursts):
            starts.append(EPOCH + timedelta(microseconds=int(self.bursts.measured_us.min())))
        return min(starts, default=None)

    def __len__(self) -> int:
        return len(self.bursts) + len(self.runs)

    def part(self, first: int, last: int) -> SortedResults:
        bursts = len(self.bursts)
        part = SortedResults(
            bursts=self.bursts.take(np.arange(min(first, bursts), min(last, bursts))),
            runs=self.runs[max(first - bursts, 0) : max(last - bursts, 0)],
        )
        part.cycles = {number: self.cycles[number] for number in part.numbers() if number in self.cycles}
        return part


def receive(site_id: int, arrival: ParsedBatch, now: datetime, last: SqlStatement | None = None) -> Receipt:
    """Store a delivery and run `last` in one transaction; return the receipt.

    Raises `BatchTooLarge`, errors of `last` in `CANNOT_BE_STORED`, and `OperationalError`; then nothing is stored and
    the agent can retry.
    """
    if not len(arrival) and _record_empty(site_id, arrival, now, last):
        return Receipt(number=arrival.envelope.number, accepted=0)
    results = _sort(site_id, arrival, now)
    try:
        return _store_batch(site_id, arrival, results, now, last)
    except CANNOT_BE_STORED as error:
        if reason_of(error) is None:
            raise
        logger.warning(
            "site %d, batch %d: %s; searching for the failing results", site_id, arrival.envelope.number, error
        )
    _refuse_culprits(site_id, arrival, results, now)
    return _store_batch(site_id, arrival, results, now, last)


def _record_empty(site_id: int, arrival: ParsedBatch, now: datetime, last: SqlStatement | None) -> bool:
    """Record an empty batch in a single statement without the lock; False if it needs more."""
    account = arrival.account()
    if arrival.envelope.number == 0 or (account is not None and account.gaps):
        return False
    fields = _batch_fields(site_id, arrival, now, SortedResults())
    parts = [SqlStatement(statement("record_batch"), fields), *account_statements(site_id, account, now)]
    # No other delivery depends on an empty batch, so it needs no lock; after a crash the next delivery repeats its
    # account.
    with single_statement():
        run_together(*parts, *([] if last is None else [last]), SqlStatement(WITHOUT_WAITING, {}))
    return True


def _store_batch(
    site_id: int, arrival: ParsedBatch, results: SortedResults, now: datetime, last: SqlStatement | None
) -> Receipt:
    with durable_transaction():
        _take_turn(site_id)
        _keep_to_earlier_refusals(site_id, arrival, results)
        is_new = _record_batch(site_id, arrival, results, now)
        _record_refused(site_id, arrival, results, now)
        _record_days(site_id, arrival, results, now)
        _store_results(results, now, all_new=is_new)
        _record_account(site_id, arrival, now, last)
    refused = tuple(Refusal(sequence=sequence, reason=reason) for sequence, reason in sorted(results.reasons.items()))
    return Receipt(number=arrival.envelope.number, accepted=len(results), refused=refused)


def _store_results(results: SortedResults, now: datetime, *, all_new: bool) -> None:
    """Store measurements by kind. Call within a transaction."""
    store_bursts(results.bursts, now, all_new=all_new)
    for stored in STORED_KINDS.values():
        if stored.store is not None:
            of_kind = [run for run in results.runs if KIND_OF_RESULT[type(run.result)] is stored]
            if of_kind:
                stored.store(of_kind, now)
    record_cycles(results.cycles.values(), now + CLOCK_SKEW)


def _refuse_culprits(site_id: int, arrival: ParsedBatch, results: SortedResults, now: datetime) -> None:
    with transaction.atomic(durable=True):
        _take_turn(site_id)
        culprits = find_culprits(results, lambda part: _store_results(part, now, all_new=True))
        transaction.set_rollback(True)
    for place in range(len(arrival)):
        sequence = arrival.sequence_at(place)
        if sequence in culprits:
            results.refuse(sequence, culprits[sequence], place)
    results.drop_refused()


def _record_account(site_id: int, arrival: ParsedBatch, now: datetime, last: SqlStatement | None) -> None:
    # Unstorable gaps do not fail the delivery.
    account = arrival.account()
    # The time of an account is within bounds: nothing that could fail alone.
    parts = account_statements(site_id, account, now)
    if account is not None and account.gaps:
        try:
            with transaction.atomic():
                record_account(site_id, account, now)
        except CANNOT_BE_STORED as error:
            if reason_of(error) is None:
                raise
            logger.warning("site %d: its account of cycles is not stored: %s", site_id, error)
        parts = []
    parts += [] if last is None else [last]
    if parts:
        run_together(*parts)


def _sort(site_id: int, arrival: ParsedBatch, now: datetime) -> SortedResults:
    """Parse and check all results. Raises `BatchTooLarge`."""
    earliest = {
        result: max(EARLIEST, retention.kept_since(stored.retention, now)) for result, stored in KIND_OF_RESULT.items()
    }
    scope = CheckContext(site_id, {}, {}, earliest, now + CLOCK_SKEW)
    results = SortedResults()
    rows = []
    packed_bytes = 0
    # Its other results are mostly of the same paths.
    of_blocks = [np.unique(columns.records["path_id"]).tolist() for _, _, columns in arrival.blocks()]
    _load_context(scope, set(chain.from_iterable(of_blocks)), set())
    for places in arrival.portions():
        sound = _valid_results(arrival, places, scope, results)
        rows.append(pack([delivered for delivered in sound if type(delivered.result) in BURSTS]))
        packed_bytes += sum(map(len, rows[-1].packed))
        if packed_bytes > LARGEST_PACKED_BYTES:
            raise BatchTooLarge(f"its rows take more than {LARGEST_PACKED_BYTES} bytes; send smaller batches")
        results.runs += [delivered for delivered in sound if type(delivered.result) not in BURSTS]
    for first, block, columns in arrival.blocks():
        are_valid = are_sound(block, columns, scope)
        valid = np.flatnonzero(are_valid)
        rows.append(pack_columns(columns, valid, block.first))
        if block.cycle is not None and block.every_s is not None:
            of_block = (block.test, block.every_s, Outcome.MEASURED.value, block.cycle)
            path_ids = columns.records["path_id"][valid].tolist()
            sequences = (block.first + valid).tolist()
            results.cycles.update(
                (sequence, (path_id, *of_block)) for sequence, path_id in zip(sequences, path_ids, strict=True)
            )
        # Each of the others is checked alone, for the reason to refuse it.
        rows.append(pack(_valid_results(arrival, (first + np.flatnonzero(~are_valid)).tolist(), scope, results)))
        packed_bytes += sum(len(packed) for part in rows[-2:] for packed in part.packed)
        if packed_bytes > LARGEST_PACKED_BYTES:
            raise BatchTooLarge(f"its rows take more than {LARGEST_PACKED_BYTES} bytes; send smaller batches")
    results.bursts = concatenate_rows(rows)
    return results


def _valid_results(
    arrival: ParsedBatch, places: Iterable[int], scope: CheckContext, results: SortedResults
) -> list[Delivered]:
    read, unreadable = arrival.read(places)
    for refused in unreadable:
        results.refuse(refused.sequence, refused.reason, refused.place)
    _load_context(
        scope,
        {delivered.path_id for delivered in read.values()},
        {delivered.slot_id for delivered in read.values() if delivered.slot_id is not None},
    )
    sound = []
    for place, delivered in read.items():
        reason = reason_to_refuse(delivered, scope)
        if reason is None:
            sound.append(delivered)
            cycle = reported_cycle(delivered)
            if cycle is not None:
                results.cycles[delivered.sequence] = cycle
        else:
            results.refuse(delivered.sequence, reason, place)
    return sound


def _load_context(scope: CheckContext, path_ids: set[int], slot_ids: set[int]) -> None:
    """Load missing paths and slots in two queries."""
    path_ids = {path_id for path_id in path_ids if 0 < path_id <= LARGEST_INTEGER} - scope.paths.keys()
    slot_ids = {slot_id for slot_id in slot_ids if 0 < slot_id <= LARGEST_BIGINT} - scope.slots.keys()
    if path_ids:
        of_paths = run_prepared(statement("known_paths"), {"path_ids": array_text(path_ids)})
        scope.paths.update((path_id, KnownPath(*of_path)) for path_id, *of_path in of_paths.fetchall())
    if slot_ids:
        scope.slots.update(run_prepared(statement("known_slots"), {"slot_ids": list(slot_ids)}).fetchall())


def _take_turn(site_id: int) -> None:
    """Take the per-site advisory lock; set lock and statement timeouts."""
    # A concurrent delivery of the same site must see this batch's refusals. Deliveries of different sites share only
    # slot rows.
    run_prepared(
        statement("take_turn"),
        {"site_id": site_id, "lock_timeout": f"{LOCK_TIMEOUT_S}s", "statement_timeout": f"{STATEMENT_TIMEOUT_S}s"},
    )


def _keep_to_earlier_refusals(site_id: int, arrival: ParsedBatch, results: SortedResults) -> None:
    """Drop results that were refused before."""
    numbers = results.sequences()
    if not len(numbers):
        return
    # By range: a list of thousands of numbers is slow, and a batch is contiguous in its spool.
    earlier = run_prepared(
        statement("earlier_refusals"),
        {
            "site_id": site_id,
            "spool": arrival.envelope.spool,
            "first": int(numbers.min()),
            "last": int(numbers.max()),
        },
    ).fetchall()
    results.reasons.update((sequence, reason) for sequence, reason in earlier if sequence in numbers)
    results.drop_refused()


def _record_batch(site_id: int, arrival: ParsedBatch, results: SortedResults, now: datetime) -> bool:
    if arrival.envelope.number == 0:
        return False
    fields = _batch_fields(site_id, arrival, now, results)
    rows: int = run_prepared(statement("record_batch"), fields).rowcount
    return rows == 1


def _batch_fields(site_id: int, arrival: ParsedBatch, now: datetime, results: SortedResults) -> dict[str, object]:
    envelope = arrival.envelope
    return {
        "site_id": site_id,
        "spool": envelope.spool,
        "number": envelope.number,
        "received_at": now,
        "sent_at": min(max(envelope.sent_at, EARLIEST), LATEST),
        "agent_version": envelope.agent_version,
        "accepted": len(results),
        "refused": len(arrival) - len(results),
        "queued": envelope.queued,
        "dropped": envelope.dropped,
        "measured_from": results.measured_from(),
    }


def _record_refused(site_id: int, arrival: ParsedBatch, results: SortedResults, now: datetime) -> None:
    # Store in chunks: as JSON they can exceed the batch.
    places = sorted(results.places.items())
    for first in range(0, len(places), REFUSED_AT_ONCE):
        rows = [
            RefusedResult(
                site_id=site_id,
                spool=arrival.envelope.spool,
                sequence=sequence,
                refused_at=now,
                reason=results.reasons[sequence],
                result=Value(arrival.as_json(place), JSONField()),  # without Value, a null result would be SQL NULL
            )
            for sequence, place in places[first : first + REFUSED_AT_ONCE]
        ]
        RefusedResult.objects.bulk_create(rows, ignore_conflicts=True)
    if places:
        retention.bound_refused(site_id)


def _record_days(site_id: int, arrival: ParsedBatch, results: SortedResults, now: datetime) -> None:
    """Record the sequence numbers received for each day."""
    sequences, days = _days(results, now)
    which = np.unique(days)
    if not len(which):
        return
    run_prepared(
        statement("record_days"),
        {
            "site_id": site_id,
            "spool": arrival.envelope.spool,
            "days": [(EPOCH + timedelta(days=day)).date() for day in which.tolist()],
            "sequences": [_ranges(sequences[days == day]) for day in which],
        },
    )


def _days(results: SortedResults, now: datetime) -> tuple[Integers, Integers]:
    """Sequence numbers, and each result's day since 2000."""
    # Implausible numbers have no place in the ledger.
    refused = np.array([sequence for sequence in results.reasons if 0 <= sequence <= LARGEST_SEQUENCE], np.int64)
    ran = np.array([(run.sequence, microseconds(run.result.started_at)) for run in results.runs], np.int64)
    run_sequences, runs_us = ran.reshape(-1, 2).T
    started_us = np.concatenate([results.bursts.measured_us, runs_us])
    # A refused result has no trusted time: it counts on the first accepted day, or today.
    refused_us = np.full(len(refused), started_us[0] if len(started_us) else microseconds(now))
    sequences = np.concatenate([results.bursts.sequence, run_sequences, refused])
    return sequences, np.concatenate([started_us, refused_us]) // DAY_US


def _ranges(numbers: Integers) -> str:
    """Format as PostgreSQL int8multirange."""
    ordered = np.unique(numbers)
    stretches = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return "{" + ",".join(f"[{stretch[0]},{stretch[-1]}]" for stretch in stretches) + "}"
