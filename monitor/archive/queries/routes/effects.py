"""Route changes with their effect on RTT and loss, by pings of the path and its reverse
(`monitor.analysis.routes.effects`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from monitor.analysis.routes import effects
from monitor.analysis.routes.effects import BurstSeries, ChangeEffect, effect_of
from monitor.archive.queries.around import BurstColumns, bursts_around
from monitor.archive.queries.routes.periods import RouteChange, changes_between
from monitor.arrays import Floats
from monitor.mesh.models import Path

# Longest time between the traces around a change to which an effect can be attributed.
LONGEST_UNSEEN = timedelta(hours=1)
BEFORE = timedelta(seconds=effects.HISTORY_S + effects.WINDOW_S)
AFTER = timedelta(seconds=effects.LOSS_AFTER_S)
# Changes with bursts read together: raw bursts are read for a day at most.
TOGETHER = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class MeasuredChange:
    """Route change with its effect on pings of its own or the reverse path."""

    change: RouteChange
    measured_path_id: int
    effect: ChangeEffect | None  # None without an effect, or while too few bursts have followed

    @property
    def path_id(self) -> int:
        return self.change.path_id

    @property
    def rtt_shift_ms(self) -> float | None:
        """RTT step; None without a step."""
        return None if self.effect is None or self.effect.rtt is None else self.effect.rtt.shift_ms


def measured_changes(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> list[MeasuredChange]:
    """Route changes that began in a period, with effects, by time. Reads raw bursts of three hours before each."""
    return effects_of(distinct_changes(changes_between(since, until, path_ids)))


def distinct_changes(changes: Iterable[RouteChange]) -> list[RouteChange]:
    """Drop simultaneous changes of other flows of a path."""
    distinct: list[RouteChange] = []
    newest: dict[int, RouteChange] = {}
    for change in sorted(changes, key=lambda change: (change.at, change.path_id, change.last_before_at)):
        other = newest.get(change.path_id)
        if other is not None and change.last_before_at < other.at:
            continue
        newest[change.path_id] = change
        distinct.append(change)
    return distinct


def effects_of(changes: Sequence[RouteChange], until: datetime | None = None) -> list[MeasuredChange]:
    reverse = reverse_paths({change.path_id for change in changes})
    measured = []
    for together in _chunks(changes):
        dated = [change for change in together if _is_dated(change)]
        path_ids = {change.path_id for change in dated}
        path_ids |= {reverse[path_id] for path_id in path_ids if path_id in reverse}
        series = _series(path_ids, dated, until)
        for change in together:
            own = [path_id for path_id in (change.path_id, reverse.get(change.path_id)) if path_id in series]
            measured.append(_measured(change, {path_id: series[path_id] for path_id in own if path_id is not None}))
    return measured


def reverse_paths(path_ids: Iterable[int]) -> dict[int, int]:
    """Reverse path of each path, if any."""
    rows = Path.objects.filter(pk__in=list(path_ids)).values_list("pk", "source_id", "destination_id")
    ends = {path_id: (source, destination) for path_id, source, destination in rows}
    back = Path.objects.filter(
        source_id__in={destination for _, destination in ends.values()},
        destination_id__in={source for source, _ in ends.values()},
    ).values_list("pk", "source_id", "destination_id")
    by_ends = {(source, destination): path_id for path_id, source, destination in back}
    return {
        path_id: by_ends[destination, source]
        for path_id, (source, destination) in ends.items()
        if (destination, source) in by_ends
    }


def burst_series(bursts: BurstColumns) -> dict[int, BurstSeries]:
    series = {}
    for path_id in np.unique(bursts.path_id).tolist():
        own = (bursts.path_id == path_id) & (bursts.during_test == 0.0) & (bursts.sent > 0.0)
        if not own.any():
            continue
        own &= bursts.packet_bytes == bursts.packet_bytes[own].min()
        sent, received = bursts.sent[own].astype(np.int64), bursts.received[own].astype(np.int64)
        series[int(path_id)] = BurstSeries(bursts.at_s[own], _medians(bursts.rtts_ms[own]), sent, sent - received)
    return series


def _medians(rtts_ms: Floats) -> Floats:
    medians = np.full(len(rtts_ms), np.nan)
    answered = ~np.isnan(rtts_ms).all(axis=1) if rtts_ms.size else np.zeros(len(rtts_ms), dtype=bool)
    medians[answered] = np.nanmedian(rtts_ms[answered], axis=1) if answered.any() else np.nan
    return medians


def _chunks(changes: Sequence[RouteChange]) -> list[list[RouteChange]]:
    chunks: list[list[RouteChange]] = []
    for change in changes:
        if not chunks or change.at - chunks[-1][0].at >= TOGETHER:
            chunks.append([])
        chunks[-1].append(change)
    return chunks


def _is_dated(change: RouteChange) -> bool:
    return change.at - change.last_before_at <= LONGEST_UNSEEN


def _series(path_ids: set[int], changes: Sequence[RouteChange], until: datetime | None) -> dict[int, BurstSeries]:
    if not changes:
        return {}
    since, last = min(change.last_before_at for change in changes), max(change.at for change in changes) + AFTER
    return burst_series(bursts_around(sorted(path_ids), since - BEFORE, last if until is None else min(last, until)))


def _measured(change: RouteChange, series: Mapping[int, BurstSeries]) -> MeasuredChange:
    if _is_dated(change):
        for path_id, bursts in series.items():
            since_s = None if change.before_since is None else change.before_since.timestamp()
            last_before_s, at_s = change.last_before_at.timestamp(), change.at.timestamp()
            effect = effect_of(_near(bursts, change), last_before_s, at_s, since_s)
            if effect is not None:
                return MeasuredChange(change, path_id, effect)
    return MeasuredChange(change, change.path_id, None)


def _near(series: BurstSeries, change: RouteChange) -> BurstSeries:
    until = change.at + AFTER if change.after_until is None else min(change.at + AFTER, change.after_until)
    first, last = (change.last_before_at - BEFORE).timestamp(), until.timestamp()
    near = slice(*np.searchsorted(series.at_s, (first, last)).tolist())
    return BurstSeries(series.at_s[near], series.rtts_ms[near], series.sent[near], series.lost[near])
