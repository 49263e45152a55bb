"""Read prefix trees of libloc and MaxMind, level by level, into disjoint ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from monitor.routes.tables.address_table import UNKNOWN
from monitor.routes.tables.building import Starts

IPV6_BITS = 128
# A level has at most as many nodes as the file, or this many: parts of small trees may be shared.
LEAST_NODES_AT_A_LEVEL = 1_000_000

Numbers = NDArray[np.int32]
Prefixes = NDArray[np.uint64]


class TreeError(Exception):
    """The nodes of the file are no tree."""


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Nodes over IPv6 addresses, the root first."""

    children: Numbers  # (n × 2) next node by bit, or -1 - entry at ends, 0 inherited
    entries: Numbers  # entry of each node's prefix, 0 for the nearest above
    ipv4_prefix: int  # 96 bits; IPv4 addresses are the last 32 below it
    aliased: int | None = None  # node that counts below `ipv4_prefix` only


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes at a depth, with inherited entries."""

    nodes: Numbers
    high: Prefixes
    low: Prefixes
    inherited: Numbers

    def select(self, mask: NDArray[np.bool_]) -> _Level:
        return _Level(self.nodes[mask], self.high[mask], self.low[mask], self.inherited[mask])


@dataclass(frozen=True, slots=True)
class _Leaves:
    high: list[Prefixes] = field(default_factory=list)
    low: list[Prefixes] = field(default_factory=list)
    entries: list[Numbers] = field(default_factory=list)

    def add(self, level: _Level, entries: Numbers) -> None:
        self.high.append(level.high)
        self.low.append(level.low)
        self.entries.append(entries)


def to_ranges(tree: PrefixTree) -> tuple[Starts, Starts]:
    """Ranges of IPv4 and IPv6; equal neighbours are merged. Raises `TreeError` for missing or cyclic nodes."""
    count = len(tree.children)
    if count == 0 or tree.children.max() >= count:
        raise TreeError
    zero = np.zeros(1, np.uint64)
    level = _Level(np.zeros(1, np.int32), zero, zero, np.zeros(1, np.int32))
    leaves = _Leaves()
    for depth in range(IPV6_BITS):
        if tree.aliased is not None:
            level = level.select((level.nodes != tree.aliased) | _is_below(tree.ipv4_prefix, level, depth))
        below = _children(tree, level, depth)
        is_leaf = below.nodes < 0
        ended = below.select(is_leaf)
        leaves.add(ended, _first_nonzero(-1 - ended.nodes, ended.inherited))
        level = below.select(~is_leaf)
        if len(level.nodes) > max(count, LEAST_NODES_AT_A_LEVEL):
            raise TreeError
    # Nodes of whole addresses have entries and no children.
    leaves.add(level, _own(tree, level))
    return _split(tree.ipv4_prefix, leaves)


def _first_nonzero(entries: Numbers, inherited: Numbers) -> Numbers:
    return np.where(entries, entries, inherited)


def _own(tree: PrefixTree, level: _Level) -> Numbers:
    return _first_nonzero(tree.entries[level.nodes], level.inherited)


def _children(tree: PrefixTree, level: _Level, depth: int) -> _Level:
    bit = np.uint64(1 << (63 - depth % 64))
    inherited = _own(tree, level)
    return _Level(
        np.concatenate([tree.children[level.nodes, 0], tree.children[level.nodes, 1]]),
        np.concatenate([level.high, level.high | bit if depth < 64 else level.high]),
        np.concatenate([level.low, level.low | bit if depth >= 64 else level.low]),
        np.concatenate([inherited, inherited]),
    )


def _is_below(prefix: int, level: _Level, depth: int) -> NDArray[np.bool_]:
    if depth != 96:
        return np.zeros(len(level.nodes), bool)
    return _is_ipv4(prefix, level.high, level.low)


def _is_ipv4(prefix: int, high: Prefixes, low: Prefixes) -> NDArray[np.bool_]:
    return (high == np.uint64(prefix >> 32)) & (low >> np.uint64(32) == np.uint64(prefix & 0xFFFFFFFF))


def _split(ipv4_prefix: int, leaves: _Leaves) -> tuple[Starts, Starts]:
    """Sorted starts and entries of both families."""
    high, low, entries = np.concatenate(leaves.high), np.concatenate(leaves.low), np.concatenate(leaves.entries)
    order = np.lexsort((low, high))
    high, low, entries = high[order], low[order], entries[order]
    is_ipv4 = _is_ipv4(ipv4_prefix, high, low)
    # Leaves cover the address space, so each ends at the next start.
    ipv4_starts, ipv4_entries = low[is_ipv4] & np.uint64(0xFFFFFFFF), entries[is_ipv4]
    changes = _changes(ipv4_entries)
    ipv4 = ipv4_starts[changes].astype(np.uint32), ipv4_entries[changes].astype(np.uint32)
    ipv6_entries = np.where(is_ipv4, UNKNOWN, entries)
    changes = _changes(ipv6_entries)
    ipv6_starts = np.stack([high[changes], low[changes]], axis=1).astype(">u8").view("S16").ravel()
    return ipv4, (ipv6_starts, ipv6_entries[changes].astype(np.uint32))


def _changes(entries: Numbers) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(entries, prepend=np.int32(UNKNOWN)))
