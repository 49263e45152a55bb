"""Queries of single paths. Periods are half open; empty intervals have no point.

Raises `ValueError` for raw bursts of more than a day, `ColdFileError` for unreadable old files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from monitor.analysis.loss import LEAST_UNANSWERED
from monitor.analysis.summaries import grouped_means, grouped_quantiles
from monitor.analysis.tcp import mathis_estimate
from monitor.archive.cold.reading import run_burst_statement
from monitor.archive.columns import nullable
from monitor.archive.periods import start_of
from monitor.archive.queries.pooling import pooled, quantiles_of
from monitor.archive.retention_bounds import raw_tables
from monitor.archive.round_trips import unpack_groups
from monitor.archive.statements import (
    LONGEST_RAW,
    Rows,
    check_period,
    check_raw_period,
    columns,
    optional_list,
    records,
    run_statement,
)

RAW_STEP_S = 60
RAW_QUANTILE_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class PathSummary:
    """Summary of a path and packet size, without packets sent during throughput tests.

    Over several hours or days, `rtt_median_ms` is the median of medians weighted by packets received, `rtt_p95_ms` the
    maximum, `ipdv_ms` the mean weighted by bursts.
    """

    path_id: int
    packet_bytes: int
    bursts: int
    bursts_all_lost: int
    bursts_none_lost: int
    bursts_during_test: int  # bursts without any packet outside throughput tests
    bursts_not_measured: int
    sent: int
    received: int
    duplicates: int
    reordered: int
    rtt_min_ms: float | None
    rtt_median_ms: float | None
    rtt_p95_ms: float | None
    rtt_max_ms: float | None
    rtt_avg_ms: float | None
    ipdv_ms: float | None
    estimate_bps: float | None
    estimate_is_floor: bool | None
    bursts_excluded: float = 0.0  # sum of the excluded shares of `bursts`

    @property
    def bursts_measured(self) -> int:
        """Bursts with packets sent, also during throughput tests."""
        return self.bursts + self.bursts_during_test

    @property
    def lost(self) -> int:
        return self.sent - self.received

    @property
    def loss_ratio(self) -> float | None:
        return None if self.sent == 0 else self.lost / self.sent


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """Interval of a series; with nothing sent, its bursts failed."""

    at: datetime
    sent: int
    received: int
    bursts_not_measured: int
    rtt_min_ms: float | None
    rtt_p25_ms: float | None
    rtt_median_ms: float | None
    rtt_p75_ms: float | None
    rtt_p95_ms: float | None
    rtt_max_ms: float | None
    estimate_bps: float | None
    estimate_is_floor: bool | None
    loss_max_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Path and packet size over time, in steps of `step_s` aligned to the epoch, without empty steps; months have 31
    days."""

    path_id: int
    packet_bytes: int
    step_s: int
    points: tuple[SeriesPoint, ...]


@dataclass(frozen=True, slots=True)
class SeriesTier:
    """Tier of summaries for series up to `longest`."""

    tier: str
    step_s: int
    longest: timedelta


STEPS = (
    SeriesTier("hour", 3600, timedelta(hours=1999)),
    SeriesTier("day", DAY_S, timedelta(days=1999)),
    SeriesTier("month", 31 * DAY_S, timedelta.max),
)


@dataclass(frozen=True, slots=True)
class RawBurst:
    """Raw burst, with the columns of the burst CSV; `rtts_ms` in sending order, None where lost."""

    at: datetime
    packet_bytes: int
    outcome: str
    sent: int
    received: int
    duplicates: int
    reordered: int
    late: int
    ttl: int | None
    flow: int | None
    source_address: str | None
    during_test: bool
    detail: str | None
    rtts_ms: list[float | None]
    # sent during a throughput test; empty: all packets; None: unknown or no packet
    loaded_rtts_ms: list[float | None] | None


@dataclass(frozen=True, slots=True)
class BurstFailure:
    path_id: int
    at: datetime
    outcome: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class LossWindow:
    """Loss over a window, outside throughput tests, packet sizes pooled."""

    path_id: int
    bursts: int
    sent: int
    received: int
    lossy_bursts: int


def path_summaries(
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None = None,
    path_ids: Sequence[int] | None = None,
    exact: bool = False,
) -> list[PathSummary]:
    """Summarize each path and size over overlapping hours, or days beyond two; with `exact`, hours that begin in the
    period."""
    check_period(since, until)
    text, parameters = pooled(since, until, packet_bytes=packet_bytes, path_ids=path_ids, exact=exact)
    names, rows = run_statement("path_summaries", {"pooled": text}, **parameters)
    place = names.index("rtt_median_ms")
    medians = quantiles_of([row[-2] for row in rows], [row[-1] for row in rows])
    return records(
        PathSummary,
        names[:-2],
        [(*row[:place], median, *row[place + 1 : -2]) for row, median in zip(rows, medians, strict=True)],
    )


def path_series(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> Series:
    """Series of at most 2,000 points: minutes up to a day, hours up to 83 days, days up to five years, then months.

    Worst loss is per burst up to an hour, else per hour.
    """
    check_period(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    if until - since > LONGEST_RAW:
        step = series_tier(since, until)
        names, rows = run_statement(
            "series_from_summaries", {"tier": step.tier}, **{**parameters, "since": start_of(step.tier, since)}
        )
        return Series(path_id, packet_bytes, step.step_s, tuple(records(SeriesPoint, names, rows)))
    _, rows = run_burst_statement("series_from_raw", **parameters, step_s=RAW_STEP_S)
    return Series(path_id, packet_bytes, RAW_STEP_S, tuple(_points_of_raw(rows)))


@dataclass(frozen=True, slots=True)
class PathHour:
    path_id: int
    at: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


def hours_of_paths(path_ids: Sequence[int], packet_bytes: int, since: datetime, until: datetime) -> list[PathHour]:
    check_period(since, until)
    parameters = {"path_ids": list(path_ids), "packet_bytes": packet_bytes, "since": since, "until": until}
    return records(PathHour, *run_statement("hours_of_paths", **parameters))


def series_since(since: datetime, until: datetime) -> datetime:
    """Begin of the first interval of a series."""
    if until - since <= LONGEST_RAW:
        return since
    return start_of(series_tier(since, until).tier, since)


def raw_bursts(path_id: int, since: datetime, until: datetime, *, packet_bytes: int | None = None) -> list[RawBurst]:
    """Bursts that began in the period, oldest first. Raises `ValueError` for more than a day."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "since": since, "until": until, "packet_bytes": packet_bytes}
    return records(RawBurst, *run_burst_statement("raw_bursts", columns(RawBurst), **parameters))


def newest_source_addresses(path_id: int, since: datetime, until: datetime) -> tuple[str, ...]:
    """Local addresses of a path's newest pings and STAMP packets, in the period's last day."""
    _, rows = run_statement("source_addresses", path_id=path_id, since=max(since, until - LONGEST_RAW), until=until)
    return tuple(str(address) for (address,) in rows)


def series_tier(since: datetime, until: datetime) -> SeriesTier:
    return next(step for step in STEPS if until - since <= step.longest)


def own_test_steps(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[datetime]:
    """Steps of a series with fewer than `LEAST_UNANSWERED` packets outside throughput tests: too few for a loss or
    outage."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = run_burst_statement("own_test_steps", **parameters, step_s=RAW_STEP_S, least_packets=LEAST_UNANSWERED)
    return [at for (at,) in rows]


def newest_failures(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[BurstFailure]:
    """Newest failed burst within a day, for each path with any."""
    check_raw_period(since, until)
    return records(BurstFailure, *run_statement("newest_failures", since=since, until=until, path_ids=list(path_ids)))


def loss_windows(since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None) -> list[LossWindow]:
    """Loss of each path. Raises `ValueError` for more than a day."""
    check_period(since, until)
    if until - since > LONGEST_RAW:
        raise ValueError(f"a window of {until - since} would scan raw bursts for more than a day; ask path_summaries")
    return records(
        LossWindow, *run_statement("loss_windows", since=since, until=until, path_ids=optional_list(path_ids))
    )


def newest_measurement_at() -> datetime | None:
    """Start of the newest stored result; None before the first."""
    newest = ", ".join(f"(SELECT max(measured_at) FROM {table})" for table in raw_tables())
    _, rows = run_statement("newest_measured_at", {"newest_of_tables": newest})
    return rows[0][0]


def data_before(path_id: int, packet_bytes: int, before: datetime) -> tuple[datetime, datetime] | None:
    """Both ends of the newest hour (or day) with pings before this moment, or None."""
    _, rows = run_statement("data_before", path_id=path_id, packet_bytes=packet_bytes, before=before)
    if not rows:
        return None
    at, is_hour = rows[0]
    return at, at + timedelta(hours=1 if is_hour else 24)


def measured_packet_sizes() -> list[int]:
    """Packet sizes with summaries, in bytes of ICMP payload, ascending."""
    _, rows = run_statement("packet_sizes")
    return [packet_bytes for (packet_bytes,) in rows]


def _points_of_raw(rows: Rows) -> list[SeriesPoint]:
    if not rows:
        return []
    at, sent, received, not_measured, loss_max_ratio, packets, rtts = zip(*rows, strict=True)
    burst, _, rtts_ms = unpack_groups(packets, rtts)
    step, values = np.repeat(burst, rtts_ms.shape[1]), rtts_ms.ravel()
    quantiles = grouped_quantiles(step, values, len(rows), RAW_QUANTILE_SHARES)
    estimates_bps, floors = mathis_estimate(grouped_means(step, values, len(rows)), sent, received)
    rates_bps = nullable(estimates_bps)
    is_floor = [None if rate_bps is None else floor for rate_bps, floor in zip(rates_bps, floors.tolist(), strict=True)]
    figures = [nullable(quantile) for quantile in quantiles]
    columns = (at, sent, received, not_measured, *figures, rates_bps, is_floor, loss_max_ratio)
    return [SeriesPoint(*point) for point in zip(*columns, strict=True)]
