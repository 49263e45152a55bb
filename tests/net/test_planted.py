"""A fault planted in the lab is detected by the live rules, on real packets; a single blip is not."""

from __future__ import annotations

import pytest

from monitor.analysis.changes import detector
from tests.planted.lab import CLEAN_BURSTS, QUIET, Stage, measured, replayed


@pytest.mark.usefixtures("namespaces_required")
def test_a_longer_route_is_detected_and_a_blip_is_not(lab):
    blip = [Stage(QUIET, 5), Stage(("--loss", "1"), 1), Stage(QUIET, CLEAN_BURSTS - 6)]
    rtts_ms = measured(lab, [*blip, Stage(("--rtt-ms", "40"), detector.AFTER + 7)])

    alarms, after_bursts = replayed(rtts_ms)

    assert [(alarm.rule, alarm.cause) for alarm in alarms] == [("rtt", "bern ↔ rome")]
    assert CLEAN_BURSTS + detector.AFTER - 1 <= after_bursts[0] <= CLEAN_BURSTS + 1.5 * detector.AFTER
    (finding,) = alarms[0].findings.values()
    assert finding.figures["after_ms"] - finding.figures["before_ms"] == pytest.approx(20, abs=2)
