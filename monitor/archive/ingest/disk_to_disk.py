"""Store disk-to-disk measurements with their verdict, and close their slots.

In: checked results, within the transaction of their batch. `monitor.analysis.transfer.disks` finds the limit of a file
transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from monitor.analysis.transfer import DiskFinding, DiskToDisk, network_or_disk
from monitor.archive.ingest.rows import row_of
from monitor.archive.models import DiskToDiskTest
from monitor.mesh.schedule.endings import close_slot
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.site.wire import Delivered


def store_disk_to_disk(runs: Sequence[Delivered], now: datetime) -> None:
    """Store new measurements and the outcomes of their slots; existing rows are left unchanged."""
    ordered = sorted(runs, key=lambda delivered: (delivered.path_id, delivered.result.started_at))
    DiskToDiskTest.objects.bulk_create([_row(delivered) for delivered in ordered], ignore_conflicts=True)
    for delivered in sorted(runs, key=lambda delivered: delivered.slot_id or 0):
        if delivered.slot_id is not None:
            run = delivered.result
            assert isinstance(run, DiskToDiskRun)
            close_slot(delivered.slot_id, run.outcome, run.detail, run.carried_bytes)


def _row(delivered: Delivered) -> DiskToDiskTest:
    run = delivered.result
    assert isinstance(run, DiskToDiskRun)
    finding = _finding(run)
    return row_of(
        DiskToDiskTest,
        delivered,
        verdict=None if finding is None else finding.limit.value,
        sentence=None if finding is None else finding.sentence,
    )


def _finding(run: DiskToDiskRun) -> DiskFinding | None:
    """Limit of the transfer; None where nothing was measured."""
    if run.disk_to_disk_bps is None:
        return None
    return network_or_disk(
        DiskToDisk(
            disk_to_disk_bps=run.disk_to_disk_bps,
            memory_to_memory_bps=run.memory_to_memory_bps,
            read_bps=run.read_bps,
            write_bps=run.write_bps,
            read_cached_ratio=run.read_cached_ratio,
            file_s=_seconds(run.moved_bytes, run.disk_to_disk_bps),
            memory_s=_seconds(_memory_bytes(run), run.memory_to_memory_bps),
        )
    )


def _memory_bytes(run: DiskToDiskRun) -> int | None:
    """Bytes of the transfer from memory to memory."""
    if run.carried_bytes is None or run.moved_bytes is None:
        return None
    return run.carried_bytes - run.moved_bytes


def _seconds(moved_bytes: int | None, rate_bps: float | None) -> float | None:
    return None if moved_bytes is None or not rate_bps else 8 * moved_bytes / rate_bps
