"""Detectors of loss, compared at the same rate of false alarms: how long each takes to find a rise.

In: lossy bursts per cycle, drawn without a rise and with one, in windows as those of the rules. Out: the false alarms
of each detector on quiet paths, and the median time to find each rise. The detectors:

  - 13 windows, a binomial test of each, and Boole's inequality over windows and looks;
  - the live e-detector (`monitor.analysis.alarms.sequential`);
  - any test: the Shiryaev-Roberts procedure that knows the loss before and after, and counts packets, not bursts. At a
    given rate of false alarms none is quicker on average (M. Pollak and A. Tartakovsky, Statistica Sinica 19, 2009).
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from monitor.alerts.detect.rules.counts import LOSS_REGRESSION
from monitor.alerts.detect.rules.windows import HOUR_WINDOWS, RECENT_WINDOWS, WINDOWS
from monitor.analysis.alarms import sequential
from monitor.analysis.alarms.rises import LEAST_EVENTS
from tests.planted.paths import BURSTS_AN_HOUR, CYCLE_S, PACKETS, SIZES, lossy_ratio
from tests.planted.simulated import LOOKS_AN_HOUR, Sizes
from tests.reproduce.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MINUTES = np.array([*(5 * steps for steps in RECENT_WINDOWS), *(60 * hours - 30 for hours in HOUR_WINDOWS)])
"""Lengths of the windows, the running hour being half over."""
BASE_BURSTS = 28 * 24 * BURSTS_AN_HOUR
AN_HOUR = LOSS_REGRESSION.alarms_an_hour
BLOCK_H = 10
BLOCK = BLOCK_H * 3600 // CYCLE_S
QUIET_PATHS, ROUNDS = 60, 20
QUIET_H = QUIET_PATHS * ROUNDS * 10 * BLOCK_H
RISEN_PATHS, FOUND_CYCLES = 2000, 300
RISES = ((0.0, 0.003), (0.0, 0.01), (0.001, 0.01), (0.01, 0.03))

BOOLE, LIVE, ANY = "13 windows", "e-detector", "any test"
THRESHOLDS = {
    BOOLE: -math.log(AN_HOUR / (LOOKS_AN_HOUR * WINDOWS)),
    LIVE: math.log(3600 / CYCLE_S / AN_HOUR),
}


def table(sizes: Sizes) -> Table:
    """Median bursts to find a rise, and false alarms in 10,000 path-hours without any."""
    columns = (BOOLE, LIVE, "of 13 windows", ANY)
    results = Table(("loss", *columns, f"false alarms: {BOOLE}", f"{LIVE}"))
    for before, after in RISES:
        random = np.random.default_rng(20)
        quiet = _quiet(before, random)
        risen = _statistics(_drawn(before, after, RISEN_PATHS, FOUND_CYCLES, random), before)
        bursts = {name: _median(risen[name], least) for name, least in THRESHOLDS.items()}
        false = {name: (quiet[name] >= least).sum() / QUIET_H * 1e4 for name, least in THRESHOLDS.items()}
        bound = f"{_of_any_test(before, after, random):.0f}" if before else "-"
        cells = [f"{bursts[BOOLE]:.0f}", f"{bursts[LIVE]:.0f}", f"{bursts[LIVE] / bursts[BOOLE]:.2f}", bound]
        results.rows.append((f"{before:.1%} to {after:.1%}", *cells, *(f"{rate:.1f}" for rate in false.values())))
        if bursts[LIVE] > bursts[BOOLE]:
            results.failures.append(f"{before:.1%} to {after:.1%}: the e-detector is slower than {BOOLE}")
        if false[LIVE] > 1.3:
            results.failures.append(f"{before:.1%}: {false[LIVE]:.1f} false alarms in 10,000 path-hours")
    return results


def _drawn(before: float, after: float, count: int, cycles: int, random: np.random.Generator) -> Ints:
    """Lossy bursts of each cycle: those of the longest window, and as many after the rise."""
    past = random.binomial(len(SIZES), lossy_ratio(before), (count, MINUTES[-1]))
    return np.concatenate([past, random.binomial(len(SIZES), lossy_ratio(after), (count, cycles))], axis=1)


def _statistics(lossy: Ints, before: float) -> dict[str, Floats]:
    """The statistic of each detector after each cycle beyond the longest window, of shape (paths, cycles)."""
    sums = np.concatenate([np.zeros((len(lossy), 1), dtype=np.int64), lossy.cumsum(axis=1)], axis=1)
    longest, base = int(MINUTES[-1]), round(BASE_BURSTS * lossy_ratio(before))
    bound = scipy.special.betaincinv(base + 1.0, BASE_BURSTS - base, 1.0 - 0.1 * AN_HOUR / (LOOKS_AN_HOUR * WINDOWS))
    cycles = sequential.new_cycles(tuple(60.0 * MINUTES), np.full(1, float(CYCLE_S)))[0]
    shape = (len(lossy), sums.shape[1] - longest - 1)
    statistics = {BOOLE: np.zeros(shape), LIVE: np.full(shape, -np.inf)}
    for minutes, more in zip(MINUTES.tolist(), cycles.tolist(), strict=True):
        of = len(SIZES) * minutes
        events = np.arange(of + 1, dtype=np.float64)
        # Looked up by the number of events: a window has few different ones.
        chances = scipy.special.betainc(np.maximum(events, 1e-9), of - events + 1.0, bound)
        evidence = sequential.log_evidence(events, of, base, BASE_BURSTS) + math.log(more)
        newest = sums[:, longest + 1 :] - sums[:, longest + 1 - minutes : -minutes]
        proof = np.where(events >= LEAST_EVENTS, -np.log(np.maximum(chances, 1e-300)), 0.0)
        statistics[BOOLE] = np.maximum(statistics[BOOLE], proof[newest])
        proven = np.where(events >= LEAST_EVENTS, evidence, -np.inf)
        statistics[LIVE] = np.logaddexp(statistics[LIVE], proven[newest])
    return statistics


def _quiet(ratio: float, random: np.random.Generator) -> dict[str, Floats]:
    """The largest statistic in each ten hours of paths without a rise: one alarm there at most."""
    blocks: dict[str, list[Floats]] = {BOOLE: [], LIVE: []}
    for _ in range(ROUNDS):
        statistics = _statistics(_drawn(ratio, ratio, QUIET_PATHS, 10 * BLOCK, random), ratio)
        for name, of_name in blocks.items():
            of_name.append(statistics[name].reshape(QUIET_PATHS, 10, BLOCK).max(axis=2).ravel())
    return {name: np.concatenate(of_name) for name, of_name in blocks.items()}


def _median(statistics: Floats, threshold: float) -> float:
    """The number of bursts after which half of the paths are found."""
    hits = statistics >= threshold
    first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    return float(len(SIZES) * np.median(first))


def _of_any_test(before: float, after: float, random: np.random.Generator) -> float:
    """The median bursts of the Shiryaev-Roberts procedure that knows both, with the threshold that gives the rate."""
    packets = len(SIZES) * PACKETS
    lost = np.arange(packets + 1)
    ratio = np.exp(lost * math.log(after / before) + (packets - lost) * math.log((1 - after) / (1 - before)))
    total, largest, blocks = np.zeros(QUIET_H // 100), np.zeros(QUIET_H // 100), []
    for cycle in range(1, 11 * BLOCK + 1):
        total = (1.0 + total) * ratio[random.binomial(packets, before, len(total))]
        largest = np.maximum(largest, total)
        if cycle % BLOCK == 0:
            blocks.append(largest)
            largest = np.zeros(len(total))
    least = float(np.quantile(np.concatenate(blocks[1:]), 1 - AN_HOUR * BLOCK_H))
    first = np.full(len(total), np.inf)
    for cycle in range(1, FOUND_CYCLES + 1):
        total = (1.0 + total) * ratio[random.binomial(packets, after, len(total))]
        first[(total >= least) & np.isinf(first)] = cycle
    return float(len(SIZES) * np.median(first))
