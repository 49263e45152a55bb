"""Results of each kind into their tables, those that are there already left as they are.

In: sound results, within the transaction of their batch. Out: rows in `burst`, `throughput_test` and `capacity_result`,
marks of the hours that new bursts and tests began in, slots closed. What is sound is decided by `checks`; what a
throughput test says is told afterwards by `diagnosing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from django.db import IntegrityError, connection, transaction

from monitor.archive.ingest.arrivals import for_jsonb
from monitor.archive.ingest.copying import Integers, Rows, copy_into, microseconds
from monitor.archive.models import CapacityResult, ThroughputTest, UndiagnosedTest
from monitor.archive.statements import statement
from monitor.mesh.endings import close_slot, note_served
from probes.capacity.spec import CapacityRun
from probes.site.wire import Delivered
from probes.throughput.spec import Served, ThroughputRun

HOUR_US = 3_600_000_000
HOURS_OF_A_PATH = 2**32
"""More than there are hours, so that path and hour are one number."""


def store_bursts(rows: Rows, now: datetime, *, all_new: bool) -> None:
    """Straight into the table where all seem to be new; by way of a staging table where some are there already."""
    if not len(rows):
        return
    rows = rows.by_key()
    if all_new and _copied_whole(rows):
        mark_dirty(rows.path_id, rows.measured_us, now)
        return
    with connection.cursor() as cursor:
        cursor.execute(statement("staged_burst"))
        copy_into("staged_burst", rows)
        cursor.execute(statement("store_bursts"), {"now": now})


def _copied_whole(rows: Rows) -> bool:
    """Whether the rows could be copied as they are; if not, none was."""
    try:
        with transaction.atomic():
            copy_into("burst", rows)
    except IntegrityError:
        return False
    return True


def mark_dirty(path_ids: Integers, started_us: Integers, now: datetime) -> None:
    """Mark the hours of paths in which something began, each once."""
    hours = np.unique(path_ids * HOURS_OF_A_PATH + started_us // HOUR_US)
    path_of, hour_of = np.divmod(hours, HOURS_OF_A_PATH)
    with connection.cursor() as cursor:
        cursor.execute(statement("mark_dirty"), {"path_ids": path_of.tolist(), "hours": hour_of.tolist(), "now": now})


def store_throughput(runs: Sequence[Delivered], now: datetime) -> None:
    """Throughput tests; those with intervals await their diagnosis."""
    if not runs:
        return
    keys = {(one.path_id, one.result.started_at) for one in runs}
    new = keys - _tests_stored(keys)
    rows = [_throughput_test(one) for one in _by_key(runs) if (one.path_id, one.result.started_at) in new]
    ThroughputTest.objects.bulk_create(rows, ignore_conflicts=True)
    UndiagnosedTest.objects.bulk_create(
        [UndiagnosedTest(path_id=row.path_id, measured_at=row.measured_at) for row in rows if row.transfer is not None],
        ignore_conflicts=True,
    )
    path_ids = np.array([path_id for path_id, _ in new], np.int64)
    mark_dirty(path_ids, np.array([microseconds(at) for _, at in new], np.int64), now)


def end_slots(results: Sequence[Delivered]) -> None:
    """What both kinds of ends say of their slots: those that connected with their tests, those that listened with what
    they served. A test whose other end is heard later is diagnosed anew.

    To be called once in a delivery: two sites may speak of the same slots, and each changes them in their order.
    """
    planned = sorted((one for one in results if one.slot_id is not None), key=lambda one: one.slot_id or 0)
    if not planned:
        return
    for one in planned:
        said, slot_id = one.result, one.slot_id or 0
        if isinstance(said, Served):
            note_served(slot_id, for_jsonb(said))
        elif isinstance(said, ThroughputRun):
            close_slot(slot_id, said.outcome, said.detail, said.sent_bytes or said.received_bytes)
    with connection.cursor() as cursor:
        cursor.execute(statement("heed_far_end"), {"slot_ids": [one.slot_id for one in planned]})
        served = [one.slot_id for one in planned if isinstance(one.result, Served)]
        cursor.execute(statement("await_diagnosis_of_slots"), {"slot_ids": served})


def _tests_stored(keys: set[tuple[int, datetime]]) -> set[tuple[int, datetime]]:
    """The keys of those that are there already, among others."""
    stored = ThroughputTest.objects.filter(
        path_id__in={path_id for path_id, _ in keys}, measured_at__in={at for _, at in keys}
    )
    return set(stored.values_list("path_id", "measured_at"))


def store_capacities(runs: Sequence[Delivered]) -> None:
    """Estimates of the narrowest link."""
    if runs:
        CapacityResult.objects.bulk_create([_capacity_result(one) for one in _by_key(runs)], ignore_conflicts=True)


def _by_key(runs: Sequence[Delivered]) -> list[Delivered]:
    return sorted(runs, key=lambda delivered: (delivered.path_id, delivered.result.started_at))


def _throughput_test(delivered: Delivered) -> ThroughputTest:
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
        average_bps=run.throughput_bps,
        protocol=run.protocol,
        asked_bps=run.asked_bps,
        sent_bytes=run.sent_bytes,
        received_bytes=run.received_bytes,
        retransmits=run.retransmits,
        rtt_mean_ms=run.rtt_mean_ms,
        congestion_control=run.congestion_control,
        tool=run.tool,
        detail=run.detail,
        transfer=for_jsonb(run.transfer),
    )


def _capacity_result(delivered: Delivered) -> CapacityResult:
    run = delivered.result
    assert isinstance(run, CapacityRun)
    return CapacityResult(
        path_id=delivered.path_id,
        measured_at=run.started_at,
        test=delivered.test,
        outcome=run.outcome.value,
        verdict=None if run.verdict is None else run.verdict.value,
        capacity_bps=run.capacity_bps,
        capacity_low_bps=run.capacity_low_bps,
        capacity_high_bps=run.capacity_high_bps,
        packet_bytes=run.packet_bytes,
        sent=run.sent,
        received=run.received,
        method=run.method,
        during_test=delivered.during_test,
        address=run.address,
        detail=run.detail,
    )
