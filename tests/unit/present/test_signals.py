"""The signal that a finding is about, by its rule and the figure with which that fired."""

from datetime import UTC, datetime

import pytest

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.incidents.own_present import shown_by_tracks, signal_of
from monitor.analysis.segments.delay_segments import LONGER, USUAL, DelaySegment
from monitor.analysis.segments.segment import Moment
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track

SINCE = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)
RISEN = {"before_ms": 20.0, "after_ms": 80.0}


@pytest.mark.parametrize(
    ("rule", "figures", "signal"),
    [
        ("loss", {}, Signal.LOSS),
        ("rtt", {"figure": "median", **RISEN}, Signal.RTT),
        ("rtt", {"figure": "median", **RISEN, "direction": "forward"}, Signal.OTHER),
        ("rtt", {"figure": "median", "before_ms": 80.0, "after_ms": 20.0}, Signal.OTHER),
        ("jitter", {"figure": "jitter", **RISEN}, Signal.JITTER),
        ("jitter", {"figure": "jitter", **RISEN, "direction": "forward"}, Signal.JITTER),
        ("throughput_drop", {}, Signal.RATE),
    ],
)
def test_a_finding_has_the_signal_of_its_figure(rule, figures, signal):
    assert signal_of(RuleFinding(rule, 1, "slac → cern", "", SINCE, figures)) is signal


def rtt_track(*segments):
    """A track of the RTT with these states and levels, the newest since a minute before the finding."""
    begins_s = [SINCE.timestamp() - 60.0 - 600.0 * number for number in range(len(segments))][::-1]
    of = [
        DelaySegment(state, Moment(at_s, at_s, at_s), ms, ms, ms, ms)
        for at_s, (state, ms) in zip(begins_s, segments, strict=True)
    ]
    return {1: PresentPath(1, Condition.NORMAL, (Track(1, Signal.RTT, "", 0, Condition.NORMAL, 0.0, tuple(of)),))}


@pytest.mark.parametrize("direction", [{}, {"direction": "reverse"}])
@pytest.mark.parametrize(
    ("segments", "is_shown"),
    [
        ([(USUAL, 20.0), (LONGER, 80.0)], True),
        ([(USUAL, 80.0)], False),
        ([(USUAL, 80.0), (LONGER, 110.0), (USUAL, 80.0)], False),
    ],
)
def test_a_return_to_the_usual_rtt_is_no_rise(segments, is_shown, direction):
    """As after a jitter, in which the minimum was shorter."""
    rise = RuleFinding("rtt", 1, "slac → cern", "", SINCE, {"figure": "minimum", **RISEN, **direction})

    assert bool(shown_by_tracks([rise], rtt_track(*segments))) is is_shown


def test_a_rise_by_stamp_may_be_on_another_route_than_pings():
    rise = RuleFinding("rtt", 1, "slac → cern", "", SINCE, {"figure": "median", **RISEN, "direction": "forward"})

    assert shown_by_tracks([rise], rtt_track((USUAL, 20.0))) == [rise]
