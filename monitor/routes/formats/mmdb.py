"""Read MaxMind DB files with AS numbers, format version 2.0.

A prefix tree, 16 zero bytes, values, a marker, metadata. A node has two records of 24, 28 or 32 bits: a node, nothing
(the number of nodes), or an offset.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.mesh.document.countries import CODES
from monitor.mesh.document.networks import LARGEST_ASN
from monitor.routes.formats.table_file import FileFault, TableContents, date_of
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.building import EntryNumbers, build
from monitor.routes.tables.prefix_tree import PrefixTree, TreeError, to_ranges

MARKER = b"\xab\xcd\xefMaxMind.com"
# The metadata stands in this many bytes at the end of a file.
SEARCHED_BYTES = 128 * 1024
SEPARATOR_BYTES = 16
DEEPEST = 32
# Pointers let a few bytes stand for any number of values; the largest tables of AS have a third of this.
MOST_VALUES = 50_000_000
TEXT_BYTES_A_VALUE = 16

BROKEN = "the MaxMind database is incomplete; copy or download it again"
NO_AS = "the MaxMind database has no AS numbers; load one that has, such as GeoLite2-ASN.mmdb"

POINTER, TEXT, DOUBLE, BYTES, UINT16, UINT32, MAP, INT32, UINT64, UINT128, ARRAY = range(1, 12)
BOOLEAN, FLOAT = 14, 15
INTEGERS = (UINT16, UINT32, UINT64, UINT128, INT32)


def read_mmdb(content: bytes) -> TableContents:
    """Raises `FileFault`."""
    start = content.rfind(MARKER, max(len(content) - SEARCHED_BYTES, 0)) + len(MARKER)
    try:
        metadata, _ = _Values(content[start:]).read(0)
        node_count, record_bits = int(metadata["node_count"]), int(metadata["record_size"])
        is_ipv4_only = int(metadata["ip_version"]) == 4
        records = _records(content, node_count, record_bits)
        values = _Values(content[node_count * record_bits // 4 + SEPARATOR_BYTES : start - len(MARKER)])
        entries, children = _entries(values, records)
        tree = _below_ipv6(children) if is_ipv4_only else PrefixTree(children, _nothing(children), 0, _ipv4(children))
        ipv4, ipv6 = to_ranges(tree)
    except (struct.error, IndexError, KeyError, TypeError, ValueError, OverflowError, TreeError):
        raise FileFault(BROKEN) from None
    if not any(entry.asn for entry in entries):
        raise FileFault(NO_AS)
    return TableContents(
        build(ipv4, ipv6, entries),
        f"MaxMind database {metadata.get('database_type', 'of an unknown type')}",
        "",
        date_of(metadata.get("build_epoch")),
    )


class _Values:
    """Values of a section, each behind a control byte with its type and size."""

    def __init__(self, section: bytes) -> None:
        self._section = section
        self._values_left = MOST_VALUES

    def read(self, offset: int, depth: int = 0) -> tuple[Any, int]:
        """Value, and the offset after it."""
        self._values_left -= 1
        if self._values_left < 0 or depth > DEEPEST or not 0 <= offset < len(self._section):
            raise ValueError
        control = self._section[offset]
        kind, offset = control >> 5, offset + 1
        if kind == POINTER:
            target, after = self._pointer(control, offset)
            return self.read(target, depth + 1)[0], after
        if kind == 0:
            kind, offset = 7 + self._section[offset], offset + 1
        size, offset = self._size(control & 0x1F, offset)
        if kind == MAP:
            return self._map(size, offset, depth)
        if kind == ARRAY:
            return self._array(size, offset, depth)
        if kind == BOOLEAN:
            return bool(size), offset
        self._values_left -= size // TEXT_BYTES_A_VALUE
        return self._scalar(kind, self._section[offset : offset + size]), offset + size

    def _size(self, size: int, offset: int) -> tuple[int, int]:
        if size < 29:
            return size, offset
        count = size - 28
        least = (29, 285, 65_821)[count - 1]
        return least + int.from_bytes(self._section[offset : offset + count], "big"), offset + count

    def _pointer(self, control: int, offset: int) -> tuple[int, int]:
        count = (control >> 3 & 3) + 1
        value = int.from_bytes(self._section[offset : offset + count], "big")
        if count < 4:
            value += ((control & 7) << 8 * count) + (0, 2048, 526_336)[count - 1]
        return value, offset + count

    def _map(self, size: int, offset: int, depth: int) -> tuple[dict[str, Any], int]:
        values = {}
        for _ in range(size):
            key, offset = self.read(offset, depth + 1)
            values[key], offset = self.read(offset, depth + 1)
        return values, offset

    def _array(self, size: int, offset: int, depth: int) -> tuple[list[Any], int]:
        values = []
        for _ in range(size):
            value, offset = self.read(offset, depth + 1)
            values.append(value)
        return values, offset

    def _scalar(self, kind: int, content: bytes) -> Any:
        if kind == TEXT:
            return content.decode()
        if kind in INTEGERS:
            return int.from_bytes(content, "big", signed=kind == INT32 and len(content) == 4)
        if kind in (DOUBLE, FLOAT):
            return struct.unpack(">d" if kind == DOUBLE else ">f", content)[0]
        return content


def _records(content: bytes, node_count: int, record_bits: int) -> NDArray[np.int64]:
    if record_bits not in (24, 28, 32):
        raise ValueError
    node_bytes = record_bits // 4
    rows = np.frombuffer(content, np.uint8, node_count * node_bytes).reshape(node_count, node_bytes).astype(np.int64)
    if record_bits == 28:  # the byte in the middle has the highest four bits of both records
        left = (rows[:, 3] >> 4) << 24 | rows[:, 0] << 16 | rows[:, 1] << 8 | rows[:, 2]
        right = (rows[:, 3] & 0x0F) << 24 | rows[:, 4] << 16 | rows[:, 5] << 8 | rows[:, 6]
        return np.stack([left, right], axis=1)
    weights = 256 ** np.arange(record_bits // 8)[::-1]
    return rows.reshape(node_count, 2, record_bits // 8) @ weights


def _entries(values: _Values, records: NDArray[np.int64]) -> tuple[list[Entry], NDArray[np.int32]]:
    node_count = len(records)
    is_value = records > node_count
    offsets, places = np.unique(records[is_value], return_inverse=True)
    numbers = EntryNumbers()
    of_offset = [numbers[_entry(values.read(offset - node_count - SEPARATOR_BYTES)[0])] for offset in offsets.tolist()]
    children = np.where(records < node_count, records, -1).astype(np.int32)
    children[is_value] = -1 - np.array(of_offset, np.int32)[places]
    return numbers.entries, children


def _entry(record: Any) -> Entry:
    if not isinstance(record, dict):
        raise TypeError
    asn = record.get("autonomous_system_number", record.get("asn"))
    if isinstance(asn, str):
        asn = int(asn.upper().removeprefix("AS") or 0)
    name = record.get("autonomous_system_organization") or record.get("as_name") or record.get("name")
    country = record.get("country_code") or record.get("country")
    if isinstance(country, dict):
        country = country.get("iso_code")
    is_as = isinstance(asn, int) and 0 < asn <= LARGEST_ASN
    return Entry(asn if is_as else None, country if country in CODES else None, name if isinstance(name, str) else None)


def _nothing(children: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.zeros(len(children), np.int32)


def _ipv4(children: NDArray[np.int32]) -> int | None:
    node = 0
    # IPv4 is below ::/96; aliases of it, such as 2002::/16, are left out.
    for _ in range(96):
        node = int(children[node, 0])
        if node < 0:
            return None
    return node


def _below_ipv6(children: NDArray[np.int32]) -> PrefixTree:
    moved = np.where(children < 0, children, children + 96)
    path = np.full((96, 2), -1, np.int32)
    path[:, 0] = np.arange(1, 97)
    below = np.concatenate([path, moved])
    return PrefixTree(below, _nothing(below), 0)
