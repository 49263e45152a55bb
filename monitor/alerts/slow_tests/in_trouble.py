"""Throughput tests that ran while their path had another trouble, which explains a low rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.incident_times import MeasureKind
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.incidents.past_times import incident_times
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.mesh.queries import MeasuredPath
from monitor.present import read
from monitor.present.track import Signal, Track

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

# All tests of a path may be in incidents: they are no baseline here.
EVERY_TEST = 1.0
# A trouble that begins within this many seconds after the begin of a test is in most tests too.
TEST_S = 10.0


def in_incident(paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime) -> Bools:
    """Mask tests in maintenance or an incident of the path or its reverse.

    `at_s` has a row for each path, in seconds since the epoch, NaN where there is no test.
    """
    since = datetime.fromtimestamp(float(np.nanmin(at_s)), UTC)
    times = incident_times(since, now, {key: path.place for key, path in paths.items()}, list(paths))
    ids, measures = np.fromiter(paths, dtype=np.int64), (MeasureKind.TESTS, MeasureKind.DELAYS)
    begin, end = (times.within(measures, ids, moment_s, EVERY_TEST) for moment_s in (at_s, at_s + TEST_S))
    return begin | end


def in_loss(
    settings: Mapping[int, RuleSettings], paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime
) -> Bools:
    """Mask tests during a tracked loss of their path proven above the rule; shapes as `in_incident`."""
    mask = np.zeros(at_s.shape, dtype=np.bool_)
    rows = {key: row for row, key in enumerate(paths) if key in settings and not np.isnan(at_s[row]).all()}
    for path_id, path in (read.load(list(rows)) if rows else {}).items():
        track, above_ratio = path.track(Signal.LOSS), cast("LossRule", settings[path_id]).above_ratio
        for since_s, until_s in () if track is None else _losses(track, above_ratio, now.timestamp()):
            mask[rows[path_id]] |= (at_s[rows[path_id]] < until_s) & (at_s[rows[path_id]] + TEST_S > since_s)
    return mask


def _losses(track: Track, above_ratio: float, now_s: float) -> Iterator[tuple[float, float]]:
    ends_s = [*(segment.since.at_s for segment in track.segments[1:]), now_s]
    for segment, end_s in zip(track.segments, ends_s, strict=True):
        if isinstance(segment, LossSegment) and segment.lost.lost and segment.lost.interval[0] > above_ratio:
            yield segment.since.at_s, end_s
