"""Check for `site doctor`: whether disk-to-disk tests may and can write their file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.contract import CheckResult
from probes.disk_to_disk.limits import DiskLimits
from probes.disk_to_disk.scratch import DiskFailure, free_bytes, scratch_file
from probes.disk_to_disk.spec import DiskToDiskSlot


def check_disk(disk: DiskLimits, slots: Sequence[DiskToDiskSlot]) -> Iterator[CheckResult]:
    folder = disk.folder
    planned_bytes = max((slot.spec.file_bytes for slot in slots), default=0)
    if not folder:
        if planned_bytes:
            fix = "name a folder as disk.folder in limits.toml, or let the centre plan none here"
            yield CheckResult(check="disk", detail="the plan has disk-to-disk tests, and no folder is named", fix=fix)
        return
    try:
        with scratch_file(folder):
            rule = disk.forbids_file(planned_bytes) or disk.forbids_room(planned_bytes, free_bytes(folder))
    except DiskFailure as error:
        yield CheckResult(
            check="disk", detail=str(error), fix="let the agent's user write there, or name another folder"
        )
        return
    needed = None if rule is None else "make room, change the rule, or ask for a smaller file_bytes in mesh.toml"
    yield CheckResult(check="disk", detail=rule or f"{folder} takes files of disk-to-disk tests", fix=needed)
