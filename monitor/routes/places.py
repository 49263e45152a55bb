"""Names of hops: AS, country, exchange point, own network, reverse name.

`of_addresses` makes two queries and resolves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import connection

from monitor.routes.loaded_tables import CurrentTables, TableSource, current_tables, sources
from monitor.routes.special_ranges import special_ranges
from monitor.routes.tables.address_table import UNKNOWN, AddressTable, Entry
from monitor.routes.tables.batches import AddressBatch, canonical_address

__all__ = ["HopName", "TableSource", "as_names", "as_text", "of_addresses", "sources"]

_HOST_NAMES = "SELECT address, name FROM reverse_name WHERE address = ANY(%s) AND name IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class HopName:
    """Each name is None if unknown."""

    asn: int | None = None  # on an exchange's LAN, the member's, if listed
    as_name: str | None = None
    country: str | None = None
    ixp: str | None = None  # exchange point with the address in its LAN
    network: str | None = None  # its [[network]] of mesh.toml, which precedes all tables
    host_name: str | None = None
    special: str | None = None  # purpose of a reserved range, such as "private (RFC 1918)"

    @property
    def as_text(self) -> str | None:
        """`AS 513 CERN`; None if unknown."""
        return None if self.asn is None else as_text(self.asn, self.as_name)


def as_text(asn: int, name: str | None) -> str:
    return f"AS {asn} {name}" if name else f"AS {asn}"


def as_names(numbers: Iterable[int]) -> dict[int, str | None]:
    """Names of AS, None if unknown; a single query."""
    table = current_tables().asn
    return {asn: None if table is None else table.label_of_as(asn) for asn in numbers}


def of_addresses(addresses: Iterable[str]) -> dict[str, HopName]:
    texts = list(dict.fromkeys(addresses))
    tables = current_tables()
    canonical = {text: canonical_address(text) for text in texts}
    host_names = _host_names(list(canonical.values()))
    return {
        text: _name(tables, host_names.get(canonical[text]), *entries)
        for text, entries in zip(texts, _entries(tables, texts), strict=True)
    }


def _host_names(addresses: list[str]) -> dict[str, str]:
    """Reverse names by address, where known."""
    with connection.cursor() as cursor:
        # An array, since thousands of parameters take longer to send.
        cursor.execute(_HOST_NAMES, [addresses])
        return dict(cursor.fetchall())


def _entries(tables: CurrentTables, addresses: list[str]) -> Iterator[tuple[Entry, ...]]:
    batch = AddressBatch.parse(addresses)
    return zip(
        *(_find(table, batch) for table in (tables.asn, tables.ixp, tables.networks, special_ranges())), strict=True
    )


def _find(table: AddressTable | None, batch: AddressBatch) -> list[Entry]:
    if table is None:
        return [Entry()] * batch.size
    numbers = table.find(batch).tolist()
    entries = {number: table.entry(number) for number in {UNKNOWN, *numbers}}
    return [entries[number] for number in numbers]


def _name(
    tables: CurrentTables, host_name: str | None, in_as: Entry, in_ixp: Entry, own: Entry, reserved: Entry
) -> HopName:
    special = reserved.label
    ixp = in_ixp.label if special is None else None
    # The table's AS of an exchange's LAN is that of its operator, not of the router's.
    of_tables = in_ixp.asn if ixp else in_as.asn
    asn = own.asn or (of_tables if special is None else None)
    if asn is None:
        as_name = None
    elif asn == in_as.asn:
        as_name = in_as.label
    else:
        as_name = tables.asn.label_of_as(asn) if tables.asn is not None else None
    return HopName(
        asn=asn,
        as_name=as_name,
        country=in_as.country if special is None else None,
        ixp=ixp,
        network=own.label,
        host_name=host_name,
        special=special,
    )
