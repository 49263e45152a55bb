"""Figures of a path over a period, and when its trouble began, from raw bursts. No database, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.alerts.detect.packet_times import (
    NO_SPACING,
    Spacing,
    last_answered_s,
    packets_of,
)
from monitor.alerts.detect.past.recent_bursts import FIGURES
from monitor.alerts.detect.past.recent_bursts import figures as burst_figures
from monitor.alerts.detect.rules.finding import BadBursts, BurstLevel
from monitor.alerts.evidence.facts import Beginning, PeriodFigures, SizeLoss
from monitor.analysis import binomial
from monitor.analysis.changes.onset import Onset, onset_of_values
from monitor.analysis.segments.chain_sums import sums_without_order
from monitor.analysis.segments.loss_onset import onset_of_loss
from monitor.analysis.summaries import grouped_ipdv, grouped_quantiles
from monitor.archive.columns import nullable
from monitor.archive.queries.around import BurstColumns
from monitor.arrays import Floats

CONFIDENCE = 0.95
SHARES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
FLOOR_SHARE = 0.1
# With fewer bursts since the onset none is left out.
LEAST_BURSTS = 3
# Times are rounded to microseconds.
SAME_S = 1e-3
# Newest bursts that are searched for a beginning, at most.
MOST_SAMPLES = 3000


def concatenate_bursts(first: BurstColumns, second: BurstColumns) -> BurstColumns:
    """Concatenate bursts; RTTs are padded with NaN."""
    packets = max(first.rtts_ms.shape[1], second.rtts_ms.shape[1])
    columns = {
        column.name: np.concatenate([getattr(first, column.name), getattr(second, column.name)])
        for column in fields(BurstColumns)
        if column.name != "rtts_ms"
    }
    return BurstColumns(
        **columns, rtts_ms=np.concatenate([_filled(bursts.rtts_ms, packets) for bursts in (first, second)])
    )


def bursts_between(bursts: BurstColumns, path_ids: ArrayLike, since: datetime, until: datetime) -> BurstColumns:
    """The bursts of a path, or of several, that began in [since, until)."""
    at_s = bursts.at_s
    within = np.isin(bursts.path_id, path_ids) & (at_s >= since.timestamp()) & (at_s < until.timestamp())
    return bursts.where(within)


def figures(
    bursts: BurstColumns,
    path_id: int,
    since: datetime,
    until: datetime,
    address: str | None = None,
    *,
    is_since_onset: bool = False,
    spacing: Spacing = NO_SPACING,
    sent_before: datetime | None = None,
) -> PeriodFigures:
    """Figures of a path over [since, until), without bursts that end at `sent_before` or later."""
    every = bursts_between(bursts, path_id, since, until)
    if sent_before is not None:
        last_s = every.at_s + (np.maximum(every.sent, spacing.packets) - 1.0) * spacing.most_s + spacing.slack_s
        is_in = last_s < sent_before.timestamp()
        until = min(until, datetime.fromtimestamp(every.at_s[~is_in].min(initial=until.timestamp()), UTC))
        every = every.where(is_in)
    counted = every.where(every.during_test == 0)
    sent, lost = _total(counted.sent), _total(counted.sent - counted.received)
    small = smallest(counted)
    # Some packets of the first burst may have been sent before the onset, which may be another path's.
    if is_since_onset and len(small.at_s) >= LEAST_BURSTS:
        small = small.where(small.at_s > small.at_s.min())
    of_packet, of_burst = np.zeros(small.rtts_ms.size, np.int64), np.zeros(len(small.rtts_ms), np.int64)
    quantiles = nullable(np.concatenate(grouped_quantiles(of_packet, small.rtts_ms.ravel(), 1, SHARES)))
    one_sided = (1.0 + CONFIDENCE) / 2.0
    answered = (bursts.path_id == path_id) & (bursts.received > 0) & (bursts.at_s < until.timestamp())
    answered_s = max(bursts.at_s[answered].tolist(), default=None)
    last_reply_s = last_answered_s(bursts.where(answered), spacing)
    return PeriodFigures(
        since=since,
        until=until,
        bursts=len(counted.at_s),
        bursts_all_lost=int(((counted.received == 0) & (counted.sent > 0)).sum()),
        bursts_during_test=len(every.at_s) - len(counted.at_s),
        sent=sent,
        lost=lost,
        loss_low_ratio=float(binomial.lower_bound(lost, sent, one_sided)) if sent else None,
        loss_high_ratio=float(binomial.upper_bound(lost, sent, one_sided)) if sent else None,
        sizes=_by_size(counted),
        rtt_packet_bytes=int(small.packet_bytes[0]) if len(small.at_s) else None,
        rtt_min_ms=quantiles[0],
        rtt_p25_ms=quantiles[1],
        rtt_median_ms=quantiles[2],
        rtt_p75_ms=quantiles[3],
        rtt_p95_ms=quantiles[4],
        rtt_max_ms=quantiles[5],
        ipdv_ms=nullable(grouped_ipdv(of_burst, small.rtts_ms, 1))[0],
        duplicates=_total(counted.duplicates),
        reordered=_total(counted.reordered),
        ttl=_usual_ttl(counted.ttl),
        address=address,
        answered_at=None if last_reply_s is None else datetime.fromtimestamp(last_reply_s, UTC),
        unanswered_bursts=int((counted.at_s > (answered_s or 0.0)).sum()),
        rtt_floor_ms=floor_ms(small),
        unanswered_packets=_unanswered_packets(counted, answered_s or 0.0),
    )


def _unanswered_packets(bursts: BurstColumns, answered_s: float) -> int:
    """Count packets lost after the last answered packet; its burst began at `answered_s`."""
    newest = bursts.where(np.abs(bursts.at_s - answered_s) < SAME_S)
    lost = np.isnan(newest.rtts_ms[-1, : int(newest.sent[-1])]) if len(newest.at_s) else np.empty(0, np.bool_)
    trailing = len(lost) if lost.all() else int(lost[::-1].argmin())
    return _total(bursts.sent[bursts.at_s > answered_s + SAME_S]) + trailing


def floor_ms(bursts: BurstColumns) -> float | None:
    """The 10th percentile of burst minimum RTTs, or the second lowest of few; None without replies."""
    minima_ms = burst_figures(bursts.rtts_ms)["minimum"]
    minima_ms = minima_ms[~np.isnan(minima_ms)]
    # A single early packet must not decide, and a queue that empties at times must show.
    return float(np.quantile(minima_ms, FLOOR_SHARE, method="higher")) if len(minima_ms) else None


def find_beginning(
    bursts: BurstColumns,
    path: str,
    by: BadBursts | BurstLevel,
    finding: Mapping[str, Any],
    spacing: Spacing = NO_SPACING,
) -> Beginning | None:
    """When a finding began, by the bursts of its rule; None if they show no change."""
    own = bursts.in_order()
    own = own.where(own.during_test == 0)
    if isinstance(by, BadBursts):
        samples, words, bad = own, by.words, by.are_bad(own)
        place = onset_of_loss(own.at_s, sums_without_order(np.ones(len(bad)), ~bad)) if bad.any() else None
    else:
        small, level = smallest(own), str(finding.get("figure", by.figure))
        small = small.where(small.received > 0)
        samples, words = small.where(np.arange(len(small.at_s)) >= len(small.at_s) - MOST_SAMPLES), FIGURES[level]
        place = onset_of_values(burst_figures(samples.rtts_ms)[level])
    return None if place is None else _to_beginning(samples, place, path, words, spacing)


def find_end(
    bursts: BurstColumns, path_id: int, since: datetime, by: BadBursts | BurstLevel, finding: Mapping[str, Any]
) -> datetime | None:
    """The last bad burst since `since`, or None: maximum of the cumulative log-likelihood ratio (Page 1954)."""
    own = bursts.where((bursts.path_id == path_id) & (bursts.during_test == 0))
    if isinstance(by, BurstLevel):
        small, figure = smallest(own), str(finding.get("figure", by.figure))
        own = small.where(small.received > 0)
    bad = by.are_bad(own) if isinstance(by, BadBursts) else _nearer_after(own, figure, finding)
    if bad is None:
        return None
    is_since = own.at_s >= since.timestamp()
    last = _last_bad(bad[is_since], bad[~is_since])
    return None if last is None else datetime.fromtimestamp(float(own.at_s[is_since][last]), UTC)


def smallest(bursts: BurstColumns) -> BurstColumns:
    return bursts.where(bursts.packet_bytes == bursts.packet_bytes.min(initial=np.inf))


def _nearer_after(bursts: BurstColumns, figure: str, finding: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    values = burst_figures(bursts.rtts_ms)[figure]
    if "limit_ms" in finding:
        return np.asarray(values > float(finding["limit_ms"]))
    if "before_ms" not in finding or "after_ms" not in finding:
        return None
    return np.asarray(np.abs(values - float(finding["after_ms"])) < np.abs(values - float(finding["before_ms"])))


def _last_bad(bad: NDArray[np.bool_], baseline: NDArray[np.bool_]) -> int | None:
    gains = _gains(bad, baseline)
    return None if gains is None else int(gains.cumsum().argmax())


def _gains(bad: NDArray[np.bool_], baseline: NDArray[np.bool_]) -> Floats | None:
    if not bad.any():
        return None
    usual = (baseline.sum() + 0.5) / (len(baseline) + 1.0)
    present = (bad.sum() + 0.5) / (len(bad) + 1.0)
    if present <= usual:
        return None
    return np.where(bad, np.log(present / usual), np.log((1.0 - present) / (1.0 - usual)))


def _to_beginning(bursts: BurstColumns, place: Onset, path: str, words: str, spacing: Spacing) -> Beginning:
    at_s, packets = bursts.at_s, packets_of(bursts, spacing)
    last_s = packets.latest_s[packets.burst_s == at_s[place.latest]].max(initial=at_s[place.latest]) + packets.longest_s
    ends_s = float(at_s[place.at]), float(at_s[max(place.earliest - 1, 0)]), float(last_s)
    at, earliest, latest = (datetime.fromtimestamp(seconds, UTC) for seconds in ends_s)
    return Beginning(at, earliest, latest, path, words)


def _by_size(bursts: BurstColumns) -> tuple[SizeLoss, ...]:
    sizes = np.unique(bursts.packet_bytes)
    rows = [(size, bursts.packet_bytes == size) for size in sizes.tolist()]
    return tuple(
        SizeLoss(int(size), _total(bursts.sent[of]), _total((bursts.sent - bursts.received)[of])) for size, of in rows
    )


def _drop_missing(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _usual_ttl(ttl: Floats) -> int | None:
    ttls, counts = np.unique(_drop_missing(ttl), return_counts=True)
    return int(ttls[counts.argmax()]) if len(ttls) else None


def _total(column: Floats) -> int:
    return round(float(column.sum()))


def _filled(rtts_ms: Floats, packets: int) -> Floats:
    return np.pad(rtts_ms, ((0, 0), (0, packets - rtts_ms.shape[1])), constant_values=np.nan)
