"""A batch of results into the archive, exactly once.

In: what a site's agent delivered. Out: a receipt, after the commit. Results are checked one by one; what can never be
stored is set aside with its reason, the rest is stored, all in one transaction. Delivering again, in any order, in
parts or by two connections at once, changes nothing and is answered the same. Summaries are made by `rollups`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection, transaction

from monitor.archive.checks import LARGEST_BIGINT, LARGEST_INTEGER, Known, KnownPath, check_batch, reason_to_refuse
from monitor.archive.copying import stage_bursts
from monitor.archive.models import ReceivedBatch, RefusedResult, ThroughputTest
from monitor.archive.statements import statement
from monitor.mesh.models import Path, Slot
from monitor.mesh.slots import close_slot
from probes.ping.spec import Burst
from probes.site.wire import Batch, Delivered, Receipt, Refusal
from probes.throughput.spec import ThroughputRun


def store(site_id: int, batch: Batch, now: datetime) -> Receipt:
    """Store a batch of the agent of `site_id` and say what became of it.

    Raises `BatchRejected` where the batch's own fields cannot be stored, and Django's `OperationalError` where the
    database is away; then nothing is stored and the batch can be sent again.
    """
    check_batch(batch)
    with transaction.atomic(durable=True):
        reasons = _reasons(site_id, batch, now)
        accepted = [delivered for delivered in batch.results if delivered.sequence not in reasons]
        _record_batch(site_id, batch, now, len(accepted))
        _record_refused(site_id, batch, reasons, now)
        _store_bursts([delivered for delivered in accepted if isinstance(delivered.result, Burst)], now)
        _store_throughput([delivered for delivered in accepted if isinstance(delivered.result, ThroughputRun)])
    refused = tuple(Refusal(sequence=sequence, reason=reason) for sequence, reason in sorted(reasons.items()))
    return Receipt(number=batch.number, accepted=len(accepted), refused=refused)


def _reasons(site_id: int, batch: Batch, now: datetime) -> dict[int, str]:
    """Sequence number and reason of each refused result. What was refused once stays so: its agent was told."""
    known = _known(site_id, batch.results)
    reasons = _refused_before(site_id, batch)
    for delivered in batch.results:
        if delivered.sequence not in reasons:
            reason = reason_to_refuse(delivered, known, now)
            if reason is not None:
                reasons[delivered.sequence] = reason
    return reasons


def _refused_before(site_id: int, batch: Batch) -> dict[int, str]:
    """Reasons by sequence number. Asked by range: a batch is a stretch of its spool; a list of thousands is slow."""
    if not batch.results:
        return {}
    numbers = {delivered.sequence for delivered in batch.results}
    earlier = RefusedResult.objects.filter(
        site_id=site_id, spool=batch.spool, sequence__gte=min(numbers), sequence__lte=max(numbers)
    ).values_list("sequence", "reason")
    return {sequence: reason for sequence, reason in earlier if sequence in numbers}


def _known(site_id: int, results: Iterable[Delivered]) -> Known:
    """The paths and slots that the results name; two queries whatever their number."""
    path_ids = {delivered.path_id for delivered in results if 0 < delivered.path_id <= LARGEST_INTEGER}
    slot_ids = {
        delivered.slot_id
        for delivered in results
        if delivered.slot_id is not None and 0 < delivered.slot_id <= LARGEST_BIGINT
    }
    paths = Path.objects.filter(id__in=path_ids).values_list("id", "source__site_id", "family")
    slots = Slot.objects.filter(id__in=slot_ids).values_list("id", "measurement__path_id")
    return Known(site_id, {path_id: KnownPath(site, family) for path_id, site, family in paths}, dict(slots))


def _record_batch(site_id: int, batch: Batch, now: datetime, accepted: int) -> None:
    """Note the batch. First of all writes: a second delivery at the same time waits here until the first is done."""
    row = ReceivedBatch(
        site_id=site_id,
        spool=batch.spool,
        number=batch.number,
        received_at=now,
        sent_at=batch.sent_at,
        agent_version=batch.agent_version,
        accepted=accepted,
        refused=len(batch.results) - accepted,
        queued=batch.queued,
        dropped=batch.dropped,
    )
    ReceivedBatch.objects.bulk_create([row], ignore_conflicts=True)


def _record_refused(site_id: int, batch: Batch, reasons: Mapping[int, str], now: datetime) -> None:
    refused = {delivered.sequence: delivered for delivered in batch.results if delivered.sequence in reasons}
    rows = [
        RefusedResult(
            site_id=site_id,
            spool=batch.spool,
            sequence=sequence,
            refused_at=now,
            reason=reasons[sequence].replace("\0", "\ufffd"),
            result=_as_json(delivered),
        )
        for sequence, delivered in sorted(refused.items())
    ]
    RefusedResult.objects.bulk_create(rows, ignore_conflicts=True)


def _as_json(value: Any) -> Any:
    """What PostgreSQL's jsonb can hold of `value`: NaN as null, and no NUL characters."""
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"\\u0000", b"\\ufffd"))


def _store_bursts(bursts: list[Delivered], now: datetime) -> None:
    if not bursts:
        return
    stage_bursts(bursts)
    with connection.cursor() as cursor:
        cursor.execute(statement("store_bursts"), {"now": now})


def _store_throughput(runs: list[Delivered]) -> None:
    runs.sort(key=lambda delivered: (delivered.path_id, delivered.result.started_at))
    ThroughputTest.objects.bulk_create([_throughput_row(delivered) for delivered in runs], ignore_conflicts=True)
    planned = [delivered for delivered in runs if delivered.slot_id is not None]
    for delivered in sorted(planned, key=lambda delivered: delivered.slot_id or 0):
        assert delivered.slot_id is not None
        close_slot(delivered.slot_id, delivered.result.outcome, delivered.result.detail or "")


def _throughput_row(delivered: Delivered) -> ThroughputTest:
    run = delivered.result
    assert isinstance(run, ThroughputRun)
    return ThroughputTest(
        path_id=delivered.path_id,
        measured_at=run.started_at,
        test=delivered.test,
        slot_id=delivered.slot_id,
        outcome=run.outcome.value,
        streams=run.streams,
        duration_s=run.duration_s,
        throughput_bps=run.throughput_bps,
        sent_bytes=run.sent_bytes,
        received_bytes=run.received_bytes,
        retransmits=run.retransmits,
        rtt_mean_ms=run.rtt_mean_ms,
        congestion_control=run.congestion_control,
        tool=run.tool,
        detail=run.detail,
        intervals=_as_json(run.intervals),
    )
