"""Calibrate the loss that TCP sees against the loss of pings, by the path's own throughput tests.

In: days of a path, each with its pings' counts and test results. Out: a `Calibration`: TCP loss events per lost ping,
the errors of the estimate with it and without, and the interval. Days must be of a single kind of transfer and must not
overlap the time to be estimated; this is not checked here.

  1. Days are joined in order to stretches with at least 10 lost pings, so that each has a usable loss and no day is
     selected for its loss. The figure of a stretch is the median of its tests.
  2. The estimate of a stretch is the minimum of capacity, as known before, and loss limit at factor × loss. The
     factor minimises the mean error over all stretches, an error being |log(estimate/measured)|. Sums of absolute
     values are minimal where a term is zero, or constant: those factors are tried, and 1.
  3. Leave-one-out cross-validation: each stretch is estimated with the factor of the others. Those errors, not the
     fitted errors, are compared with the errors of factor 1: a calibration is only used where it would have helped.
  4. The minimum and maximum of nine held-out errors contain the next with 80% (Vovk and others, "Algorithmic Learning
     in a Random World" (2005): each of ten ranks is equally likely). That is the interval, and the reason for a
     minimum of nine stretches.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp.models import MSS_BYTES, CongestionControl, Floats, loss_limit_bps, loss_ratio_for

LEAST_LOST = 10
"""Minimum lost pings of a stretch; below it, counting alone makes the loss uncertain by more than a third."""
LEAST_STRETCHES = 9
TAIL = 0.1
"""Probability outside the interval on each side."""
MOST_LOSS_RATIO = 0.99
"""Maximum of a calibrated loss, below 1, where the rate is zero."""


@dataclass(frozen=True, slots=True)
class MeasuredDay:
    """A day, or a stretch of days: its pings, the median of its tests, and the capacity known before them."""

    rtt_ms: float
    lost: int
    sent: int
    measured_bps: float
    capacity_bps: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """`loss_factor` is the number of TCP loss events per lost ping.

    Errors are factors, 1 for none: the typical ratio of estimate and measurement over held-out stretches, and the same
    without calibration. `low_ratio` and `high_ratio` contain 80% of measured over estimated.
    """

    loss_factor: float
    stretches: int
    error_factor: float
    raw_error_factor: float
    low_ratio: float
    high_ratio: float

    @property
    def helps(self) -> bool:
        """Whether held-out estimates were better with it than without."""
        return self.error_factor < self.raw_error_factor

    def loss_ratio(self, seen_ratio: float) -> float:
        """Loss seen by TCP for a loss seen by pings."""
        return min(MOST_LOSS_RATIO, self.loss_factor * seen_ratio)


def stretches(days: Iterable[MeasuredDay]) -> list[MeasuredDay]:
    """Join days in order of time until each stretch has 10 lost pings; the rest is added to the last."""
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
    """Calibrate by these stretches, of transfers with that control and number of streams; None with too few."""
    if len(tested) < LEAST_STRETCHES:
        return None
    seen = _Seen(tested, control, streams, mss_bytes)
    factors = seen.factors()
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
        """Factors at which each stretch would have been estimated exactly from its loss alone."""
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
