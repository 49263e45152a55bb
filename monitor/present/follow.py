"""Follow the tracks of all paths from new bursts, and store those whose condition or segments changed.

In: the moment, the limits and the usual loss of each path, and the paths in maintenance, as the alerts know them. Out:
rows of `PathTrack`. A follower lives in the process that evaluates the rules; what it has in memory is made again from
raw bursts at its first look, when the mesh changes, when a burst came late, and when the process was away for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.delay_segments import LONGER, DelaySegment
from monitor.analysis.segments.look_back import onset_of_loss
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.archive.queries.present.lost_order import COUNTS, LostOrder, arrivals, lost_order
from monitor.mesh.queries import mesh_version
from monitor.present.followed_delay import FollowedDelay, Medians, RttLimit
from monitor.present.followed_loss import ALL_SIZES, FollowedLoss
from monitor.present.models import PathTrack, delays_as_json, losses_as_json
from monitor.present.track import Codes, Condition, Signal, TrackFacts, conditions, delay_conditions, flaps_within_s
from monitor.present.watched import WatchedPath, watched_paths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_MEDIANS = Medians(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))

SHORT = timedelta(hours=1)
"""The bursts that a path is followed from anew, and those in which the onset of a loss is looked for."""
LONG = timedelta(hours=6)
"""The same of a path that was not normal."""
AWAY = timedelta(minutes=5)
"""A process that has not looked for so long begins anew; what says the same is written once in this time."""
LOOKED_BACK = 20
"""So many onsets are looked back upon at once, each for 50 ms; the others have those of the filter until the next."""
UNUSUAL = 0.9
"""A loss is more than usual with this probability."""


@dataclass(frozen=True, slots=True)
class TrackLimits:
    """By path: the loss from which on it is bad, of its rule or of an open finding, its usual loss, and the limits of
    its RTT; those without an entry have none. `set_aside` are the paths in maintenance, `lossy` those with an open
    finding of loss, `found` the conditions by findings of rules whose signal is not followed here."""

    loss: Mapping[int, float] = field(default_factory=dict)
    usual: Mapping[int, float] = field(default_factory=dict)
    set_aside: Collection[int] = ()
    lossy: Collection[int] = ()
    rtt: Mapping[int, RttLimit] = field(default_factory=dict)
    found: Mapping[tuple[int, Signal], Condition] = field(default_factory=dict)


class _Written:
    """What was written last of each track, and when."""

    def __init__(self, tracks: int) -> None:
        self.conditions = np.full(tracks, -1, dtype=np.int8)
        self.changes = np.full(tracks, -1, dtype=np.int64)
        self.newest_s, self.at_s = np.full((2, tracks), -np.inf)

    def take(self, conditions: Codes, changes: Ints, newest_s: Floats, is_calm: Bools, now_s: float) -> Ints:
        """The tracks to be written now: those that say something else, those in trouble with newer bursts, and calm
        ones after a while, spread over the time."""
        is_same = (conditions == self.conditions) & (changes == self.changes)
        rest_s = AWAY.total_seconds() * (0.5 + np.arange(len(changes)) % 32 / 64.0)
        is_due = np.where(is_calm, now_s - self.at_s >= rest_s, newest_s > self.newest_s)
        rows = np.flatnonzero(~is_same | is_due)
        self.conditions[rows], self.changes[rows] = conditions[rows], changes[rows]
        self.newest_s[rows], self.at_s[rows] = newest_s[rows], now_s
        return rows


class Follower:
    """The tracks of all paths, in the memory of a process."""

    def __init__(self) -> None:
        self._version: object = None
        self._looked_at: datetime | None = None
        self._seen: dict[tuple[int, str], int] = {}
        self._watched: dict[int, WatchedPath] = {}
        self._followed = FollowedLoss({})
        self._keys: list[tuple[int, int]] = []
        self._written = _Written(0)
        self._delays = FollowedDelay({}, {})
        self._written_delays = _Written(0)

    def follow(self, now: datetime, limits: TrackLimits, medians: Medians = NO_MEDIANS) -> None:
        """Take what has arrived by `now`, with these median RTTs, and store what changed."""
        version = mesh_version()
        is_away = self._looked_at is None or not timedelta() <= now - self._looked_at <= AWAY
        if version != self._version or is_away:
            self._begin(now, limits)
            self._version = version
        else:
            self._set_limits(limits)
            self._take(self._arrived(now), now)
        self._looked_at = now
        self._delays.set_limits(limits.rtt)
        self._delays.follow(medians)
        self._look_back(now)
        _write([*self._losses(now, limits), *self._rtts(now, limits)])
        _write_found(limits.found)

    def _begin(self, now: datetime, limits: TrackLimits) -> None:
        """Follow all paths anew."""
        self._watched = watched_paths()
        self._followed = FollowedLoss({key: path.pings for key, path in self._watched.items()})
        self._keys = list(self._followed.tracks)
        self._set_limits(limits)
        self._seen = {(of.site_id, of.spool): of.number for of in arrivals({}, now - AWAY)}
        every = list(PathTrack.objects.filter(signal__in=(Signal.LOSS, Signal.RTT), way=""))
        stored = {(row.path_id, row.packet_bytes): row for row in every if row.signal == Signal.LOSS}
        known = self._followed.tracks.keys()
        PathTrack.objects.filter(pk__in=[row.pk for key, row in stored.items() if key not in known]).delete()
        was_bad = {
            path_id
            for (path_id, _), row in stored.items()
            if row.condition >= Condition.SUSPECT or len(row.segments) > 1 or row.outages
        }
        self._written = _Written(len(self._keys))
        usual_ms = {row.path_id: ms for row in every if row.signal == Signal.RTT and (ms := _usual_ms(row)) is not None}
        self._delays = FollowedDelay({key: path.pings.every_s for key, path in self._watched.items()}, usual_ms)
        self._written_delays = _Written(len(self._watched))
        path_ids = list(self._watched)
        since_s = [(now - (LONG if path_id in was_bad else SHORT)).timestamp() for path_id in path_ids]
        self._followed.follow(lost_order(path_ids, since_s, now))

    def _arrived(self, now: datetime) -> LostOrder:
        """The bursts in batches that had not been seen."""
        assert self._looked_at is not None
        new = arrivals(self._seen, self._looked_at - AWAY)
        since_s: dict[int, float] = {}
        for of in new:
            self._seen[of.site_id, of.spool] = of.number
            if of.measured_from is not None:
                since_s[of.site_id] = min(of.measured_from.timestamp(), since_s.get(of.site_id, np.inf))
        path_ids = [key for key, path in self._watched.items() if path.site_id in since_s]
        return lost_order(path_ids, [since_s[self._watched[key].site_id] for key in path_ids], now)

    def _take(self, bursts: LostOrder, now: datetime) -> None:
        """Take bursts; the paths of which some came late are followed anew."""
        late = self._followed.follow(bursts)
        if late:
            self._followed.forget(late)
            self._followed.follow(lost_order(sorted(late), [(now - LONG).timestamp()] * len(late), now))

    def _set_limits(self, limits: TrackLimits) -> None:
        segments = self._followed.segments
        segments.limits[:] = [limits.loss.get(path_id, np.nan) for path_id, _ in self._keys]
        segments.is_found[:] = [path_id in limits.lossy for path_id, _ in self._keys]

    def _facts(self, now_s: float, limits: TrackLimits) -> TrackFacts:
        followed, segments = self._followed, self._followed.segments
        paths = [self._watched[path_id] for path_id, _ in self._keys]
        own = np.array([followed.tracks[path_id, ALL_SIZES] for path_id, _ in self._keys], dtype=np.int64)
        every_s = np.array([path.pings.every_s for path in paths])
        outages = np.zeros(len(paths))
        for row, ended in segments.outages.items():
            within_s = flaps_within_s(every_s[row])
            outages[row] = sum(now_s - end_s <= within_s for _, end_s in ended)
        is_unusual = np.zeros(len(paths), dtype=np.bool_)
        lossy = np.flatnonzero(segments.states == LOSSY)
        usual = [limits.usual.get(self._keys[row][0], 0.0) for row in lossy.tolist()]
        is_unusual[lossy] = segments.filter.above(np.array(usual), lossy) >= UNUSUAL
        return TrackFacts(
            every_s=every_s,
            started_s=np.array([path.started_s for path in paths]),
            newest_s=followed.newest_s,
            own_s=followed.own_s[own],
            failed_s=followed.failed_s[own],
            is_set_aside=np.array([path_id in limits.set_aside for path_id, _ in self._keys], dtype=np.bool_),
            packets=segments.sums[0] + segments.sums[2],
            limits=segments.limits,
            is_dead=segments.states == DEAD,
            outages=outages,
            is_above=segments.is_above & ((segments.states == LOSSY) | segments.is_found),
            is_unusual=is_unusual,
            is_part=np.array([size != ALL_SIZES for _, size in self._keys], dtype=np.bool_),
        )

    def _losses(self, now: datetime, limits: TrackLimits) -> list[PathTrack]:
        """The tracks of loss that changed."""
        segments, newest_s, now_s = self._followed.segments, self._followed.newest_s, now.timestamp()
        decided = conditions(self._facts(now_s, limits), now_s)
        is_calm = (decided < Condition.SUSPECT) & (segments.states == CLEAN)
        due = self._written.take(decided, segments.changes, newest_s, is_calm, now_s)
        return [self._row(row, int(decided[row])) for row in due.tolist()]

    def _rtts(self, now: datetime, limits: TrackLimits) -> list[PathTrack]:
        """The tracks of RTT that changed."""
        delays, now_s = self._delays, now.timestamp()
        path_ids, segments = delays.path_ids.tolist(), delays.segments
        is_found = ~np.isnan(segments.limits_ms)
        decided = delay_conditions(segments.states == LONGER, is_found, delays.newest_s, delays.every_s, now_s)
        is_calm = (decided == Condition.NORMAL) | ~np.isfinite(delays.newest_s)
        due = self._written_delays.take(decided, segments.changes, delays.newest_s, is_calm, now_s)
        return [
            PathTrack(
                path_id=path_ids[row],
                signal=Signal.RTT,
                condition=int(decided[row]),
                newest_at=datetime.fromtimestamp(float(delays.newest_s[row]), UTC),
                segments=delays_as_json(segments.segments(row)),
            )
            for row in due[np.isfinite(delays.newest_s[due])].tolist()
        ]

    def _row(self, row: int, condition: int) -> PathTrack:
        path_id, size = self._keys[row]
        newest_s, segments = float(self._followed.newest_s[row]), self._followed.segments
        is_measured = np.isfinite(newest_s)
        return PathTrack(
            path_id=path_id,
            signal=Signal.LOSS,
            packet_bytes=size,
            condition=condition,
            newest_at=datetime.fromtimestamp(newest_s, UTC) if is_measured else None,
            segments=losses_as_json(segments.segments(row)) if is_measured else [],
            outages=list(segments.outages.get(row, ())),
        )

    def _look_back(self, now: datetime) -> None:
        """Date the losses that have begun since the tracks were written exactly, by the bursts of both paths between
        their hosts: a query, none without such a loss."""
        segments = self._followed.segments
        begun = np.flatnonzero((segments.states == LOSSY) & (self._written.changes != segments.changes))[:LOOKED_BACK]
        if not len(begun):
            return
        by_hosts = {path.hosts: key for key, path in self._watched.items()}
        pairs = {}
        for row in begun.tolist():
            path_id, _ = self._keys[row]
            pairs[row] = {path_id, by_hosts.get(self._watched[path_id].hosts[::-1], path_id)}
        path_ids = sorted(set[int]().union(*pairs.values()))
        bursts = lost_order(path_ids, [(now - SHORT).timestamp()] * len(path_ids), now)
        for row, pair in pairs.items():
            since = _onset(bursts, pair, self._keys[row][1])
            if since is not None:
                segments.set_since(row, since)


def _onset(bursts: LostOrder, path_ids: Collection[int], size: int) -> Moment | None:
    """The onset of the newest loss in the bursts of these paths of a size, of all for ALL_SIZES."""
    is_own = np.isin(bursts.path_id, list(path_ids)) & ((size == ALL_SIZES) | (bursts.packet_bytes == size))
    counts = np.flatnonzero((bursts.result == COUNTS) & is_own)
    order = counts[np.argsort(bursts.at_s[counts], kind="stable")]
    at_s = bursts.at_s[order]
    onset = onset_of_loss(at_s, bursts.sums[:, order])
    if onset is None:
        return None
    earliest_s = float(at_s[onset.earliest]) if onset.earliest else -np.inf
    return Moment(float(at_s[onset.at]), earliest_s, float(at_s[onset.latest]))


def _usual_ms(row: PathTrack) -> float | None:
    """The usual RTT of a stored track."""
    usual = [
        segment.median_ms for segment in row.track.segments if isinstance(segment, DelaySegment) and not segment.state
    ]
    return usual[-1] if usual else None


def _write_found(found: Mapping[tuple[int, Signal], Condition]) -> None:
    """Store the conditions by findings, and delete those of which there is no finding any more."""
    rows = PathTrack.objects.filter(signal__gt=Signal.RTT).values_list("path_id", "signal", "condition")
    stored = {(path_id, Signal(signal)): condition for path_id, signal, condition in rows}
    for path_id, signal in stored.keys() - found.keys():
        PathTrack.objects.filter(path=path_id, signal=signal).delete()
    _write(
        PathTrack(path_id=path_id, signal=signal, condition=condition, segments=[])
        for (path_id, signal), condition in found.items()
        if stored.get((path_id, signal)) != condition
    )


def _write(rows: Iterable[PathTrack]) -> None:
    PathTrack.objects.bulk_create(
        rows,
        batch_size=1000,
        update_conflicts=True,
        unique_fields=["path", "signal", "way", "packet_bytes"],
        update_fields=["condition", "newest_at", "segments", "outages"],
    )
