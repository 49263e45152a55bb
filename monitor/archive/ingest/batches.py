"""A batch of results into the archive, exactly once.

In: what a site's agent delivered. Out: a receipt, after the commit. Results are read and checked one by one; what can
never be stored is set aside with its reason, the rest is stored, all in one transaction. Delivering again, in any
order, in parts or by two connections at once, changes nothing and is answered the same. Summaries are made by
`rollups`; what of the deliveries is missing is told by `completeness`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db import connection, transaction
from django.db.models import JSONField, Value

from monitor.archive.ingest.arrivals import Arrival, BatchTooLarge, arrival_of
from monitor.archive.ingest.checks import (
    CLOCK_SKEW,
    EARLIEST,
    LARGEST_BIGINT,
    LARGEST_INTEGER,
    LARGEST_SEQUENCE,
    CheckedBurst,
    CheckedCapacity,
    CheckedDelivered,
    CheckedDiskToDisk,
    CheckedRun,
    CheckedServed,
    Known,
    KnownPath,
    reason_to_refuse,
)
from monitor.archive.ingest.copying import EPOCH, Integers, Rows, joined, microseconds, pack
from monitor.archive.ingest.culprits import CANNOT_BE_STORED, find_culprits, reason_of
from monitor.archive.ingest.disk_to_disk import store_disk_to_disk
from monitor.archive.ingest.ledger import ReportedCycle, record_account, record_cycles, reported_cycle
from monitor.archive.ingest.storing import end_slots, store_bursts, store_capacities, store_throughput
from monitor.archive.models import RefusedResult
from monitor.archive.statements import statement
from monitor.archive.upkeep import retention
from probes.site.wire import Batch, Receipt, Refusal

LARGEST_PACKED_BYTES = 40 * 2**20
"""Of rows. They are smaller than the batch, unless somebody wants them not to be."""
REFUSED_AT_ONCE = 500
LOCK_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 20
"""An agent hangs up after 30 s."""
KINDS: dict[type, str] = {
    CheckedBurst: "bursts",
    CheckedRun: "throughput",
    CheckedDiskToDisk: "throughput",
    CheckedServed: "throughput",
    CheckedCapacity: "capacity",
}
"""Under which name `retention` knows each kind of result."""
DAY_US = 86_400_000_000
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""As late as an agent's clock is believed: what is read from the database must not leave Python's years by its zone."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Sorted:
    """The results of a batch, each where it belongs; `runs` are throughput tests and capacities. `cycles` says whose
    cycles they are, `reasons` and `places` are those of the refused ones, each by sequence number."""

    bursts: Rows = field(default_factory=lambda: joined([]))
    runs: list[CheckedDelivered] = field(default_factory=list)
    cycles: dict[int, ReportedCycle] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def refuse(self, sequence: int, reason: str, place: int) -> None:
        self.reasons.setdefault(sequence, reason)
        self.places.setdefault(sequence, place)

    def drop_refused(self) -> None:
        """A number that was refused, now or before, is not stored; its agent was told."""
        if self.reasons:
            self.bursts = self.bursts.without(self.reasons)
            self.runs = [run for run in self.runs if run.sequence not in self.reasons]
            self.cycles = {number: cycle for number, cycle in self.cycles.items() if number not in self.reasons}

    def sequences(self) -> Integers:
        """All numbers in the batch."""
        return np.array([*self.numbers(), *self.reasons], np.int64)

    def numbers(self) -> list[int]:
        """Those of the results that are to be stored."""
        return [*self.bursts.sequence.tolist(), *(run.sequence for run in self.runs)]

    def __len__(self) -> int:
        """How many are to be stored."""
        return len(self.bursts) + len(self.runs)

    def part(self, first: int, last: int) -> Sorted:
        """Some of the results that are to be stored, counted as by `numbers`."""
        bursts = len(self.bursts)
        part = Sorted(
            bursts=self.bursts.take(np.arange(min(first, bursts), min(last, bursts))),
            runs=self.runs[max(first - bursts, 0) : max(last - bursts, 0)],
        )
        part.cycles = {number: self.cycles[number] for number in part.numbers() if number in self.cycles}
        return part


def store(site_id: int, batch: Batch, now: datetime) -> Receipt:
    """Store a batch that is at hand as structs. Raises as `receive` does, and `BatchRejected`."""
    return receive(site_id, arrival_of(batch), now)


def receive(site_id: int, arrival: Arrival, now: datetime) -> Receipt:
    """Store what the agent of `site_id` delivered and say what became of it.

    Raises `BatchTooLarge`, and Django's `OperationalError` where the database is away, too slow or full; then nothing
    is stored and the batch can be sent again. A result that the database cannot store is refused with its reason.
    """
    results = _sort(site_id, arrival, now)
    try:
        return _stored(site_id, arrival, results, now)
    except CANNOT_BE_STORED as error:
        if reason_of(error) is None:
            raise
        logger.warning("site %d, batch %d: %s; looking for its results", site_id, arrival.envelope.number, error)
    _refuse_culprits(site_id, arrival, results, now)
    return _stored(site_id, arrival, results, now)


def _stored(site_id: int, arrival: Arrival, results: Sorted, now: datetime) -> Receipt:
    """Store a batch in one transaction."""
    with transaction.atomic(durable=True):
        _take_turn(site_id)
        _keep_to_earlier_refusals(site_id, arrival, results)
        is_new = _record_batch(site_id, arrival, results, now)
        _record_refused(site_id, arrival, results, now)
        _record_days(site_id, arrival, results, now)
        _store_results(results, now, all_new=is_new)
        _record_account(site_id, arrival, now)
    refused = tuple(Refusal(sequence=sequence, reason=reason) for sequence, reason in sorted(results.reasons.items()))
    return Receipt(number=arrival.envelope.number, accepted=len(results), refused=refused)


def _store_results(results: Sorted, now: datetime, *, all_new: bool) -> None:
    """Store all that was measured, each kind in its tables. To be called within a transaction."""
    store_bursts(results.bursts, now, all_new=all_new)
    store_throughput([run for run in results.runs if isinstance(run.result, CheckedRun)], now)
    end_slots([run for run in results.runs if isinstance(run.result, CheckedRun | CheckedServed)])
    store_disk_to_disk([run for run in results.runs if isinstance(run.result, CheckedDiskToDisk)])
    store_capacities([run for run in results.runs if isinstance(run.result, CheckedCapacity)])
    record_cycles(results.cycles.values(), now + CLOCK_SKEW)


def _refuse_culprits(site_id: int, arrival: Arrival, results: Sorted, now: datetime) -> None:
    """Refuse the results that the database cannot store. Nothing is stored here."""
    with transaction.atomic(durable=True):
        _take_turn(site_id)
        culprits = find_culprits(results, lambda part: _store_results(part, now, all_new=True))
        transaction.set_rollback(True)
    for place in range(len(arrival)):
        sequence = arrival.sequence_at(place)
        if sequence in culprits:
            results.refuse(sequence, culprits[sequence], place)
    results.drop_refused()


def _record_account(site_id: int, arrival: Arrival, now: datetime) -> None:
    """Keep what the agent said of cycles without a result; one that cannot be stored spoils no delivery."""
    account = arrival.account()
    if account is None:
        return
    try:
        with transaction.atomic():
            record_account(site_id, account, now)
    except CANNOT_BE_STORED as error:
        if reason_of(error) is None:
            raise
        logger.warning("site %d: its account of cycles is not kept: %s", site_id, error)


def _sort(site_id: int, arrival: Arrival, now: datetime) -> Sorted:
    """Read and check all results. Raises `BatchTooLarge`."""
    earliest = {kind: max(EARLIEST, retention.kept_since(name, now)) for kind, name in KINDS.items()}
    known = Known(site_id, {}, {}, earliest, now + CLOCK_SKEW)
    results = Sorted()
    rows = []
    packed_bytes = 0
    for places in arrival.portions():
        sound = _sound(arrival, places, known, results)
        rows.append(pack([one for one in sound if type(one.result) is CheckedBurst]))
        packed_bytes += sum(map(len, rows[-1].packed))
        if packed_bytes > LARGEST_PACKED_BYTES:
            raise BatchTooLarge(f"its rows take more than {LARGEST_PACKED_BYTES} bytes; send smaller batches")
        results.runs += [one for one in sound if type(one.result) is not CheckedBurst]
    results.bursts = joined(rows)
    return results


def _sound(arrival: Arrival, places: range, known: Known, results: Sorted) -> list[CheckedDelivered]:
    """Those of the results at these places that can be stored. The others are refused."""
    read, unreadable = arrival.read(places)
    for one in unreadable:
        results.refuse(one.sequence, one.reason, one.place)
    _learn(known, read.values())
    sound = []
    for place, delivered in read.items():
        reason = reason_to_refuse(delivered, known)
        if reason is None:
            sound.append(delivered)
            cycle = reported_cycle(delivered)
            if cycle is not None:
                results.cycles[delivered.sequence] = cycle
        else:
            results.refuse(delivered.sequence, reason, place)
    return sound


def _learn(known: Known, results: Collection[CheckedDelivered]) -> None:
    """The paths and slots that the results name and that are not known yet; two queries whatever their number."""
    path_ids = {one.path_id for one in results if 0 < one.path_id <= LARGEST_INTEGER} - known.paths.keys()
    slot_ids = {
        one.slot_id for one in results if one.slot_id is not None and 0 < one.slot_id <= LARGEST_BIGINT
    } - known.slots.keys()
    with connection.cursor() as cursor:
        if path_ids:
            cursor.execute(statement("known_paths"), {"path_ids": list(path_ids)})
            known.paths.update((path_id, KnownPath(*of_path)) for path_id, *of_path in cursor.fetchall())
        if slot_ids:
            cursor.execute(statement("known_slots"), {"slot_ids": list(slot_ids)})
            known.slots.update(cursor.fetchall())


def _take_turn(site_id: int) -> None:
    """Wait until no other delivery of this site is being stored, but not for long, as for everything that follows.

    Whoever comes second then sees what the first one refused. Deliveries of different sites share no rows but slots.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            statement("take_turn"),
            {"site_id": site_id, "lock_timeout": f"{LOCK_TIMEOUT_S}s", "statement_timeout": f"{STATEMENT_TIMEOUT_S}s"},
        )


def _keep_to_earlier_refusals(site_id: int, arrival: Arrival, results: Sorted) -> None:
    """Asked by range: a batch is a stretch of its spool; a list of thousands is slow."""
    numbers = results.sequences()
    if not len(numbers):
        return
    earlier = RefusedResult.objects.filter(
        site_id=site_id, spool=arrival.envelope.spool, sequence__range=(int(numbers.min()), int(numbers.max()))
    ).values_list("sequence", "reason")
    results.reasons.update((sequence, reason) for sequence, reason in earlier if sequence in numbers)
    results.drop_refused()


def _record_batch(site_id: int, arrival: Arrival, results: Sorted, now: datetime) -> bool:
    """Note the batch; whether its number was not there before. Number 0 only asks whether we can read it."""
    envelope = arrival.envelope
    if envelope.number == 0:
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            statement("record_batch"),
            {
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
            },
        )
        return cursor.rowcount == 1


def _record_refused(site_id: int, arrival: Arrival, results: Sorted, now: datetime) -> None:
    """Keep the refused results, some at a time: written out they can be larger than the batch."""
    places = sorted(results.places.items())
    for first in range(0, len(places), REFUSED_AT_ONCE):
        rows = [
            RefusedResult(
                site_id=site_id,
                spool=arrival.envelope.spool,
                sequence=sequence,
                refused_at=now,
                reason=results.reasons[sequence],
                result=Value(arrival.as_json(place), JSONField()),  # else a result that is null would be no result
            )
            for sequence, place in places[first : first + REFUSED_AT_ONCE]
        ]
        RefusedResult.objects.bulk_create(rows, ignore_conflicts=True)
    if places:
        retention.bound_refused(site_id)


def _record_days(site_id: int, arrival: Arrival, results: Sorted, now: datetime) -> None:
    """Note which numbers came for which day."""
    sequences, days = _days(results, now)
    which = np.unique(days)
    with connection.cursor() as cursor:
        cursor.execute(
            statement("record_days"),
            {
                "site_id": site_id,
                "spool": arrival.envelope.spool,
                "days": [(EPOCH + timedelta(days=day)).date() for day in which.tolist()],
                "sequences": [_ranges(sequences[days == day]) for day in which],
            },
        )


def _days(results: Sorted, now: datetime) -> tuple[Integers, Integers]:
    """The numbers in a batch, and for each the day since 2000 on which its result began. A refused result has come too,
    and may have no day that one could believe: it goes with the first that was accepted, or today. A number that one
    could not believe either is left out."""
    refused = np.array([sequence for sequence in results.reasons if 0 <= sequence <= LARGEST_SEQUENCE], np.int64)
    ran = np.array([(run.sequence, microseconds(run.result.started_at)) for run in results.runs], np.int64)
    run_sequences, runs_us = ran.reshape(-1, 2).T
    started_us = np.concatenate([results.bursts.measured_us, runs_us])
    refused_us = np.full(len(refused), started_us[0] if len(started_us) else microseconds(now))
    sequences = np.concatenate([results.bursts.sequence, run_sequences, refused])
    return sequences, np.concatenate([started_us, refused_us]) // DAY_US


def _ranges(numbers: Integers) -> str:
    """Numbers as PostgreSQL writes an int8multirange."""
    ordered = np.unique(numbers)
    stretches = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return "{" + ",".join(f"[{stretch[0]},{stretch[-1]}]" for stretch in stretches) + "}"
