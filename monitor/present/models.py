"""Stored tracks of all paths: a row for each path, signal, direction and packet size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment, RateSegment
from monitor.present.conditions import Condition
from monitor.present.track import AnySegment, Signal, Track


class PathTrack(models.Model):
    """A track, written when its condition or segments change, otherwise every few minutes."""

    path = models.ForeignKey("mesh.Path", on_delete=models.CASCADE, related_name="+", db_index=False)
    signal = models.SmallIntegerField(help_text="track.Signal")
    way = models.TextField(default="", help_text="forward or reverse by STAMP; empty for round trips")
    packet_bytes = models.IntegerField(default=0, help_text="0 for packets of all sizes")
    condition = models.SmallIntegerField(help_text="track.Condition")
    newest_at = models.DateTimeField(null=True, help_text="The newest burst that counts; null before any.")
    segments = models.JSONField(help_text="State, begin with its 95% set, and the level of each, oldest first.")
    outages = models.JSONField(default=list, help_text="Last reply before, and first reply after each of the newest.")
    interval = models.JSONField(null=True, help_text="Ends of the loss of a normal track that may be above its limit.")

    class Meta:
        db_table = "path_track"
        constraints = [
            models.UniqueConstraint(fields=["path", "signal", "way", "packet_bytes"], name="track_once_per_path")
        ]

    @property
    def track(self) -> Track:
        return Track(
            self.path_id,
            Signal(self.signal),
            self.way,
            self.packet_bytes,
            Condition(self.condition),
            -math.inf if self.newest_at is None else self.newest_at.timestamp(),
            _segments(self.signal, self.segments),
            tuple((begin_s, end_s) for begin_s, end_s in self.outages),
            None if self.interval is None else (self.interval[0], self.interval[1]),
        )


def copy_of(track: Track) -> dict[str, Any]:
    """Convert a track to JSON, to keep after the track has changed."""
    return {
        "condition": int(track.condition),
        "newest_s": track.newest_s,
        "segments": segments_as_json(track.segments),
    }


def track_of_copy(path_id: int, signal: Signal, way: str, copy: Mapping[str, Any]) -> Track:
    segments = _segments(signal, copy["segments"])
    return Track(path_id, signal, way, 0, Condition(copy["condition"]), copy["newest_s"], segments)


def segments_as_json(segments: Iterable[AnySegment]) -> list[list[Any]]:
    return [[*_stored(of.state, of.since), *_level(of)] for of in segments]


def _level(of: AnySegment) -> list[Any]:
    if isinstance(of, LossSegment):
        sized = [of.packet_bytes] if of.packet_bytes else []
        return [round(of.lost.sent), round(of.lost.lost), round(of.lost.together, 3), *sized]
    if isinstance(of, DelaySegment):
        return [round(ms, 4) for ms in (of.median_ms, of.low_ms, of.high_ms, of.worst_ms)]
    return [of.level, of.worst]


def _segments(signal: int, stored: Iterable[list[Any]]) -> tuple[AnySegment, ...]:
    return tuple(_segment(signal, *of) for of in stored)


def _segment(
    signal: int, state: int, at_s: float, earliest_s: float | None, latest_s: float, *level: float
) -> AnySegment:
    since = Moment(at_s, -math.inf if earliest_s is None else earliest_s, latest_s)
    if signal == Signal.LOSS:
        sent, lost, together, *sized = level
        return LossSegment(state, since, LostPackets(sent, lost, together), *map(int, sized))
    return (RateSegment if signal == Signal.RATE else DelaySegment)(state, since, *level)


def _stored(state: int, since: Moment) -> list[Any]:
    return [state, since.at_s, since.earliest_s if since.is_bounded else None, since.latest_s]
