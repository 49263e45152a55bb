"""Registry of the centre's half of each kind, by name, for mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monitor.mesh.document.entries import TestEntry
from monitor.mesh.kinds import (
    aggregate,
    capacity,
    disk_to_disk,
    idle_restart,
    interface,
    ping,
    policer,
    request_response,
    stamp,
    tcp_ping,
    throughput,
    trace,
)
from monitor.mesh.kinds.kind import MeshKind

SOURCE, DESTINATION = "source", "destination"

MESH_KINDS: dict[str, MeshKind] = {
    mesh_kind.kind.name: mesh_kind
    for mesh_kind in (
        ping.KIND,
        throughput.KIND,
        capacity.KIND,
        disk_to_disk.KIND,
        trace.KIND,
        stamp.KIND,
        tcp_ping.KIND,
        policer.KIND,
        request_response.KIND,
        aggregate.KIND,
        idle_restart.KIND,
        interface.KIND,
    )
}


def filling_s(kind: str, parameters: Mapping[str, Any]) -> int:
    """Time in whole seconds for which a test loads its path."""
    return _slot_length(kind, MESH_KINDS[kind].filling_s, parameters)


def slot_s(kind: str, parameters: Mapping[str, Any]) -> int:
    """Time in whole seconds for which a test occupies its hosts."""
    return _slot_length(kind, MESH_KINDS[kind].slot_s, parameters)


def stored_in(table: str) -> list[str]:
    return [name for name, mesh_kind in MESH_KINDS.items() if mesh_kind.table == table]


def _slot_length(kind: str, length_s: Callable[[Mapping[str, Any]], int] | None, parameters: Mapping[str, Any]) -> int:
    if length_s is None:
        raise ValueError(f"{kind} tests have no slots")
    return length_s(parameters)


def listening_ends(test: TestEntry) -> tuple[str, ...]:
    """Ends that the other may connect or send to in a test."""
    mesh_kind = MESH_KINDS[test.kind]
    if mesh_kind.reversed_by is not None:
        return SOURCE, DESTINATION
    if mesh_kind.slot is None:
        return (DESTINATION,)
    return tuple({server.host: None for server in mesh_kind.servers(test, SOURCE, DESTINATION)})


def packet_sizes(test: TestEntry) -> tuple[int, ...]:
    """Packet sizes that identify a test's results, if any."""
    if not MESH_KINDS[test.kind].identified_by_size:
        return ()
    sizes: tuple[int, ...] | int = getattr(test, "packet_bytes", ())
    return (sizes,) if isinstance(sizes, int) else sizes
