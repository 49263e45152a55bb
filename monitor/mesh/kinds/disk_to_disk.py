"""Disk-to-disk tests of mesh.toml, and their part of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from monitor.mesh.document.entries import Doc, TestKind, TestName
from monitor.mesh.document.fields import Fields
from monitor.mesh.kinds.kind import DAY_S, Length, MeshKind
from probes.disk_to_disk.kind import KIND as DISK_TO_DISK
from probes.disk_to_disk.spec import SLOT_MARGIN_S, STEPS, DiskToDiskSlot, DiskToDiskSpec, slot_length_s

if TYPE_CHECKING:
    from monitor.mesh.models import Site, Slot


@dataclass(frozen=True, slots=True)
class DiskToDiskEntry:
    name: TestName
    every_s: Annotated[int, Doc("Period: each path has a test in each period.")] = 21_600
    tool: Annotated[str, Doc("Program that transfers: our own parallel streams, or `iperf3 -F`.")] = "fetch"
    file_bytes: Annotated[int, Doc("Size of the file.")] = 500_000_000
    duration_s: Annotated[int, Doc("Maximum length of each of the two transfers.")] = 10
    streams: Annotated[int, Doc("Number of parallel streams; iperf3 allows 1, which is then the default.")] = 4
    port: Annotated[int, Doc("Port on which the ends listen.")] = 5201

    kind: TestKind = dataclasses.field(default="disk-to-disk", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.disk_to_disk.spec.DiskToDiskSpec` without the addresses."""
        return {
            "tool": self.tool,
            "file_bytes": self.file_bytes,
            "duration_s": self.duration_s,
            "streams": self.streams,
            "port": self.port,
        }


def _read(table: Fields, name: str) -> DiskToDiskEntry:
    tool = table.text("tool", default="fetch")
    tool_is_valid = table.one_of("tool", tool, ("fetch", "iperf3"))
    test = DiskToDiskEntry(
        name=name,
        every_s=table.integer("every_s", low=60, high=DAY_S, default=21_600),
        tool=tool,
        file_bytes=table.integer("file_bytes", low=1_000_000, high=10**13, default=500_000_000),
        duration_s=table.integer("duration_s", low=1, high=3600, default=10),
        streams=table.integer("streams", low=1, high=128, default=1 if tool == "iperf3" else 4),
        port=table.integer("port", low=1, high=65_535, default=5201),
    )
    if tool_is_valid and tool == "iperf3" and test.streams > 1:
        table.problem(
            'iperf3 writes the streams over each other in one file; take streams out, or tool = "fetch"', "streams"
        )
    return test


def _slot_s(parameters: Mapping[str, Any]) -> int:
    return slot_length_s(int(parameters["duration_s"]))


def _length(test: DiskToDiskEntry) -> Length:
    reason = f"{STEPS} × {test.duration_s} s + {SLOT_MARGIN_S} s between tests"
    return Length(_slot_s(test.parameters), reason)


def _slot(slot: Slot, site: Site, secrets: Mapping[str, str | None]) -> DiskToDiskSlot:
    """Slot of a disk-to-disk test. The source of a path sends and reports; the receiver connects to it, so both get
    both addresses."""
    path = slot.measurement.path
    ends = {"address": path.destination.address, "source": path.source.address, "family": path.family}
    return DiskToDiskSlot(
        slot_id=slot.pk,
        path_id=path.pk,
        test=slot.measurement.test.name,
        role="client" if path.source.site_id == site.pk else "server",
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        spec=msgspec.convert({**slot.parameters, **ends, **secrets}, DiskToDiskSpec),
    )


KIND = MeshKind(
    kind=DISK_TO_DISK,
    entry=DiskToDiskEntry,
    read=_read,
    table="disk_to_disk_test",
    length=_length,
    slot=_slot,
    filling_s=lambda parameters: 2 * int(parameters["duration_s"]),
    slot_s=_slot_s,
)
