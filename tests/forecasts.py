"""Score the forecasts of throughput tests: `python -m tests.forecasts` prints the table of docs/method/estimate.md.

Each test of each series is forecast from the tests before it. For comparison: the median of the last ten tests, which
has no interval. The series are published ones (tests/fixtures/throughput), and series simulated by seven mechanisms,
each with its own kind of noise, so that no single generator can be fitted. The first ten tests of a series are not
scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from monitor.analysis.tcp import PastTest, TransferKind, replayed

FOLDER = Path(__file__).parent / "fixtures" / "throughput"
FIRST_SCORED = 10
LENGTH = 150
SERIES = 6
BEGAN_AT = datetime(2026, 10, 1, tzinfo=UTC)

Rates = np.ndarray
Random = np.random.Generator


def free_capacity(random: Random) -> Rates:
    """Free capacity beside autocorrelated cross traffic."""
    load, rates = random.normal(0, 0.5), []
    for _ in range(LENGTH):
        load = 0.8 * load + 0.6 * random.normal(0, 0.5)
        rates.append(100 / (1 + math.exp(load - 1)))
    return np.array(rates)


def shared_link(random: Random) -> Rates:
    """An equal share of a link with a varying number of other flows (birth and death, ten on average)."""
    flows, rates = 10, []
    for _ in range(LENGTH):
        flows = int(random.binomial(flows, 0.6) + random.poisson(4))
        rates.append(1000 / (1 + flows))
    return np.array(rates)


def capacity_bound(random: Random, noise: float = 0.001) -> Rates:
    """A full link with 0.1% of noise, and an outlier in 25 tests."""
    rates = 94.1 * (1 + noise * random.standard_normal(LENGTH))
    outlier = random.random(LENGTH) < 0.04
    return np.where(outlier, rates * random.uniform(0.3, 0.9, LENGTH), rates)


def level_shifts(random: Random) -> Rates:
    """Levels of a Pareto-distributed length of 25 tests or more, with gamma noise of 12%."""
    levels: list[float] = []
    while len(levels) < LENGTH:
        levels += [50 * math.exp(random.normal(0, 0.4))] * int(25 * (1 + random.pareto(1.5)))
    return np.array(levels[:LENGTH]) * random.gamma(70, 1 / 70, LENGTH)


def evenings(random: Random) -> Rates:
    """Hourly tests, down to 65% from 18 to 23 o'clock, with uniform noise."""
    hours = np.arange(LENGTH) % 24
    return np.where(hours >= 18, 0.65, 1.0) * 80 * random.uniform(0.88, 1.12, LENGTH)


def lossy(random: Random) -> Rates:
    """A slowly varying loss, and a Poisson number of losses in each test: the rate is the root of their inverse."""
    log_loss, rates = random.normal(0, 0.4), []
    for _ in range(LENGTH):
        log_loss = 0.9 * log_loss + 0.44 * random.normal(0, 0.4)
        losses = max(1, random.poisson(60 * math.exp(log_loss)))
        rates.append(20 / math.sqrt(losses / 60))
    return np.array(rates)


def heavy_tails(random: Random) -> Rates:
    """A steady level with noise of Student's t with three degrees of freedom."""
    return 300 * np.exp(0.08 * random.standard_t(3, LENGTH))


SIMULATED: dict[str, Callable[[Random], Rates]] = {
    "free capacity": free_capacity,
    "shared link": shared_link,
    "full link": capacity_bound,
    "level shifts": level_shifts,
    "evenings": evenings,
    "random loss": lossy,
    "heavy tails": heavy_tails,
}


@dataclass(frozen=True, slots=True)
class SeriesScore:
    """Scores of the forecasts of a kind of series. RMSRE as in He, Dovrolis and Ammar (2005), section 3."""

    name: str
    forecasts: int
    within_two_ratio: float
    covered_ratio: float
    rmsre: float
    rmsre_of_ten: float


def score_series(name: str, all_rates: list[Rates]) -> SeriesScore:
    """Forecast each of these series, and pool the forecasts."""
    columns = np.concatenate([_forecasts(rates) for rates in all_rates])
    actual, middle, low, high, of_ten = columns.T
    return SeriesScore(
        name=name,
        forecasts=len(actual),
        within_two_ratio=float(np.mean((middle <= 2 * actual) & (actual <= 2 * middle))),
        covered_ratio=float(np.mean((low <= actual) & (actual <= high))),
        rmsre=_rmsre(middle, actual),
        rmsre_of_ten=_rmsre(of_ten, actual),
    )


def _forecasts(rates: Rates) -> Rates:
    tests = [PastTest(BEGAN_AT + timedelta(hours=number), float(rate) * 1e6) for number, rate in enumerate(rates)]
    forecasts = np.array(replayed(tests, TransferKind())) / 1e6
    of_ten = [np.median(rates[max(0, number - 10) : number]) for number in range(1, len(rates))]
    return np.column_stack((rates[1:], forecasts, of_ten))[FIRST_SCORED - 1 :]


def _rmsre(estimated: Rates, actual: Rates) -> float:
    return float(np.sqrt(np.mean(((estimated - actual) / np.minimum(estimated, actual)) ** 2)))


def published() -> Iterator[SeriesScore]:
    """Scores of the published series."""
    for file in sorted(FOLDER.glob("*.txt")):
        yield score_series(file.stem, [np.loadtxt(file)])


def simulated(seed: int = 7, series: int = SERIES) -> Iterator[SeriesScore]:
    """Scores of the simulated series."""
    for number, (name, make) in enumerate(SIMULATED.items()):
        yield score_series(name, [make(np.random.default_rng([seed, number, count])) for count in range(series)])


def pooled(scores: list[SeriesScore]) -> SeriesScore:
    """The scores of all forecasts pooled."""
    counts = np.array([score.forecasts for score in scores])

    def mean(name: str, power: int = 1) -> float:
        values = np.array([getattr(score, name) for score in scores]) ** power
        return float(np.average(values, weights=counts)) ** (1 / power)

    return SeriesScore(
        "all",
        int(counts.sum()),
        mean("within_two_ratio"),
        mean("covered_ratio"),
        mean("rmsre", 2),
        mean("rmsre_of_ten", 2),
    )


def _row(score: SeriesScore) -> str:
    return (
        f"| {score.name} | {score.forecasts:,} | {score.within_two_ratio:.1%} | {score.covered_ratio:.1%} "
        f"| {score.rmsre:.3f} | {score.rmsre_of_ten:.3f} |"
    )


def main() -> None:
    print("| series | forecasts | within 2× | in the 80% interval | RMSRE | RMSRE, median of the last ten |")
    print("|---|---|---|---|---|---|")
    for scores in (list(published()), list(simulated())):
        for score in (*scores, pooled(scores)):
            print(_row(score))


if __name__ == "__main__":
    main()
