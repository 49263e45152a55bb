"""Throughput that varies as tests do, without a decrease: how often two in a row are below half of the minimum before.

In: kinds of series, an hourly test each. Out: false alarms per path and year by the number of tests before, counted
with NumPy alone; those of the live rule; how often two and three in a row are below a tenth, which make a
warning and a critical incident; and the decreases that the rule detects at the second test.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.recorded_tests import MeasuredTests
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect.damage import CRITICAL_TESTS, CRITICAL_THROUGHPUT_SHARE
from monitor.alerts.detect.rules.throughput import DROP_BEFORE, DROP_TESTS, THROUGHPUT_DROP
from monitor.alerts.evaluate import findings
from tests.planted import paths
from tests.planted.paths import BEGAN
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

HOUR_S = 3600.0
DAYS = 60
PATHS = 100
RULE_PATHS = 25
"""Paths replayed through the live rule, which takes longer."""
BEFORE = (6, 12, 24, 48)
YEAR_H = 365.0 * 24.0
MOST_A_YEAR = 3.0


def steady(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Log-normal, 8%."""
    return np.exp(random.normal(0.0, 0.08, shape))


def busy(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """A daily variation by a factor of two from night to evening, and noise of 20% that lasts for hours."""
    hours = np.arange(shape[1])
    noise = np.zeros(shape)
    for hour in range(1, shape[1]):
        noise[:, hour] = 0.7 * noise[:, hour - 1] + random.normal(0.0, 0.2 * np.sqrt(1 - 0.7**2), shape[0])
    phase = random.uniform(0.0, 24.0, (shape[0], 1))
    return np.exp(noise + 0.35 * np.cos((hours + phase) * 2.0 * np.pi / 24.0))


def dips(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Steady, but independently 5% of the tests get a tenth to a half: a busy host, a failed start."""
    is_dip = random.random(shape) < 0.05
    return steady(random, shape) * np.where(is_dip, random.uniform(0.1, 0.5, shape), 1.0)


def heavy(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Logarithms with Student's t of three degrees of freedom, scaled by 0.25: a path with random loss."""
    return np.exp(0.25 * random.standard_t(3.0, shape))


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "steady, 8%": steady,
    "a daily rhythm, and noise of 20% for hours": busy,
    "a dip in one of twenty tests": dips,
    "heavy tails": heavy,
}


def table(sizes: Sizes) -> Table:
    """False alarms by the number of tests before, and decreases to 60%, 40% and 10% detected at the second test."""
    columns = [f"{before} before" for before in BEFORE]
    lost = [f"{tests} below a tenth" for tests in (DROP_TESTS, CRITICAL_TESTS)]
    results = Table(("throughput, a test an hour", *columns, "the rule", *lost, "to 60%", "to 40%", "to 10%"))
    for name, draw in KINDS.items():
        random = np.random.default_rng(12)
        rates = 9.4e8 * draw(random, (PATHS, DAYS * 24))
        years = rates.size / YEAR_H
        counted = [len(_begins(rates, before)) / years for before in BEFORE]
        by_rule = _by_rule(rates[:RULE_PATHS]) * PATHS / RULE_PATHS / years
        critical = [_lost(rates, tests) / years for tests in (DROP_TESTS, CRITICAL_TESTS)]
        detected = [f"{_detected_ratio(draw, ratio):.0%}" for ratio in (0.6, 0.4, 0.1)]
        rates_text = [f"{count:.2f}" for count in (*counted, by_rule)] + [f"{count:.3f}" for count in critical]
        results.rows.append((name, *rates_text, *detected))
        if by_rule > MOST_A_YEAR:
            results.failures.append(
                f"{name}: {by_rule:.2f} false alarms a path-year, where {MOST_A_YEAR:g} are allowed"
            )
    return results


def _begins(rates: Floats, before: int) -> list[tuple[int, int]]:
    """The paths and tests at which two in a row are below half of the minimum of so many before, each run once."""
    lowest = np.lib.stride_tricks.sliding_window_view(rates, before, axis=1).min(axis=2)[:, :-2]
    highest = np.maximum(rates[:, before:-1], rates[:, before + 1 :])
    is_low = highest < 0.5 * lowest
    begins = is_low & ~np.pad(is_low, ((0, 0), (1, 0)))[:, :-1]
    return [(int(path), int(place) + before + 1) for path, place in np.argwhere(begins)]


def _lost(rates: Floats, tests: int) -> int:
    """How often this many tests in a row are below a tenth of the median of the earlier tests, each run once."""
    usual = np.median(np.lib.stride_tricks.sliding_window_view(rates, DROP_BEFORE, axis=1), axis=2)
    newest = np.lib.stride_tricks.sliding_window_view(rates[:, DROP_BEFORE:], tests, axis=1).max(axis=2)
    is_lost = newest < CRITICAL_THROUGHPUT_SHARE * usual[:, : newest.shape[1]]
    return int((is_lost & ~np.pad(is_lost, ((0, 0), (1, 0)))[:, :-1]).sum())


def _by_rule(rates: Floats) -> int:
    """The incidents of the rule, evaluated after each test."""
    runner = Replay(_scope(len(rates)), _source(rates), (THROUGHPUT_DROP.name,))
    began = BEGAN + timedelta(minutes=30)
    for now in moments(began, began + timedelta(hours=rates.shape[1]), HOUR_S):
        runner.at(now)
    return len({(finding.path_id, finding.since) for _, finding in runner.findings})


def _detected_ratio(draw: Callable[[np.random.Generator, tuple[int, int]], Floats], ratio: float) -> float:
    """The share of paths whose decrease to this ratio the rule detects at the second test."""
    rates = 9.4e8 * draw(np.random.default_rng(13), (400, DROP_BEFORE + 2))
    rates[:, -2:] *= ratio
    scope = _scope(len(rates))
    runner = Replay(scope, _source(rates), (THROUGHPUT_DROP.name,))
    snapshot = runner.snapshot(BEGAN + timedelta(hours=rates.shape[1] - 0.5))
    return len(findings(snapshot, scope, (THROUGHPUT_DROP.name,))) / len(rates)


def _scope(count: int) -> paths.RuleScope:
    return paths.scope({}, paths.apart(count, "throughput", every_s=int(HOUR_S)))


def _source(rates: Floats) -> RecordedSource:
    ids = np.repeat(np.arange(1, len(rates) + 1), rates.shape[1])
    at_s = np.tile(BEGAN.timestamp() + HOUR_S * np.arange(rates.shape[1]), len(rates))
    return RecordedSource(
        RecordedBursts.from_columns([], [], np.zeros((0, 1))), MeasuredTests(ids, at_s, rates.ravel())
    )
