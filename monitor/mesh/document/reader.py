"""Read mesh.toml as a `MeshDocument`; check names and addresses. No database.

`rules` checks relations between entries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from monitor.mesh.document import addresses, rules
from monitor.mesh.document.alert_rules import PATH
from monitor.mesh.document.entries import RESERVED_TESTS, HostEntry, MeshDocument, SiteEntry
from monitor.mesh.document.networks import read_networks
from monitor.mesh.document.structure import file_struct, selections
from monitor.mesh.document.sweeps import read_sweeps
from monitor.mesh.kinds import MESH_KINDS
from probes.toml import tables
from probes.toml.lines import suggestion
from probes.toml.tables import Table

__all__ = ["MeshDocument", "MeshError", "parse", "read"]


class MeshError(tables.FileError):
    """Invalid mesh.toml."""


def read(path: Path | str) -> MeshDocument:
    """Read a file. Raises `MeshError` with all problems, also when unreadable."""
    return _document(tables.read(path, file_struct(), MeshError))


def parse(content: bytes, file: str) -> MeshDocument:
    """Parse `content`; `file` is its name in errors. Raises `MeshError`."""
    return _document(tables.parse(content, file, file_struct(), MeshError))


def _document(top: Table) -> MeshDocument:
    names = Names(top)
    for test in top.tables("test"):
        if "kind" in test.values:
            MESH_KINDS[test.values["kind"]].check_table(test)
    mesh = top.table("mesh")
    document = MeshDocument(
        name="" if mesh is None else mesh.values.get("name", ""),
        home=None if mesh is None else mesh.values.get("home"),
        sites=tuple(site for table in top.tables("site") if (site := _site(table)) is not None),
        tests=tuple(test for table in top.tables("test") if (test := table.entry()) is not None),
        groups=tuple(group for table in top.tables("group") if (group := table.entry()) is not None),
        alerts=_settings(top.table("alerts")),
        service_levels=_settings(top.table("service_level")),
        budgets=_settings(top.table("budget")),
        networks=read_networks(top),
    )
    document = structs.replace(document, sweeps=read_sweeps(top, document))
    rules.check(document, top, names.entries)
    top.raise_problems()
    return document


def _settings(table: Table | None) -> dict[str, Any]:
    return {} if table is None else table.settings()


def _site(table: Table) -> SiteEntry | None:
    site: SiteEntry | None = table.entry()
    if site is None:
        return None
    hosts = tuple(_host(host, site, below) for host, below in zip(site.hosts, table.tables("host"), strict=True))
    return structs.replace(site, title=site.title or site.name, hosts=hosts)


def _host(host: HostEntry, site: SiteEntry, table: Table) -> HostEntry:
    family = host.family if table.has("family") else addresses.family_of(host.address) or host.family
    return structs.replace(host, name=table.name, family=family, uplink=host.uplink or site.uplink)


MOST_PORTS = 100


class Names:
    """Names that the file defines, valid entries or not, and the checks of those that refer to them."""

    def __init__(self, top: Table) -> None:
        self.entries: dict[str, dict[str, Table]] = {kind: {} for kind in ("site", "host", "test", "group")}
        self._hosts: dict[tuple[str, int], Table] = {}
        self._former_names: dict[str, Table] = {}
        for site in top.tables("site"):
            self._define_site(site)
        for kind in ("test", "group"):
            for table in top.tables(kind):
                self._define(kind, table)
        mesh = top.table("mesh")
        if mesh is not None and "home" in mesh.values:
            self._refer(mesh, "site", mesh.values["home"], "home")
        for site in top.tables("site"):
            self._check_former_names(site)
            for host in site.tables("host"):
                self._check_peers(site, host)
        for group in top.tables("group"):
            for key, names in group.elements.items():
                for index, name in names.items():
                    self._refer(group, "test" if key == "tests" else "site", name, key, index)
        for test in top.tables("test"):
            self._check_hosts_of(test)
        for selection in selections(top):
            self._check_selection(selection)

    def _define(self, kind: str, table: Table) -> bool:
        """Register a name; False if already defined."""
        if not table.name:
            return False
        if kind == "test" and table.name in RESERVED_TESTS:
            table.problem(f'"{table.name}" is reserved for on-demand tests; choose another', "name")
        first = self.entries[kind].setdefault(table.name, table)
        if first is not table:
            line = first.line_of("name")
            table.problem(f"line {line} defines a {kind} of the same name; choose another", "name")
        return first is table

    def _define_site(self, site: Table) -> None:
        is_first = self._define("site", site)
        for index, host in enumerate(site.tables("host")):
            if not host.has("name") and index == 0:
                host.name = site.name if is_first and "name" in site.values else ""
            elif not host.has("name"):
                host.problem('name is missing; write name = "…" (only the first host has its site\'s name)')
            self._define("host", host)
            self._check_address(host)

    def _check_former_names(self, site: Table) -> None:
        for index, name in site.elements.get("formerly", {}).items():
            if name in self.entries["site"]:
                site.problem(f'site "{name}" is in the file; an earlier name must be free', "formerly", index)
            elif self._former_names.setdefault(name, site) is not site:
                line = self._former_names[name].line_of("formerly")
                site.problem(f'"{name}" is an earlier name of another site, in line {line}', "formerly", index)

    def _check_address(self, host: Table) -> None:
        address, family = host.values.get("address"), host.values.get("family")
        if address is None:
            return
        spelt = addresses.family_of(address)
        if None not in (family, spelt) and family != spelt:
            host.problem(f'family = {family}, but "{address}" is IPv{spelt}; leave the line out', "family")
        ports = host.values.get("iperf3_ports")
        if ports is not None and not ports[0] <= ports[1] <= ports[0] + MOST_PORTS:
            host.problem(
                f"iperf3_ports = {list(ports)} must be the first and the last port, at most {MOST_PORTS} apart",
                "iperf3_ports",
            )
        first = self._hosts.setdefault((addresses.canonical(address), family or spelt or 4), host)
        if first is not host:
            line = first.line_of("address")
            host.problem(
                f'address = "{address}" is already that of host "{first.name}" (line {line}); each host has its own',
                "address",
            )

    def _check_peers(self, site: Table, host: Table) -> None:
        family = host.values.get("family") or addresses.family_of(host.values.get("address") or "") or 4
        taken: dict[str, int] = {}
        for peer in host.tables("peer"):
            for index, name in peer.elements.get("sites", {}).items():
                self._refer(peer, "site", name, "sites", index)
                if name == site.name:
                    peer.problem(f'"{name}" is the site of the host itself; name other sites', "sites", index)
                elif name in taken:
                    peer.problem(f'"{name}" has addresses already (line {taken[name]}); remove one', "sites", index)
                taken.setdefault(name, peer.line_of("sites"))
            for key in ("address", "source"):
                spelt = addresses.family_of(peer.values.get(key) or "")
                if spelt not in (None, family):
                    value = peer.values[key]
                    peer.problem(f'{key} = "{value}" is IPv{spelt}, but the host has IPv{family}', key)
            if peer.values.get("source") and addresses.family_of(peer.values["source"]) is None:
                peer.problem("source must be an IP address of the host, not a name", "source")
            if peer.is_valid and not peer.has("address") and not peer.has("source"):
                peer.problem('says nothing; write address = "…", source = "…" or both')

    def _check_hosts_of(self, test: Table) -> None:
        for key in ("senders", "receivers"):
            for index, name in test.elements.get(key, {}).items():
                self._refer(test, "host", name, key, index)

    def _check_selection(self, table: Table) -> None:
        keys = ("group", "from", "to", PATH)
        for key in keys:
            if key in table.values and key != PATH:
                self._refer(table, "group" if key == "group" else "site", table.values[key], key)
        for index, name in table.elements.get(PATH, {}).items():
            self._refer(table, "host", name, PATH, index)
        if table.is_valid and not any(table.has(key) for key in keys) and not table.has("channel"):
            table.problem('selects no paths; write group, from, to or path, as in group = "…"')
        if table.is_valid and table.has("zone") and not table.has("digest"):
            table.problem('zone is for a digest; add digest = "07:00", or leave the line out', "zone")

    def _refer(self, table: Table, kind: str, name: str, key: str, index: int | None = None) -> None:
        names = self.entries[kind]
        # A missing kind has been reported already.
        if names and name not in names:
            # A name with capitals is invalid itself, so it is no suggestion.
            hint = suggestion(name, {known for known in names if known == known.lower()}, f"; add [[{kind}]]")
            table.problem(f'{kind} "{name}" is not defined{hint}', key, index)
