"""Paths with earlier incidents: what baselines without their hours find and alarm, against baselines with them.

In: how often a path had trouble in 28 days; each trouble was an incident. Out: the findings of `loss_regression` in the
hours after, by both baselines of the same bursts, and when each finds a smaller fault. A finding outside of any trouble
is a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import HourlyPast, RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect.past.incident_times import NO_TIMES, IncidentTimes, MeasureKind, PathTime
from monitor.alerts.evaluate import findings
from monitor.alerts.scope import RuleScope
from tests.planted import paths
from tests.planted.paths import BEGAN, BURSTS_AN_HOUR, CYCLE_S, PACKETS, PAST_HOURS
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table

Bools = NDArray[np.bool_]
Hours = Callable[[np.random.Generator, tuple[int, int]], Bools]

RULE = ("loss_regression",)
USUAL, TROUBLE, FAULT = 0.001, 0.05, 0.01
EVERY_CYCLES = 2
FAULT_CYCLES = 240
MOST_MORE = 2
"""So many false alarms more than with incidents in the baseline are chance."""


def never(random: np.random.Generator, shape: tuple[int, int]) -> Bools:
    """No trouble."""
    return np.zeros(shape, dtype=np.bool_)


def now_and_then(random: np.random.Generator, shape: tuple[int, int]) -> Bools:
    """An hour of trouble in two days on average."""
    return random.random(shape) < 1.0 / 48.0


def evenings(random: np.random.Generator, shape: tuple[int, int], days: int = 33) -> Bools:
    """Trouble from 18 to 22 o'clock for the last days; hours begin at noon."""
    hours = np.arange(shape[1])
    is_evening = (hours % 24 >= 6) & (hours % 24 < 10) & (hours >= PAST_HOURS - 24 * days)
    return np.broadcast_to(is_evening, shape)


def ten_evenings(random: np.random.Generator, shape: tuple[int, int]) -> Bools:
    """Trouble from 18 to 22 o'clock for ten days."""
    return evenings(random, shape, days=10)


def four_evenings(random: np.random.Generator, shape: tuple[int, int]) -> Bools:
    """Trouble from 18 to 22 o'clock for four days: no pattern yet."""
    return evenings(random, shape, days=4)


def share_of_time(share: float) -> Hours:
    """Trouble in blocks of three hours, so much of the time."""

    def drawn(random: np.random.Generator, shape: tuple[int, int]) -> Bools:
        blocks = random.random((shape[0], shape[1] // 3 + 1)) < share
        return np.repeat(blocks, 3, axis=1)[:, : shape[1]]

    return drawn


PATTERNS: dict[str, Hours] = {
    "none": never,
    "an hour in two days": now_and_then,
    "every evening": evenings,
    "evenings for ten days": ten_evenings,
    "evenings for four days": four_evenings,
    "10% of the time": share_of_time(0.1),
    "30% of the time": share_of_time(0.3),
    "70% of the time": share_of_time(0.7),
}


class _Knowing(Replay):
    """A replay that knows the incidents before it began."""

    def __init__(self, scope: RuleScope, source: RecordedSource, earlier: tuple[PathTime, ...]) -> None:
        super().__init__(scope, source, RULE)
        self._earlier = earlier
        self._ended_s = {(time.path_id, *RULE): time.end_s for time in earlier}

    def _times(self, since: datetime, now: datetime) -> IncidentTimes:
        own = super()._times(since, now).times.get(MeasureKind.PACKETS, ())
        return IncidentTimes({MeasureKind.PACKETS: (*self._earlier, *own)})


class _Forgetting(_Knowing):
    """The same with all hours in its baselines."""

    def _times(self, since: datetime, now: datetime) -> IncidentTimes:
        return NO_TIMES


@dataclass(frozen=True, slots=True)
class _Counted:
    findings: int
    false: int
    found_min: float


def table(sizes: Sizes) -> Table:
    """Findings with and without earlier incidents in the baseline."""
    result = Table(
        (
            "earlier trouble", "path-hours", "findings: with", "without", "false: with", "without",
            "fault found, median: with", "without",
        )
    )  # fmt: skip
    count, hours = sizes.paths // 2, sizes.quiet_hours
    for name, pattern in PATTERNS.items():
        drawn = pattern(np.random.default_rng(11), (count, PAST_HOURS + hours))
        with_them, without = (_counted(runner, drawn, count, hours) for runner in (_Forgetting, _Knowing))
        result.rows.append(
            (
                name, f"{count * hours:,}", f"{with_them.findings}", f"{without.findings}", f"{with_them.false}",
                f"{without.false}", _minutes(with_them.found_min), _minutes(without.found_min),
            )
        )  # fmt: skip
        if without.false > with_them.false + MOST_MORE:
            result.failures.append(f"{name}: {without.false} false alarms, {with_them.false} with all hours")
        if without.found_min > with_them.found_min:
            result.failures.append(f"{name}: a fault is found later")
    return result


def _minutes(found_min: float) -> str:
    return "not in 4 h" if np.isinf(found_min) else f"{found_min:.0f} min"


def _counted(kind: type[_Knowing], is_bad: Bools, count: int, hours: int) -> _Counted:
    random = np.random.default_rng(12)
    cycles = np.arange(hours * 3600 // CYCLE_S)
    is_bad_now = is_bad[:, PAST_HOURS:][:, cycles * CYCLE_S // 3600]
    past = _past(is_bad[:, :PAST_HOURS], random)
    bursts = paths.bursts(count, len(cycles), np.where(is_bad_now, TROUBLE, USUAL), random)
    runner = _started(kind, RecordedSource(bursts, past=past), is_bad, count)
    for now in moments(BEGAN, BEGAN + timedelta(hours=hours), EVERY_CYCLES * CYCLE_S):
        runner.at(now)
    false = sum(not _is_of_trouble(at, finding.path_id, is_bad) for at, finding in runner.findings)
    return _Counted(len(runner.findings), false, _fault_found(kind, is_bad, count, past))


def _fault_found(kind: type[_Knowing], is_bad: Bools, count: int, past: HourlyPast) -> float:
    """The median time until a smaller fault that begins at once is found, in minutes."""
    random = np.random.default_rng(13)
    bursts = paths.bursts(count, FAULT_CYCLES, np.full(1, FAULT), random)
    runner = _started(kind, RecordedSource(bursts, past=past), is_bad, count)
    first = np.full(count + 1, np.inf)
    for number, now in enumerate(moments(BEGAN, BEGAN + timedelta(hours=4), EVERY_CYCLES * CYCLE_S), start=1):
        for finding in findings(runner.snapshot(now), runner.scope, RULE):
            first[finding.path_id] = min(first[finding.path_id], number * EVERY_CYCLES * CYCLE_S / 60.0)
    return float(np.median(first[1:]))


def _started(kind: type[_Knowing], source: RecordedSource, is_bad: Bools, count: int) -> Replay:
    begin_s = BEGAN.timestamp() - PAST_HOURS * 3600.0
    earlier = tuple(
        PathTime(row + 1, begin_s + hour * 3600.0, begin_s + (hour + 1) * 3600.0)
        for row, hour in np.argwhere(is_bad[:, :PAST_HOURS]).tolist()
    )
    return kind(paths.scope(paths.apart(count)), source, earlier)


def _past(is_bad: Bools, random: np.random.Generator) -> HourlyPast:
    ratios = np.where(is_bad, TROUBLE, USUAL)
    lossy = random.binomial(BURSTS_AN_HOUR, 1.0 - (1.0 - ratios) ** PACKETS).astype(np.float64)
    lost = lossy + random.binomial((lossy * (PACKETS - 1)).astype(np.int64), ratios)
    every = np.full(is_bad.shape, float(BURSTS_AN_HOUR))
    counts = {"bursts": every, "sent": PACKETS * every, "received": PACKETS * every - lost, "lossy": lossy}
    return HourlyPast(BEGAN - timedelta(hours=PAST_HOURS), counts)


def _is_of_trouble(found_at: datetime, path_id: int, is_bad: Bools) -> bool:
    """Whether there was trouble on the path in this hour or the hour before."""
    hour = PAST_HOURS + int((found_at - BEGAN).total_seconds() / 3600.0)
    return bool(is_bad[path_id - 1, hour - 1 : hour + 1].any())
