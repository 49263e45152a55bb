"""How well daily congestion is stated on simulated paths: found, errors of begin and end, stated uncertainty, days.

A path is found if the middle of stated hours lies within those of its queue. Errors are of the figures as a sentence
states them: times to five minutes, uncertainties rounded up to five.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from monitor.analysis.daily_congestion import RecurringHours, daily_congestion
from tests.congestion.planted import SLOT_MIN, Queue, SimulatedPath

STEP_MIN = 5
WINDOW_DAYS = 14


@dataclass(frozen=True, slots=True)
class PathScore:
    """The statement about the queue of a path, None if it was not found, and the number of other hours stated."""

    queue: Queue
    hours: RecurringHours | None
    others: int
    days: int
    """Days on which the queue stood and was measured for half of its hours at least."""

    @property
    def begin_error_min(self) -> float:
        return _error_min(self.hours.begin_h, self.queue.begin_h) if self.hours else math.nan

    @property
    def end_error_min(self) -> float:
        return _error_min(self.hours.end_h, self.queue.end_h) if self.hours else math.nan

    @property
    def covered(self) -> tuple[bool, bool]:
        """Whether begin and end lie within the stated uncertainty."""
        assert self.hours is not None
        within = (self.hours.begin_within_min, self.hours.end_within_min)
        errors = (self.begin_error_min, self.end_error_min)
        return (
            abs(errors[0]) <= STEP_MIN * math.ceil(round(within[0], 3) / STEP_MIN),
            abs(errors[1]) <= STEP_MIN * math.ceil(round(within[1], 3) / STEP_MIN),
        )


def score(path: SimulatedPath, slot_min: int = SLOT_MIN) -> PathScore:
    """The score of a path with a queue, from minima of slots of this length."""
    assert path.queue is not None
    queue, together = path.queue, slot_min // SLOT_MIN
    days, slots = path.minimum_ms.shape
    minimum_ms = np.fmin.reduce(path.minimum_ms.reshape(days, slots // together, together), axis=2)
    stated = daily_congestion(minimum_ms, path.weekdays).hours
    length_h = queue.end_h - queue.begin_h
    middle_h = queue.begin_h + length_h / 2.0
    hits = [hours for hours in stated if abs(_apart_h((hours.begin_h + hours.end_h) / 2.0, middle_h)) < length_h / 2.0]
    return PathScore(queue, hits[0] if hits else None, len(stated) - bool(hits), _measured_days(path, queue))


def ratio(values: Iterable[bool]) -> float:
    """The ratio of true values; NaN without values."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else math.nan


def is_reported(path: SimulatedPath) -> bool:
    """Whether any week of a longer series has a statement, each from the 14 days to its end."""
    days = len(path.minimum_ms)
    ends = [*range(WINDOW_DAYS, days, 7), days]
    return any(
        daily_congestion(path.minimum_ms[end - WINDOW_DAYS : end], path.weekdays[end - WINDOW_DAYS : end]).hours
        for end in ends
    )


def quantile(values: Iterable[float], at: float) -> float:
    """The quantile of the absolute values; NaN without values."""
    listed = np.abs(list(values))
    return float(np.quantile(listed, at)) if len(listed) else math.nan


def select(scores: list[PathScore], holds: Callable[[PathScore], bool]) -> list[PathScore]:
    return [of_path for of_path in scores if holds(of_path)]


def _measured_days(path: SimulatedPath, queue: Queue) -> int:
    days, slots = path.minimum_ms.shape
    series = np.concatenate([path.minimum_ms.ravel(), np.full(2 * slots, np.nan)])
    first, last = (round(hour * slots / 24.0) for hour in (queue.begin_h, queue.end_h))
    shares = np.array([np.isfinite(series[day * slots + first : day * slots + last]).mean() for day in range(days)])
    return int((queue.days & (shares >= 0.5 * np.median(shares))).sum())


def _apart_h(first_h: float, second_h: float) -> float:
    return (first_h - second_h + 12.0) % 24.0 - 12.0


def _error_min(stated_h: float, true_h: float) -> float:
    stated_min = round(stated_h * 60.0 / STEP_MIN) * STEP_MIN
    return 60.0 * _apart_h(stated_min / 60.0, true_h)
