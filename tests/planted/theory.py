"""The number of samples that the rules' tests need, computed without their code: from SciPy's distributions alone.

A fixed-sample test of size *a* on *n* samples has a power; *n* at a power of a half is when half of all paths are
detected by a window of the right length, *n* at nine tenths when nine of ten are.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, mannwhitneyu

LONGEST_BURSTS = 1_000
TRIALS = 400


def bursts_for_loss(base: float, now: float, base_bursts: int, size: float, power: float, least: int) -> int:
    """The minimum number of bursts in which a test of `size` proves a rise with a probability of `power`.

    `base` and `now` are the shares of bursts that lose a packet; a tenth of the size is spent on the baseline's bound.
    """
    bound = _upper(round(base * base_bursts), base_bursts, 0.1 * size)
    for bursts in range(1, LONGEST_BURSTS):
        critical = max(least, int(binom.isf(0.9 * size, bursts, bound)) + 1)
        if binom.sf(critical - 1, bursts, now) >= power:
            return bursts
    raise ValueError(f"{LONGEST_BURSTS} bursts prove no rise from {base:g} to {now:g}")


def bursts_above(ratio: float, threshold: float, packets: int, size: float, power: float, least_lossy: int) -> int:
    """The minimum number of bursts of `packets` packets in which a test of `size` proves more loss than the threshold
    with a probability of `power`."""
    for bursts in range(least_lossy, LONGEST_BURSTS):
        critical = int(binom.isf(size, bursts * packets, threshold)) + 1
        if binom.sf(critical - 1, bursts * packets, ratio) >= power:
            return bursts
    raise ValueError(f"{LONGEST_BURSTS} bursts do not prove {ratio:g}")


def lorden_bursts(base: float, now: float, looks: float) -> float:
    """On average no test with a false alarm in so many evaluations is quicker (G. Lorden 1971)."""
    base = max(base, 1e-4)
    information = now * math.log(now / base) + (1 - now) * math.log((1 - now) / (1 - base))
    return math.log(looks) / information


def tests_for_fall(ratio: float, spread: float, before: int, size: float, power: float, counts: tuple[int, ...]) -> int:
    """The minimum number of newest tests, of `counts`, that an exact rank test of `size` proves lower with this
    probability.

    Rates are log-normal with this standard deviation. `size` is that of all comparisons together.
    """
    random = np.random.default_rng(7)
    for count in counts:
        newest = random.normal(math.log(ratio), spread, (TRIALS, count))
        past = random.normal(0.0, spread, (TRIALS, before))
        chances = mannwhitneyu(newest, past, alternative="less", method="exact", axis=1).pvalue
        if (chances * len(counts) <= size).mean() >= power:
            return count
    raise ValueError(f"no {max(counts)} tests prove a fall to {ratio:g}")


def _upper(events: int, bursts: int, chance: float) -> float:
    """The ratio at which so few events have this probability (Clopper and Pearson), by bisection."""
    low, high = events / bursts, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if binom.cdf(events, bursts, middle) > chance else (low, middle)
    return high
