"""The tracks of all paths as last decided: a narrow row for each path, signal, direction and packet size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from django.db import models

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.present.track import AnySegment, Condition, Signal, Track


class PathTrack(models.Model):
    """A track, written when its condition or its segments change, otherwise every few minutes."""

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
        segments: list[AnySegment] = [_delay(of) if self.signal == Signal.RTT else _loss(of) for of in self.segments]
        return Track(
            self.path_id,
            Signal(self.signal),
            self.way,
            self.packet_bytes,
            Condition(self.condition),
            -math.inf if self.newest_at is None else self.newest_at.timestamp(),
            tuple(segments),
            tuple((begin_s, end_s) for begin_s, end_s in self.outages),
            None if self.interval is None else (self.interval[0], self.interval[1]),
        )


def losses_as_json(segments: Iterable[LossSegment]) -> list[list[Any]]:
    """Segments of loss as `PathTrack.segments` stores them."""
    return [
        [*_stored(of.state, of.since), round(of.lost.sent), round(of.lost.lost), round(of.lost.together, 3)]
        for of in segments
    ]


def delays_as_json(segments: Iterable[DelaySegment]) -> list[list[Any]]:
    """Segments of the RTT as `PathTrack.segments` stores them."""
    return [
        [*_stored(of.state, of.since), *(round(ms, 4) for ms in (of.median_ms, of.low_ms, of.high_ms, of.worst_ms))]
        for of in segments
    ]


def _stored(state: int, since: Moment) -> list[Any]:
    return [state, since.at_s, since.earliest_s if since.is_bounded else None, since.latest_s]


def _loss(stored: list[Any]) -> LossSegment:
    state, at_s, earliest_s, latest_s, sent, lost, together = stored
    return LossSegment(state, _moment(at_s, earliest_s, latest_s), LostPackets(sent, lost, together))


def _delay(stored: list[Any]) -> DelaySegment:
    state, at_s, earliest_s, latest_s, *levels_ms = stored
    return DelaySegment(state, _moment(at_s, earliest_s, latest_s), *levels_ms)


def _moment(at_s: float, earliest_s: float | None, latest_s: float) -> Moment:
    return Moment(at_s, -math.inf if earliest_s is None else earliest_s, latest_s)
