"""Latencies of request-response runs that vary without any rise: how often `request_response` alarms; and rises.

In: kinds of series, a run every five minutes or every hour. Out: false alarms of the live rule per path and year, and
the share of paths whose rise to 2 and to 4 times it detects after six runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Replay
from monitor.alerts.detect.response_runs import NEWEST, ResponseRuns
from monitor.alerts.detect.rules.request_response import REQUEST_RESPONSE, RequestResponseRule
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis.alarms import ranks
from monitor.mesh.document.alert_rules import RuleSettings
from tests.planted import drops, paths
from tests.planted.drops import HOUR_S, YEAR_H
from tests.planted.paths import BEGAN
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int], float], Floats]

MEDIAN_MS = 25.0
PATHS = 100
WARM_UP_H = 50
"""Hours of the baseline, which are not counted."""
DETECTING_PATHS = 200
RUNS = 6
SCHEDULES = {"every five minutes": (300.0, 10 * 24), "every hour": (HOUR_S, 60 * 24)}
"""Seconds between runs, and hours replayed: each evaluation costs as much, however rare the runs are."""
MOST_A_YEAR = YEAR_H / 10_000
"""As promised of all rules: an alarm in 10,000 path-hours."""


def steady(random: np.random.Generator, shape: tuple[int, int], every_s: float) -> Floats:
    return drops.steady(random, shape)


def busy(random: np.random.Generator, shape: tuple[int, int], every_s: float) -> Floats:
    """The daily rhythm of `drops.busy` with its noise that lasts for hours, and 5% from run to run."""
    hours = np.arange(shape[1]) * every_s / HOUR_S
    hourly = np.log(drops.busy(random, (shape[0], int(np.ceil(hours[-1])) + 1)))
    lasting = np.stack([np.interp(hours, np.arange(len(row)), row) for row in hourly])
    return np.exp(lasting + random.normal(0.0, 0.05, shape))


def timeouts(random: np.random.Generator, shape: tuple[int, int], every_s: float) -> Floats:
    """Steady, but independently 5% of the runs take twice to ten times as long: retransmission timeouts."""
    is_slow = random.random(shape) < 0.05
    return drops.steady(random, shape) * np.where(is_slow, random.uniform(2.0, 10.0, shape), 1.0)


def heavy(random: np.random.Generator, shape: tuple[int, int], every_s: float) -> Floats:
    return drops.heavy(random, shape)


KINDS: dict[str, Draw] = {
    "steady, 8%": steady,
    "a daily rhythm of a factor of two, and noise of 20% for hours": busy,
    "2 to 10 times as long in one of twenty runs": timeouts,
    "heavy tails": heavy,
}


def table(sizes: Sizes) -> Table:
    """False alarms by schedule, and rises to 2 and 4 times detected after six runs."""
    alarms = [f"{schedule}: a path-year" for schedule in SCHEDULES]
    results = Table(("latency", *alarms, "to 2 times", "to 4 times"))
    for name, draw in KINDS.items():
        random = np.random.default_rng(14)
        counts = [_false_alarms(draw, *schedule, random) for schedule in SCHEDULES.values()]
        detected = [f"{_detected_ratio(draw, ratio):.0%}" for ratio in (2.0, 4.0)]
        results.rows.append((name, *(f"{count:.2f}" for count in counts), *detected))
        if max(counts) > MOST_A_YEAR:
            results.failures.append(f"{name}: {max(counts):.2f} false alarms a path-year, {MOST_A_YEAR:g} are allowed")
    return results


def _false_alarms(draw: Draw, every_s: float, hours: int, random: np.random.Generator) -> float:
    """Incidents a path-year: evaluations that fire after one that does not."""
    series = _series(MEDIAN_MS * draw(random, (PATHS, int(hours * HOUR_S / every_s)), every_s), random)
    firing, alarms = set[int](), 0
    for place in range(int(WARM_UP_H * HOUR_S / every_s), series[0].shape[1]):
        found = _firing(series, place, every_s)
        alarms, firing = alarms + len(found - firing), found
    return alarms * YEAR_H / (PATHS * (hours - WARM_UP_H))


def _detected_ratio(draw: Draw, ratio: float) -> float:
    """The share of paths whose rise to this ratio the rule detects at the sixth run."""
    every_s, random = SCHEDULES["every five minutes"][0], np.random.default_rng(15)
    latencies_ms = MEDIAN_MS * draw(random, (DETECTING_PATHS, int(WARM_UP_H * HOUR_S / every_s)), every_s)
    latencies_ms[:, -RUNS:] *= ratio
    return len(_firing(_series(latencies_ms, random), latencies_ms.shape[1] - 1, every_s)) / DETECTING_PATHS


def _series(medians_ms: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """These medians, and 95th percentiles that vary for themselves."""
    return medians_ms, medians_ms * np.exp(np.abs(random.normal(0.1, 0.05, medians_ms.shape)))


def _firing(series: tuple[Floats, Floats], newest: int, every_s: float) -> set[int]:
    """The paths on which the rule fires after the run in this place: the newest runs, and those an hour apart before,
    as `monitor.alerts.detect.response_runs` loads them."""
    per_hour, oldest = int(HOUR_S / every_s), newest - NEWEST + 1
    hours = np.arange(0, oldest, per_hour)[-ranks.MOST_BEFORE :]
    places = np.concatenate([hours, np.arange(oldest, newest + 1)])
    count = len(series[0])
    answered = paths.apart(count, "request-response", every_s=int(every_s))
    none = np.zeros(count, dtype=np.int64)
    at_s = np.tile(BEGAN.timestamp() + every_s * places, (count, 1))
    runs = ResponseRuns(answered, np.array(list(answered)), none, none, at_s, *(of[:, places] for of in series))
    now = BEGAN + timedelta(seconds=every_s * (newest + 0.5))
    snapshot = replace(_nothing(), now=now, responses=runs)
    return {finding.path_id for finding in REQUEST_RESPONSE.judge(snapshot, _settings(count))}


@cache
def _nothing() -> Snapshot:
    """A snapshot without any path."""
    source = RecordedSource(RecordedBursts.from_columns([], [], np.zeros((0, 1))))
    return Replay(paths.scope({}), source, ()).snapshot(BEGAN)


@cache
def _settings(count: int) -> dict[int, RuleSettings]:
    return dict.fromkeys(range(1, count + 1), RequestResponseRule())
