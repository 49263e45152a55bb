"""Simulated bursts of a path around a route change: queues, spikes, drift, unrelated steps, loss in runs."""

from __future__ import annotations

import numpy as np

from monitor.analysis.routes.effects import BurstSeries

MINUTES = 300
CHANGE_MINUTE = 220
PACKETS = 10


def bursts(
    seed: int,
    *,
    shift_ms: float = 0.0,
    loss_ratio: float = 0.0,
    base_loss: float | None = None,
    unrelated: bool = True,
) -> tuple[BurstSeries, float, float]:
    """A burst a minute for five hours and the bounds of a change at minute 220, with traces every ten minutes.

    `shift_ms` and `loss_ratio` begin with the change. Every third series has a step or loss of another cause, at least
    15 minutes away from it.
    """
    random = np.random.default_rng(seed)
    minutes = np.arange(MINUTES) + random.uniform(0.0, 0.2, MINUTES)
    rtts = random.uniform(5.0, 250.0) + random.exponential(random.uniform(0.05, 1.0), MINUTES)
    rtts += _queue(random, random.uniform(0.0, 1.5), random.uniform(1.0, 30.0))
    rtts += random.uniform(0.0, 8.0) * np.sin(2.0 * np.pi * (minutes / 720.0 + random.random()))
    rtts += np.where(random.random(MINUTES) < 0.02, random.exponential(50.0, MINUTES), 0.0)
    ratio = np.full(MINUTES, random.choice([0.0, 0.0, 0.001, 0.01]) if base_loss is None else base_loss)
    is_since = minutes >= CHANGE_MINUTE
    rtts += shift_ms * is_since
    ratio += loss_ratio * is_since
    if unrelated and random.random() < 1 / 3:
        away = random.uniform(15.0, 70.0) * random.choice([-1.0, 1.0])
        other = minutes >= CHANGE_MINUTE + away
        if random.random() < 0.5:
            rtts += random.uniform(-15.0, 15.0) * other
        else:
            ratio += random.uniform(0.005, 0.1) * other
    # Loss comes in runs: a burst in congestion loses several packets.
    run = random.choice([1.0, 3.0])
    lossy = random.random(MINUTES) < np.minimum(ratio * PACKETS / run, 1.0)
    if run == 1.0:
        lost = random.binomial(PACKETS, np.minimum(ratio, 1.0))
    else:
        lost = np.where(lossy, np.minimum(random.geometric(1.0 / run, MINUTES), PACKETS), 0)
    rtts = np.where(lost == PACKETS, np.nan, rtts)
    keep = random.random(MINUTES) > 0.01
    series = BurstSeries(
        minutes[keep] * 60.0, rtts[keep], np.full(int(keep.sum()), PACKETS), lost[keep].astype(np.int64)
    )
    before = random.uniform(0.0, 10.0)
    return series, (CHANGE_MINUTE - before) * 60.0, (CHANGE_MINUTE - before + 10.0) * 60.0


def _queue(random: np.random.Generator, deviation_ms: float, minutes: float) -> np.ndarray:
    """An autocorrelated wait, never negative."""
    memory = np.exp(-1.0 / minutes)
    noise = random.normal(0.0, deviation_ms * np.sqrt(1.0 - memory**2), MINUTES)
    wait = np.empty(MINUTES)
    wait[0] = random.normal(0.0, deviation_ms)
    for place in range(1, MINUTES):
        wait[place] = memory * wait[place - 1] + noise[place]
    return np.maximum(wait, 0.0)
