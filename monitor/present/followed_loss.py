"""Follow the loss of many paths in memory as bursts arrive: all packets, and each of several sizes. In a track of
several sizes each burst is a Gilbert chain, so that loss of a size is a single run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.chain_sums import AFTER_LOST, LOST_AFTER_RECEIVED, from_first_reply, gone_on
from monitor.analysis.segments.loss_segments import LossSegment, LossSegments
from monitor.archive.queries.present.lost_order import COUNTS, OWN_TEST, LostOrder
from monitor.present.track import Track

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Size of the track of all packets of a path.
ALL_SIZES = 0
# A gap of more cycles begins a new track; of more packet spacings, a new chain.
GAP = 3.0
# Bursts of a chain recognised when read again; a batch begins with any path's oldest burst.
KNOWN_BURSTS = 16
# Above any packet size: a path's number and a size form one key.
_SIZES = 2**17


@dataclass(frozen=True, slots=True)
class Pings:
    every_s: float  # between the starts of bursts
    spacing_s: float  # between packets
    packet_bytes: tuple[int, ...]
    packets: int = 1  # of a burst

    @property
    def lasts_s(self) -> float:
        """Time from the first packet of a burst to its last."""
        return self.spacing_s * (self.packets - 1)


@dataclass(frozen=True, slots=True)
class _Taken:
    at_s: Floats
    own_s: Floats  # newest burst during own tests before
    every_s: Floats
    sums: Floats
    replies_s: Floats  # first and last reply
    silence: Floats  # first request after the last reply, and number of packets since
    again: Floats  # sums from the first reply on


class FollowedLoss:
    """The tracks of loss of these paths."""

    def __init__(self, pings: Mapping[int, Pings]) -> None:
        chains = [(path, size) for path, of in sorted(pings.items()) for size in sorted(of.packet_bytes)]
        # Rows by (path, size).
        self.tracks = {(path, ALL_SIZES): row for row, path in enumerate(sorted(pings))}
        for path, size in chains:
            if len(pings[path].packet_bytes) > 1:
                self.tracks[path, size] = len(self.tracks)
        self.segments = LossSegments(len(self.tracks))
        for (path, _), row in self.tracks.items():
            self.segments.apart_s[:, row] = pings[path].every_s, pings[path].lasts_s
        self.newest_s = np.full(len(self.tracks), -np.inf)  # start of the newest burst
        self.since_s = np.full(len(self.tracks), np.inf)  # start of the first burst after a gap
        # The newest during own tests; the newest that was not measured, and its result.
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

    def follow(self, bursts: LostOrder, *, at_once: bool = False) -> set[int]:
        """Take these bursts; return paths with late bursts, left out entirely. Unknown paths and sizes and the newest
        KNOWN_BURSTS are skipped; `at_once` takes a new track's first lossless bursts as one."""
        places, chains = self._chains_of(bursts)
        own_s = self._own_before(chains, bursts.at_s[places], bursts.result[places] == OWN_TEST)
        self._note_others(bursts, places, self._of_all[chains])
        counts = bursts.result[places] == COUNTS
        places, chains, own_s = places[counts], chains[counts], own_s[counts]
        is_new = ~(self._taken_s[chains] == bursts.at_s[places, np.newaxis]).any(axis=1)
        places, chains, own_s = places[is_new], chains[is_new], own_s[is_new]
        late = np.unique(self._path_id[chains[bursts.at_s[places] <= self._begun_s[chains]]])
        is_taken = ~np.isin(self._path_id[chains], late)
        places, chains, own_s = places[is_taken], chains[is_taken], own_s[is_taken]
        new, spacing_s = bursts.part(places), self._spacing_s[chains]
        at_s, packets = new.at_s, new.sent + new.loaded_sent
        goes_on = self._go_on(chains, at_s, packets, new.last_lost)
        # The packet before, of the same size, tells which packets own tests have set aside: for all tracks alike.
        first, last, lost_before = new.places(goes_on)
        is_silent = new.last_lost & (last != packets - 1.0)
        silent_s = at_s + np.where(np.isnan(last), 0.0, last + 1.0) * spacing_s
        silent = is_silent * np.where(new.received > 0.0, new.sent - 1.0 - new.last_reply, new.sent)
        replies_s = at_s + np.stack([first, last]) * spacing_s
        silence = np.stack([np.where(is_silent, silent_s, np.nan), silent])
        is_only = self._of_size[chains] < 0
        for rows, was_lost in ((self._of_all[chains], goes_on & is_only), (self._of_size[chains], goes_on)):
            sums = gone_on(new.sums, new.first_lost, was_lost)
            again = from_first_reply(sums, lost_before, was_lost)
            taken = _Taken(at_s, own_s, self._every_s[chains], sums, replies_s, silence, again)
            self._take(rows, taken, at_once=at_once)
        return set(late.tolist())

    def restore(self, tracks: Mapping[tuple[int, int], Track]) -> None:
        """Continue these tracks, by path and size, from their stored clean segments."""
        rows = np.array([self.tracks[key] for key in tracks], dtype=np.int64)
        stored = [
            (of.now.since.at_s, of.newest_s, of.now.lost) for of in tracks.values() if isinstance(of.now, LossSegment)
        ]
        since_s, newest_s = (np.array([each[number] for each in stored], dtype=np.float64) for number in (0, 1))
        sums = np.array([(lost.sent, lost.lost, 0.0, 0.0) for _, _, lost in stored], dtype=np.float64).reshape(-1, 4).T
        self.segments.begin_clean(rows, since_s, sums)
        self.since_s[rows], self.newest_s[rows] = since_s, newest_s
        newest = np.full(len(self.tracks), -np.inf)
        newest[rows] = newest_s
        of_chain = newest[np.where(self._of_size >= 0, self._of_size, self._of_all)]
        self._begun_s = np.maximum(self._begun_s, of_chain)
        self._taken_s[:, 0], self._taken[:] = np.where(np.isfinite(of_chain), of_chain, np.nan), 1

    def forget(self, path_ids: Iterable[int]) -> None:
        chains = np.flatnonzero(np.isin(self._path_id, list(path_ids)))
        self._begun_s[chains] = self._ended_s[chains] = -np.inf
        self._taken_s[chains] = np.nan
        rows = np.unique(np.concatenate([self._of_all[chains], self._of_size[chains]]))
        rows = rows[rows >= 0]
        self.newest_s[rows], self.since_s[rows] = -np.inf, np.inf
        self.own_s[rows] = self.failed_s[rows] = -np.inf

    def _chains_of(self, bursts: LostOrder) -> tuple[Ints, Ints]:
        keys = bursts.path_id.astype(np.int64) * _SIZES + bursts.packet_bytes.astype(np.int64)
        chains = np.searchsorted(self._keys, keys)
        is_known = np.append(self._keys, -1)[chains] == keys
        return np.flatnonzero(is_known), chains[is_known]

    def _own_before(self, chains: Ints, at_s: Floats, is_own: Bools) -> Floats:
        """Time of the newest burst during own tests before each burst, sorted by chain and time."""
        is_first = np.append(True, chains[1:] != chains[:-1])[: len(chains)]
        number = np.arange(len(chains))
        first = np.maximum.accumulate(np.where(is_first, number, 0))
        newest = np.maximum.accumulate(np.where(is_own, number, -1))
        return np.where(newest >= first, at_s[newest], self.own_s[self._of_all[chains]])

    def _go_on(self, chains: Ints, at_s: Floats, sent: Floats, last_lost: Bools) -> Bools:
        """Note the bursts as taken; return whether the packet before each, within its chain, was lost."""
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
        return before_lost & (at_s - before_s <= GAP * self._spacing_s[chains])

    def _note_others(self, bursts: LostOrder, places: Ints, rows: Ints) -> None:
        result, at_s = bursts.result[places], bursts.at_s[places]
        is_own, is_failed = result == OWN_TEST, result > OWN_TEST
        np.maximum.at(self.own_s, rows[is_own], at_s[is_own])
        for row, code, failed_s in zip(rows[is_failed], result[is_failed], at_s[is_failed], strict=True):
            if failed_s >= self.failed_s[row]:
                self.failed_s[row], self.failures[row] = failed_s, code

    def _take(self, rows: Ints, taken: _Taken, *, at_once: bool) -> None:
        """Take bursts of these tracks (-1: none) in order of time."""
        order = np.lexsort((taken.at_s, rows))
        order = order[rows[order] >= 0]
        if not len(order):
            return
        rows = rows[order]
        _, firsts, counts = np.unique(rows, return_index=True, return_counts=True)
        rank = np.arange(len(rows)) - np.repeat(firsts, counts)
        if at_once:
            rank -= np.repeat(self._take_calm(rows, order, firsts, rank, taken), counts)
        for number in range(int(rank.max()) + 1):
            now, place = rows[rank == number], order[rank == number]
            at_s = taken.at_s[place]
            spacing_s = at_s - self.newest_s[now]
            # While own tests run the path is measured: no gap, though these packets tell nothing.
            is_first = at_s - np.maximum(self.newest_s[now], taken.own_s[place]) > GAP * taken.every_s[place]
            is_first |= ~np.isfinite(self.newest_s[now])
            self.segments.begin(now[is_first], at_s[is_first])
            self.since_s[now[is_first]] = at_s[is_first]
            spacing_s = np.where(is_first, 0.0, spacing_s)
            self.segments.begin_silence(now[taken.own_s[place] > self.newest_s[now]])
            replies_s, silence = taken.replies_s[:, place], taken.silence[:, place]
            again = taken.again[:, place]
            self.segments.take(now, at_s, spacing_s, taken.sums[:, place], replies_s, silence, again)
            self.newest_s[now] = at_s

    def _take_calm(self, rows: Ints, order: Ints, firsts: Ints, rank: Ints, taken: _Taken) -> Ints:
        """Take new tracks' first lossless bursts as one; return how many by track."""
        sums, at_s = taken.sums[:, order], taken.at_s[order]
        spacing_s = np.diff(at_s, prepend=at_s[0])
        lost = sums[LOST_AFTER_RECEIVED] + sums[AFTER_LOST]
        counts = np.diff(np.append(firsts, len(rows)))
        ends = (lost > 0.0) | (spacing_s > GAP * taken.every_s[order]) & (rank > 0)
        calm = np.minimum.reduceat(np.where(ends, rank, np.repeat(counts, counts)), firsts)
        calm[np.isfinite(self.newest_s[rows[firsts]])] = 0
        is_new = calm > 0
        first, last = firsts[is_new], (firsts + calm - 1)[is_new]
        own = rows[first]
        whole = np.add.reduceat(sums * (rank < np.repeat(calm, counts)), firsts, axis=1)[:, is_new]
        replies_s = np.stack([taken.replies_s[0, order[first]], taken.replies_s[1, order[last]]])
        self.segments.begin(own, at_s[first])
        silence = np.stack([np.full(len(own), np.nan), np.zeros(len(own))])
        self.segments.take(own, at_s[last], np.zeros(len(own)), whole, replies_s, silence, whole)
        self.since_s[own], self.newest_s[own] = at_s[first], at_s[last]
        return np.asarray(calm)
