"""The tracks of all paths as last decided: a narrow row for each path, signal, direction and packet size."""

from __future__ import annotations

import math
from typing import Any

from django.db import models

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.present.track import Condition, Signal, Track


class PathTrack(models.Model):
    """A track, written when its condition or its segments change, otherwise every few minutes."""

    path = models.ForeignKey("mesh.Path", on_delete=models.CASCADE, related_name="+", db_index=False)
    signal = models.SmallIntegerField(help_text="track.Signal")
    way = models.TextField(default="", help_text="forward or reverse by STAMP; empty for round trips")
    packet_bytes = models.IntegerField(default=0, help_text="0 for packets of all sizes")
    condition = models.SmallIntegerField(help_text="track.Condition")
    newest_at = models.DateTimeField(null=True, help_text="The newest burst that counts; null before any.")
    segments = models.JSONField(
        help_text="State, begin with its 95% set, sent, lost and together of each, oldest first."
    )
    outages = models.JSONField(default=list, help_text="Last reply before, and first reply after each of the newest.")

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
            tuple(map(_segment, self.segments)),
            tuple((begin_s, end_s) for begin_s, end_s in self.outages),
        )


def as_json(segments: tuple[LossSegment, ...]) -> list[list[Any]]:
    """Segments as `PathTrack.segments` stores them."""
    return [
        [
            segment.state,
            segment.since.at_s,
            segment.since.earliest_s if segment.since.is_bounded else None,
            segment.since.latest_s,
            round(segment.lost.sent),
            round(segment.lost.lost),
            round(segment.lost.together, 3),
        ]
        for segment in segments
    ]


def _segment(stored: list[Any]) -> LossSegment:
    state, at_s, earliest_s, latest_s, sent, lost, together = stored
    since = Moment(at_s, -math.inf if earliest_s is None else earliest_s, latest_s)
    return LossSegment(state, since, LostPackets(sent, lost, together))
