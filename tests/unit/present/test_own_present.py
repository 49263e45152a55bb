"""A finding lasts while any track of its signal is in trouble, of a packet size or a direction too."""

from datetime import UTC, datetime

import pytest

from monitor.alerts.incidents.own_present import is_still_bad
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import CLEAN, LOSSY
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track

SINCE = datetime(2026, 11, 30, 12, 32, tzinfo=UTC)


def track(condition, *, way="", packet_bytes=0, signal=Signal.LOSS):
    begun_s = SINCE.timestamp()
    states = (CLEAN, LOSSY) if condition.is_trouble else (CLEAN, LOSSY, CLEAN)
    segments = tuple(
        LossSegment(state, Moment(*[begun_s + 100.0 * number] * 3), LostPackets(500.0, 20.0 * state))
        for number, state in enumerate(states)
    )
    return Track(1, signal, way, packet_bytes, condition, begun_s + 500.0, segments)


@pytest.mark.parametrize(
    ("other", "is_bad"),
    [
        (track(Condition.BAD, way="forward"), True),
        (track(Condition.SUSPECT, packet_bytes=1000), True),
        (track(Condition.NORMAL, packet_bytes=1000), False),
        (track(Condition.BAD, signal=Signal.OTHER), False),
    ],
)
def test_a_loss_of_a_size_or_a_way_keeps_the_finding(other, is_bad):
    row = IncidentPath(path_id=1, rule="loss", since=SINCE, figures={})
    tracks = (track(Condition.NORMAL), other)

    assert is_still_bad(row, PresentPath(1, max(of.condition for of in tracks), tracks)) == is_bad


def test_a_path_without_tracks_keeps_no_finding():
    assert not is_still_bad(IncidentPath(path_id=1, rule="loss", since=SINCE, figures={}), None)
