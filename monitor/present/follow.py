"""Follow the tracks of all paths from new bursts, and store changed ones. Runs in the process that evaluates the rules;
its memory is rebuilt from raw bursts at start, after mesh changes, late bursts and long pauses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import chain

import numpy as np

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import LONGER
from monitor.archive.periods import start_of
from monitor.archive.queries.present.lost_order import arrivals
from monitor.archive.queries.present.usual_rtts import usual_rtts
from monitor.mesh.queries import mesh_version
from monitor.present.conditions import Condition, delay_conditions
from monitor.present.followed_delay import FollowedDelay, Medians
from monitor.present.loss_tracks import LossTracks, TrackLimits
from monitor.present.models import PathTrack
from monitor.present.track import Signal, Track
from monitor.present.watched import watched_paths, watched_ways
from monitor.present.written import AWAY_S, LEVEL_S, Written, is_longer_than_shown, write

NO_MEDIANS = Medians(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


class Follower:
    """The tracks of all paths, in the memory of a process."""

    def __init__(self) -> None:
        self._version: object = None
        self._looked_at: datetime | None = None
        self._hour: datetime | None = None
        self._seen: dict[tuple[int, str], int] = {}
        self._losses: list[LossTracks] = []
        self._delays = FollowedDelay({})
        self._written_delays = Written(0)

    def follow(self, now: datetime, limits: TrackLimits, medians: Medians = NO_MEDIANS) -> None:
        """Take the bursts that arrived by `now` and these median RTTs, and store changed tracks."""
        version = mesh_version()
        is_away = self._looked_at is None or not 0.0 <= (now - self._looked_at).total_seconds() <= AWAY_S
        if version != self._version or is_away:
            self._begin(now, limits)
            self._version = version
        else:
            since_s = self._arrived()
            for tracks in self._losses:
                tracks.set_limits(limits)
                tracks.take(since_s, now)
        self._looked_at = now
        self._set_hourly(start_of("hour", now))
        self._delays.set_limits(limits.rtt)
        self._delays.follow(medians)
        for tracks in self._losses:
            tracks.look_back(now)
        decided = [tracks.decide(now, limits) for tracks in self._losses]
        # The sizes of a path are compared with each other, and its two ways.
        parts: dict[bool, dict[int, LostPackets]] = {False: {}, True: {}}
        for tracks, of in zip(self._losses, decided, strict=True):
            parts[bool(tracks.way)] |= tracks.lost_parts(of)
        lossy = [
            tracks.changed(now, of, parts[bool(tracks.way)]) for tracks, of in zip(self._losses, decided, strict=True)
        ]
        write(chain(*lossy, self._rtts(now)))
        _write_found(limits.found)

    def _set_hourly(self, hour: datetime) -> None:
        if hour != self._hour:
            self._delays.set_hourly(usual_rtts(hour))
            self._hour = hour

    def restart(self) -> None:
        """Begin anew at the next run, after a failed store."""
        self._looked_at = None

    def _begin(self, now: datetime, limits: TrackLimits) -> None:
        watched = watched_paths()
        by_way = {"": watched, **watched_ways()}
        of_ways = {way: LossTracks(of_way, way) for way, of_way in by_way.items()}
        self._losses = list(of_ways.values())
        self._seen = {(of.site_id, of.spool): of.number for of in arrivals({}, now - timedelta(seconds=AWAY_S))}
        stored = list(PathTrack.objects.filter(signal__in=(Signal.LOSS, Signal.RTT)))
        known = {(path_id, way, size) for way, tracks in of_ways.items() for path_id, size in tracks.keys}
        gone = [row.pk for row in stored if (row.path_id, row.way, row.packet_bytes) not in known]
        PathTrack.objects.filter(pk__in=gone).delete()
        losses = [row for row in stored if row.signal == Signal.LOSS]
        for way, tracks in of_ways.items():
            tracks.set_limits(limits)
            tracks.begin([row for row in losses if row.way == way], now)
        rtts = [row.track for row in stored if row.signal == Signal.RTT]
        self._delays = FollowedDelay({key: path.pings.every_s for key, path in watched.items()}, rtts)
        self._hour, self._written_delays = None, Written(len(watched))

    def _arrived(self) -> dict[int, float]:
        """Find each site's earliest new burst, in seconds since the epoch, and note its batches as seen."""
        assert self._looked_at is not None
        since_s: dict[int, float] = {}
        for of in arrivals(self._seen, self._looked_at - timedelta(seconds=AWAY_S)):
            self._seen[of.site_id, of.spool] = of.number
            if of.measured_from is not None:
                since_s[of.site_id] = min(of.measured_from.timestamp(), since_s.get(of.site_id, np.inf))
        return since_s

    def _rtts(self, now: datetime) -> list[Track]:
        delays, now_s = self._delays, now.timestamp()
        path_ids, segments = delays.path_ids.tolist(), delays.segments
        decided = delay_conditions(segments.states == LONGER, delays.is_found, delays.newest_s, delays.every_s, now_s)
        is_calm = (decided == Condition.NORMAL) & is_longer_than_shown(segments.since_s, delays.every_s, now_s)
        is_calm |= ~np.isfinite(delays.newest_s)
        # The end of a trouble has no packets yet; a page shows the first ones at once.
        is_fresh = (segments.states != LONGER) & (now_s - segments.since_s < LEVEL_S)
        due = self._written_delays.take(
            decided, segments.changes, delays.newest_s, is_calm, is_fresh, delays.path_ids, now_s
        )
        due = due[np.isfinite(delays.newest_s[due])]
        every = zip(due.tolist(), segments.segments(due), strict=True)
        return [
            Track(path_ids[row], Signal.RTT, "", 0, Condition(decided[row]), float(delays.newest_s[row]), of_path)
            for row, of_path in every
        ]


def _write_found(found: Mapping[tuple[int, Signal], Condition]) -> None:
    """Store the conditions that findings set; delete those without a finding."""
    rows = PathTrack.objects.filter(signal__gt=Signal.RTT).values_list("path_id", "signal", "condition")
    stored = {(path_id, Signal(signal)): condition for path_id, signal, condition in rows}
    for path_id, signal in stored.keys() - found.keys():
        PathTrack.objects.filter(path=path_id, signal=signal).delete()
    write(
        Track(path_id, signal, "", 0, condition, -np.inf, ())
        for (path_id, signal), condition in found.items()
        if stored.get((path_id, signal)) != condition
    )
