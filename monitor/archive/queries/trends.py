"""Figures of a day for small trends in lists, for all sites or paths in a single statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.archive.periods import SLOTS_AN_HOUR
from monitor.archive.round_trips import unpack
from monitor.archive.statements import records, run_statement

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class HourOfSite:
    site_id: int
    at: datetime
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class HourOfPath:
    place: int
    at: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


@dataclass(frozen=True, slots=True)
class ThroughputOfPath:
    """Throughput test of the wanted path at `place`; without a rate it failed."""

    place: int
    at: datetime
    throughput_bps: float | None


@dataclass(frozen=True, slots=True)
class WantedPath:
    path_id: int
    since: datetime
    until: datetime


def site_trends(since: datetime, until: datetime, packet_bytes: int) -> list[HourOfSite]:
    answer = run_statement("site_trends", since=since, until=until, packet_bytes=packet_bytes)
    return records(HourOfSite, *answer)


def path_trends(wanted: Sequence[WantedPath], packet_bytes: int) -> list[HourOfPath]:
    return records(HourOfPath, *run_statement("path_trends", **_columns(wanted), packet_bytes=packet_bytes))


def throughput_trends(wanted: Sequence[WantedPath]) -> list[ThroughputOfPath]:
    return records(ThroughputOfPath, *run_statement("throughput_trends", **_columns(wanted)))


def _columns(wanted: Sequence[WantedPath]) -> dict[str, list[object]]:
    return {
        "path_ids": [path.path_id for path in wanted],
        "since": [path.since for path in wanted],
        "until": [path.until for path in wanted],
    }


def slot_minima(path_ids: Sequence[int], since: datetime, until: datetime) -> dict[int, NDArray[np.float64]]:
    """Minimum RTT in ms of each 5-minute slot, by path with data: shape (hours, slots), NaN without replies."""
    first_s = int(since.timestamp())
    hours = int(until.timestamp() - first_s) // HOUR_S
    _, rows = run_statement("slot_minima", path_ids=list(path_ids), since=since, until=until)
    minima = {}
    for path_id, packed_hours, packed_minima in rows:
        place = (np.frombuffer(packed_hours, dtype=">i8") - first_s) // HOUR_S
        minima_ms = np.full((hours, SLOTS_AN_HOUR), np.nan)
        np.fmin.at(minima_ms, place, unpack(np.full(len(place), SLOTS_AN_HOUR), packed_minima))
        minima[path_id] = minima_ms
    return minima
