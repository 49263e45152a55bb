"""Store results in the tables of their kinds; existing rows are left unchanged.

Takes valid results (`checks`), within the transaction of their batch; also marks the hours of new results and closes
slots.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from django.db import IntegrityError, connection, transaction

from monitor.archive.ingest.binary_copy import Integers, Rows, copy_into, microseconds
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.ingest.rows import row_of
from monitor.archive.kinds.kind import ResultKind
from monitor.archive.models import StoredCapture, ThroughputTest, UndiagnosedTest
from monitor.archive.statements import statement
from monitor.mesh.schedule.endings import close_slot, note_served
from monitor.prepared import array_text, run_prepared
from probes.site.wire import Delivered
from probes.transfers.hosts.spec import HostInventory
from probes.transfers.spec import CapturedHeaders, ServerReport, ThroughputRun

HOUR_US = 3_600_000_000
# Key of the stored report of a listening end, for the inventory of its host.
INVENTORY_ID = "inventory_id"
# More than all hours, so that path and hour make a single integer.
HOURS_OF_A_PATH = 2**32


def store_bursts(rows: Rows, now: datetime, *, all_new: bool) -> None:
    """Store bursts: copied directly if all seem new, else through a staging table."""
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
    """Copy directly; False on a conflict, with nothing copied."""
    try:
        with transaction.atomic():
            copy_into("burst", rows)
    except IntegrityError:
        return False
    return True


def mark_dirty(path_ids: Integers, started_us: Integers, now: datetime) -> None:
    """Mark the measurements' distinct path hours as dirty."""
    hours = np.unique(path_ids * HOURS_OF_A_PATH + started_us // HOUR_US)
    path_of, hour_of = np.divmod(hours, HOURS_OF_A_PATH)
    run_prepared(
        statement("mark_dirty"),
        {"path_ids": array_text(path_of.tolist()), "hours": array_text(hour_of.tolist()), "now": now},
    )


def store_throughput(results: Sequence[Delivered], now: datetime) -> None:
    """Store throughput tests; close slots by both ends' reports."""
    inventory_ids = _store_inventories(results)
    runs = [delivered for delivered in results if isinstance(delivered.result, ThroughputRun)]
    _store_runs(runs, now, inventory_ids)
    store_captures(results)
    _end_slots(results, inventory_ids)


def _store_inventories(results: Sequence[Delivered]) -> dict[bytes, int]:
    newest: dict[bytes, tuple[HostInventory, datetime]] = {}
    for delivered in results:
        said = delivered.result
        if isinstance(said, ThroughputRun | ServerReport) and isinstance(said.inventory, HostInventory):
            digest = digest_of(said.inventory)
            at = max(said.started_at, newest[digest][1]) if digest in newest else said.started_at
            newest[digest] = (said.inventory, at)
    return store_inventories(newest) if newest else {}


def _store_runs(runs: Sequence[Delivered], now: datetime, inventory_ids: Mapping[bytes, int]) -> None:
    """Store new tests, and queue those with intervals for diagnosis."""
    if not runs:
        return
    keys = {(delivered.path_id, delivered.result.started_at) for delivered in runs}
    new = keys - _tests_stored(keys)
    rows = [
        _throughput_test(delivered, inventory_ids)
        for delivered in _by_key(runs)
        if (delivered.path_id, delivered.result.started_at) in new
    ]
    ThroughputTest.objects.bulk_create(rows, ignore_conflicts=True)
    UndiagnosedTest.objects.bulk_create(
        [UndiagnosedTest(path_id=row.path_id, measured_at=row.measured_at) for row in rows if row.transfer is not None],
        ignore_conflicts=True,
    )
    path_ids = np.array([path_id for path_id, _ in new], np.int64)
    mark_dirty(path_ids, np.array([microseconds(at) for _, at in new], np.int64), now)


def _end_slots(results: Sequence[Delivered], inventory_ids: Mapping[bytes, int]) -> None:
    """Close slots in order, once per delivery, to avoid deadlocks."""
    planned = sorted(
        (delivered for delivered in results if delivered.slot_id is not None),
        key=lambda delivered: delivered.slot_id or 0,
    )
    if not planned:
        return
    for delivered in planned:
        said, slot_id = delivered.result, delivered.slot_id or 0
        if isinstance(said, ServerReport):
            note_served(slot_id, _served_report(said, inventory_ids))
        elif isinstance(said, ThroughputRun):
            close_slot(slot_id, said.outcome, said.detail, said.sent_bytes or said.received_bytes)
    with connection.cursor() as cursor:
        cursor.execute(statement("heed_far_end"), {"slot_ids": [delivered.slot_id for delivered in planned]})
        served = [delivered.slot_id for delivered in planned if isinstance(delivered.result, ServerReport)]
        cursor.execute(statement("await_diagnosis_of_slots"), {"slot_ids": served})


def _tests_stored(keys: set[tuple[int, datetime]]) -> set[tuple[int, datetime]]:
    stored = ThroughputTest.objects.filter(
        path_id__in={path_id for path_id, _ in keys}, measured_at__in={at for _, at in keys}
    )
    return set(stored.values_list("path_id", "measured_at"))


def store_rows(kind: ResultKind, results: Sequence[Delivered]) -> None:
    """Store the results of a kind with a table of its own, and close their slots."""
    rows = [row_of(kind.table, delivered, **kind.computed(delivered.result)) for delivered in _by_key(results)]
    kind.table._default_manager.bulk_create(rows, ignore_conflicts=True)
    if kind.slot_bytes is None:
        return
    for delivered in sorted(results, key=lambda delivered: delivered.slot_id or 0):
        if delivered.slot_id is not None:
            run: Any = delivered.result
            close_slot(delivered.slot_id, run.outcome, run.detail, getattr(run, kind.slot_bytes))


def _by_key(runs: Sequence[Delivered]) -> list[Delivered]:
    return sorted(runs, key=lambda delivered: (delivered.path_id, delivered.result.started_at))


def _served_report(said: ServerReport, inventory_ids: Mapping[bytes, int]) -> dict[str, Any]:
    report: dict[str, Any] = for_jsonb(msgspec.structs.replace(said, inventory=msgspec.UNSET, capture=msgspec.UNSET))
    return {**report, INVENTORY_ID: _inventory_id(said, inventory_ids)}


def _inventory_id(said: ThroughputRun | ServerReport, inventory_ids: Mapping[bytes, int]) -> int | None:
    return inventory_ids[digest_of(said.inventory)] if isinstance(said.inventory, HostInventory) else None


def _throughput_test(delivered: Delivered, inventory_ids: Mapping[bytes, int]) -> ThroughputTest:
    run = delivered.result
    assert isinstance(run, ThroughputRun)
    end = "receiver_inventory_id" if run.reverse else "sender_inventory_id"
    return row_of(ThroughputTest, delivered, average_bps=run.throughput_bps, **{end: _inventory_id(run, inventory_ids)})


def store_inventories(times: Mapping[bytes, tuple[HostInventory, datetime]]) -> dict[bytes, int]:
    """Store inventories by digest, in digest order, so that deliveries do not deadlock; return identifiers."""
    ids = {}
    with connection.cursor() as cursor:
        for digest in sorted(times):
            inventory, at = times[digest]
            text = msgspec.json.encode(for_jsonb(inventory)).decode()
            cursor.execute(statement("store_inventory"), {"digest": digest, "inventory": text, "at": at})
            (ids[digest],) = cursor.fetchone()
    return ids


def digest_of(inventory: HostInventory) -> bytes:
    """SHA-256 of the inventory's JSON."""
    return hashlib.sha256(msgspec.json.encode(inventory, order="deterministic")).digest()


def store_captures(results: Sequence[Delivered]) -> None:
    """Store captures; existing rows stay unchanged."""
    rows = [row for delivered in results if (row := _row(delivered)) is not None]
    if rows:
        rows.sort(key=lambda row: (row.slot_id, row.role))
        StoredCapture.objects.bulk_create(rows, ignore_conflicts=True)


def _row(delivered: Delivered) -> StoredCapture | None:
    said = delivered.result
    if not isinstance(said, ThroughputRun | ServerReport) or not isinstance(said.capture, CapturedHeaders):
        return None
    if delivered.slot_id is None:
        return None
    sends = said.sends if isinstance(said, ServerReport) else not said.reverse
    capture = said.capture
    return StoredCapture(
        slot_id=delivered.slot_id,
        role=StoredCapture.SENDER if sends else StoredCapture.RECEIVER,
        path_id=delivered.path_id,
        captured_at=said.started_at,
        packets=capture.packets,
        left_out_packets=capture.left_out_packets,
        parts=msgspec.to_builtins(capture.parts) if capture.parts else None,
        reason=None if capture.packets else capture.reason or "no packets",
        pcap_zlib=capture.pcap_zlib if capture.packets else None,
    )
