"""Latency under load: RTT and loss of pings during our own throughput tests at their host, in no other figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.analysis.summaries import grouped_quantiles
from monitor.archive.cold.reading import run_burst_statement
from monitor.archive.columns import nullable
from monitor.archive.queries.paths import RAW_STEP_S, STEPS, series_since
from monitor.archive.queries.pooling import pieces_of
from monitor.archive.round_trips import unpack_groups
from monitor.archive.statements import LONGEST_RAW, check_period, records, run_statement
from monitor.arrays import Floats, Ints

SHARES = (0.5, 0.95)
COLUMNS = "path_id, packet_bytes, loaded_sent, loaded_received, loaded_rtt_sketch"


@dataclass(frozen=True, slots=True)
class LatencyUnderLoad:
    """Packets of a path and size under load; percentiles within 0.25%, None without replies."""

    path_id: int
    packet_bytes: int
    sent: int
    received: int
    rtt_median_ms: float | None
    rtt_p95_ms: float | None

    @property
    def lost(self) -> int:
        return self.sent - self.received

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent


@dataclass(frozen=True, slots=True)
class LoadedPoint:
    at: datetime
    sent: int
    received: int
    rtt_median_ms: float | None
    rtt_p95_ms: float | None


def under_load(
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None = None,
    path_ids: Sequence[int] | None = None,
    exact: bool = False,
) -> list[LatencyUnderLoad]:
    """Latency under load by path and size, over the summaries of `path_summaries`."""
    check_period(since, until)
    pieces, parameters = pieces_of(
        since, until, packet_bytes=packet_bytes, path_ids=path_ids, exact=exact, columns=COLUMNS
    )
    _, rows = run_statement("loaded_summaries", {"pieces": pieces}, **parameters)
    quantiles = Sketches.of_bytes([row[-1] for row in rows]).quantiles(SHARES, RTT_MS)
    columns = [nullable(values) for values in quantiles.T]
    return [LatencyUnderLoad(*row[:-1], *figures) for row, *figures in zip(rows, *columns, strict=True)]


def under_own_tests(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[LatencyUnderLoad]:
    """Latency during tests of the path itself that began in [since, until) and transferred data, from raw bursts."""
    check_period(since, until)
    _, rows = run_statement("loaded_by_own_tests", path_ids=list(path_ids), since=since, until=until)
    if not rows:
        return []
    group, packets, rtts_ms = unpack_groups([row[2] for row in rows], [row[3] for row in rows])
    figures = _figures(group, packets, rtts_ms, len(rows))
    return [LatencyUnderLoad(*row[:2], *values) for row, values in zip(rows, figures, strict=True)]


def path_under_load(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> LatencyUnderLoad | None:
    """Latency under load: up to a day from bursts, else from hours; None without such packets."""
    check_period(since, until)
    if until - since > LONGEST_RAW:
        begin = series_since(since, until)
        return next(iter(under_load(begin, until, packet_bytes=packet_bytes, path_ids=[path_id], exact=True)), None)
    _, burst, packets, rtts_ms = _raw_packets(path_id, packet_bytes, since, until)
    if not len(burst):
        return None
    [figures] = _figures(np.zeros_like(burst), packets, rtts_ms, 1)
    return LatencyUnderLoad(path_id, packet_bytes, *figures)


def loaded_series(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[LoadedPoint]:
    """Latency under load in the intervals of `path_series`, if any."""
    check_period(since, until)
    if until - since <= LONGEST_RAW:
        steps, step, packets, rtts_ms = _raw_packets(path_id, packet_bytes, since, until)
        figures = _figures(step, packets, rtts_ms, len(steps))
        return [LoadedPoint(at, *values) for at, values in zip(steps, figures, strict=True)]
    tier = next(step.tier for step in STEPS if until - since <= step.longest)
    begin = series_since(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": begin, "until": until}
    return records(LoadedPoint, *run_statement("loaded_series_from_summaries", {"tier": tier}, **parameters))


def _raw_packets(
    path_id: int, packet_bytes: int, since: datetime, until: datetime
) -> tuple[list[datetime], Ints, Ints, Floats]:
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = run_burst_statement("loaded_series_from_raw", **parameters, step_s=RAW_STEP_S)
    return [row[0] for row in rows], *unpack_groups([row[1] for row in rows], [row[2] for row in rows])


def _figures(group: Ints, packets: Ints, rtts_ms: Floats, groups: int) -> list[tuple[Any, ...]]:
    answered = (~np.isnan(rtts_ms)).sum(axis=1)
    counts = (np.bincount(group, weights=numbers, minlength=groups).astype(int) for numbers in (packets, answered))
    quantiles = grouped_quantiles(np.repeat(group, rtts_ms.shape[1]), rtts_ms.ravel(), groups, SHARES)
    return list(zip(*map(nullable, (*counts, *quantiles)), strict=True))
