"""The registry of all kinds, in the order of a plan's fields."""

from __future__ import annotations

from typing import Any

from probes.aggregate.kind import aggregate_of
from probes.capacity import kind as capacity
from probes.contract import CycleKind, Kind, SlotKind
from probes.disk_to_disk import kind as disk_to_disk
from probes.idle_restart import kind as idle_restart
from probes.interface import kind as interface
from probes.ping import kind as ping
from probes.policer import kind as policer
from probes.request_response import kind as request_response
from probes.stamp import kind as stamp
from probes.tcp_ping import kind as tcp_ping
from probes.throughput import kind as throughput
from probes.trace import kind as trace

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        ping.KIND, throughput.KIND, capacity.KIND, disk_to_disk.KIND, trace.KIND, stamp.KIND, tcp_ping.KIND,
        policer.KIND,
        request_response.KIND,
        aggregate_of(throughput.KIND),
        idle_restart.KIND,
        interface.KIND,
    )
}  # fmt: skip
CYCLE_KINDS = tuple(kind for kind in KINDS.values() if isinstance(kind, CycleKind))
SLOT_KINDS = tuple(kind for kind in KINDS.values() if isinstance(kind, SlotKind))
KIND_OF_SLOT: dict[type[Any], SlotKind] = {kind.task: kind for kind in SLOT_KINDS}
