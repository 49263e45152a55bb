"""Check aggregate tests of mesh.toml."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.mesh.document.entries import HostEntry, MeshDocument, SiteEntry
from monitor.mesh.kinds.aggregate import AggregateEntry
from probes.toml.tables import Table


def check_aggregates(document: MeshDocument, entries: Mapping[str, Mapping[str, Table]]) -> None:
    hosts = {host.name: (site, host) for site in document.sites for host in site.hosts}
    tests = {test.name: test for test in document.tests if isinstance(test, AggregateEntry)}
    for test in tests.values():
        table = entries["test"][test.name]
        for key, names in (("senders", test.senders), ("receivers", test.receivers)):
            for index, name in enumerate(names):
                fault = _fault(*hosts[name]) if name in hosts else None
                if fault is not None:
                    table.problem(fault, key, index)
        for sender, receiver in test.host_pairs:
            if sender in hosts and receiver in hosts:
                _check_pair(table, hosts[sender], hosts[receiver])
    for group in document.groups:
        for index, name in enumerate(group.tests):
            if name in tests:
                entries["group"][group.name].problem(
                    f'test "{name}" is an aggregate test, which names its hosts itself; remove it here', "tests", index
                )


def _fault(site: SiteEntry, host: HostEntry) -> str | None:
    if not host.for_throughput:
        return f'host "{host.name}" does not measure throughput; add "throughput" to its measures'
    if not site.has_agent:
        return f'site "{site.name}" has no agent; an aggregate test needs one at each of its hosts'
    return None


def _check_pair(table: Table, sender: tuple[SiteEntry, HostEntry], receiver: tuple[SiteEntry, HostEntry]) -> None:
    names = f'"{sender[1].name}" and "{receiver[1].name}"'
    if sender[0].name == receiver[0].name:
        table.problem(f"{names} are both at the site {sender[0].name}; a test is between sites", "receivers")
    elif sender[1].family != receiver[1].family:
        table.problem(
            f"{names} are of different address families, IPv{sender[1].family} and IPv{receiver[1].family}; "
            "name hosts of one family",
            "receivers",
        )
    elif receiver[1].behind_nat:
        table.problem(f'host "{receiver[1].name}" is behind NAT, and no sender can connect to it', "receivers")
