"""Build an `AddressTable`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from monitor.routes.tables.address_table import UNKNOWN, AddressTable, Entry

# First and last address as integers, and the number of an entry.
Range = tuple[int, int, int]

BYTES = {4: 4, 6: 16}
DTYPES = {4: ">u4", 6: "S16"}
# Sorted starts of ranges, and the numbers of their entries.
Starts = tuple[NDArray[np.generic], NDArray[np.uint32]]


class EntryNumbers:
    """Entries numbered by first use; 0 is unknown."""

    def __init__(self) -> None:
        self._numbers: dict[Entry, int] = {Entry(): UNKNOWN}

    def __getitem__(self, entry: Entry) -> int:
        return self._numbers.setdefault(entry, len(self._numbers))

    @property
    def entries(self) -> list[Entry]:
        return list(self._numbers)


# The largest tables have a million; in memory a range takes 300 bytes until all are sorted.
MOST_RANGES = 5_000_000


class RangeList:
    """The smallest range with an address counts; of equal ranges, the first."""

    def __init__(self) -> None:
        self.numbers = EntryNumbers()
        self._ranges: dict[int, list[Range]] = {4: [], 6: []}

    def add(self, family: int, first: int, last: int, entry: Entry) -> None:
        """Raises ValueError beyond `MOST_RANGES`."""
        if len(self) >= MOST_RANGES:
            raise ValueError(f"is beyond the {MOST_RANGES:,} ranges that a table may have; load a smaller one")
        self._ranges[family].append((first, last, self.numbers[entry]))

    def __len__(self) -> int:
        return len(self._ranges[4]) + len(self._ranges[6])

    def table(self) -> AddressTable:
        ipv4, ipv6 = (_as_arrays(family, disjoint(self._ranges[family])) for family in (4, 6))
        return build(ipv4, ipv6, self.numbers.entries)


def disjoint(ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
    """Split ranges into ascending starts and entries; the smallest counts, gaps are `UNKNOWN`."""
    current = UNKNOWN
    for start, number in _boundaries(ranges):
        if number != current:
            yield start, number
            current = number


def _boundaries(ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
    # Ranges that began, smallest first: length, order in the file, last address, entry. Those that ended stay until
    # they are on top.
    begun: list[tuple[int, int, int, int]] = []
    position = 0
    ordered = sorted(((first, order, last, number) for order, (first, last, number) in enumerate(ranges)))
    for first, order, last, number in ordered:
        yield from _until(first, position, begun)
        heapq.heappush(begun, (last - first, order, last, number))
        position = first
    yield from _until(None, position, begun)


def _until(end: int | None, position: int, begun: list[tuple[int, int, int, int]]) -> Iterator[tuple[int, int]]:
    while begun and (end is None or position < end):
        _, _, last, number = begun[0]
        if last < position:
            heapq.heappop(begun)
            if not begun:
                yield position, UNKNOWN
            continue
        yield position, number
        position = last + 1


def _as_arrays(family: int, boundaries: Iterable[tuple[int, int]]) -> Starts:
    starts, numbers = [], []
    for start, number in boundaries:
        # A gap after the last address has no start.
        if start < 1 << 8 * BYTES[family]:
            starts.append(start.to_bytes(BYTES[family], "big"))
            numbers.append(number)
    return np.frombuffer(b"".join(starts), DTYPES[family]), np.array(numbers, np.uint32)


def build(ipv4: Starts, ipv6: Starts, entries: list[Entry]) -> AddressTable:
    """Build a table of disjoint ranges, with entries sorted by AS number; entry 0 stays."""
    order = [UNKNOWN, *sorted(range(1, len(entries)), key=lambda number: entries[number].asn or 0)]
    new_numbers = np.empty(len(entries), np.uint32)
    new_numbers[order] = np.arange(len(entries), dtype=np.uint32)
    ordered = [entries[number] for number in order]
    labels = [(entry.label or "").encode(errors="replace") for entry in ordered]
    return AddressTable(
        ipv4_starts=ipv4[0].astype(np.uint32),
        ipv4_entries=new_numbers[ipv4[1]],
        ipv6_starts=ipv6[0].astype("S16"),
        ipv6_entries=new_numbers[ipv6[1]],
        asns=np.array([entry.asn or 0 for entry in ordered], np.uint32),
        countries=np.array([(entry.country or "").encode() for entry in ordered], "S2"),
        label_offsets=np.cumsum([0, *map(len, labels)]).astype(np.uint32),
        labels=np.frombuffer(b"".join(labels), np.uint8),
    )
