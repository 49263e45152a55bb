"""Read prefix lists of Internet exchange points (IXP).

CSV: prefix, name. JSON of PeeringDB: a dump, or answers of its API to `ixpfx`, `ix`, `ixlan` and `netixlan`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from monitor.mesh.document.networks import LARGEST_ASN, parse_prefix
from monitor.routes.formats.as_tables import read_members
from monitor.routes.formats.range_lines import decode_lines, split_line
from monitor.routes.formats.table_file import FileFault, TableContents
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.building import RangeList
from probes.quantities import counted

SUFFIXES = (".csv", ".json")
FIX = "write prefix, name"
JSON_FIX = "give PeeringDB's JSON of ixpfx and ix"
# A dump of all tables of PeeringDB has less than half of this; in memory a value takes up to 100 bytes.
MOST_VALUES = 10_000_000

# Ids by which the tables of PeeringDB are joined.
IDS = {"ix": ("id",), "ixlan": ("id", "ix_id"), "ixpfx": ("ixlan_id",), "netixlan": ("ixlan_id",)}

Row = dict[str, Any]


def read_ixp_lists(paths: Sequence[Path]) -> TableContents:
    """Merge files, labelled with exchange names. Raises `FileFault` with file and line."""
    files = read_members(paths, SUFFIXES)
    ranges = RangeList()
    rows: dict[str, list[Row]] = defaultdict(list)
    for file in files:
        if file.content.lstrip()[:1] in (b"{", b"["):
            for table, row in file.located(_json_rows, file.content):
                rows[table].append(row)
        else:
            file.located(_read_csv, file.content, ranges)
    if rows:
        _add_peeringdb(rows, ranges)
    if not len(ranges):
        raise FileFault(f"{files[0].name}: has no prefixes; {FIX} in each line, or {JSON_FIX}")
    dates = [file.dated_at for file in files if file.dated_at is not None]
    names = ", ".join(Path(file.name).name for file in files)
    return TableContents(ranges.table(), names, "", min(dates, default=None))


def _read_csv(content: bytes, ranges: RangeList) -> None:
    for number, text in enumerate(decode_lines(content), 1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        try:
            fields = [field.strip() for field in split_line(line, FIX)]
            if number == 1 and "/" not in fields[0]:
                continue
            if len(fields) < 2 or not fields[1]:
                raise ValueError(f"has no name; {FIX}")
            _add(fields[0], fields[1], None, ranges)
        except ValueError as error:
            raise FileFault(str(error), number) from None


def _add(prefix: str, name: str, asn: int | None, ranges: RangeList) -> None:
    try:
        network = parse_prefix(prefix)
    except ValueError as error:
        raise ValueError(f'"{prefix}" {error}') from None
    ranges.add(network.version, int(network[0]), int(network[-1]), Entry(asn, None, name))


def _json_rows(content: bytes) -> list[tuple[str, Row]]:
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise FileFault(f"has more than {MOST_VALUES:,} values; {JSON_FIX}")
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise FileFault(f"is not JSON ({error.msg}); {JSON_FIX}", error.lineno) from None
    # Also text that is not UTF-8, and numbers of thousands of digits.
    except (ValueError, RecursionError):
        raise FileFault(f"is not JSON; {JSON_FIX}") from None
    rows = list(_rows(document))
    for table, row in rows:
        _require_ids(table, row)
    return rows


def _require_ids(table: str, row: Row) -> None:
    for key in IDS.get(table, ()):
        if not isinstance(row.get(key), int):
            raise FileFault(f'PeeringDB: "{key}" of a row of {table} is not a number; {JSON_FIX}')


def _rows(document: Any) -> Iterator[tuple[str, Row]]:
    is_dump = isinstance(document, dict) and "data" not in document
    for table, part in document.items() if is_dump else [("", document)]:
        data = part.get("data") if isinstance(part, dict) else part
        for row in data if isinstance(data, list) else []:
            if isinstance(row, dict) and row.get("status", "ok") == "ok":
                yield table or _table_of(row), row


def _table_of(row: Row) -> str:
    if "prefix" in row:
        return "ixpfx"
    if "ipaddr4" in row or "ipaddr6" in row:
        return "netixlan"
    return "ixlan" if "ix_id" in row else "ix"


def _add_peeringdb(rows: dict[str, list[Row]], ranges: RangeList) -> None:
    names = _names_by_lan(rows)
    nameless = {row.get("ixlan_id") for row in rows["ixpfx"]} - names.keys()
    if nameless:
        raise FileFault(f"PeeringDB: the names of {counted(len(nameless), 'exchange')} are missing; {JSON_FIX}")
    try:
        for row in rows["ixpfx"]:
            _add(str(row.get("prefix", "")), names[row["ixlan_id"]], None, ranges)
        for row in rows["netixlan"]:
            name, asn = names.get(row.get("ixlan_id")), row.get("asn")
            if name and isinstance(asn, int) and 0 < asn <= LARGEST_ASN:
                for address in filter(None, (row.get("ipaddr4"), row.get("ipaddr6"))):
                    _add(str(address), name, asn, ranges)
    except ValueError as error:
        raise FileFault(f"PeeringDB: {error}") from None


def _names_by_lan(rows: dict[str, list[Row]]) -> dict[Any, str]:
    """Exchange name by LAN."""
    exchanges = {row.get("id"): str(row["name"]) for row in rows["ix"] if row.get("name")}
    exchange_of = {row.get("id"): row.get("ix_id") for row in rows["ixlan"]}
    of_members = {row.get("ixlan_id"): str(row["name"]) for row in rows["netixlan"] if row.get("name")}
    lans = {row.get("ixlan_id") for table in ("ixpfx", "netixlan") for row in rows[table]}
    # PeeringDB gives a LAN without a row the number of its exchange; members have the name too.
    names = {lan: exchanges.get(exchange_of.get(lan, lan)) or of_members.get(lan) for lan in lans}
    return {lan: name for lan, name in names.items() if name}
