"""Binary prefix trees of libloc and MaxMind databases, read level by level into ranges without overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.routes.tables.building import Starts

IPV6_BITS = 128
LEAST_NODES_AT_A_LEVEL = 1_000_000
"""A level has at most as many nodes as the file, or this many: parts of small trees may be shared."""

Numbers = NDArray[np.int64]


class TreeError(Exception):
    """The nodes of the file are no tree."""


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Nodes of a tree over IPv6 addresses, the root first.

    `children` (n × 2) has for each bit the next node; -1 - entry where the tree ends, with the entry 0 for that of the
    nearest node above. `entries` has the entry of each node's prefix, 0 for that of the nearest node above. IPv4
    addresses are the last 32 bits below `ipv4_prefix` (96 bits). `aliased`: a node that counts below that prefix only.
    """

    children: NDArray[np.int64]
    entries: NDArray[np.int64]
    ipv4_prefix: int
    aliased: int | None = None


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes at a depth: numbers, first 64 and last 64 bits of the prefixes, entries from above."""

    nodes: Numbers
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    inherited: Numbers

    def select(self, mask: NDArray[np.bool_]) -> _Level:
        return _Level(self.nodes[mask], self.high[mask], self.low[mask], self.inherited[mask])


def to_ranges(tree: PrefixTree) -> tuple[Starts, Starts]:
    """Ranges of IPv4 and IPv6, each with its entry, neighbours with the same entry merged.

    Raises `TreeError` for a node that does not exist, and for nodes that lead to each other.
    """
    count = len(tree.children)
    if count == 0 or tree.children.max() >= count:
        raise TreeError
    most = max(count, LEAST_NODES_AT_A_LEVEL)
    zero = np.zeros(1, np.uint64)
    level = _Level(np.zeros(1, np.int64), zero, zero, np.zeros(1, np.int64))
    leaves = []
    for depth in range(IPV6_BITS):
        if tree.aliased is not None:
            level = level.select((level.nodes != tree.aliased) | _is_below(tree.ipv4_prefix, level, depth))
        below = _children(tree, level, depth)
        is_leaf = below.nodes < 0
        leaves.append(_ended(below.select(is_leaf)))
        level = below.select(~is_leaf)
        if len(level.nodes) > most:
            raise TreeError
    # Nodes of whole addresses have entries and no children.
    leaves.append(_Level(level.nodes, level.high, level.low, _own(tree, level)))
    return _split(tree.ipv4_prefix, leaves)


def _own(tree: PrefixTree, level: _Level) -> Numbers:
    own = tree.entries[level.nodes]
    return np.where(own, own, level.inherited)


def _children(tree: PrefixTree, level: _Level, depth: int) -> _Level:
    """Both children of each node of a level, with the entries that they inherit."""
    bit = np.uint64(1 << (63 - depth % 64))
    half = np.zeros(len(level.nodes), np.uint64)
    set_bit = half + bit
    high, low = (set_bit, half) if depth < 64 else (half, set_bit)
    inherited = _own(tree, level)
    return _Level(
        np.concatenate([tree.children[level.nodes, 0], tree.children[level.nodes, 1]]),
        np.concatenate([level.high, level.high | high]),
        np.concatenate([level.low, level.low | low]),
        np.concatenate([inherited, inherited]),
    )


def _ended(leaves: _Level) -> _Level:
    """Leaves with their entries as `inherited`."""
    entries = -1 - leaves.nodes
    return _Level(leaves.nodes, leaves.high, leaves.low, np.where(entries, entries, leaves.inherited))


def _is_below(prefix: int, level: _Level, depth: int) -> NDArray[np.bool_]:
    """Nodes at `depth` whose prefix is that of the IPv4 addresses."""
    if depth != 96:
        return np.zeros(len(level.nodes), bool)
    return (level.high == np.uint64(prefix >> 32)) & (level.low >> np.uint64(32) == np.uint64(prefix & 0xFFFFFFFF))


def _split(ipv4_prefix: int, leaves: list[_Level]) -> tuple[Starts, Starts]:
    """Sorted starts of both families. The leaves cover the address space, so each ends where the next begins."""
    high = np.concatenate([leaf.high for leaf in leaves])
    low = np.concatenate([leaf.low for leaf in leaves])
    entries = np.concatenate([leaf.inherited for leaf in leaves])
    order = np.lexsort((low, high))
    high, low, entries = high[order], low[order], entries[order]
    is_ipv4 = (high == np.uint64(ipv4_prefix >> 32)) & (low >> np.uint64(32) == np.uint64(ipv4_prefix & 0xFFFFFFFF))
    ipv4 = _merged((low[is_ipv4] & np.uint64(0xFFFFFFFF)).astype(np.uint32), entries[is_ipv4])
    addresses = np.stack([high, low], axis=1).astype(">u8").view("S16").ravel()
    ipv6 = _merged(addresses, np.where(is_ipv4, 0, entries))
    return ipv4, ipv6


def _merged(starts: NDArray[np.generic], entries: Numbers) -> Starts:
    """Ranges without those that continue the range before."""
    changes = np.flatnonzero(np.diff(entries, prepend=0)) if len(entries) else np.zeros(0, np.intp)
    return starts[changes], entries[changes].astype(np.uint32)
