"""Figures of a day for the small trends in lists: of sites by hour, of paths by hour, and of throughput tests.

In: sites or paths with a period each. Out: records for all of them, by a single statement; an hour or test without a
record has no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import records, run_statement


@dataclass(frozen=True, slots=True)
class HourOfSite:
    """Packets on all paths from a site in an hour."""

    site_id: int
    at: datetime
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class HourOfPath:
    """An hour of the wanted path at this place."""

    place: int
    at: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


@dataclass(frozen=True, slots=True)
class ThroughputOfPath:
    """A throughput test of the wanted path at this place; without a rate it failed."""

    place: int
    at: datetime
    throughput_bps: float | None


@dataclass(frozen=True, slots=True)
class WantedPath:
    """A path and its period."""

    path_id: int
    since: datetime
    until: datetime


def site_trends(since: datetime, until: datetime, packet_bytes: int) -> list[HourOfSite]:
    """Each site and hour of [since, until) with packets, by site and time."""
    answer = run_statement("site_trends", since=since, until=until, packet_bytes=packet_bytes)
    return records(HourOfSite, *answer)


def path_trends(wanted: Sequence[WantedPath], packet_bytes: int) -> list[HourOfPath]:
    """The hours of each wanted path, by place and time."""
    return records(HourOfPath, *run_statement("path_trends", **_columns(wanted), packet_bytes=packet_bytes))


def throughput_trends(wanted: Sequence[WantedPath]) -> list[ThroughputOfPath]:
    """The throughput tests of each wanted path, by place and time."""
    return records(ThroughputOfPath, *run_statement("throughput_trends", **_columns(wanted)))


def _columns(wanted: Sequence[WantedPath]) -> dict[str, list[object]]:
    return {
        "path_ids": [path.path_id for path in wanted],
        "since": [path.since for path in wanted],
        "until": [path.until for path in wanted],
    }
