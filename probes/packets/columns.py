"""Bursts as columns, without an object for each: `BurstArrays` has the bursts that consist of numbers alone.

`PingResults` has all bursts of a cycle: these in columns, the others as `Burst`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast, get_args, overload

import numpy as np
import numpy.typing as npt

from probes.contract import Outcome
from probes.packets.arrays import Int64s
from probes.packets.spec import Burst, Stamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NS_PER_MS = 1_000_000
# From the best to the poorest.
STAMPS: tuple[Stamp, ...] = get_args(Stamp)
COUNTS = ("sent", "received", "late", "duplicates", "reordered", "ttl_changes", "stamps_lost", "waited")
# Named after `Burst`'s fields; `started_us` since the epoch, `stamp` an index in `STAMPS`, `NONE` where missing.
RECORD = np.dtype(
    [
        ("path_id", "<i4"),
        ("packet_bytes", "<i4"),
        ("started_us", "<i8"),
        *((name, "<i4") for name in COUNTS),
        ("ttl", "<i4"),
        ("stamp", "<i4"),
        ("rate_limited", "<i4"),
        ("flow", "<i4"),
    ]
)
NONE = -1
LOST_NS = -1

Records = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class BurstArrays:
    """Measured bursts of one address family."""

    family: Literal[4, 6]
    clock_source: str | None
    records: Records
    rtts_ns: Int64s  # all requests' RTTs, burst after burst; `LOST_NS` without reply
    targets: Sequence[str]
    addresses: Sequence[str]
    source_addresses: Sequence[str | None]
    details: Sequence[str | None] = ()  # empty if no burst has any

    def __len__(self) -> int:
        return len(self.records)

    def part(self, first: int, stop: int) -> BurstArrays:
        begin, end = self.records["sent"][:first].sum(), self.records["sent"][:stop].sum()
        return replace(
            self,
            records=self.records[first:stop],
            rtts_ns=self.rtts_ns[begin:end],
            targets=self.targets[first:stop],
            addresses=self.addresses[first:stop],
            source_addresses=self.source_addresses[first:stop],
            details=self.details[first:stop],
        )

    def bursts(self) -> Iterator[Burst]:
        rtts_ms = np.where(self.rtts_ns == LOST_NS, np.nan, self.rtts_ns / NS_PER_MS).astype(object)
        rtts_ms[self.rtts_ns == LOST_NS] = None
        ends = np.cumsum(self.records["sent"]).tolist()
        whole = rtts_ms.tolist()
        names = self.records.dtype.names or ()
        for place, (values, end) in enumerate(zip(self.records.tolist(), ends, strict=True)):
            record: dict[str, Any] = dict(zip(names, values, strict=True))
            stamp, ttl, flow, limited = (record[name] for name in ("stamp", "ttl", "flow", "rate_limited"))
            yield Burst(
                target=self.targets[place],
                address=self.addresses[place],
                family=self.family,
                packet_bytes=record["packet_bytes"],
                started_at=EPOCH + timedelta(microseconds=record["started_us"]),
                outcome=Outcome.MEASURED,
                rtts_ms=tuple(whole[end - record["sent"] : end]),
                ttl=None if ttl < 0 else ttl,
                stamp=None if stamp < 0 else STAMPS[stamp],
                clock_source=self.clock_source,
                rate_limited=None if limited < 0 else bool(limited),
                flow=None if flow < 0 else flow,
                source_address=self.source_addresses[place],
                detail=self.details[place] if self.details else None,
                **{name: record[name] for name in COUNTS},
            )


@dataclass(frozen=True, slots=True)
class PlacedColumns:
    """Columns of a cycle, with each burst's place in it."""

    columns: BurstArrays
    places: Int64s


class PingResults(Sequence[Burst]):
    """All bursts of a cycle, in the spec's order: `columns`, and `others` by their place."""

    def __init__(self, columns: Sequence[PlacedColumns], others: dict[int, Burst]) -> None:
        self.columns = columns
        self.others = others

    def all(self) -> tuple[Burst, ...]:
        bursts = dict(self.others)
        for placed in self.columns:
            bursts.update(zip(placed.places.tolist(), placed.columns.bursts(), strict=True))
        return tuple(bursts[place] for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.others) + sum(len(placed.columns) for placed in self.columns)

    def __iter__(self) -> Iterator[Burst]:
        return iter(self.all())

    @overload
    def __getitem__(self, place: int) -> Burst: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Burst]: ...
    def __getitem__(self, place: int | slice) -> Burst | Sequence[Burst]:
        return cast("Burst | Sequence[Burst]", self.all()[place])
