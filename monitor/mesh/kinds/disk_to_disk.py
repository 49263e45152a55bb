"""Disk-to-disk tests in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, Length, ListeningPort, MeshKind, slot_maker
from probes.disk_to_disk.kind import KIND as DISK_TO_DISK
from probes.disk_to_disk.spec import SLOT_MARGIN_S, STEPS, DiskToDiskSlot, DiskToDiskSpec, slot_length_s
from probes.toml.keys import meaning
from probes.toml.tables import Table


class DiskToDiskEntry(TestKeys, frozen=True, tag="disk-to-disk"):
    """Transfer of a file, with the rates of network and disks."""

    name: TestName
    every_s: Annotated[int, Meta(ge=60, le=DAY_S), meaning("Period: each path has a test in each period.")] = 21_600
    tool: Annotated[
        Literal["fetch", "iperf3"], meaning("Program that transfers: our own parallel streams, or `iperf3 -F`.")
    ] = "fetch"
    file_bytes: Annotated[int, Meta(ge=1_000_000, le=10**13), meaning("Size of the file.")] = 500_000_000
    duration_s: Annotated[int, Meta(ge=1, le=3600), meaning("Maximum length of each of the two transfers.")] = 10
    streams: Annotated[
        Annotated[int, Meta(ge=1, le=128)] | None,
        meaning("Number of parallel streams. Default: 4, with iperf3 1, the only number that it allows."),
    ] = None
    port: Annotated[int, Meta(ge=1, le=65_535), meaning("Port on which the ends listen.")] = 5201

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "tool": self.tool,
            "file_bytes": self.file_bytes,
            "duration_s": self.duration_s,
            "streams": self.streams or (1 if self.tool == "iperf3" else 4),
            "port": self.port,
        }


def _check_table(table: Table) -> None:
    if table.get("tool") == "iperf3" and (table.get("streams") or 1) > 1:
        table.problem(
            'iperf3 writes the streams over each other in one file; take streams out, or tool = "fetch"', "streams"
        )


def _slot_s(parameters: Mapping[str, Any]) -> int:
    return slot_length_s(int(parameters["duration_s"]))


def _length(test: DiskToDiskEntry) -> Length:
    reason = f"{STEPS} × {test.duration_s} s + {SLOT_MARGIN_S} s between tests"
    return Length(_slot_s(test.parameters), reason)


KIND = MeshKind(
    kind=DISK_TO_DISK,
    entry=DiskToDiskEntry,
    check_table=_check_table,
    table="disk_to_disk_test",
    length=_length,
    slot=slot_maker(DiskToDiskSlot, DiskToDiskSpec),
    servers=lambda test, source, destination: (ListeningPort(source, "TCP", test.port),),
    filling_s=lambda parameters: 2 * int(parameters["duration_s"]),
    slot_s=_slot_s,
)
