"""Policer tests of a path over a period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, select


@dataclass(frozen=True, slots=True)
class PolicerPoint:
    """A policer test. Rates are in bit/s, bursts in bytes, of IP packets; None where not measured. `sentence` is the
    verdict with its figures."""

    at: datetime
    test: str
    outcome: str
    verdict: str | None
    sustained_bps: float | None
    sustained_low_bps: float | None
    sustained_high_bps: float | None
    burst_bytes: float | None
    burst_low_bytes: float | None
    burst_high_bytes: float | None
    peak_bps: float | None
    packet_bytes: int | None
    sent: int
    received: int
    delay_rise_ms: float | None
    sentence: str | None
    detail: str | None


def policer_series(path_id: int, since: datetime, until: datetime) -> list[PolicerPoint]:
    """All policer tests of a path that began in the period, oldest first, whatever their outcome."""
    check_period(since, until)
    return select(PolicerPoint, "policer_series", path_id=path_id, since=since, until=until)
