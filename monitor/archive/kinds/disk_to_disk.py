"""Disk-to-disk measurements in the archive, with their limit by `monitor.analysis.transfer.disks`."""

from __future__ import annotations

from typing import Any

from monitor.analysis.transfer import DiskToDisk, network_or_disk
from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.models.results import DiskToDiskTest
from probes.contract import Outcome
from probes.disk_to_disk.kind import KIND as DISK_TO_DISK
from probes.disk_to_disk.spec import DiskToDiskRun

DESCRIPTION = """\
A disk-to-disk measurement. `disk_to_disk_bps` counts until the receiver's disk had all of the file,
`memory_to_memory_bps` is of the same streams without disks, `read_bps` and `write_bps` are each end's disk alone.
Rates are null unless the outcome is `measured`; `verdict` is the limit, `sentence` adds its evidence."""


def find_contradiction(run: DiskToDiskRun) -> str | None:
    measured = run.outcome is Outcome.MEASURED
    if measured and run.disk_to_disk_bps is None:
        return "measured, but without disk_to_disk_bps"
    for name in ("disk_to_disk_bps", "memory_to_memory_bps", "read_bps", "write_bps"):
        if not measured and getattr(run, name) is not None:
            return f"{run.outcome}, but with {name} {getattr(run, name)}"
    if run.moved_bytes is not None and run.moved_bytes > (run.file_bytes or 0):
        return f"moved_bytes {run.moved_bytes} is more than file_bytes {run.file_bytes}"
    return None


def _computed(run: DiskToDiskRun) -> dict[str, Any]:
    """The limit of the transfer; nothing where nothing was measured."""
    if run.disk_to_disk_bps is None:
        return {}
    finding = network_or_disk(
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
    return {} if finding is None else {"verdict": finding.limit.value, "sentence": finding.sentence}


def _memory_bytes(run: DiskToDiskRun) -> int | None:
    if run.carried_bytes is None or run.moved_bytes is None:
        return None
    return run.carried_bytes - run.moved_bytes


def _seconds(moved_bytes: int | None, rate_bps: float | None) -> float | None:
    return None if moved_bytes is None or not rate_bps else 8 * moved_bytes / rate_bps


KIND = ResultKind(
    kind=DISK_TO_DISK,
    table=DiskToDiskTest,
    contradiction=find_contradiction,
    computed=_computed,
    slot_bytes="carried_bytes",
    answer=ApiAnswer(
        schema="DiskToDiskOut",
        operation_id="monitor_api_users_get_disk_to_disk",
        summary="Disk-to-disk tests of a path with their limits, failed ones included",
        description=DESCRIPTION,
    ),
)
