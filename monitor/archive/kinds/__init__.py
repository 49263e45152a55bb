"""The kinds that have a table of their own: a registry by name."""

from __future__ import annotations

from monitor.archive.kinds import capacity, disk_to_disk, idle_restart, policer, request_response
from monitor.archive.kinds.kind import ResultKind

RESULT_KINDS: dict[str, ResultKind] = {
    result_kind.kind.name: result_kind
    for result_kind in (
        capacity.KIND,
        disk_to_disk.KIND,
        policer.KIND,
        request_response.KIND,
        idle_restart.KIND,
    )
}
