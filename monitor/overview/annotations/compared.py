"""Operators' annotations on a path, newest first, with its figures before and after
(`monitor.analysis.changes.before_after`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from monitor.alerts.incidents.annotations import annotations_of_path
from monitor.alerts.models import Annotation
from monitor.analysis.changes.before_after import DAYS_AFTER, DAYS_BEFORE, Comparison, HourCounts, compare
from monitor.archive.queries.paths import path_series
from monitor.archive.queries.throughput.series import throughput_series
from monitor.mesh.document.entries import ON_DEMAND

# Annotations with figures, the newest; older ones are listed without.
MOST_COMPARED = 8
MARGIN = timedelta(days=1, hours=1)


@dataclass(frozen=True, slots=True)
class ComparedAnnotation:
    annotation: Annotation
    comparisons: tuple[Comparison, ...]  # before and after; none beyond the newest MOST_COMPARED


def compared_annotations(
    path_id: int, packet_bytes: int, since: datetime, until: datetime, now: datetime
) -> tuple[ComparedAnnotation, ...]:
    """The annotations of a path, of its sites and of the mesh in [since, until)."""
    annotations = annotations_of_path(path_id, since, until)[::-1]
    return tuple(
        ComparedAnnotation(
            annotation,
            before_and_after(path_id, packet_bytes, annotation.at, now) if place < MOST_COMPARED else (),
        )
        for place, annotation in enumerate(annotations)
    )


def before_and_after(path_id: int, packet_bytes: int, at: datetime, now: datetime) -> tuple[Comparison, ...]:
    """Compare RTT, loss and throughput of a path before and after a moment, up to now."""
    since, until = at - timedelta(days=DAYS_BEFORE) - MARGIN, min(at + timedelta(days=DAYS_AFTER) + MARGIN, now)
    if until <= since:
        return ()
    tests = [
        (test.at.timestamp(), test.throughput_bps)
        for test in throughput_series(path_id, since, until)
        if test.throughput_bps is not None and test.protocol == "tcp" and test.test != ON_DEMAND
    ]
    hours = _hours(path_id, packet_bytes, since, until)
    return tuple(compare(hours, tests, at.timestamp(), now.timestamp()))


def _hours(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> HourCounts:
    points = path_series(path_id, packet_bytes, since, until).points
    lost = [float(point.sent - point.received) for point in points]
    return HourCounts(
        np.array([point.at.timestamp() for point in points]),
        _floats([point.rtt_median_ms for point in points]),
        np.array([float(point.sent) for point in points]),
        np.array(lost),
    )


def _floats(values: Sequence[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
