"""Forecast a path's next TCP throughput test from its earlier tests.

Level shifts: He, Dovrolis and Ammar (SIGCOMM 2005, section 5.2). Medians weighted by inverse squared error: Bates and
Granger (1969). 25% error with few tests: Vazhkudai and Schopf (2002).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np

from monitor.analysis.binomial import lower_bound, upper_bound
from monitor.analysis.tcp.corrections import NOT_PINGED, PathPings, TransferKind, corrected_bps
from monitor.arrays import Bools, Floats

# Tests in a median.
MOST_TESTS = 10
LENGTHS = (10, 5, 3)
# Newest tests searched for a similar path, which also weigh the medians.
COMPARED_TESTS = 20

SHIFT_TESTS = 3
SHIFT_LOG = math.log(1.3)

RTT_LOG = math.log(1.25)
# A smaller difference is no change; below it, an RTT is queueing and timing of hosts.
LEAST_RTT_MS = 2.0
# On each side of the intervals that must not overlap where loss changed: 99%.
LOSS_CONFIDENCE = 0.995

LOW, HIGH = 0.1, 0.9
LEAST_ERRORS = 9
MOST_ERRORS = 50
ASSUMED_LOG, ASSUMED_WEIGHT = 0.25, 4
SPREAD_OF_80 = 1.2816
# Minimum distance of an end from the figure, less than any test resolves; wider would cover more than 80%.
LEAST_WIDTH_LOG = math.log(1.0001)
# A newest test so far from the forecast is an outlier, or the first of another level.
UNLIKE_LOG = math.log(3.0)
# Minimum distance of an end from the figure after a change of the path.
CHANGED_WIDTH_LOG = math.log(1.5)


class PathDifference(StrEnum):
    """Differences between the path at the tests and now."""

    LOSS = "loss"
    ROUTE = "route"


@dataclass(frozen=True, slots=True)
class PastTest:
    at: datetime
    throughput_bps: float
    state: PathPings = NOT_PINGED  # of the path before the test


@dataclass(frozen=True, slots=True)
class ForecastScore:
    forecasts: int
    within_two: int  # within a factor of two of the test
    covered: int  # the test in the interval
    rmsre: float  # RMS of (forecast - test) / the smaller (He and others, section 3)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next test's throughput with its 80% interval."""

    throughput_bps: float
    low_bps: float
    high_bps: float
    tests: int  # from oldest_at to newest_at
    oldest_at: datetime
    newest_at: datetime
    newer_left_out: int  # later tests, on a changed path
    newest_bps: float
    others_bps: float | None  # median of the other tests; None of a single test
    changes: tuple[PathDifference, ...]  # of the path since these tests
    then: PathPings
    now: PathPings
    uncorrected_bps: float  # without the changes
    score: ForecastScore | None  # None before the second test

    @property
    def is_unclear(self) -> bool:
        """Whether the newest test is so unlike the others that the next may be like either."""
        return self.others_bps is not None and abs(math.log(self.newest_bps / self.others_bps)) > UNLIKE_LOG


def forecast(tests: Sequence[PastTest], now: PathPings, kind: TransferKind) -> Forecast | None:
    """Forecast a test at this state of the path; None without tests. Rates must be above 0."""
    if not tests:
        return None
    replay = _Replay(tests, now, kind)
    logs = [replay.result(number) for number in range(1, len(tests) + 1)]
    last = logs[-1]
    *others, newest = (replay.rates[test] for test in last.basis)
    return Forecast(
        throughput_bps=math.exp(last.middle),
        low_bps=math.exp(last.low),
        high_bps=math.exp(last.high),
        tests=len(last.basis),
        oldest_at=tests[last.basis[0]].at,
        newest_at=tests[last.basis[-1]].at,
        newer_left_out=len(tests) - 1 - last.basis[-1],
        newest_bps=math.exp(newest),
        others_bps=math.exp(statistics.median(others)) if others else None,
        changes=last.changes,
        then=tests[last.basis[-1]].state,
        now=now,
        uncorrected_bps=math.exp(last.uncorrected),
        score=_score(logs[:-1], replay.rates[1:]),
    )


def replayed(tests: Sequence[PastTest], kind: TransferKind) -> list[tuple[float, float, float]]:
    """(forecast, low, high) in bit/s of each test from the second on, from the tests before it."""
    if not tests:
        return []
    replay = _Replay(tests, NOT_PINGED, kind)
    results = [replay.result(number) for number in range(1, len(tests))]
    return [(math.exp(result.middle), math.exp(result.low), math.exp(result.high)) for result in results]


@dataclass(frozen=True, slots=True)
class _Result:
    """A forecast in logarithms."""

    middle: float
    low: float
    high: float
    uncorrected: float
    basis: tuple[int, ...]  # indices of its tests
    changes: tuple[PathDifference, ...]


class _Replay:
    """Forecasts of tests 1, 2, … in order, each with the errors of those before it."""

    def __init__(self, tests: Sequence[PastTest], now: PathPings, kind: TransferKind) -> None:
        self._states = [*(test.state for test in tests), now]
        self._kind = kind
        self.rates = [math.log(test.throughput_bps) for test in tests]
        self._differences = _differences(self._states)
        self._differs = np.logical_or.reduce(list(self._differences.values()))
        self._errors: list[float] = []
        self._errors_of_lengths: list[tuple[float, ...]] = []

    def result(self, number: int) -> _Result:
        """Must be called in order: each forecast needs the earlier errors."""
        alike, changes = self._alike(number)
        since_shift = alike[_shift([self.rates[test] for test in alike]) :]
        medians = [statistics.median(self.rates[test] for test in since_shift[-length:]) for length in LENGTHS]
        weights = self._weights()
        basis = since_shift[-max(length for length, weight in zip(LENGTHS, weights, strict=True) if weight) :]
        uncorrected = sum(weight * median for weight, median in zip(weights, medians, strict=True))
        then, now = self._states[basis[-1]], self._states[number]
        moved = 0.0
        if changes:
            moved = math.log(corrected_bps(math.exp(uncorrected), then, now, self._kind)) - uncorrected
        low, high = _spread(self._errors[-MOST_ERRORS:])
        if changes:
            low, high = (_widened(end, moved, changes) for end in (low, high))
        middle = uncorrected + moved
        newest = self.rates[basis[-1]] - middle
        # With too few errors, or a newest test off by a factor of three, the next test may be like the newest.
        if len(self._errors) < LEAST_ERRORS or abs(newest) > UNLIKE_LOG:
            low, high = min(low, newest), max(high, newest)
        if number < len(self.rates):
            actual = self.rates[number]
            self._errors.append(actual - middle)
            self._errors_of_lengths.append(tuple(abs(actual - median) for median in medians))
        return _Result(middle, middle + low, middle + high, uncorrected, tuple(basis), changes)

    def _alike(self, number: int) -> tuple[list[int], tuple[PathDifference, ...]]:
        """Newest tests on a similar path, else similar to the newest, with the changes."""
        recent = range(max(0, number - COMPARED_TESTS), number)
        alike = [test for test in recent if not self._differs[test, number]]
        if alike:
            return alike, ()
        newest = number - 1
        changes = tuple(change for change, differs in self._differences.items() if differs[newest, number])
        return [test for test in recent if not self._differs[test, newest]], changes

    def _weights(self) -> tuple[float, ...]:
        """Weights of the medians, sum 1; the longest alone with few errors."""
        errors = self._errors_of_lengths[-COMPARED_TESTS:]
        if len(errors) < LEAST_ERRORS:
            return 1.0, *[0.0] * (len(LENGTHS) - 1)
        means = [sum(of_length) / len(errors) for of_length in zip(*errors, strict=True)]
        shares = [1.0 / max(mean, LEAST_WIDTH_LOG) ** 2 for mean in means]
        return tuple(share / sum(shares) for share in shares)


def is_other_rtt(rtts_ms: Floats, than_ms: Floats | float) -> Bools:
    """Whether RTTs differ enough for another route, elementwise; NaN does not."""
    with np.errstate(invalid="ignore"):
        return (np.abs(np.log(rtts_ms / than_ms)) > RTT_LOG) & (np.abs(rtts_ms - than_ms) > LEAST_RTT_MS)


def _differences(states: Sequence[PathPings]) -> dict[PathDifference, Bools]:
    lost, sent = (np.array([getattr(state, name) for state in states], dtype=np.float64) for name in ("lost", "sent"))
    low, high = lower_bound(lost, sent, LOSS_CONFIDENCE), upper_bound(lost, sent, LOSS_CONFIDENCE)
    ttls = np.array([math.nan if state.ttl is None else state.ttl for state in states])
    with np.errstate(invalid="ignore"):
        more = low[:, None] > high
        route = np.abs(ttls[:, None] - ttls) > 0
    # Another RTT alone is no difference: selecting tests by it made forecasts worse.
    return {PathDifference.LOSS: more | more.T, PathDifference.ROUTE: route}


def _shift(rates: Sequence[float]) -> int:
    """Index of the first test since the last level shift, 0 without."""
    for start in range(len(rates) - SHIFT_TESTS, SHIFT_TESTS - 1, -1):
        before, after = _trimmed(rates[max(0, start - MOST_TESTS) : start]), _trimmed(rates[start:])
        beyond = after[-1] < before[0] or after[0] > before[-1]
        if beyond and abs(statistics.median(after) - statistics.median(before)) > SHIFT_LOG:
            return start
    return 0


def _trimmed(rates: Sequence[float]) -> list[float]:
    # Sorted without extremes: an outlier neither makes nor hides a shift.
    ordered = sorted(rates)
    return ordered[1:-1] if len(ordered) > 2 * SHIFT_TESTS else ordered


def _spread(errors: Sequence[float]) -> tuple[float, float]:
    if len(errors) >= LEAST_ERRORS:
        ordered = sorted(errors)
        return min(_quantile(ordered, LOW), -LEAST_WIDTH_LOG), max(_quantile(ordered, HIGH), LEAST_WIDTH_LOG)
    squares = sum(error**2 for error in errors) + ASSUMED_WEIGHT * ASSUMED_LOG**2
    half = SPREAD_OF_80 * math.sqrt(squares / (ASSUMED_WEIGHT + len(errors)))
    return -half, half


def _quantile(ordered: Sequence[float], share: float) -> float:
    # Weibull's plotting positions: of n errors and the next, each rank is equally likely.
    place = min(max(share * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
    below = min(int(place), len(ordered) - 2)
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


def _widened(end: float, moved: float, changes: Sequence[PathDifference]) -> float:
    """Adds the correction's size as an error; doubled for a route change."""
    own = 2.0 * end if PathDifference.ROUTE in changes else end
    return math.copysign(max(CHANGED_WIDTH_LOG, math.hypot(own, moved)), end)


def _score(results: Sequence[_Result], rates: Sequence[float]) -> ForecastScore | None:
    if not results:
        return None
    errors = [abs(result.middle - rate) for result, rate in zip(results, rates, strict=True)]
    return ForecastScore(
        forecasts=len(results),
        # Within rounding of a logarithm.
        within_two=sum(error <= math.log(2.0) + 1e-9 for error in errors),
        covered=sum(result.low <= rate <= result.high for result, rate in zip(results, rates, strict=True)),
        rmsre=math.sqrt(statistics.fmean(math.expm1(error) ** 2 for error in errors)),
    )
