"""Record transfers of a mesh: fastest tests by bit/s, or by rate times great-circle distance (bit-metres per second,
Internet land speed record)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.analysis.geography import great_circle_km
from monitor.analysis.transfer import bit_metres_per_s
from monitor.archive.statements import check_period, records, run_statement


class RecordBy(StrEnum):
    RATE = "rate"
    BIT_METRES = "bit-metres"


@dataclass(frozen=True, slots=True)
class FastestTest:
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
    """Test with its figure of merit; 0 bit-metres over zero distance."""

    fastest: FastestTest
    distance_km: float
    bit_metres_per_s: float


def best_transfers(
    since: datetime, until: datetime, *, by: RecordBy = RecordBy.RATE, family: int | None = None, limit: int = 20
) -> list[RecordTransfer]:
    """Fastest test of each path, at most `limit`, best first."""
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
