"""The table of `link_use`, the forecast of a full link on simulated traffic.

The traffic is made in five-minute averages, with a cycle of the day and of the week, and its 95th percentile is taken
week by week, as the archive does. The truth is the first later week whose percentile reaches 95% of the capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from monitor.analysis.link_use import FULL_RATIO, YEAR_WEEKS, FullForecast, FullVerdict, forecast_full
from tests.reproduce.table import Table
from tests.scored import count_of

CAPACITY_BPS = 1e9
AHEAD = 160
FIVE_MINUTES = 7 * 288
SERIES = 60
LENGTHS = (10, 16, 26, 52)

Random = np.random.Generator
Levels = np.ndarray


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sort of traffic: its name, its weekly level (weeks measured and after) and whether it grows."""

    name: str
    levels: Callable[[Random, int], Levels]
    grows: bool


def noise(random: Random, count: int, sigma: float, dependence: float = 0.0) -> np.ndarray:
    """A stationary autoregression of this standard deviation."""
    values, last = np.empty(count), random.normal(0.0, sigma)
    for place in range(count):
        values[place] = last
        last = dependence * last + random.normal(0.0, sigma * np.sqrt(1.0 - dependence**2))
    return values


def linear(random: Random, measured: int) -> Levels:
    """Growth by the same amount each week, full 4 to 80 weeks after the last measured one."""
    count, base, full_at = measured + AHEAD, random.uniform(0.15, 0.5), measured + random.uniform(4, 80)
    return base + (FULL_RATIO - base) * np.arange(count) / full_at


def exponential(random: Random, measured: int) -> Levels:
    """Growth by 20 to 100% a year."""
    growth = np.log(1.0 + random.uniform(0.2, 1.0)) / YEAR_WEEKS
    now = random.uniform(0.4, 0.85)
    return now * np.exp(growth * (np.arange(measured + AHEAD) - measured))


def growth(shape: Callable[[Random, int], Levels], sigma: float, dependence: float) -> Callable[[Random, int], Levels]:
    def levels(random: Random, measured: int) -> Levels:
        line = shape(random, measured)
        return line * (1.0 + noise(random, len(line), sigma, dependence))

    return levels


def flat(sigma: float, dependence: float) -> Callable[[Random, int], Levels]:
    def levels(random: Random, measured: int) -> Levels:
        count = measured + AHEAD
        return random.uniform(0.3, 0.8) * (1.0 + noise(random, count, sigma, dependence))

    return levels


def step(random: Random, measured: int) -> Levels:
    """A new customer: a level 20 to 60% higher, from some week on."""
    levels = flat(0.05, 0.0)(random, measured)
    levels[random.integers(2, measured - 1) :] *= random.uniform(1.2, 1.6)
    return np.minimum(levels, 0.9)


def outliers(random: Random, measured: int) -> Levels:
    """A week in ten with half as much traffic, or half as much again."""
    levels = flat(0.05, 0.0)(random, measured)
    is_odd = random.random(len(levels)) < 0.1
    return np.minimum(np.where(is_odd, levels * random.choice([0.5, 1.5], len(levels)), levels), 0.93)


def yearly(random: Random, measured: int) -> Levels:
    """A cycle of the year of 15% to either side, as of a university."""
    levels = flat(0.05, 0.0)(random, measured)
    phase = random.uniform(0, 2 * np.pi)
    return levels * (1.0 + 0.15 * np.sin(2 * np.pi * np.arange(len(levels)) / YEAR_WEEKS + phase)) * 0.85


KINDS = (
    Traffic("linear growth, 3% of noise", growth(linear, 0.03, 0.0), True),
    Traffic("linear growth, 10% of noise", growth(linear, 0.1, 0.0), True),
    Traffic("linear growth, 6%, neighbouring weeks alike", growth(linear, 0.06, 0.5), True),
    Traffic("exponential growth, 5% of noise", growth(exponential, 0.05, 0.0), True),
    Traffic("none, 5% of noise", flat(0.05, 0.0), False),
    Traffic("none, 15% of noise", flat(0.15, 0.0), False),
    Traffic("none, 10%, neighbouring weeks alike", flat(0.1, 0.6), False),
    Traffic("step", step, False),
    Traffic("outliers", outliers, False),
    Traffic("cycle of the year", yearly, False),
)


@cache
def factors() -> np.ndarray:
    """The 95th percentile of the five-minute averages of 500 weeks whose level is 1."""
    slots = np.arange(FIVE_MINUTES)
    of_day = 0.6 + 0.4 * np.sin(2 * np.pi * (slots % 288) / 288 - 2.0)
    shape = of_day * np.where(slots // 288 >= 5, 0.7, 1.0)
    shape /= np.quantile(shape, 0.95)
    return np.quantile(shape * np.random.default_rng(2).lognormal(0.0, 0.2, (500, FIVE_MINUTES)), 0.95, axis=1)


def weekly_p95(random: Random, levels: Levels) -> np.ndarray:
    """The 95th percentile of each week, as a share of the capacity: percentiles scale with the level."""
    return levels * random.choice(factors(), len(levels)) / factors().mean()


@dataclass(slots=True)
class Score:
    """Counts over the series of a kind of traffic. `covered` are those "full in" whose week was in the interval;
    `wrong_never` those "not within a year" that were full within."""

    series: int = 0
    full_in: int = 0
    covered: int = 0
    never: int = 0
    wrong_never: int = 0
    unknown: int = 0

    def add(self, stated: FullForecast, full_after: int | None) -> None:
        self.series += 1
        if stated.verdict is FullVerdict.FULL_IN:
            assert stated.low_weeks is not None
            self.full_in += 1
            high = float("inf") if stated.high_weeks is None else stated.high_weeks
            self.covered += stated.low_weeks <= (full_after or float("inf")) <= high and (
                full_after is not None or stated.high_weeks is None
            )
        elif stated.verdict is FullVerdict.NOT_WITHIN_YEAR:
            self.never += 1
            self.wrong_never += full_after is not None and full_after <= YEAR_WEEKS
        else:
            self.unknown += 1


def score(traffic: Traffic, lengths: tuple[int, ...] = LENGTHS, series: int = SERIES, seed: int = 1) -> Score:
    """Forecast simulated links; those that are full already are made again."""
    total = Score()
    for length in lengths:
        for number in range(series):
            random = np.random.default_rng([seed, KINDS.index(traffic), length, number])
            p95 = weekly_p95(random, traffic.levels(random, length))
            while np.median(p95[length - 4 : length]) >= FULL_RATIO or p95[:length].max() >= 1.0:
                p95 = weekly_p95(random, traffic.levels(random, length))
            full = np.flatnonzero(p95[length:] >= FULL_RATIO)
            stated = forecast_full(range(length), (p95[:length] * CAPACITY_BPS).tolist(), CAPACITY_BPS)
            total.add(stated, int(full[0]) + 1 if len(full) else None)
    return total


def table(share: float) -> Table:
    """Statements on each kind of traffic."""
    result = Table(("traffic", "links", '"full in N weeks"', "of these within the interval", '"not within a year"',
                    "of these full within a year", "cannot tell"))  # fmt: skip
    for traffic in KINDS:
        of = score(traffic, series=count_of(SERIES, share))
        full_in = f"{of.full_in:,} ({of.full_in / of.series:.1%})"
        covered = f"{of.covered / of.full_in:.0%}" if of.full_in and traffic.grows else "–"
        counts = (f"{count:,}" for count in (of.never, of.wrong_never, of.unknown))
        result.rows.append((traffic.name, f"{of.series:,}", full_in, covered, *counts))
    return result


PARTS = {"score": table}
