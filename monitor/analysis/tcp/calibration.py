"""The loss that TCP makes of the loss that a path's pings see, learnt from the path's own throughput tests.

In: days of a path, each with its pings' counts and what its tests got. Out: a `Calibration`: how many loss events TCP
met for each loss of a ping, how far the estimate was off with it and without, and the interval. Days must be of one
kind of transfer, and none of them of the time that is to be estimated: nothing here can see that they are not.

  1. Days are joined in order to stretches in which 10 pings or more were lost, so that each has a loss to speak of, and
     no day is chosen for having lost much. A stretch has one figure: the median of its tests.
  2. Of a stretch the estimate is the least of capacity, as it was known before, and loss limit at factor × loss. The
     factor is the one with the least mean error over all stretches, an error being |log(estimate/measured)|. Least
     sums of absolute values lie where one of them is zero, or do not move: those factors are tried, and 1.
  3. Each stretch is left out once and estimated with the factor of the others. Those errors, not the fitted ones, are
     compared with the errors of factor 1: a calibration is only used where it would have helped.
  4. Of nine held-out errors the least and the largest have the next one between them with 80% (Vovk and others,
     "Algorithmic Learning in a Random World" (2005): each of ten places in order is as likely for it). That is the
     interval, and why fewer than nine stretches give no calibration.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp.models import MSS_BYTES, CongestionControl, Floats, loss_limit_bps, loss_ratio_for

LEAST_LOST = 10
"""Of a stretch; with fewer, counting alone makes the loss uncertain by more than a third."""
LEAST_STRETCHES = 9
TAIL = 0.1
"""Outside the interval on each side."""
MOST_LOSS_RATIO = 0.99
"""What a factor makes of a loss stays below 1, at which no rate is left to compare."""


@dataclass(frozen=True, slots=True)
class MeasuredDay:
    """A day, or a stretch of days: its pings, the median of its tests, and the capacity that was known before them."""

    rtt_ms: float
    lost: int
    sent: int
    measured_bps: float
    capacity_bps: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """`loss_factor` is loss events of TCP for each loss of a ping.

    Errors are factors, 1 for none: the typical distance of estimate and measurement over stretches that were left out,
    and of the estimates without calibration over the same. `low_ratio` and `high_ratio` have 80% of measured over
    estimated between them.
    """

    loss_factor: float
    stretches: int
    error_factor: float
    raw_error_factor: float
    low_ratio: float
    high_ratio: float

    @property
    def helps(self) -> bool:
        """Whether estimates of what it had not seen were nearer with it than without."""
        return self.error_factor < self.raw_error_factor

    def loss_ratio(self, seen_ratio: float) -> float:
        """What TCP makes of a loss that pings saw."""
        return min(MOST_LOSS_RATIO, self.loss_factor * seen_ratio)


def stretches(days: Iterable[MeasuredDay]) -> list[MeasuredDay]:
    """Days in the order of time, joined until 10 pings of each were lost; the last one has what was left over."""
    found: list[list[MeasuredDay]] = [[]]
    for day in days:
        if sum(one.lost for one in found[-1]) >= LEAST_LOST:
            found.append([])
        found[-1].append(day)
    if len(found) > 1 and sum(one.lost for one in found[-1]) < LEAST_LOST:
        rest = found.pop()
        found[-1].extend(rest)
    return [_joined(one) for one in found if sum(day.lost for day in one) >= LEAST_LOST]


def calibrate(
    tested: Sequence[MeasuredDay],
    control: CongestionControl,
    streams: int = 1,
    mss_bytes: float = MSS_BYTES,
) -> Calibration | None:
    """The calibration from these stretches, of transfers with that control and so many streams; None of too few."""
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
    """Stretches as arrays, and what the model says of them."""

    def __init__(
        self, tested: Sequence[MeasuredDay], control: CongestionControl, streams: int, mss_bytes: float
    ) -> None:
        self._control, self._streams, self._mss_bytes = control, streams, mss_bytes
        self._rtt_ms = np.array([one.rtt_ms for one in tested])
        self._loss = np.array([one.lost / one.sent for one in tested])
        self._measured_bps = np.array([one.measured_bps for one in tested])
        self._capacity_bps = np.array([math.inf if one.capacity_bps is None else one.capacity_bps for one in tested])

    def factors(self) -> Floats:
        """With which each of them would have been estimated right by its loss alone."""
        ratio = loss_ratio_for(self._control, self._measured_bps / self._streams, self._rtt_ms, self._mss_bytes)
        result: Floats = ratio / self._loss
        return result

    def log_errors(self, factors: Floats) -> Floats:
        """log(measured/estimated), a row for each factor and a column for each stretch."""
        loss = np.minimum(MOST_LOSS_RATIO, factors[:, np.newaxis] * self._loss)
        by_loss_bps = self._streams * loss_limit_bps(self._control, self._rtt_ms, loss, self._mss_bytes)
        return np.asarray(np.log(self._measured_bps / np.minimum(by_loss_bps, self._capacity_bps)))


def _joined(days: Sequence[MeasuredDay]) -> MeasuredDay:
    capacities = [one.capacity_bps for one in days if one.capacity_bps is not None]
    return MeasuredDay(
        rtt_ms=statistics.median(one.rtt_ms for one in days),
        lost=sum(one.lost for one in days),
        sent=sum(one.sent for one in days),
        measured_bps=statistics.median(one.measured_bps for one in days),
        capacity_bps=statistics.median(capacities) if capacities else None,
    )


def _between(errors: Floats) -> tuple[float, float]:
    """The ratios that have 80% of the next ones between them, 1 included."""
    ordered = np.sort(errors)
    # A hair is added, or 0.1 × 10 would be below 1.
    place = math.floor(TAIL * (len(ordered) + 1) + 1e-9) - 1
    return math.exp(min(0.0, float(ordered[place]))), math.exp(max(0.0, float(ordered[-1 - place])))
