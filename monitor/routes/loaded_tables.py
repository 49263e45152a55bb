"""Store address tables, and cache them until their version changes."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from django.db import connection

from monitor.routes.formats.table_file import TableContents
from monitor.routes.models import LoadedTable, TableName
from monitor.routes.tables.address_table import AddressTable, Entry, pack, unpack
from monitor.routes.tables.building import RangeList

# Version of each loaded table, and the own networks of mesh.toml.
_VERSIONS = """
SELECT (SELECT jsonb_object_agg(name, version) FROM loaded_table), (SELECT networks FROM mesh)
"""


@dataclass(frozen=True, slots=True)
class CurrentTables:
    """Tables are None if not loaded."""

    asn: AddressTable | None
    ixp: AddressTable | None
    networks: AddressTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    name: str
    source: str
    licence: str
    dated_at: datetime | None  # None if the file had no date
    loaded_at: datetime
    ipv4_ranges: int
    ipv6_ranges: int
    as_count: int

    def __str__(self) -> str:
        parts = [self.source, f"{self.dated_at:%Y-%m-%d}" if self.dated_at else "date unknown", self.licence]
        return ", ".join(part for part in parts if part)


def sources() -> list[TableSource]:
    names = TableSource.__dataclass_fields__
    return [TableSource(**row) for row in LoadedTable.objects.order_by("name").values(*names)]


def replace_table(name: TableName, contents: TableContents, now: datetime) -> None:
    ipv4_ranges, ipv6_ranges = contents.table.range_counts
    row = LoadedTable(
        name=name,
        version=uuid.uuid4(),
        source=contents.source,
        licence=contents.licence,
        dated_at=contents.dated_at,
        loaded_at=now,
        ipv4_ranges=ipv4_ranges,
        ipv6_ranges=ipv6_ranges,
        as_count=contents.table.as_count,
        content=pack(contents.table),
    )
    others = [column.name for column in LoadedTable._meta.fields if not column.primary_key]
    LoadedTable.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=others)


def current_tables() -> CurrentTables:
    """Read changed tables only: a query, and another for each."""
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS)
        versions, networks = ({} if value is None else json.loads(value) for value in cursor.fetchone())
    return _CACHE.current(versions, networks)


@dataclass(slots=True)
class _Cache:
    tables: dict[str, tuple[str, AddressTable]] = field(default_factory=dict)
    networks: tuple[Mapping[str, Any], AddressTable] = field(default_factory=lambda: ({}, RangeList().table()))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self, versions: Mapping[str, str], networks: Mapping[str, Any]) -> CurrentTables:
        with self.lock:
            if self.networks[0] != networks:
                self.networks = (networks, _network_table(networks))
            asn, ixp = (self._table(name, versions.get(name)) for name in TableName.values)
            return CurrentTables(asn, ixp, self.networks[1])

    def _table(self, name: str, version: str | None) -> AddressTable | None:
        if version is None:
            self.tables.pop(name, None)
            return None
        if name not in self.tables or self.tables[name][0] != version:
            row = LoadedTable.objects.values_list("version", "content").get(name=name)
            self.tables[name] = (str(row[0]), unpack(bytes(row[1])))
        return self.tables[name][1]


_CACHE = _Cache()


def _network_table(networks: Mapping[str, Any]) -> AddressTable:
    ranges = RangeList()
    for prefix, network in networks.items():
        own = ip_network(prefix)
        entry = Entry(network["asn"], None, network["name"])
        ranges.add(own.version, int(own[0]), int(own[-1]), entry)
    return ranges.table()
