"""A path is unreachable by requests that were sent: three cycles and 180 s of them without a reply, and none before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.silence import silent_since
from monitor.alerts.evaluate import snapshot_at
from tests.planted import paths

PATH, PACKETS, LATE_S = 1, 10, 5.0
BEGAN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def state(every_s, bursts, now_s=None):
    """The finding of `unreachable`, and since when the path is silent, soon after the newest of these bursts: each its
    cycle since BEGAN, and whether it was answered."""
    at_s = BEGAN.timestamp() + every_s * np.array([cycle for cycle, _ in bursts], dtype=np.float64)
    rtts = np.where(np.array([answered for _, answered in bursts])[:, np.newaxis], 20.0, np.full(PACKETS, np.nan))
    source = RecordedSource(RecordedBursts.from_columns(np.full(len(at_s), PATH), at_s, rtts, ttl=57.0))
    scope = paths.scope(paths.paths([("a", "b")], every_s=every_s), alerts={"unreachable": {}})
    now = datetime.fromtimestamp(at_s[-1] + LATE_S, UTC)
    snapshot = snapshot_at(now, scope, {}, source=source)
    findings = RULES["unreachable"].judge(snapshot, scope.settings["unreachable"])
    return (findings[0] if findings else None), silent_since(PATH, snapshot)


def at(every_s, cycle):
    return BEGAN + timedelta(seconds=every_s * cycle)


def lost(*cycles):
    return [(cycle, False) for cycle in cycles]


def answered(*cycles):
    return [(cycle, True) for cycle in cycles]


@pytest.mark.parametrize("every_s", [10, 60, 300, 1800, 14_400])
def test_a_new_path_alarms_after_three_lost_cycles(every_s):
    cycles = max(3, round(180 / every_s))
    before, _ = state(every_s, lost(*range(cycles)))
    found, _ = state(every_s, lost(*range(cycles + 1)))

    assert before is None
    assert found.since == BEGAN
    assert "no reply since 2026-11-21 10:00:00 UTC" in found.sentence


@pytest.mark.parametrize("every_s", [10, 60, 300, 1800])
def test_a_first_lost_burst_is_no_silence(every_s):
    assert state(every_s, lost(0)) == (None, None)


@pytest.mark.parametrize("every_s", [60, 300, 900])
@pytest.mark.parametrize("away", [2, 4, 11])
def test_no_silence_begins_before_an_agent_returns(every_s, away):
    """The path answered, then its agent sent nothing for so many cycles."""
    first = 5 + away
    for cycles in range(1, 4):
        found, since = state(every_s, answered(*range(5)) + lost(*range(first, first + cycles)))
        assert found is None
        assert since in (None, at(every_s, first))
    found, since = state(every_s, answered(*range(5)) + lost(*range(first, first + 4)))
    assert found.since == since == at(every_s, first)


def test_bursts_lost_before_an_absence_do_not_count():
    assert state(60, answered(0, 1) + lost(2, 3, 4, 30))[0] is None
    assert state(60, answered(0, 1) + lost(2, 3, 4, 30, 31, 32))[0] is None
    assert state(60, answered(0, 1) + lost(2, 3, 4, 30, 31, 32, 33))[0].since == at(60, 30)


@pytest.mark.parametrize("every_s", [60, 300, 1800])
def test_an_outage_begins_at_the_last_reply_as_before(every_s):
    found, since = state(every_s, answered(0, 1, 2) + lost(3, 4, 5))

    assert found.since == since == at(every_s, 2)
    assert "last burst with a reply" in found.sentence


def test_a_cycle_left_out_within_an_outage_ends_it_not():
    found, _ = state(60, answered(0, 1, 2) + lost(3, 5, 6))

    assert found.since == at(60, 2)


def test_an_outage_longer_than_the_counts_goes_on():
    found, since = state(60, answered(0) + lost(*range(1, 200)))

    assert found.since == since
    assert at(60, 130) <= since <= at(60, 141)
