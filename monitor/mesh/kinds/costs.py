"""Cost of tests that fill their path: tests a day, and each host's load, with warnings. No database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.mesh.document import expansion
from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.kinds import MESH_KINDS, filling_s
from monitor.mesh.kinds.kind import DAY_S
from probes.quantities import counted

# An hourly test of 10 s between 50 hosts takes 27%, and half of all bursts fall into it.
LONG_RATIO = 0.1
BITS_PER_BYTE = 8
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class HostCost:
    """Tests of a host, and its loaded time a day."""

    host: str
    tests_per_day: float
    loaded_s_per_day: float

    @property
    def ratio(self) -> float:
        return self.loaded_s_per_day / DAY_S

    @property
    def bytes_per_day_at_1_gbps(self) -> float:
        """Bytes of its tests in a day at 1 Gbit/s."""
        return self.loaded_s_per_day * 1e9 / BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class FillingCosts:
    """Tests that fill their path, and host loads, longest first."""

    tests_per_day: float
    hosts: tuple[HostCost, ...]

    @property
    def text(self) -> str:
        """`240 tests a day fill their path; loaded longest: cern 1.1% of the time (96 tests, …), …`"""
        longest = ", ".join(
            f"{load.host} {figures.percent(load.ratio)} of the time ({figures.count(round(load.tests_per_day))} tests, "
            f"{load.bytes_per_day_at_1_gbps / 1e9:,.3g} GB a day at 1 Gbit/s)"
            for load in self.hosts[:MOST_NAMED]
        )
        return f"{figures.count(round(self.tests_per_day))} tests a day fill their path; loaded longest: {longest}"


def costs_of(document: MeshDocument) -> FillingCosts | None:
    tests = {test.name: test for test in document.tests if MESH_KINDS[test.kind].filling_s is not None}
    if not tests:
        return None
    total, counts, loaded_s = 0.0, defaultdict[str, float](float), defaultdict[str, float](float)
    for name, hosts in _runs(document):
        if name not in tests:
            continue
        test = tests[name]
        per_day = DAY_S / test.every_s
        total += per_day
        for host in hosts:
            counts[host] += per_day
            loaded_s[host] += per_day * filling_s(test.kind, test.parameters)
    if not counts:
        return None
    loads = [HostCost(host, counts[host], loaded_s[host]) for host in counts]
    return FillingCosts(total, tuple(sorted(loads, key=lambda load: (-load.loaded_s_per_day, load.host))))


def cost_warnings(costs: FillingCosts | None) -> list[str]:
    long = [load for load in costs.hosts if load.ratio > LONG_RATIO] if costs is not None else []
    if not long:
        return []
    return [
        f"tests load {counted(len(long), 'host')} for more than {figures.percent(LONG_RATIO)} of the time, "
        f'"{long[0].host}" for {figures.percent(long[0].ratio)}: pings meanwhile are latency under load and count for '
        "no loss, RTT or alert; write a longer every_s, or test fewer pairs"
    ]


def _runs(document: MeshDocument) -> Iterator[tuple[str, tuple[str, ...]]]:
    together = {run.test: run.hosts for run in expansion.runs_of_pairs(document)}
    yield from together.items()
    for measurement in expansion.measurements(document):
        if measurement.test not in together:
            yield measurement.test, measurement.hosts
