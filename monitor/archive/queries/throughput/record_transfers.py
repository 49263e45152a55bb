"""Record transfers of a mesh: the fastest test of each path, by bit/s or by bit-metres per second.

In: a period, half open [since, until), an address family, and the criterion. Out: `RecordTransfer`s, best first.
Bit-metres per second, rate times great-circle distance, are the unit of the Internet land speed record: a fast transfer
is harder over a long path.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.analysis.geography import great_circle_km
from monitor.analysis.transfer import bit_metres_per_s
from monitor.archive.statements import check_period, records, run_statement


class RecordBy(StrEnum):
    """Criterion of a record."""

    RATE = "rate"
    BIT_METRES = "bit-metres"


@dataclass(frozen=True, slots=True)
class FastestTest:
    """Fastest test of a path, with the coordinates of its ends."""

    path_id: int
    at: datetime
    test: str
    throughput_bps: float
    streams: int
    congestion_control: str | None
    duration_s: float | None
    sentence: str | None
    family: int
    source: str
    destination: str
    source_latitude_deg: float
    source_longitude_deg: float
    destination_latitude_deg: float
    destination_longitude_deg: float

    @property
    def distance_km(self) -> float:
        return great_circle_km(
            self.source_latitude_deg,
            self.source_longitude_deg,
            self.destination_latitude_deg,
            self.destination_longitude_deg,
        )


@dataclass(frozen=True, slots=True)
class RecordTransfer:
    """A test with its figure of merit. Over zero distance, as within a campus, bit-metres are 0."""

    fastest: FastestTest
    distance_km: float
    bit_metres_per_s: float


def best_transfers(
    since: datetime, until: datetime, *, by: RecordBy = RecordBy.RATE, family: int | None = None, limit: int = 20
) -> list[RecordTransfer]:
    """Fastest test of each path in the period, `limit` at most, best first."""
    check_period(since, until)
    transfers = [
        _record(fastest)
        for fastest in records(FastestTest, *run_statement("best_transfers", since=since, until=until, family=family))
    ]
    by_rate = by is RecordBy.RATE
    transfers.sort(key=lambda test: -(test.fastest.throughput_bps if by_rate else test.bit_metres_per_s))
    return transfers[:limit]


def _record(fastest: FastestTest) -> RecordTransfer:
    distance_km = fastest.distance_km
    return RecordTransfer(fastest, distance_km, bit_metres_per_s(fastest.throughput_bps, distance_km))
