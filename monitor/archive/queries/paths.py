"""Queries of single paths: summaries, series, raw bursts (and the columns of their CSV), packet sizes, failures.

In: periods as aware times, half open [since, until), and path ids. Out: frozen records with units in their names, None
where not measured. Each function runs a statement of sql/. Summaries come from whole hours or days, as in
`monitor.archive.periods`; raw bursts are read for a day at most, a longer period raises `ValueError`. An interval of a
series without measurements has no point, so that charts show the gap. `monitor.archive.queries.tables` has many paths
at once, by metric. Raw bursts of old days come from files (`monitor.archive.cold`), and `ColdFileError` is raised where
those cannot be read.
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
    """Summary of a path and packet size over a period. Packets sent during throughput tests are excluded:
    `bursts_during_test` counts the bursts without any other packet, `bursts_excluded` adds the excluded shares of
    `bursts`. `monitor.archive.queries.throughput.under_load` has their figures.

    Over several hours (up to two days) or days, `rtt_median_ms` is their medians' median weighted by packets received,
    `rtt_p95_ms` their maximum, `ipdv_ms` their mean weighted by bursts. The estimate uses the pooled loss and the mean
    RTT.
    """

    path_id: int
    packet_bytes: int
    bursts: int
    bursts_all_lost: int
    bursts_none_lost: int
    bursts_during_test: int
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
    bursts_excluded: float = 0.0

    @property
    def bursts_measured(self) -> int:
        """Bursts of which packets were sent, also those whose packets were all sent during throughput tests."""
        return self.bursts + self.bursts_during_test

    @property
    def lost(self) -> int:
        return self.sent - self.received

    @property
    def loss_ratio(self) -> float | None:
        """Pooled loss, 0 to 1; None where nothing was sent."""
        return None if self.sent == 0 else self.lost / self.sent


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """An interval of a series, beginning at `at`. With nothing sent, its bursts failed."""

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
    """A path and packet size over time, in intervals of `step_s` seconds aligned to the epoch; empty intervals are left
    out.

    Months have intervals of 31 days, the length of the longest month, that begin with the month.
    """

    path_id: int
    packet_bytes: int
    step_s: int
    points: tuple[SeriesPoint, ...]


@dataclass(frozen=True, slots=True)
class SeriesTier:
    """Tier of summaries used for series of periods up to `longest`."""

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
    """A raw burst; `rtts_ms` in the order of sending, None where lost. The burst CSV has a column for each field, taken
    from the column of the same name of `monitor.archive.models.Burst`. `loaded_rtts_ms` are the RTTs of packets sent
    during a throughput test, which are in no other field; empty where all packets were, None where none was or it is
    not known."""

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
    loaded_rtts_ms: list[float | None] | None


@dataclass(frozen=True, slots=True)
class BurstFailure:
    """Newest failed burst of a path: scheduled time, outcome and detail."""

    path_id: int
    at: datetime
    outcome: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class LossWindow:
    """Loss of a path over a window: measured bursts outside throughput tests, packet sizes pooled."""

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
    """Summary of each path and packet size over all hours that overlap the period, or days where it is longer than two;
    with `exact`, over the hours that begin in it, for any length."""
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
    """A path and packet size over time, in at most 2,000 points: from raw bursts in intervals of a minute up to a day,
    then from hourly summaries, from 83 days on daily, from five years on monthly.

    A point has the quantiles and extremes of all packets of its interval, and its worst loss: of a burst for intervals
    up to an hour, of an hour for longer intervals.
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
    """Packets and median RTT of a path in an hour; the RTT is None without replies."""

    path_id: int
    at: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


def hours_of_paths(path_ids: Sequence[int], packet_bytes: int, since: datetime, until: datetime) -> list[PathHour]:
    """The hourly summaries of several paths, by path and hour."""
    check_period(since, until)
    parameters = {"path_ids": list(path_ids), "packet_bytes": packet_bytes, "since": since, "until": until}
    return records(PathHour, *run_statement("hours_of_paths", **parameters))


def series_since(since: datetime, until: datetime) -> datetime:
    """The beginning of the first interval of a series of the period: all that it shows lies between that and the end
    of the interval that contains `until`."""
    if until - since <= LONGEST_RAW:
        return since
    return start_of(series_tier(since, until).tier, since)


def raw_bursts(path_id: int, since: datetime, until: datetime, *, packet_bytes: int | None = None) -> list[RawBurst]:
    """All bursts of a path that began in a period of a day at most, oldest first; `ValueError` for a longer one."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "since": since, "until": until, "packet_bytes": packet_bytes}
    return records(RawBurst, *run_burst_statement("raw_bursts", columns(RawBurst), **parameters))


def newest_source_addresses(path_id: int, since: datetime, until: datetime) -> tuple[str, ...]:
    """The local addresses of the newest pings and STAMP packets of a path, of the last day of a period."""
    _, rows = run_statement("source_addresses", path_id=path_id, since=max(since, until - LONGEST_RAW), until=until)
    return tuple(str(address) for (address,) in rows)


def series_tier(since: datetime, until: datetime) -> SeriesTier:
    """The summaries of a series of a period longer than a day."""
    return next(step for step in STEPS if until - since <= step.longest)


def own_test_steps(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[datetime]:
    """The steps of a series of a day or less in which fewer than `LEAST_UNANSWERED` packets were sent outside of
    throughput tests: too few to show as a loss or an outage. The series may have a point there."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = run_burst_statement("own_test_steps", **parameters, step_s=RAW_STEP_S, least_packets=LEAST_UNANSWERED)
    return [at for (at,) in rows]


def newest_failures(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[BurstFailure]:
    """Newest failed burst within a day, for each of these paths that has it."""
    check_raw_period(since, until)
    return records(BurstFailure, *run_statement("newest_failures", since=since, until=until, path_ids=list(path_ids)))


def loss_windows(since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None) -> list[LossWindow]:
    """Loss of each path in a window of a day at most, by path. Raises `ValueError` for a longer window."""
    check_period(since, until)
    if until - since > LONGEST_RAW:
        raise ValueError(f"a window of {until - since} would scan raw bursts for more than a day; ask path_summaries")
    return records(
        LossWindow, *run_statement("loss_windows", since=since, until=until, path_ids=optional_list(path_ids))
    )


def newest_measurement_at() -> datetime | None:
    """Start of the newest stored result of any outcome; None before the first."""
    newest = ", ".join(f"(SELECT max(measured_at) FROM {table})" for table in raw_tables())
    _, rows = run_statement("newest_measured_at", {"newest_of_tables": newest})
    return rows[0][0]


def data_before(path_id: int, packet_bytes: int, before: datetime) -> tuple[datetime, datetime] | None:
    """Both ends of the newest hour with pings that begins before this moment, or of the day where hours are deleted."""
    _, rows = run_statement("data_before", path_id=path_id, packet_bytes=packet_bytes, before=before)
    if not rows:
        return None
    at, is_hour = rows[0]
    return at, at + timedelta(hours=1 if is_hour else 24)


def measured_packet_sizes() -> list[int]:
    """Packet sizes that have summaries, in bytes of ICMP payload, ascending."""
    _, rows = run_statement("packet_sizes")
    return [packet_bytes for (packet_bytes,) in rows]


def _points_of_raw(rows: Rows) -> list[SeriesPoint]:
    """Points from rows of sql/series_from_raw.sql, with the RTT figures of all intervals computed at once."""
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
