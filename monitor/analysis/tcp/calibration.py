"""Calibrate the loss that TCP sees against ping loss by the path's own tests, of a single kind and outside of the time
to estimate.

The 80% interval has the leave-one-out errors, of nine the extremes (Vovk and others, "Algorithmic Learning in a Random
World" (2005)).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp.models import MSS_BYTES, CongestionControl, loss_limit_bps, loss_ratio_for
from monitor.arrays import Floats

# With fewer lost pings, counting alone makes the loss uncertain by more than a third.
LEAST_LOST = 10
LEAST_STRETCHES = 9
# Probability outside the interval on each side.
TAIL = 0.1
# Maximum of a calibrated loss, below 1, where the rate is zero.
MOST_LOSS_RATIO = 0.99


@dataclass(frozen=True, slots=True)
class MeasuredDay:
    """A day or a stretch of days."""

    rtt_ms: float
    lost: int
    sent: int
    measured_bps: float  # median of its tests
    capacity_bps: float | None = None  # known before the tests


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of a path. Errors are factors, 1 for none, over held-out stretches."""

    loss_factor: float  # TCP loss events per lost ping
    stretches: int
    error_factor: float
    raw_error_factor: float  # without calibration
    low_ratio: float  # of 80% of measured over estimated
    high_ratio: float

    @property
    def helps(self) -> bool:
        """Whether held-out estimates were better with it than without."""
        return self.error_factor < self.raw_error_factor

    def loss_ratio(self, seen_ratio: float) -> float:
        """Loss seen by TCP for a loss seen by pings."""
        return min(MOST_LOSS_RATIO, self.loss_factor * seen_ratio)


def stretches(days: Iterable[MeasuredDay]) -> list[MeasuredDay]:
    """Join days in order until each stretch has 10 lost pings; the rest joins the last."""
    # In order, so that no day is selected for its loss.
    joined: list[list[MeasuredDay]] = [[]]
    for day in days:
        if sum(part.lost for part in joined[-1]) >= LEAST_LOST:
            joined.append([])
        joined[-1].append(day)
    if len(joined) > 1 and sum(part.lost for part in joined[-1]) < LEAST_LOST:
        rest = joined.pop()
        joined[-1].extend(rest)
    return [_joined(stretch) for stretch in joined if sum(day.lost for day in stretch) >= LEAST_LOST]


def calibrate(
    tested: Sequence[MeasuredDay],
    control: CongestionControl,
    streams: int = 1,
    mss_bytes: float = MSS_BYTES,
) -> Calibration | None:
    """Calibrate by stretches of such transfers; None with too few."""
    if len(tested) < LEAST_STRETCHES:
        return None
    seen = _Seen(tested, control, streams, mss_bytes)
    factors = seen.factors()
    # A sum of absolute errors is minimal where one of them is zero.
    candidates = np.append(factors, 1.0)
    errors = seen.log_errors(candidates)
    sizes = np.abs(errors)
    # With an equal error the factor that changes least is taken.
    change = 1e-9 * np.abs(np.log(candidates))
    total = sizes.sum(axis=1) + change
    others = total[:, np.newaxis] - sizes
    others[np.arange(len(factors)), np.arange(len(factors))] = np.inf
    held_out = errors[np.argmin(others, axis=0), np.arange(len(factors))]
    low, high = _between(held_out)
    return Calibration(
        loss_factor=float(candidates[int(np.argmin(total))]),
        stretches=len(tested),
        error_factor=math.exp(float(np.abs(held_out).mean())),
        raw_error_factor=math.exp(float(sizes[-1].mean())),
        low_ratio=low,
        high_ratio=high,
    )


class _Seen:
    """Stretches as arrays, with the model's estimates."""

    def __init__(
        self, tested: Sequence[MeasuredDay], control: CongestionControl, streams: int, mss_bytes: float
    ) -> None:
        self._control, self._streams, self._mss_bytes = control, streams, mss_bytes
        self._rtt_ms = np.array([stretch.rtt_ms for stretch in tested])
        self._loss = np.array([stretch.lost / stretch.sent for stretch in tested])
        self._measured_bps = np.array([stretch.measured_bps for stretch in tested])
        self._capacity_bps = np.array(
            [math.inf if stretch.capacity_bps is None else stretch.capacity_bps for stretch in tested]
        )

    def factors(self) -> Floats:
        """Factors that estimate each stretch exactly from its loss alone."""
        ratio = loss_ratio_for(self._control, self._measured_bps / self._streams, self._rtt_ms, self._mss_bytes)
        result: Floats = ratio / self._loss
        return result

    def log_errors(self, factors: Floats) -> Floats:
        """log(measured/estimated), a row per factor and a column per stretch."""
        loss = np.minimum(MOST_LOSS_RATIO, factors[:, np.newaxis] * self._loss)
        by_loss_bps = self._streams * loss_limit_bps(self._control, self._rtt_ms, loss, self._mss_bytes)
        return np.asarray(np.log(self._measured_bps / np.minimum(by_loss_bps, self._capacity_bps)))


def _joined(days: Sequence[MeasuredDay]) -> MeasuredDay:
    capacities = [day.capacity_bps for day in days if day.capacity_bps is not None]
    return MeasuredDay(
        rtt_ms=statistics.median(day.rtt_ms for day in days),
        lost=sum(day.lost for day in days),
        sent=sum(day.sent for day in days),
        measured_bps=statistics.median(day.measured_bps for day in days),
        capacity_bps=statistics.median(capacities) if capacities else None,
    )


def _between(errors: Floats) -> tuple[float, float]:
    """Ratios that contain 80% of the next, 1 included."""
    ordered = np.sort(errors)
    # A hair is added, or 0.1 × 10 would be below 1.
    place = math.floor(TAIL * (len(ordered) + 1) + 1e-9) - 1
    return math.exp(min(0.0, float(ordered[place]))), math.exp(max(0.0, float(ordered[-1 - place])))
