"""Simulated paths with pings of each cycle, with and without a queue that comes back at the same hours.

Out: the minimum RTT of each slot of five minutes, as the rollup stores it, and the planted queue. A path has a base
RTT, jitter, replies from a router's slow path (single ones, and whole bursts), loss, gaps, and changes of its route.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PINGS = 10
MINUTES = 1440
SLOT_MIN = 5


@dataclass(frozen=True, slots=True)
class Queue:
    """A planted queue: at half of its height at `begin_h` and `end_h` of a typical day, the days on which it stood for
    half of these hours at least, its height, and the weekday on which it is higher (None: on none)."""

    begin_h: float
    end_h: float
    days: Bools
    rise_ms: float
    worst_weekday: int | None


@dataclass(frozen=True, slots=True)
class SimulatedPath:
    """The minima of a path, of shape (days, slots), the weekdays of the days, and its queue."""

    minimum_ms: Floats
    weekdays: tuple[int, ...]
    queue: Queue | None


def quiet_path(seed: int, days: int, every_min: int = 1) -> SimulatedPath:
    """A path without a daily queue. Half of them have single episodes, at any hours."""
    random = np.random.default_rng([1, seed])
    extra_ms = np.zeros(days * MINUTES)
    if random.random() < 0.5:
        for _ in range(random.poisson(days / 7.0)):
            begin = int(random.integers(days * MINUTES))
            extra_ms[begin : begin + int(random.integers(30, 360))] += random.uniform(3.0, 50.0)
    return SimulatedPath(_minima(random, extra_ms, days, every_min), _weekdays(random, days), None)


def congested_path(seed: int, days: int = 14, every_min: int = 1) -> SimulatedPath:
    """A path with a queue on 3 to 7 of 7 days, or on weekdays only, or another one at weekends."""
    random = np.random.default_rng([2, seed])
    weekdays = _weekdays(random, days)
    queue, extra_ms = _queue(random, weekdays)
    return SimulatedPath(_minima(random, extra_ms, days, every_min), weekdays, queue)


def _weekdays(random: np.random.Generator, days: int) -> tuple[int, ...]:
    first = int(random.integers(7))
    return tuple((first + day) % 7 for day in range(days))


def _queue(random: np.random.Generator, weekdays: tuple[int, ...]) -> tuple[Queue, Floats]:
    days = len(weekdays)
    begin_h, length_h = random.uniform(0.0, 24.0), random.uniform(1.0, 6.0)
    end_h = begin_h + length_h
    rise_ms = float(np.exp(random.uniform(np.log(3.0), np.log(50.0))))
    sigma_min, ramp_min = random.uniform(0.0, 10.0), random.uniform(1.0, 20.0)
    worst = int(random.integers(7)) if random.random() < 0.5 else None
    worst_factor, daily_sigma = random.uniform(1.4, 2.0), random.uniform(0.0, 0.15)
    weekend = str(random.choice(["alike", "none", "earlier", "half"]))
    of_week = [set(random.permutation(7)[: int(random.integers(3, 8))].tolist()) for _ in range(days // 7 + 1)]
    stood, extra_ms = np.zeros(days, dtype=bool), np.zeros(days * MINUTES)
    minute = np.arange(days * MINUTES) + random.random()
    level = _wandering(random, days * MINUTES)
    for day, weekday in enumerate(weekdays):
        is_weekend = weekday >= 5
        if weekend == "none":
            stood[day] = not is_weekend and random.random() < 0.95
        else:
            stood[day] = day % 7 in of_week[day // 7]
        if not stood[day]:
            continue
        shift_min = -60.0 * random.uniform(1.0, 2.0) if weekend == "earlier" and is_weekend else 0.0
        begin = day * MINUTES + begin_h * 60.0 + shift_min + random.normal(0.0, sigma_min)
        end = day * MINUTES + end_h * 60.0 + shift_min + random.normal(0.0, sigma_min)
        height_ms = rise_ms * (0.5 if weekend == "half" and is_weekend else 1.0) * np.exp(random.normal(0, daily_sigma))
        height_ms *= worst_factor if weekday == worst else 1.0
        rising = np.clip((minute - begin) / ramp_min + 0.5, 0.0, 1.0)
        stood[day] = min(end / 60.0 - day * 24.0, end_h) - max(begin / 60.0 - day * 24.0, begin_h) >= length_h / 2.0
        extra_ms += height_ms * level * np.minimum(rising, np.clip((end - minute) / ramp_min + 0.5, 0.0, 1.0))
    # Now and then the queue is empty for a minute.
    extra_ms[random.random(len(extra_ms)) < random.uniform(0.0, 0.03)] *= 0.1
    has_worst = worst is not None and any(stood[day] and weekdays[day] == worst for day in range(days))
    return Queue(begin_h, end_h, stood, rise_ms, worst if has_worst else None), extra_ms


def _wandering(random: np.random.Generator, minutes: int) -> Floats:
    """Around 1, by some tenths within half an hour: the queue is not always as long."""
    steps = np.repeat(random.normal(0.0, 1.0, minutes // 10 + 2), 10)
    smooth = np.convolve(steps, np.full(30, 1.0 / 30.0), mode="same")[:minutes]
    wandering: Floats = np.clip(1.0 + random.uniform(0.0, 0.25) * smooth / smooth.std(), 0.5, 1.5)
    return wandering


def _minima(random: np.random.Generator, extra_ms: Floats, days: int, every_min: int) -> Floats:
    """The minimum RTTs of pings with these delays, `PINGS` of each `every_min` minutes."""
    minute = np.arange(int(random.integers(every_min)), days * MINUTES, every_min)
    count = len(minute)
    base_ms = random.uniform(2.0, 200.0) + _routes(random, days * MINUTES)[minute] + extra_ms[minute]
    base_ms = np.maximum(base_ms, 0.5)
    jitter_ms = float(np.exp(random.uniform(np.log(0.05), np.log(5.0))))
    waits_ms = jitter_ms * random.standard_exponential((count, PINGS), dtype=np.float32)
    if random.random() < 0.5:
        waits_ms *= 2.0 * random.standard_exponential((count, PINGS), dtype=np.float32)
    slow = random.random((count, PINGS), dtype=np.float32) < random.uniform(0.0, 0.4)
    waits_ms[slow] += random.uniform(5.0, 100.0) * random.standard_exponential(int(slow.sum()), dtype=np.float32)
    slow_bursts = random.random(count) < random.choice([0.0, 0.01, 0.05])
    waits_ms[slow_bursts] += random.uniform(2.0, 60.0)
    waits_ms[random.random((count, PINGS), dtype=np.float32) < random.choice([0.0, 0.001, 0.02])] = np.nan
    of_cycle = base_ms + np.fmin.reduce(waits_ms, axis=1)
    of_minute = np.full(days * MINUTES, np.nan)
    of_minute[minute] = of_cycle
    _leave_gaps(random, of_minute, days)
    slots: Floats = np.fmin.reduce(of_minute.reshape(days, MINUTES // SLOT_MIN, SLOT_MIN), axis=2)
    return slots


def _routes(random: np.random.Generator, minutes: int) -> Floats:
    """Changes of the route: steps up or down, each for good."""
    steps_ms = np.zeros(minutes)
    for _ in range(random.poisson(1.0)):
        steps_ms[int(random.integers(minutes))] += random.choice([-1.0, 1.0]) * np.exp(random.uniform(0.0, np.log(40)))
    levels: Floats = np.cumsum(steps_ms)
    return levels


def _leave_gaps(random: np.random.Generator, of_minute: Floats, days: int) -> None:
    """Single cycles, some hours, and for a fifth of the paths a whole day without measurements."""
    of_minute[random.random(len(of_minute)) < random.choice([0.0, 0.01, 0.05])] = np.nan
    for _ in range(random.poisson(1.0)):
        begin = int(random.integers(len(of_minute)))
        of_minute[begin : begin + int(random.integers(5, 360))] = np.nan
    if random.random() < 0.2:
        day = int(random.integers(days))
        of_minute[day * MINUTES : (day + 1) * MINUTES] = np.nan
