"""A table of address ranges: sorted NumPy arrays, with an AS number, a country and a label for each range.

`AddressTable.find` looks addresses up, `pack` and `unpack` convert a table to bytes and back. Ranges do not overlap:
each begins at its start and ends before the next start. Entry 0 stands for unknown.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from monitor.routes.tables.batches import AddressBatch

UNKNOWN = 0
"""Number of the entry of addresses in no range."""

COMPRESSION_LEVEL = 9


@dataclass(frozen=True, slots=True)
class Entry:
    """AS number, country (ISO 3166) and label of a range; each None if unknown."""

    asn: int | None = None
    country: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class AddressTable:
    """Ranges of both families, and their entries.

    `ipv4_starts` (uint32) and `ipv6_starts` (16 bytes in network order) ascend; `ipv4_entries` and `ipv6_entries` have
    the number of the entry from there on. Entries: `asns`, 0 if unknown, ascending; `countries`, empty if unknown;
    `labels` is UTF-8 text, that of entry n from `label_offsets[n]` to `label_offsets[n + 1]`.
    """

    ipv4_starts: NDArray[np.uint32]
    ipv4_entries: NDArray[np.uint32]
    ipv6_starts: NDArray[np.bytes_]
    ipv6_entries: NDArray[np.uint32]
    asns: NDArray[np.uint32]
    countries: NDArray[np.bytes_]
    label_offsets: NDArray[np.uint32]
    labels: NDArray[np.uint8]

    def find(self, batch: AddressBatch) -> NDArray[np.uint32]:
        """Number of the entry of each address; `UNKNOWN` for addresses in no range."""
        numbers = np.zeros(batch.size, np.uint32)
        for starts, entries, addresses, places in (
            (self.ipv4_starts, self.ipv4_entries, batch.ipv4, batch.ipv4_places),
            (self.ipv6_starts, self.ipv6_entries, batch.ipv6, batch.ipv6_places),
        ):
            if len(starts) and len(places):
                before = np.searchsorted(starts, addresses, side="right")
                numbers[places] = np.where(before, entries[before - 1], UNKNOWN)
        return numbers

    def entry(self, number: int) -> Entry:
        """Entry by its number."""
        return Entry(
            int(self.asns[number]) or None, self.countries[number].decode() or None, self._label(number) or None
        )

    def label_of_as(self, asn: int) -> str | None:
        """Label of the first entry of an AS number; None if no entry has it."""
        number = int(np.searchsorted(self.asns, asn))
        has_entry = number < len(self.asns) and self.asns[number] == asn
        return self._label(number) or None if has_entry else None

    @property
    def range_counts(self) -> tuple[int, int]:
        """Number of ranges with an entry: IPv4, IPv6."""
        return int(np.count_nonzero(self.ipv4_entries)), int(np.count_nonzero(self.ipv6_entries))

    @property
    def as_count(self) -> int:
        """Number of different AS numbers."""
        return int(np.count_nonzero(np.unique(self.asns)))

    @property
    def size_bytes(self) -> int:
        """Memory of all arrays."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def _label(self, number: int) -> str:
        return self.labels[self.label_offsets[number] : self.label_offsets[number + 1]].tobytes().decode()


def pack(table: AddressTable) -> bytes:
    """Arrays of a table as compressed bytes."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {field.name: getattr(table, field.name) for field in fields(table)}
    np.savez(file, **arrays)
    return zstandard.compress(file.getvalue(), COMPRESSION_LEVEL)


def unpack(content: bytes) -> AddressTable:
    """Table from the bytes of `pack`."""
    with np.load(io.BytesIO(zstandard.decompress(content)), allow_pickle=False) as arrays:
        return AddressTable(**{field.name: arrays[field.name] for field in fields(AddressTable)})
