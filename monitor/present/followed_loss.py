"""Follow the loss of many paths as their bursts arrive, in the memory of a process.

In: bursts with the order of their lost packets, by path, size and time. Out: the paths whose bursts came late; they are
followed anew from raw bursts. Each path has a track of all its packets, and one of each size where it has several: the
packets of a size are a chain of Gilbert's, and a track has the sums of its chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.chain_sums import gone_on
from monitor.analysis.segments.loss_segments import LossSegments
from monitor.archive.queries.present.lost_order import COUNTS, OWN_TEST, LostOrder

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ALL_SIZES = 0
"""In place of a size, of the track of all packets of a path."""
GAP_CYCLES = 3.0
"""After a longer gap nothing tells when the present stretch began: a new track begins."""
CHAIN_SPACINGS = 3.0
"""A chain goes on over a pause of so many spacings of its packets; after a longer one it begins anew."""
KNOWN_BURSTS = 16
"""Of a chain: they are known when they are read once more. A batch begins with its oldest burst of any path."""
_SIZES = 2**17
"""More than there are packet sizes: a path's number and a size are one key."""


@dataclass(frozen=True, slots=True)
class Pings:
    """The pings of a path: the seconds between the begins of its bursts and between their packets, and the sizes."""

    every_s: float
    spacing_s: float
    packet_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    """Bursts. `replies_s` are the first and last reply of each, `silent_s` its first request after the last reply."""

    at_s: Floats
    every_s: Floats
    sums: Floats
    replies_s: Floats
    silent_s: Floats


class FollowedLoss:
    """The tracks of loss of these paths. `tracks` has the row of each (path, size), ALL_SIZES among the sizes.

    `newest_s` is the begin of the newest burst of a track, -inf without any, `since_s` of the first after the last gap.
    `own_s` and `failed_s` are those of the newest results of a path that do not count: of bursts during own tests, and
    of bursts that were not sent, of which `failures` has the `LostOrder.result`.
    """

    def __init__(self, pings: Mapping[int, Pings]) -> None:
        chains = [(path, size) for path, of in sorted(pings.items()) for size in sorted(of.packet_bytes)]
        self.tracks = {(path, ALL_SIZES): row for row, path in enumerate(sorted(pings))}
        for path, size in chains:
            if len(pings[path].packet_bytes) > 1:
                self.tracks[path, size] = len(self.tracks)
        self.segments = LossSegments(len(self.tracks))
        self.newest_s = np.full(len(self.tracks), -np.inf)
        self.since_s = np.full(len(self.tracks), np.inf)
        self.own_s, self.failed_s, self.failures = np.full((3, len(self.tracks)), -np.inf)
        self._keys = np.array([path * _SIZES + size for path, size in chains], dtype=np.int64)
        self._path_id = self._keys // _SIZES
        self._spacing_s = np.array([pings[path].spacing_s for path, _ in chains])
        self._every_s = np.array([pings[path].every_s for path, _ in chains])
        self._of_all = np.array([self.tracks[path, ALL_SIZES] for path, _ in chains], dtype=np.int64)
        self._of_size = np.array([self.tracks.get(key, -1) for key in chains], dtype=np.int64)
        # Of the newest burst of each chain: its begin, its last packet, and whether that was lost.
        self._begun_s, self._ended_s = np.full((2, len(chains)), -np.inf)
        self._last_lost = np.zeros(len(chains), dtype=np.bool_)
        self._taken_s = np.full((len(chains), KNOWN_BURSTS), np.nan)
        self._taken = np.zeros(len(chains), dtype=np.int64)

    def follow(self, bursts: LostOrder) -> set[int]:
        """Take these bursts, and return the paths of which none was taken, since some of theirs came late. Bursts of
        other paths and sizes, and the newest KNOWN_BURSTS that were taken before, are left out."""
        places, chains = self._chains_of(bursts)
        self._note_others(bursts, places, self._of_all[chains])
        counts = bursts.result[places] == COUNTS
        places, chains = places[counts], chains[counts]
        is_new = ~(self._taken_s[chains] == bursts.at_s[places, np.newaxis]).any(axis=1)
        places, chains = places[is_new], chains[is_new]
        late = np.unique(self._path_id[chains[bursts.at_s[places] <= self._begun_s[chains]]])
        is_taken = ~np.isin(self._path_id[chains], late)
        places, chains = places[is_taken], chains[is_taken]
        at_s, spacing_s = bursts.at_s[places], self._spacing_s[chains]
        was_lost = self._go_on(chains, at_s, bursts.sent[places], bursts.last_lost[places])
        first, last = bursts.first_reply[places], bursts.last_reply[places]
        silent_s = at_s + np.where(np.isnan(last), 0.0, last + 1.0) * spacing_s
        taken = _Taken(
            at_s,
            self._every_s[chains],
            gone_on(bursts.sums[:, places], bursts.first_lost[places], was_lost),
            at_s + np.stack([first, last]) * spacing_s,
            np.where(bursts.last_lost[places], silent_s, np.nan),
        )
        for rows in (self._of_all[chains], self._of_size[chains]):
            self._take(rows, taken)
        return set(late.tolist())

    def forget(self, path_ids: Iterable[int]) -> None:
        """Begin the tracks of these paths anew."""
        chains = np.flatnonzero(np.isin(self._path_id, list(path_ids)))
        self._begun_s[chains] = self._ended_s[chains] = -np.inf
        self._taken_s[chains] = np.nan
        rows = np.unique(np.concatenate([self._of_all[chains], self._of_size[chains]]))
        rows = rows[rows >= 0]
        self.newest_s[rows], self.since_s[rows] = -np.inf, np.inf
        self.own_s[rows] = self.failed_s[rows] = -np.inf

    def _chains_of(self, bursts: LostOrder) -> tuple[Ints, Ints]:
        """The places of the bursts that are followed, and the chain of each."""
        keys = bursts.path_id.astype(np.int64) * _SIZES + bursts.packet_bytes.astype(np.int64)
        chains = np.searchsorted(self._keys, keys)
        is_known = np.append(self._keys, -1)[chains] == keys
        return np.flatnonzero(is_known), chains[is_known]

    def _go_on(self, chains: Ints, at_s: Floats, sent: Floats, last_lost: Bools) -> Bools:
        """Whether the packet before each burst was lost, where its chain goes on. Bursts are by chain and time."""
        ended_s = at_s + (sent - 1.0) * self._spacing_s[chains]
        is_first = np.append(True, chains[1:] != chains[:-1])[: len(chains)]
        before_s = np.where(is_first, self._ended_s[chains], np.roll(ended_s, 1))
        before_lost = np.where(is_first, self._last_lost[chains], np.roll(last_lost, 1))
        is_last = np.append(is_first[1:], True)[: len(chains)]
        newest = chains[is_last]
        self._begun_s[newest], self._ended_s[newest] = at_s[is_last], ended_s[is_last]
        self._last_lost[newest] = last_lost[is_last]
        rank = np.arange(len(chains)) - np.maximum.accumulate(np.where(is_first, np.arange(len(chains)), 0))
        self._taken_s[chains, (self._taken[chains] + rank) % KNOWN_BURSTS] = at_s
        self._taken[newest] += rank[is_last] + 1
        return before_lost & (at_s - before_s <= CHAIN_SPACINGS * self._spacing_s[chains])

    def _note_others(self, bursts: LostOrder, places: Ints, rows: Ints) -> None:
        """Note the newest results that do not count, of each path."""
        result, at_s = bursts.result[places], bursts.at_s[places]
        is_own, is_failed = result == OWN_TEST, result > OWN_TEST
        np.maximum.at(self.own_s, rows[is_own], at_s[is_own])
        for row, code, failed_s in zip(rows[is_failed], result[is_failed], at_s[is_failed], strict=True):
            if failed_s >= self.failed_s[row]:
                self.failed_s[row], self.failures[row] = failed_s, code

    def _take(self, rows: Ints, taken: _Taken) -> None:
        """Take the bursts of these tracks, -1 for none, in the order of time, one of each track at once."""
        order = np.lexsort((taken.at_s, rows))
        order = order[rows[order] >= 0]
        rows = rows[order]
        _, firsts, counts = np.unique(rows, return_index=True, return_counts=True)
        rank = np.arange(len(rows)) - np.repeat(firsts, counts)
        for number in range(int(counts.max(initial=0))):
            now, place = rows[rank == number], order[rank == number]
            at_s = taken.at_s[place]
            spacing_s = at_s - self.newest_s[now]
            is_first = spacing_s > GAP_CYCLES * taken.every_s[place]
            self.segments.begin(now[is_first], at_s[is_first])
            self.since_s[now[is_first]] = at_s[is_first]
            spacing_s = np.where(is_first, 0.0, spacing_s)
            replies_s, silent_s = taken.replies_s[:, place], taken.silent_s[place]
            self.segments.take(now, at_s, spacing_s, taken.sums[:, place], replies_s, silent_s)
            self.newest_s[now] = at_s
