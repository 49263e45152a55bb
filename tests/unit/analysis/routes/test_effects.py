"""Effects of route changes on simulated bursts: planted steps and loss are found, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.routes.effects import BurstSeries, effect_of, loss_step, rtt_step
from tests.routes.series import CHANGE_MINUTE, bursts

PLANTED_S = CHANGE_MINUTE * 60.0


def steady(rtts_ms, lost=None):
    """A burst of ten packets a minute."""
    rtts = np.asarray(rtts_ms, dtype=float)
    counts = np.zeros(len(rtts), dtype=np.int64) if lost is None else np.asarray(lost, dtype=np.int64)
    return BurstSeries(np.arange(len(rtts)) * 60.0, rtts, np.full(len(rtts), 10), counts)


def test_a_step_has_its_size_its_time_and_its_interval():
    rtts = 100.0 + np.random.default_rng(1).exponential(0.3, 120)
    rtts[63:] += 60.0

    effect = effect_of(steady(rtts), 3600.0, 4200.0)

    assert effect is not None
    assert effect.loss is None
    assert effect.rtt.at_s == 63 * 60.0
    assert effect.rtt.shift_ms == pytest.approx(60.0, abs=0.3)
    assert effect.rtt.low_ms < 60.0 < effect.rtt.high_ms < 61.5


@pytest.mark.parametrize("minute", [40, 80])
def test_a_step_at_another_time_is_no_effect(minute):
    rtts = 100.0 + np.random.default_rng(2).exponential(0.3, 120)
    rtts[minute:] += 60.0

    assert rtt_step(steady(rtts), 3600.0, 4200.0) is None


def test_a_step_too_small_to_matter_is_no_effect():
    rtts = 200.0 + np.random.default_rng(3).exponential(0.1, 120)
    rtts[62:] += 2.0  # 1% of the RTT

    assert rtt_step(steady(rtts), 3600.0, 4200.0) is None


def test_loss_that_begins_with_the_change_is_its_effect():
    lost = np.zeros(120, dtype=int)
    lost[62:] = np.random.default_rng(4).binomial(10, 0.2, 58)

    step = loss_step(steady(np.full(120, 50.0), lost), 3600.0, 4200.0)

    assert step.is_rise
    assert (step.lost_before, step.sent_before) == (0, 600)
    assert step.low_ratio > 0.05


def test_packets_lost_while_routing_converges_are_an_effect():
    lost = np.zeros(120, dtype=int)
    lost[62:65] = 10

    step = loss_step(steady(np.where(lost == 10, np.nan, 50.0), lost), 3600.0, 4200.0)

    assert (step.lost_after, step.sent_after) == (30, 150)


@pytest.mark.parametrize("minute", [45, 85])
def test_loss_that_begins_at_another_time_is_no_effect(minute):
    lost = np.zeros(120, dtype=int)
    lost[minute:] = 2

    assert loss_step(steady(np.full(120, 50.0), lost), 3600.0, 4200.0) is None


@pytest.mark.parametrize("seconds", [110, 176, 290])
def test_an_outage_minutes_after_a_change_is_not_its_effect(seconds):
    """A burst every 10 s; the outage lasts for 200 s and begins so long after the first trace on the new route."""
    at_s = np.arange(1200) * 10.0
    is_out = (at_s >= 9000.0 + seconds) & (at_s < 9200.0 + seconds)
    lost = np.where(is_out, 10, 0)
    series = BurstSeries(at_s, np.where(is_out, np.nan, 50.0), np.full(1200, 10), lost)

    assert effect_of(series, 8970.0, 9000.0) is None
    assert loss_step(series, 8970.0 + seconds, 9000.0 + seconds).lost_after >= 200


def test_a_route_that_went_back_keeps_its_step():
    """+12 ms for four minutes, a burst every 10 s; each change is compared up to the other."""
    at_s = np.arange(1200) * 10.0
    rtts = 50.0 + np.random.default_rng(5).exponential(0.2, 1200) + 12.0 * ((at_s >= 9000.0) & (at_s < 9240.0))
    zero = np.zeros(1200, dtype=np.int64)
    series = BurstSeries(at_s, rtts, np.full(1200, 10), zero)
    until = at_s < 9240.0
    first = BurstSeries(at_s[until], rtts[until], np.full(until.sum(), 10), zero[until])

    there = effect_of(first, 8980.0, 9010.0)
    back = effect_of(series, 9220.0, 9250.0, 9010.0)

    assert there is not None
    assert back is not None
    assert there.rtt.shift_ms == pytest.approx(12.0, abs=0.3)
    assert back.rtt.shift_ms == pytest.approx(-12.0, abs=0.3)


def test_without_bursts_there_is_no_effect():
    empty = BurstSeries(np.array([]), np.array([]), np.array([], dtype=np.int64), np.array([], dtype=np.int64))

    assert effect_of(empty, 0.0, 600.0) is None


def test_simulated_changes_without_effect_have_none():
    assert sum(effect_of(*bursts(seed)) is not None for seed in range(150)) <= 4


def test_planted_steps_of_ten_milliseconds_are_found():
    steps = [rtt_step(*bursts(seed, shift_ms=10.0)) for seed in range(1000, 1100)]

    assert sum(step is not None and abs(step.at_s - PLANTED_S) <= 120.0 for step in steps) >= 95
