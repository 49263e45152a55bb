"""Read libloc databases, format 1 (Debian's libloc-database).

Layout: libloc's src/libloc/format.h. Network byte order; child 0 is none; IPv4 is below ::ffff:0:0/96. The signature is
not checked.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from monitor.mesh.document.countries import CODES
from monitor.routes.formats.table_file import FileFault, TableContents, date_of
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.building import build
from monitor.routes.tables.prefix_tree import PrefixTree, TreeError, to_ranges

MAGIC = b"LOCDBXX"
VERSION = 1
HEADER = struct.Struct(">7sBQ3I10I")
AS_ROW = np.dtype([("asn", ">u4"), ("name", ">u4")])
NODE_ROW = np.dtype([("children", ">u4", 2), ("network", ">u4")])
NETWORK_ROW = np.dtype([("country", "S2"), ("reserved", "V2"), ("asn", ">u4"), ("flags", ">u2"), ("padding", "V2")])
NO_NETWORK = 0xFFFFFFFF
IPV4_PREFIX = 0xFFFF

BROKEN = "the libloc database is incomplete; copy or download it again"


def read_libloc(content: bytes) -> TableContents:
    """Raises `FileFault`."""
    try:
        _, version, created_at, *numbers = HEADER.unpack_from(content)
    except struct.error:
        raise FileFault(BROKEN) from None
    if version != VERSION:
        raise FileFault(f"version {version} of libloc's format cannot be read; load a database of version {VERSION}")
    vendor, _, licence = numbers[:3]
    (as_at, as_bytes), (network_at, network_bytes), (node_at, node_bytes), _, (pool_at, pool_bytes) = zip(
        numbers[3::2], numbers[4::2], strict=True
    )
    pool = content[pool_at : pool_at + pool_bytes]
    if len(pool) < pool_bytes:
        raise FileFault(BROKEN)
    nodes = _rows(content, NODE_ROW, node_at, node_bytes)
    networks = _rows(content, NETWORK_ROW, network_at, network_bytes)
    names = {int(row["asn"]): _text(pool, int(row["name"])) for row in _rows(content, AS_ROW, as_at, as_bytes)}
    entries, of_network = _entries(networks, names)
    try:
        ipv4, ipv6 = to_ranges(_tree(nodes, of_network))
    except TreeError:
        raise FileFault(BROKEN) from None
    return TableContents(
        build(ipv4, ipv6, entries),
        f"libloc database of {_text(pool, vendor) or 'an unknown vendor'}",
        _text(pool, licence),
        date_of(created_at),
    )


def _rows(content: bytes, dtype: np.dtype, offset: int, size_bytes: int) -> NDArray[np.void]:
    if offset + size_bytes > len(content) or size_bytes % dtype.itemsize:
        raise FileFault(BROKEN)
    return np.frombuffer(content, dtype, size_bytes // dtype.itemsize, offset)


def _text(pool: bytes, offset: int) -> str:
    return pool[offset : pool.find(b"\0", offset)].decode(errors="replace")


def _entries(networks: NDArray[np.void], names: dict[int, str]) -> tuple[list[Entry], NDArray[np.int32]]:
    country = networks["country"].copy().view(">u2").ravel().astype(np.int64)
    keys, numbers = np.unique(networks["asn"].astype(np.int64) << 16 | country, return_inverse=True)
    entries = [Entry()]
    for key in keys.tolist():
        asn, code = key >> 16, (key & 0xFFFF).to_bytes(2, "big").decode(errors="replace")
        entries.append(Entry(asn or None, code if code in CODES else None, names.get(asn) or None))
    return entries, numbers.astype(np.int32) + 1


def _tree(nodes: NDArray[np.void], of_network: NDArray[np.int32]) -> PrefixTree:
    has_network = nodes["network"] != NO_NETWORK
    network = nodes["network"][has_network]
    if nodes["children"].max(initial=0) >= len(nodes) or np.any(network >= len(of_network)):
        raise TreeError
    children = nodes["children"].astype(np.int32)
    entries = np.zeros(len(nodes), np.int32)
    entries[has_network] = of_network[network]
    return PrefixTree(np.where(children, children, -1), entries, IPV4_PREFIX)
