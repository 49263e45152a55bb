"""Stored tracks of paths, as an evaluation would have left them."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.mesh.models import Path
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack, segments_as_json
from monitor.present.track import Signal


def segment(state: int, at_s: float, sent: int = 0, lost: int = 0) -> LossSegment:
    return LossSegment(state, Moment(at_s, at_s - 10.0, at_s + 10.0), LostPackets(sent, lost))


def delay(state: int, at_s: float, median_ms: float = 20.0) -> DelaySegment:
    return DelaySegment(state, Moment(at_s, at_s - 10.0, at_s + 10.0), median_ms, median_ms, median_ms, median_ms)


def store_delays(path: Path, condition: Condition, *segments: DelaySegment) -> PathTrack:
    return PathTrack.objects.create(
        path=path, signal=Signal.RTT, condition=condition, segments=segments_as_json(segments)
    )


def store_finding(path: Path, condition: Condition) -> PathTrack:
    """Of a signal that is not followed."""
    return PathTrack.objects.create(path=path, signal=Signal.RATE, condition=condition, segments=[])


def store_track(
    path: Path, condition: Condition, *segments: LossSegment, packet_bytes: int = 0, newest_s: float | None = None
) -> PathTrack:
    return PathTrack.objects.create(
        path=path,
        signal=Signal.LOSS,
        packet_bytes=packet_bytes,
        condition=condition,
        newest_at=None if newest_s is None else datetime.fromtimestamp(newest_s, UTC),
        segments=segments_as_json(segments),
    )
