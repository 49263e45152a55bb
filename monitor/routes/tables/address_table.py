"""Table of disjoint address ranges as sorted NumPy arrays; entry 0 is unknown."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from monitor.routes.tables.batches import AddressBatch

# Number of the entry of addresses in no range.
UNKNOWN = 0

COMPRESSION_LEVEL = 9


@dataclass(frozen=True, slots=True)
class Entry:
    """Each field is None if unknown."""

    asn: int | None = None
    country: str | None = None  # ISO 3166
    label: str | None = None


@dataclass(frozen=True, slots=True)
class AddressTable:
    ipv4_starts: NDArray[np.uint32]  # ascending
    ipv4_entries: NDArray[np.uint32]  # number of the entry from each start on
    ipv6_starts: NDArray[np.bytes_]  # 16 bytes in network order, ascending
    ipv6_entries: NDArray[np.uint32]  # number of the entry from each start on
    asns: NDArray[np.uint32]  # of each entry, 0 if unknown, ascending
    countries: NDArray[np.bytes_]  # of each entry, empty if unknown
    label_offsets: NDArray[np.uint32]
    labels: NDArray[np.uint8]  # UTF-8; entry n's from label_offsets[n] to label_offsets[n + 1]

    def find(self, batch: AddressBatch) -> NDArray[np.uint32]:
        """Entry number of each address; `UNKNOWN` in no range."""
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
        return Entry(
            int(self.asns[number]) or None, self.countries[number].decode() or None, self._label(number) or None
        )

    def label_of_as(self, asn: int) -> str | None:
        """Label of the AS number's first entry."""
        number = int(np.searchsorted(self.asns, asn))
        has_entry = number < len(self.asns) and self.asns[number] == asn
        return self._label(number) or None if has_entry else None

    @property
    def range_counts(self) -> tuple[int, int]:
        """Ranges with an entry: IPv4, IPv6."""
        return int(np.count_nonzero(self.ipv4_entries)), int(np.count_nonzero(self.ipv6_entries))

    @property
    def as_count(self) -> int:
        return int(np.count_nonzero(np.unique(self.asns)))

    @property
    def size_bytes(self) -> int:
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def _label(self, number: int) -> str:
        return self.labels[self.label_offsets[number] : self.label_offsets[number + 1]].tobytes().decode()


def pack(table: AddressTable) -> bytes:
    file = io.BytesIO()
    arrays: dict[str, Any] = {field.name: getattr(table, field.name) for field in fields(table)}
    np.savez(file, **arrays)
    return zstandard.compress(file.getvalue(), COMPRESSION_LEVEL)


def unpack(content: bytes) -> AddressTable:
    with np.load(io.BytesIO(zstandard.decompress(content)), allow_pickle=False) as arrays:
        return AddressTable(**{field.name: arrays[field.name] for field in fields(AddressTable)})
