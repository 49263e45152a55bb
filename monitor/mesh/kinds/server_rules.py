"""Check ports on which a site's agents listen for tests of mesh.toml: servers in cycles meet servers in slots, which
never meet each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from monitor.mesh.document.entries import HostEntry, MeshDocument, SiteEntry, TestEntry
from monitor.mesh.document.expansion import MeasurementEntry
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.kinds.kind import ListeningPort, MeshKind
from monitor.mesh.kinds.throughput import ThroughputSettings
from probes.toml.tables import Table


@dataclass(frozen=True, slots=True)
class _PlannedServer:
    test: TestEntry
    server: ListeningPort
    site: SiteEntry
    host: HostEntry

    @property
    def kind(self) -> MeshKind:
        return MESH_KINDS[self.test.kind]

    @property
    def listens_always(self) -> bool:
        return self.kind.slot is None

    @property
    def address(self) -> tuple[str, str | None, str, int]:
        """Unique socket address; servers in slots ignore the host's namespace."""
        namespace = self.host.namespace if self.listens_always else None
        return self.site.name, namespace, self.server.transport, self.server.port


def check_server_ports(
    document: MeshDocument, wanted: Mapping[MeasurementEntry, str], entries: Mapping[str, Mapping[str, Table]]
) -> None:
    """Record ports on which two servers of an agent would listen."""
    servers = _planned_servers(document, wanted)
    lasting = [planned for planned in servers if planned.listens_always]
    _kinds_have_one_port(lasting, entries)
    _interfaces_are_apart(lasting, entries)
    _kinds_have_their_own_port(lasting, servers, entries)
    _on_demand_ports_are_free(lasting, entries)


def _planned_servers(document: MeshDocument, wanted: Mapping[MeasurementEntry, str]) -> list[_PlannedServer]:
    tests = {test.name: test for test in document.tests if MESH_KINDS[test.kind].has_servers}
    places = {host.name: (site, host) for site in document.sites for host in site.hosts}
    planned = (
        _PlannedServer(tests[row.test], server, *places[server.host])
        for row in wanted
        if row.test in tests
        for server in MESH_KINDS[tests[row.test].kind].servers(
            _as_connected(tests[row.test], *(places[name][1] for name in row.hosts)), *row.hosts
        )
    )
    return [server for server in planned if server.site.has_agent]


def _as_connected(test: TestEntry, source: HostEntry, destination: HostEntry) -> TestEntry:
    reversed_by = MESH_KINDS[test.kind].reversed_by
    if reversed_by is None or not (source.behind_nat or destination.behind_nat):
        return test
    return structs.replace(test, **{reversed_by: destination.behind_nat})  # type: ignore[type-var]


def _kinds_have_one_port(lasting: list[_PlannedServer], entries: Mapping[str, Mapping[str, Table]]) -> None:
    first: dict[tuple[str, str], _PlannedServer] = {}
    reported = set()
    for planned in lasting:
        name, other = planned.kind.server_name, first.setdefault((planned.site.name, planned.test.kind), planned)
        if other.server.port != planned.server.port and planned.test.name not in reported:
            reported.add(planned.test.name)
            entries["test"][planned.test.name].problem(
                f'port = {planned.server.port}, but test "{other.test.name}" uses port {other.server.port} of the '
                f'{name} of site "{planned.site.name}"; an agent has a single {name}, so write the same port',
                "port",
            )


def _interfaces_are_apart(lasting: list[_PlannedServer], entries: Mapping[str, Mapping[str, Table]]) -> None:
    # Linux lets no TCP listener of an interface share another's wildcard port.
    first: dict[tuple[object, bool], _PlannedServer] = {}
    reported = set()
    for planned in lasting:
        if planned.server.transport != "TCP":
            continue
        is_bound = planned.host.interface is not None
        first.setdefault((planned.address, is_bound), planned)
        other = first.get((planned.address, not is_bound))
        if other is None or other.kind is not planned.kind:
            continue
        bound, unbound = (planned, other) if is_bound else (other, planned)
        if bound.host.name not in reported:
            reported.add(bound.host.name)
            entries["host"][bound.host.name].problem(
                f'interface = "{bound.host.interface}", but host "{unbound.host.name}" has none: the '
                f'{bound.kind.server_name} of test "{bound.test.name}" cannot listen on TCP port {bound.server.port} '
                "for both; name an interface for each of the two, or for neither",
                "interface",
            )


def _kinds_have_their_own_port(
    lasting: list[_PlannedServer], servers: list[_PlannedServer], entries: Mapping[str, Mapping[str, Table]]
) -> None:
    # A permanent server excludes other kinds from its port.
    holders: dict[tuple[str, str | None, str, int], _PlannedServer] = {}
    for planned in lasting:
        holders.setdefault(planned.address, planned)
    reported = set()
    for planned in servers:
        holder = holders.get(planned.address, planned)
        if holder.test.kind == planned.test.kind or planned.test.name in reported:
            continue
        reported.add(planned.test.name)
        table = entries["test"][planned.test.name]
        table.problem(
            f'{planned.server.transport} port {planned.server.port} of site "{planned.site.name}" is that of the '
            f'{holder.kind.server_name} of test "{holder.test.name}", which listens all the time; write another port',
            "port" if table.has("port") else "name",
        )


def _on_demand_ports_are_free(lasting: list[_PlannedServer], entries: Mapping[str, Mapping[str, Table]]) -> None:
    port = ThroughputSettings().port
    reported = set()
    for planned in lasting:
        is_tested = planned.host.namespace is None and any(host.for_throughput for host in planned.site.hosts)
        if planned.server.port != port or not is_tested or planned.test.name in reported:
            continue
        reported.add(planned.test.name)
        table = entries["test"][planned.test.name]
        table.problem(
            f'{planned.server.transport} port {port} of site "{planned.site.name}" is that of throughput tests on '
            f"demand and of sweeps, but its {planned.kind.server_name} listens all the time; write another port",
            "port" if table.has("port") else "name",
        )
