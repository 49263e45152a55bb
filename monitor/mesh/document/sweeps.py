"""[[sweep]] tables of mesh.toml: grids of throughput tests, for `monitor.archive.sweep_schedule`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monitor.mesh.document import expansion
from monitor.mesh.document.alert_rules import Place, Selectors
from monitor.mesh.document.entries import MeshDocument, Name
from monitor.mesh.document.rule_schedules import PathPlaces
from monitor.mesh.kinds.kind import DAY_S
from monitor.mesh.kinds.throughput import SLOT_MARGIN_S, BlockBytes, MssBytes, Streams, WindowBytes
from probes.toml.keys import DISTINCT, NOT_EMPTY, Text, meaning
from probes.toml.tables import Table

# With a test an hour, a round of so many takes four days.
MOST_CELLS = 100

# Share of a host's time for a sweep's tests: they fill the path, and scheduled tests give way.
MOST_OF_A_HOST = 0.1


class SweepEntry(Selectors, frozen=True, kw_only=True):
    """A [[sweep]] table. A list without values stands for the system's default alone."""

    name: Annotated[Name, meaning("Name, unique among the sweeps.", '"…"')]
    every_s: Annotated[int, Meta(ge=600, le=DAY_S), meaning("Period: each path has one test in each period.")] = 3600
    duration_s: Annotated[int, Meta(ge=1, le=600), meaning("Length of a test, without the omitted start.")] = 10
    omit_s: Annotated[int, Meta(ge=0, le=60), meaning("Time at the start that is left out of the average.")] = 0
    streams: Annotated[tuple[Streams, ...], NOT_EMPTY, DISTINCT, meaning("Numbers of parallel streams.")] = (1,)
    window_bytes: Annotated[
        tuple[WindowBytes, ...], DISTINCT, meaning("Socket buffers of each stream. Default: the operating system's.")
    ] = ()
    block_bytes: Annotated[
        tuple[BlockBytes, ...], DISTINCT, meaning("Lengths of each write of the sender. Default: iperf3's.")
    ] = ()
    mss_bytes: Annotated[
        tuple[MssBytes, ...], DISTINCT, meaning("Maximum segment sizes. Default: the operating system's.")
    ] = ()
    congestion_control: Annotated[
        tuple[Text, ...], DISTINCT, meaning("Congestion controls. Default: the sender's own.")
    ] = ()

    @property
    def cells(self) -> int:
        axes = (self.streams, self.window_bytes, self.block_bytes, self.mss_bytes, self.congestion_control)
        return math.prod(max(1, len(axis)) for axis in axes)

    @property
    def slot_s(self) -> int:
        return self.duration_s + self.omit_s + SLOT_MARGIN_S


def read_sweeps(top: Table, document: MeshDocument) -> dict[str, dict[str, Any]]:
    """Keys of each sweep by name. Records problems on its tables."""
    sweeps: dict[str, dict[str, Any]] = {}
    first: dict[str, Table] = {}
    tables = top.tables("sweep")
    places = list(_places(document)) if tables else []
    for table in tables:
        entry: SweepEntry | None = table.entry()
        if entry is None:
            continue
        if first.setdefault(entry.name, table) is not table:
            line = first[entry.name].line_of("name")
            table.problem(f"line {line} defines a sweep of the same name; choose another", "name")
        keys = table.settings()
        _check_load(entry, table, [place for place in places if place.is_in(keys)])
        sweeps[entry.name] = keys
    return sweeps


def sweep_entry(keys: Mapping[str, Any]) -> SweepEntry:
    return msgspec.convert(dict(keys), SweepEntry)


def _places(document: MeshDocument) -> Iterator[Place]:
    able = {host.name for site in document.sites if site.has_agent for host in site.hosts if host.for_throughput}
    places = PathPlaces(document)
    for hosts in dict.fromkeys(entry.hosts for entry in expansion.measurements(document)):
        if able.issuperset(hosts):
            yield places.between(hosts)


def _check_load(entry: SweepEntry, table: Table, places: list[Place]) -> None:
    if entry.cells > MOST_CELLS:
        table.problem(f"the grid has {entry.cells} settings; allowed are {MOST_CELLS}: use fewer values")
    if not places:
        table.problem(
            "selects no path that a group measures between hosts that measure throughput, with agents at both ends"
        )
        return
    host, tests = Counter(host for place in places for host in place.hosts).most_common(1)[0]
    busy_ratio = tests * entry.slot_s / entry.every_s
    if busy_ratio > MOST_OF_A_HOST:
        every_s = math.ceil(tests * entry.slot_s / MOST_OF_A_HOST)
        table.problem(
            f'host "{host}" takes part in {tests} tests of {entry.slot_s} s every {entry.every_s} s, {busy_ratio:.0%} '
            f"of its time, where {MOST_OF_A_HOST:.0%} are allowed; write every_s = {every_s} or more, or select fewer "
            "paths",
            "every_s",
        )
