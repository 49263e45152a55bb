"""Loss tracks of many paths, of round trips or of one way by STAMP, in the memory of a process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.changes.present import LostPackets, summed
from monitor.analysis.segments.chain_sums import LOST_AFTER_LOST, LOST_AFTER_RECEIVED
from monitor.analysis.segments.loss_filter import lost_of_stretch
from monitor.analysis.segments.loss_onset import onset_of_loss
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import TOLD_UNTIL, Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.archive.queries.present.lost_order import COUNTS, LostOrder, lost_one_way, lost_order
from monitor.present.conditions import UNKNOWN, Codes, Condition, TrackFacts, conditions, flaps_within_s
from monitor.present.followed_delay import RttBound
from monitor.present.followed_loss import ALL_SIZES, FollowedLoss
from monitor.present.models import PathTrack
from monitor.present.track import Signal, Track, newest_of
from monitor.present.watched import WatchedPath
from monitor.present.written import AWAY_S, LEVEL_S, MOST_AT_ONCE, Written, is_longer_than_shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Bursts from which a path is followed anew (SHORT_CYCLES at least), and in which a loss's onset is sought.
SHORT, SHORT_CYCLES = timedelta(hours=1), 40
# The same of a path that was not normal.
LONG = timedelta(hours=6)
EXCLUDED = np.zeros(0)
# Onsets looked back upon at once, each 15 to 150 ms; others keep the filter's until the next.
LOOKED_BACK = 20
# Probability from which a loss is more than usual, down to TOLD_UNTIL.
UNUSUAL = 0.9


@dataclass(frozen=True, slots=True)
class TrackLimits:
    """Limits by path; those without an entry have none."""

    loss: Mapping[int, float] = field(default_factory=dict)  # from which a path is bad, by rule or open finding
    usual: Mapping[int, float] = field(default_factory=dict)
    set_aside: Collection[int] = ()  # paths in maintenance
    lossy: Collection[tuple[int, str]] = ()  # open findings of loss, with way
    rtt: Mapping[int, RttBound] = field(default_factory=dict)
    # by findings of rules on signals not followed here
    found: Mapping[tuple[int, Signal], Condition] = field(default_factory=dict)


class LossTracks:
    """The loss tracks of these paths: of round trips, or of a `way` by STAMP."""

    def __init__(self, watched: Mapping[int, WatchedPath], way: str = "") -> None:
        self.watched, self.way = watched, way
        self._followed = FollowedLoss({key: path.pings for key, path in watched.items()})
        self.keys = list(self._followed.tracks)
        of_tracks = [watched[path_id] for path_id, _ in self.keys]
        self._path_ids = np.array([path_id for path_id, _ in self.keys], dtype=np.int64)
        self._own = np.array([self._followed.tracks[path_id, ALL_SIZES] for path_id, _ in self.keys], dtype=np.int64)
        self._is_part = (self._own != np.arange(len(self.keys))) | bool(way)
        self._every_s = np.array([path.pings.every_s for path in of_tracks])
        self._started_s = np.array([path.started_s for path in of_tracks])
        self._written, self._undated = Written(len(self.keys)), set[int]()
        self._is_unusual = np.zeros(len(self.keys), dtype=np.bool_)
        # How often a track had changed when its onset was last looked for.
        self._looked = np.full(len(self.keys), -1, dtype=np.int64)
        # Sums of parts since another of their path was lossy; EXCLUDED once they exclude its loss.
        self._compared: dict[int, Floats] = {}
        # By row of a path: the rows of its sizes, and of the size whose loss is the path's.
        self._sizes: dict[int, list[int]] = defaultdict(list)
        for row in [] if way else np.flatnonzero(self._is_part).tolist():
            self._sizes[int(self._own[row])].append(row)
        self._teller: dict[int, int] = {}

    def begin(self, stored: Sequence[PathTrack], now: datetime) -> None:
        """Continue the stored tracks with the bursts since, or begin anew."""
        was_bad = {
            row.path_id for row in stored if row.condition >= Condition.SUSPECT or len(row.segments) > 1 or row.outages
        }
        calm = self._calm(stored, now)
        self._followed.restore(calm)
        newest_s: dict[int, float] = {}
        for (path_id, _), track in calm.items():
            newest_s[path_id] = min(track.newest_s, newest_s.get(path_id, np.inf))
        path_ids = list(self.watched)
        anew_s = {
            path_id: min((now - (LONG if path_id in was_bad else SHORT)).timestamp(),
                         now.timestamp() - SHORT_CYCLES * path.pings.every_s)
            for path_id, path in self.watched.items()
        }  # fmt: skip
        just_after_s = 1e-4  # stored times are rounded to microseconds
        since_s = [newest_s[key] + just_after_s if key in newest_s else anew_s[key] for key in path_ids]
        for first in range(0, len(path_ids), MOST_AT_ONCE):
            of = slice(first, first + MOST_AT_ONCE)
            self._followed.follow(self._bursts(path_ids[of], since_s[of], now), at_once=True)
        normal = {(row.path_id, row.packet_bytes) for row in stored if row.condition == Condition.NORMAL}
        self._compared = {row: EXCLUDED for row, key in enumerate(self.keys) if key in normal}
        rows = self._followed.tracks
        suspect = {(row.path_id, row.packet_bytes) for row in stored if row.condition == Condition.SUSPECT}
        self._is_unusual[[rows[key] for key in suspect & rows.keys()]] = True
        told = {(row.path_id, row.track.packet_bytes_lost) for row in stored if not row.packet_bytes and not self.way}
        self._teller = {rows[key[0], ALL_SIZES]: rows[key] for key in told & rows.keys() if key[1]}

    def take(self, since_s: Mapping[int, float], now: datetime) -> None:
        """Take delivered bursts since each site's earliest (seconds since the epoch); paths with late bursts are
        followed anew."""
        path_ids = [key for key, path in self.watched.items() if path.site_id in since_s]
        bursts = self._bursts(path_ids, [since_s[self.watched[key].site_id] for key in path_ids], now)
        late = self._followed.follow(bursts)
        if late:
            self._followed.forget(late)
            self._followed.follow(self._bursts(sorted(late), [(now - LONG).timestamp()] * len(late), now))

    def set_limits(self, limits: TrackLimits) -> None:
        segments = self._followed.segments
        segments.limits[:] = self._of_paths(limits.loss, np.nan)
        segments.is_found[:] = np.isin(self._path_ids, [path_id for path_id, way in limits.lossy if way == self.way])

    def decide(self, now: datetime, limits: TrackLimits) -> Codes:
        return conditions(self._facts(now.timestamp(), limits), now.timestamp())

    def lost_parts(self, decided: Codes) -> dict[int, LostPackets]:
        """The lowest loss among each path's parts (sizes or ways) in trouble; of all its packets if no part is."""
        lost: dict[int, LostPackets] = {}
        is_bad = self._is_part & (decided >= Condition.SUSPECT)
        if not self.way:  # in a storm most paths lose packets of all sizes
            calm = self._path_ids[self._is_part & ~is_bad]
            is_whole = ~self._is_part & np.isin(decided, (Condition.SUSPECT, Condition.BAD))
            is_whole[list(self._teller)] = False  # its size has told the end
            is_bad |= is_whole & ~np.isin(self._path_ids, self._path_ids[is_bad])
            is_bad &= np.isin(self._path_ids, calm)
        for row in np.flatnonzero(is_bad).tolist():
            path_id, own = self.keys[row][0], self._followed.segments.segments(row)[-1].lost
            lost[path_id] = min(own, lost.get(path_id, own), key=lambda of: of.interval)
        return lost

    def changed(self, now: datetime, decided: Codes, lost: Mapping[int, LostPackets]) -> Iterator[Track]:
        """The tracks to write now. Other parts of a path in `lost` are normal once packets since then exclude that
        loss."""
        segments, newest_s, now_s = self._followed.segments, self._followed.newest_s, now.timestamp()
        others = np.flatnonzero(self._is_part & (decided == Condition.NORMAL) & np.isin(self._path_ids, list(lost)))
        # A loss whose newer packets are late goes on: what excludes it is not to be proven again.
        going_on = {*lost, *self._path_ids[self._is_part & (segments.states != CLEAN)].tolist()}
        self._compared = {row: of for row, of in self._compared.items() if self.keys[row][0] in going_on}
        for row in others.tolist():
            before = self._compared.setdefault(row, segments.sums[:, row].copy())
            if before is not EXCLUDED:
                of, since = lost[self.keys[row][0]], np.maximum(segments.sums[:, row] - before, 0.0)
                own = LostPackets(since[0] + since[2], since[1] + since[3], of.together)
                if own.sent and of.is_above(own):
                    self._compared[row] = EXCLUDED
                else:
                    decided[row] = Condition.AWAITED
        told = self._tell_by_size(decided)
        changes = np.where(told == np.arange(len(told)), segments.changes, -1 - segments.changes[told])
        is_clean, since_s = (segments.states == CLEAN)[told], segments.since_s[told]
        is_calm = (decided < Condition.OWN_TESTS) & is_clean & ~segments.may_be_above[told]
        is_calm &= is_longer_than_shown(since_s, self._every_s, now_s)
        is_fresh = is_clean & (now_s - since_s < LEVEL_S)
        due = self._written.take(decided, changes, newest_s, is_calm, is_fresh, self._path_ids, now_s)
        return (self._track(row, Condition(decided[row])) for row in due.tolist())

    def _tell_by_size(self, decided: Codes) -> Ints:
        """Let a size tell its path's loss where others exclude it; returns the row that tells each."""
        is_bad, told = decided >= Condition.SUSPECT, np.arange(len(self.keys))
        in_trouble = self._own[self._is_part & is_bad].tolist() if self._sizes else []
        for whole in {*in_trouble, *self._teller}:
            rows, own = self._sizes[whole], decided[whole]
            bad = [row for row in rows if is_bad[row]]
            if bad and own <= Condition.BAD and any(decided[row] == Condition.NORMAL for row in rows):
                self._teller[whole] = bad[-1]
            elif bad or own > Condition.BAD:
                self._teller.pop(whole, None)
                if not is_bad[whole]:  # of few packets a size may seem to lose by chance
                    decided[rows] = Condition.NORMAL
            elif own not in UNKNOWN:
                self._end_by_size(whole)
            if (teller := self._teller.get(whole)) is not None:
                is_told = is_bad[teller] or self._followed.segments.states[teller] == CLEAN
                decided[whole] = decided[teller] if is_told and own not in UNKNOWN else own
                told[whole] = teller
        return told

    def _end_by_size(self, whole: int) -> None:
        # Once all its packets show the end too, or a later loss, a path tells its loss by itself again.
        segments, teller = self._followed.segments, self._teller[whole]
        if segments.states[teller] != CLEAN:
            return
        if segments.states[whole] == CLEAN:
            *earlier, newest = self._told_by(teller)
            segments.retell(whole, earlier, newest.since)
            del self._teller[whole]
        elif segments.since_s[whole] > segments.since_s[teller]:
            del self._teller[whole]

    def _told_by(self, teller: int) -> tuple[LossSegment, ...]:
        return of_size(self._followed.segments.segments(teller), self.keys[teller][1])

    def look_back(self, now: datetime) -> None:
        """Date new losses exactly, by bursts of both paths between two hosts, or of a way: at most one query."""
        segments = self._followed.segments
        self._undated |= {*np.flatnonzero(self._looked != segments.changes).tolist()}
        self._undated = {row for row in self._undated if segments.begins_loss(row)}
        self._looked[:] = segments.changes
        begun = sorted(self._undated)[:LOOKED_BACK]
        if not begun:
            return
        self._undated.difference_update(begun)
        by_hosts = {} if self.way else {path.hosts: key for key, path in self.watched.items()}
        pairs = {}
        for row in begun:
            path_id, _ = self.keys[row]
            pairs[row] = {path_id, by_hosts.get(self.watched[path_id].hosts[::-1], path_id)}
        path_ids = sorted(set[int]().union(*pairs.values()))
        bursts = self._bursts(path_ids, [(now - SHORT).timestamp()] * len(path_ids), now)
        for row, pair in pairs.items():
            path_id, size = self.keys[row]
            since = onset_in(bursts, pair, size, self.watched[path_id].pings.lasts_s)
            if since is not None:
                self._date(row, bursts, since)

    def _date(self, row: int, bursts: LostOrder, since: Moment) -> None:
        """Set a track's newest onset, separate from losses before a lossless time."""
        segments, own = self._followed.segments, self._own_of(bursts, row)
        *earlier, newest = segments.segments(row)
        while earlier and earlier[-1].state == LOSSY and not earlier[-1].lost.lost:
            earlier.pop()
        ends_s = {LOSSY: earlier[-1].since.latest_s, DEAD: newest.since.at_s, CLEAN: -np.inf} if earlier else {}
        if earlier and since.at_s <= ends_s[earlier[-1].state]:
            return
        at_s, lost = own.at_s, own.sums[LOST_AFTER_RECEIVED] + own.sums[LOST_AFTER_LOST]
        lossy_s = at_s[(lost > 0.0) & (at_s < since.at_s)].max(initial=-np.inf)
        if lossy_s >= newest.since.at_s and since.earliest_s > newest.since.at_s:
            earlier.append(newest)  # two losses in one segment
        before = earlier[-1] if earlier else None
        clean_s = at_s[(at_s > lossy_s) & (at_s < since.at_s)]
        if before is not None and before.state != CLEAN and len(clean_s):
            first_s = float(clean_s.min())
            end = newest.since if before.state == DEAD else Moment(first_s, float(lossy_s), first_s)
            if before.state == LOSSY:
                of_before = _sums_between(own, before.since.at_s, end.at_s)
                earlier[-1] = replace(before, lost=lost_of_stretch(LOSSY, of_before))
            of_clean = _sums_between(own, end.at_s, since.at_s)
            earlier.append(LossSegment(CLEAN, end, lost_of_stretch(CLEAN, of_clean)))
            since = replace(since, earliest_s=max(since.earliest_s, end.at_s))
        segments.date(row, earlier, since, _sums_between(own, since.at_s, np.inf))

    def _own_of(self, bursts: LostOrder, row: int) -> LostOrder:
        path_id, size = self.keys[row]
        is_own = (bursts.path_id == path_id) & ((size == ALL_SIZES) | (bursts.packet_bytes == size))
        return bursts.part(np.flatnonzero(is_own & (bursts.result == COUNTS)))

    def _bursts(self, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> LostOrder:
        if self.way:
            return lost_one_way(self.way, path_ids, since_s, until)
        return lost_order(path_ids, since_s, until)

    def _calm(self, stored: Iterable[PathTrack], now: datetime) -> dict[tuple[int, int], Track]:
        """Stored clean tracks that need no earlier bursts."""
        tracks: dict[int, dict[tuple[int, int], Track]] = defaultdict(dict)
        for row in stored:
            if row.condition == Condition.NORMAL and row.newest_at is not None and row.interval is None:
                track, is_newer = row.track, now - timedelta(seconds=2 * AWAY_S) < row.newest_at < now
                if is_newer and len(track.segments) == 1 and track.segments[0].state == CLEAN and not track.outages:
                    tracks[row.path_id][row.path_id, row.packet_bytes] = track
        sizes = Counter(path_id for path_id, _ in self.keys)
        whole = [of for path_id, of in tracks.items() if len(of) == sizes[path_id] and _are_of_one_time(of)]
        return {key: track for of in whole for key, track in of.items()}

    def _of_paths(self, values: Mapping[int, float], missing: float) -> Floats:
        known = np.append(np.fromiter(values, dtype=np.int64, count=len(values)), -1)
        order = np.argsort(known)
        places = order[np.searchsorted(known, self._path_ids, sorter=order).clip(max=len(known) - 1)]
        every = np.append(np.fromiter(values.values(), dtype=np.float64, count=len(values)), missing)
        return np.where(known[places] == self._path_ids, every[places], missing)

    def _facts(self, now_s: float, limits: TrackLimits) -> TrackFacts:
        followed, segments = self._followed, self._followed.segments
        outages, is_unusual = np.zeros(len(self.keys)), np.zeros(len(self.keys), dtype=np.bool_)
        for row, ended in segments.outages.items():
            within_s = flaps_within_s(self._every_s[row])
            outages[row] = sum(now_s - end_s <= within_s for _, end_s in ended)
        lossy = np.flatnonzero(segments.states == LOSSY)
        usual = [limits.usual.get(self.keys[row][0], 0.0) for row in lossy.tolist()]
        least = np.where(self._is_unusual[lossy], TOLD_UNTIL, UNUSUAL)
        is_unusual[lossy] = segments.filter.above(np.array(usual), lossy) >= least
        self._is_unusual = is_unusual
        return TrackFacts(
            every_s=self._every_s,
            started_s=self._started_s,
            newest_s=followed.newest_s,
            own_s=followed.own_s[self._own],
            failed_s=followed.failed_s[self._own],
            is_set_aside=np.isin(self._path_ids, list(limits.set_aside)),
            packets=segments.sums[0] + segments.sums[2],
            limits=segments.limits,
            is_dead=segments.states == DEAD,
            outages=outages,
            is_above=segments.is_above & ((segments.states == LOSSY) | segments.is_found),
            is_unusual=is_unusual,
            is_part=self._is_part,
        )

    def _track(self, row: int, condition: Condition) -> Track:
        path_id, size = self.keys[row]
        newest_s, segments = float(self._followed.newest_s[row]), self._followed.segments
        teller = self._teller.get(row, row)
        told = segments.segments(row) if teller == row else self._told_by(teller)
        may_be_above = condition == Condition.NORMAL and segments.may_be_above[teller]
        return Track(
            path_id,
            Signal.LOSS,
            self.way,
            size,
            condition,
            newest_s,
            as_told(condition, told) if np.isfinite(newest_s) else (),
            newest_of([*segments.outages.get(row, ())], self._every_s[row]),
            segments.filter.interval(teller) if may_be_above else None,
        )


def of_size(segments: Sequence[LossSegment], size: int) -> tuple[LossSegment, ...]:
    """Segments of a packet size as those of its path."""
    last = max((number for number, of in enumerate(segments) if of.state != CLEAN), default=-1)
    first = max((number for number, of in enumerate(segments[: last + 1]) if of.state == CLEAN), default=-1) + 1
    named = [replace(of, state=LOSSY, packet_bytes=size) for of in segments[first : last + 1]]
    return (*segments[:first], *named, *segments[last + 1 :])


def as_told(condition: Condition, segments: tuple[LossSegment, ...]) -> tuple[LossSegment, ...]:
    """The segments of a track as its condition tells them: a newest loss that is no trouble joins the clean segment
    before it."""
    *earlier, newest = segments
    if condition not in (Condition.NORMAL, Condition.AWAITED) or newest.state != LOSSY:
        return segments
    if not earlier or earlier[-1].state != CLEAN:
        return *earlier, replace(newest, state=CLEAN)
    *earlier, clean = earlier
    return *earlier, replace(clean, lost=summed([clean.lost, newest.lost]))


def onset_in(bursts: LostOrder, path_ids: Collection[int], size: int, lasts_s: float) -> Moment | None:
    """Onset of the newest loss in bursts of these paths and size (or ALL_SIZES), each `lasts_s` long; None without
    loss."""
    is_own = np.isin(bursts.path_id, list(path_ids)) & ((size == ALL_SIZES) | (bursts.packet_bytes == size))
    counts = np.flatnonzero((bursts.result == COUNTS) & is_own)
    order = counts[np.argsort(bursts.at_s[counts], kind="stable")]
    at_s, sums = bursts.at_s[order], bursts.sums[:, order]
    onset = onset_of_loss(at_s, sums) if sums[[LOST_AFTER_RECEIVED, LOST_AFTER_LOST]].any() else None
    if onset is None:
        return None
    earliest_s = float(at_s[onset.earliest - 1]) if onset.earliest else -np.inf
    return Moment(float(at_s[onset.at]), earliest_s, float(at_s[onset.latest]) + lasts_s)


def _sums_between(own: LostOrder, since_s: float, until_s: float) -> Floats:
    return np.asarray(own.sums[:, (own.at_s >= since_s) & (own.at_s < until_s)].sum(axis=1))


def _are_of_one_time(of_path: Mapping[tuple[int, int], Track]) -> bool:
    """Whether a path's stored tracks, each written at its own time, cover the same packets."""
    sent = {size: track.now.lost.sent for (_, size), track in of_path.items() if isinstance(track.now, LossSegment)}
    whole = sent.pop(ALL_SIZES, None)
    return not sent or sum(sent.values()) == whole
