"""The rule on the RTT where it rises slowly, so that no burst is the first of a new level."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from monitor.alerts.backtest.recorded import RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.overview.route_changes import rtt_steps
from tests.db.alert_rows import make_mesh
from tests.db.alerts.test_alerts_rules import NOW, every_minute, noisy
from tests.facts import lacks
from tests.planted import paths
from tests.planted.paths import BEGAN, CYCLE_S

BEFORE_MIN = 60
MINUTE = timedelta(minutes=1)


def replayed(rise_ms, *, base_ms, after_min, count=3, queue=False):
    """The findings of `rtt` on paths whose RTT rises by `rise_ms(minutes)`, or by waits of so much on average."""
    random = np.random.default_rng(4)
    level_ms = np.r_[np.zeros(BEFORE_MIN), [rise_ms(minute) for minute in range(after_min)]]
    bursts = paths.bursts(count, len(level_ms), np.zeros(1), random, base_ms + (0.0 if queue else level_ms))
    if queue:
        waits_ms = random.exponential(1.0, bursts.rtts_ms.shape)
        bursts.rtts_ms[:] += waits_ms * np.tile(np.repeat(level_ms, len(paths.SIZES)), count)[:, np.newaxis]
    replay = Replay(paths.scope(paths.apart(count)), RecordedSource(bursts), ("rtt",))
    until = BEGAN + len(level_ms) * MINUTE
    for now in moments(BEGAN + (BEFORE_MIN - 0.5) * MINUTE, until, CYCLE_S):
        replay.at(now)
    return replay


def minutes_to_find(replay):
    rose = BEGAN + BEFORE_MIN * MINUTE
    first = {}
    for now, finding in replay.findings:
        first.setdefault(finding.path_id, (now - rose) / MINUTE)
    return first


@pytest.mark.parametrize(
    ("base_ms", "queue"), [(20.0, False), (150.0, False), (150.0, True)], ids=["20 ms", "150 ms", "queue"]
)
def test_a_rise_over_40_minutes_is_found_within_half_an_hour(base_ms, queue):
    replay = replayed(lambda minute: float(minute), base_ms=base_ms, after_min=32, queue=queue)

    assert max(minutes_to_find(replay).values()) <= 30
    # A finding of each path, and no further one while it goes on rising.
    assert sorted(finding.path_id for _, finding in replay.findings) == [1, 2, 3]


def test_a_slow_rise_below_the_minimum_raises_no_alarm():
    assert replayed(lambda minute: minute / 10.0, base_ms=150.0, after_min=40).findings == []


def test_after_a_rise_that_is_over_the_way_back_is_no_other():
    """Up by 40 ms in 20 minutes, down in 20: the level before is that of the rise, then that of the fall."""
    replay = replayed(lambda minute: min(2.0 * minute, max(80.0 - 2.0 * minute, 0.0)), base_ms=150.0, after_min=100)

    (alarm,) = replay.alarms
    assert (len(alarm.ever), alarm.reopenings) == (3, 0)
    assert alarm.ended_at is not None


@pytest.mark.django_db
def test_a_slow_rise_is_an_incident_that_says_so_and_no_step(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    path = make_mesh(["slac", "cern"], NOW - timedelta(days=40), rtt={})["slac → cern"]
    every_minute(path, 60, rtts_ms=noisy(lambda number: 150.0 + max(number - 35, 0)))

    assert evaluate(NOW).opened == 1

    row = Incident.objects.get().paths.get()
    assert row.figures["is_slow"]
    assert NOW - 28 * MINUTE <= row.since <= NOW - 20 * MINUTE
    assert lacks(row.sentence, "rose slowly since", "was 150.", "minimum rose as well") == []
    assert rtt_steps(NOW - timedelta(hours=2), NOW) == []
