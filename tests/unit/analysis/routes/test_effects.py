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


def test_without_bursts_there_is_no_effect():
    empty = BurstSeries(np.array([]), np.array([]), np.array([], dtype=np.int64), np.array([], dtype=np.int64))

    assert effect_of(empty, 0.0, 600.0) is None


def test_simulated_changes_without_effect_have_none():
    assert sum(effect_of(*bursts(seed)) is not None for seed in range(150)) <= 4


def test_planted_steps_of_ten_milliseconds_are_found():
    steps = [rtt_step(*bursts(seed, shift_ms=10.0)) for seed in range(1000, 1100)]

    assert sum(step is not None and abs(step.at_s - PLANTED_S) <= 120.0 for step in steps) >= 95
