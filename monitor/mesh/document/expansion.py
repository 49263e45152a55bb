"""Expand groups to measurements: which test runs between which hosts. Pure; `apply` stores them as rows.

A group gives ordered pairs of sites. A pair gives a measurement for each pair of their hosts of the same family that
take part in the test's kind, if the source has an agent (for throughput and disk to disk, both ends). An aggregate test
names its pairs of hosts itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.mesh.document.entries import WITH_SLOTS, GroupEntry, HostEntry, MeshDocument, SiteEntry, TestEntry


@dataclass(frozen=True, slots=True)
class MeasurementEntry:
    """A measurement of the document, by the names of its hosts and its test."""

    source: str
    destination: str
    test: str

    @property
    def hosts(self) -> tuple[str, str]:
        return self.source, self.destination


@dataclass(frozen=True, slots=True)
class SimultaneousRun:
    """A test whose pairs of hosts, (source, destination), are measured at the same time."""

    test: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """All its hosts, without duplicates."""
        return tuple(dict.fromkeys(host for pair in self.pairs for host in pair))


def site_pairs(group: GroupEntry) -> Iterator[tuple[str, str]]:
    """Ordered pairs of different sites: (source, destination). Overlapping lists may give a pair twice."""
    return (pair for pair in group.pairs() if pair[0] != pair[1])


def host_pairs(source: SiteEntry, destination: SiteEntry, test: TestEntry) -> Iterator[tuple[HostEntry, HostEntry]]:
    """The pairs of hosts that `test` measures from one site to another."""
    for from_host in source.hosts:
        for to_host in destination.hosts:
            both = from_host.measures(test.kind) and to_host.measures(test.kind)
            ends = (source, from_host), (destination, to_host)
            if both and from_host.family == to_host.family and _can_run(test, *ends):
                yield from_host, to_host


def _can_run(test: TestEntry, source: tuple[SiteEntry, HostEntry], destination: tuple[SiteEntry, HostEntry]) -> bool:
    """Whether the sites have the agents that the test needs; a public server stands in for the listening end."""
    if test.kind not in WITH_SLOTS:
        return source[0].has_agent
    client, server = (destination, source) if getattr(test, "reverse", False) else (source, destination)
    is_public = not server[0].has_agent and server[1].iperf3_ports is not None
    return client[0].has_agent and (server[0].has_agent or (is_public and getattr(test, "meets_public_servers", False)))


def measurements(document: MeshDocument) -> dict[MeasurementEntry, str]:
    """Every measurement of the document, without duplicates, with the name of its first group, empty without any.

    Undefined names are skipped: the parser has reported them.
    """
    first_group: dict[MeasurementEntry, str] = {}
    for group in document.groups:
        for wanted in of_group(document, group):
            first_group.setdefault(wanted, group.name)
    for run in runs_of_pairs(document):
        for source, destination in run.pairs:
            first_group.setdefault(MeasurementEntry(source, destination, run.test), "")
    return first_group


def runs_of_pairs(document: MeshDocument) -> Iterator[SimultaneousRun]:
    """The tests that name their pairs of hosts, with the pairs whose hosts are defined."""
    hosts = {host.name for site in document.sites for host in site.hosts}
    for test in document.tests:
        pairs = tuple(pair for pair in test.host_pairs if hosts.issuperset(pair))
        if pairs:
            yield SimultaneousRun(test.name, pairs)


def of_group(document: MeshDocument, group: GroupEntry, only: TestEntry | None = None) -> Iterator[MeasurementEntry]:
    """Measurements of a group; only those of a test, if given."""
    sites = {site.name: site for site in document.sites}
    tests = [
        test for test in document.tests if test.name in group.tests and only in (None, test) and not test.host_pairs
    ]
    for source, destination in site_pairs(group):
        if source not in sites or destination not in sites:
            continue
        for test in tests:
            for from_host, to_host in host_pairs(sites[source], sites[destination], test):
                yield MeasurementEntry(from_host.name, to_host.name, test.name)
