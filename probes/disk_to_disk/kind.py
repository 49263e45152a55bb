"""The kind `disk-to-disk`: a file transfer, reported by the sender."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from probes.contract import CheckResult, Command, FarEnd, Probe, SlotKind
from probes.disk_to_disk.limits import DiskLimits
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSlot, DiskToDiskSpec, PermittedSpec, not_measured


def _probe() -> Probe[PermittedSpec, DiskToDiskRun]:
    from probes.disk_to_disk.probe import DiskToDiskProbe

    return DiskToDiskProbe()


def _far_end() -> FarEnd:
    from probes.disk_to_disk.probe import ReceivingEnd

    return ReceivingEnd()


def _forbids(limits: Any, spec: DiskToDiskSpec) -> str | None:
    # Free space is checked last, in permitted folders only.
    from probes.disk_to_disk.scratch import free_bytes

    disk: DiskLimits = limits.disk
    return disk.forbids_file(spec.file_bytes) or disk.forbids_room(spec.file_bytes, free_bytes(disk.folder))


def _check(limits: Any, slots: Sequence[DiskToDiskSlot]) -> Iterable[CheckResult]:
    from probes.disk_to_disk.check import check_disk

    return check_disk(limits.disk, slots)


KIND = SlotKind(
    name="disk-to-disk",
    task=DiskToDiskSlot,
    results=(DiskToDiskRun,),
    hours="throughput",
    limits={"disk": DiskLimits},
    probe=_probe,
    far_end=_far_end,
    not_measured=not_measured,
    carried_bits=lambda run, seconds: 8.0 * (run.carried_bytes or 0),
    listening_roles=("client", "server"),
    permitted=lambda spec, limits: PermittedSpec(spec=spec, folder=limits.disk.folder),
    forbids=_forbids,
    check=_check,
    command=Command(
        "probes.disk_to_disk.command", "test a disk-to-disk transfer and tell network limits from disk limits"
    ),
)
