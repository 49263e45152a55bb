"""Expand groups to measurements: which test runs between which hosts. Pure.

Hosts need the same family, an agent at the source (with slots: both ends), and no NAT before the listening end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from monitor.mesh.document.entries import WITH_SLOTS, GroupEntry, HostEntry, MeshDocument, SiteEntry, TestEntry
from monitor.mesh.kinds import DESTINATION, SOURCE, listening_ends


class MeasurementEntry(NamedTuple):
    """A measurement of the document, by the names of its hosts and its test. A tuple, since a mesh has hundreds of
    thousands."""

    source: str
    destination: str
    test: str

    @property
    def hosts(self) -> tuple[str, str]:
        return self.source, self.destination


@dataclass(frozen=True, slots=True)
class SimultaneousRun:
    """A test of pairs of hosts, (source, destination), that are measured at the same time."""

    test: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host for pair in self.pairs for host in pair))


def site_pairs(group: GroupEntry) -> Iterator[tuple[str, str]]:
    """Ordered pairs of different sites, possibly repeated."""
    return (pair for pair in group.pairs() if pair[0] != pair[1])


def _can_send(test: TestEntry, site: SiteEntry, host: HostEntry) -> bool:
    return host.measures(test.kind) and (site.has_agent or _is_public_server(test, site, host, is_source=True))


def _can_receive(test: TestEntry, site: SiteEntry, host: HostEntry) -> bool:
    if not host.measures(test.kind):
        return False
    return test.kind not in WITH_SLOTS or site.has_agent or _is_public_server(test, site, host, is_source=False)


def _is_public_server(test: TestEntry, site: SiteEntry, host: HostEntry, *, is_source: bool) -> bool:
    listens = test.kind in WITH_SLOTS and getattr(test, "reverse", False) is is_source
    return listens and host.iperf3_ports is not None and getattr(test, "meets_public_servers", False)


_MEASUREMENTS = "measurements"


def measurements(document: MeshDocument) -> dict[MeasurementEntry, str]:
    """Distinct measurements, each with its first group, or empty. Undefined names are skipped. Cached per document."""
    first_group: dict[MeasurementEntry, str] | None = document.__dict__.get(_MEASUREMENTS)
    if first_group is not None:
        return first_group
    first_group = document.__dict__[_MEASUREMENTS] = {}
    for group in document.groups:
        for wanted in of_group(document, group):
            first_group.setdefault(wanted, group.name)
    for run in runs_of_pairs(document):
        for source, destination in run.pairs:
            first_group.setdefault(MeasurementEntry(source, destination, run.test), "")
    return first_group


def runs_of_pairs(document: MeshDocument) -> Iterator[SimultaneousRun]:
    """Tests that name their pairs, with pairs of defined hosts."""
    hosts = {host.name for site in document.sites for host in site.hosts}
    for test in document.tests:
        pairs = tuple(pair for pair in test.host_pairs if hosts.issuperset(pair))
        if pairs:
            yield SimultaneousRun(test.name, pairs)


def of_group(document: MeshDocument, group: GroupEntry, only: TestEntry | None = None) -> Iterator[MeasurementEntry]:
    members = set(group.site_names)
    sites = [site for site in document.sites if site.name in members]
    tests = [
        (test.name, _Ends(sites, test))
        for test in document.tests
        if test.name in group.tests and only in (None, test) and not test.host_pairs
    ]
    for source, destination in site_pairs(group):
        for name, ends in tests:
            receivers = ends.receivers.get(destination, ())
            for sender, family, can_listen in ends.senders.get(source, ()):
                for receiver, its_family, it_can_listen in receivers:
                    if family == its_family and (can_listen or it_can_listen):
                        yield MeasurementEntry(sender, receiver, name)


class _Ends:
    """Possible source and destination hosts of a test by site, with families, and whether they can listen."""

    def __init__(self, sites: Iterable[SiteEntry], test: TestEntry) -> None:
        self.senders: dict[str, list[tuple[str, int, bool]]] = {}
        self.receivers: dict[str, list[tuple[str, int, bool]]] = {}
        listening = listening_ends(test)

        def ends(hosts: Iterable[HostEntry], end: str) -> list[tuple[str, int, bool]]:
            return [(host.name, host.family, end in listening and not host.behind_nat) for host in hosts]

        for site in sites:
            self.senders[site.name] = ends((host for host in site.hosts if _can_send(test, site, host)), SOURCE)
            self.receivers[site.name] = ends(
                (host for host in site.hosts if _can_receive(test, site, host)), DESTINATION
            )
