"""The signal that a finding is about, by its rule and the figure with which that fired."""

from datetime import UTC, datetime

import pytest

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.incidents.own_present import signal_of
from monitor.present.track import Signal

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
