"""The track of a finding as of the last evaluation, stored in `IncidentPath.level` to outlive the path's track."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.incidents.own_present import signal_of, way_of
from monitor.alerts.models import IncidentPath
from monitor.present.models import track_of_copy
from monitor.present.track import Track


def own_track(row: IncidentPath) -> Track | None:
    """The stored track of a finding; None without tracks, and before the first."""
    return None if row.level is None else track_of_copy(row.path_id, signal_of(row), way_of(row), row.level)


def normal_since(row: IncidentPath) -> datetime | None:
    """Since when the finding is over by its track; None while it is not."""
    track = own_track(row)
    end = track.end if track is not None and track.is_over else None
    return None if end is None else datetime.fromtimestamp(end.at_s, UTC)


def is_normal_again(row: IncidentPath) -> bool:
    return normal_since(row) is not None


def is_outage(row: IncidentPath) -> bool:
    """Whether a loss finding's path has, or had, no reply."""
    track = own_track(row)
    return rule_of(row.rule).effect is Effect.UNREACHABLE or (track is not None and track.outage is not None)


def is_bad_now(row: IncidentPath) -> bool:
    """Whether a finding's path is bad now: not while results are overdue, nor once it is over."""
    track = own_track(row)
    return track is None or (track.level is not None and not track.is_over)


def peak_of(row: IncidentPath) -> float | None:
    """The worst figure of a finding, by track or detection, in the unit of its signal."""
    track = own_track(row)
    return at_detection(row.figures) if track is None or track.peak is None else track.peak


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its signal."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    if "unanswered_until" in figures:
        return 1.0
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)
