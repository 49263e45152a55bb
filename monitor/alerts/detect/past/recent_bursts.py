"""Answered bursts of the smallest packets of many paths, with the figures that the rules compare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from monitor.archive.queries.for_alerts import RoundTrips
from monitor.arrays import Floats, Ints

# Figures of a burst and their words in evidence; jitter is the delay variation of RFC 3393.
FIGURES = {
    "minimum": "minimum RTT of each burst",
    "median": "median RTT of each burst",
    "jitter": "jitter of each burst",
}


@dataclass(frozen=True, slots=True)
class RecentBursts:
    """Answered bursts, oldest first within a path."""

    at_s: Floats
    ttl: Floats  # NaN if unknown
    values_ms: Mapping[str, Floats]
    rtts_ms: Floats  # shape (bursts, packets), NaN where lost; no packets if not needed

    def newest(self, count: int) -> RecentBursts:
        return self.part(max(len(self.at_s) - count, 0), len(self.at_s))

    def part(self, first: int, end: int) -> RecentBursts:
        values_ms = {name: column[first:end] for name, column in self.values_ms.items()}
        # Kept RTTs have four bytes, to which a limit would be rounded by a comparison.
        rtts_ms = self.rtts_ms[first:end].astype(np.float64, copy=False)
        return RecentBursts(self.at_s[first:end], self.ttl[first:end], values_ms, rtts_ms)

    def followed_by(self, others: RecentBursts) -> RecentBursts:
        values_ms = {name: np.concatenate([column, others.values_ms[name]]) for name, column in self.values_ms.items()}
        packets = max(self.rtts_ms.shape[1], others.rtts_ms.shape[1])
        wide = [
            np.pad(rtts_ms, ((0, 0), (0, packets - rtts_ms.shape[1])), constant_values=np.nan)
            for rtts_ms in (self.rtts_ms, others.rtts_ms)
        ]
        return RecentBursts(
            np.concatenate([self.at_s, others.at_s]),
            np.concatenate([self.ttl, others.ttl]),
            values_ms,
            np.concatenate(wide),
        )


@dataclass(frozen=True, slots=True)
class BurstTable:
    """Bursts of several paths, valid until the source is read again."""

    path_id: Ints
    first: Ints  # of the path's bursts in `bursts`
    end: Ints  # after its last, at least first + 1; others may lie between
    bursts: RecentBursts


class BurstsOfTrips(ABC):
    def lacking_s(self, until: datetime, step_s: float, steps: int) -> float:
        """Return zero: the steps end at `until` itself."""
        return 0.0

    @abstractmethod
    def recent_round_trips(
        self, path_ids: Sequence[int], packet_bytes: Sequence[int], since_s: Sequence[float], until: datetime
    ) -> RoundTrips: ...

    def recent_bursts(
        self,
        path_ids: Sequence[int],
        packet_bytes: Sequence[int],
        since_s: Sequence[float],
        until: datetime,
        *,
        with_rtts: bool,
    ) -> BurstTable:
        trips = self.recent_round_trips(path_ids, packet_bytes, since_s, until)
        bursts = RecentBursts(trips.at_s, trips.ttl, figures(trips.rtts_ms), trips.rtts_ms)
        return table_of(trips.path_id.astype(np.int64), bursts)


def table_of(path_id: Ints, bursts: RecentBursts) -> BurstTable:
    """Make a table of bursts sorted by path and time; `path_id` has the path of each."""
    first = np.flatnonzero(np.diff(path_id, prepend=-1))
    return BurstTable(path_id[first], first, np.append(first, len(path_id))[1:], bursts)


def figures(rtts_ms: Floats) -> dict[str, Floats]:
    """Minimum, median and jitter of bursts of shape (bursts, packets), NaN where lost; 0 jitter for a single reply."""
    if not rtts_ms.size:
        return {name: np.zeros(len(rtts_ms)) for name in FIGURES}
    ordered = np.sort(rtts_ms, axis=1)
    answered = (~np.isnan(rtts_ms)).sum(axis=1)
    row = np.arange(len(ordered))
    middle = (ordered[row, (answered - 1) // 2] + ordered[row, answered // 2]) / 2.0
    apart = np.abs(np.diff(rtts_ms, axis=1))
    pairs = (~np.isnan(apart)).sum(axis=1)
    return {
        "minimum": ordered[:, 0],
        "median": middle,
        "jitter": np.where(pairs > 0, np.nansum(apart, axis=1) / np.maximum(pairs, 1), 0.0),
    }
