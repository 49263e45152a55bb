"""Rules on round trips and on each direction together: false alarms without a rise, and loss of one direction that the
usual loss of the other hides.

In: paths with pings, and STAMP tests of as many packets, lost independently of them. Out: alarms by rule, and the time
until half of the paths are detected.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.evaluate import findings
from monitor.alerts.scope import RuleScope
from tests.planted import paths
from tests.planted.paths import BEGAN, CYCLE_S
from tests.planted.simulated import BEFORE_CYCLES, Sizes, most_alarms
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

RULES = ("loss", "loss_regression")
FOUND_CYCLES = 240


def quiet(sizes: Sizes) -> Table:
    """Both rules without a rise: the paths lose as much in each direction, or at the threshold in one."""
    table = Table(("loss forward", "loss reverse", "path-hours", "alarms", "of a direction", "allowed"))
    cycles = sizes.quiet_hours * 3600 // CYCLE_S
    for forward, reverse in ((0.0, 0.0), (0.001, 0.001), (0.01, 0.0), (0.005, 0.005)):
        replay = Replay(*_measured(sizes.quiet_paths, np.full(1, forward), forward, reverse, cycles, seed=9), RULES)
        for now in moments(BEGAN, BEGAN + timedelta(hours=sizes.quiet_hours), CYCLE_S):
            replay.at(now)
        hours = sizes.quiet_paths * sizes.quiet_hours
        by_rule = Counter(finding.rule for _, finding in replay.findings)
        one_way = sum(DIRECTION in finding.figures for _, finding in replay.findings)
        told = ", ".join(f"{rule} {count}" for rule, count in by_rule.items()) or "none"
        ratios = (f"{forward:.1%}", f"{reverse:.1%}")
        table.rows.append((*ratios, f"{hours:,}", told, f"{one_way}", f"{hours / 1e4:.1f} each"))
        if max(by_rule.values(), default=0) > most_alarms(hours / 1e4):
            table.failures.append(f"{forward:.1%}, {reverse:.1%}: {told} in {hours:,} path-hours")
    return table


def table(sizes: Sizes) -> Table:
    """Loss forward that rises beside the usual loss of the way back."""
    results = Table(("loss forward", "usual loss reverse", "round trips alone: half", "with directions: half", "right"))
    for before, after, reverse in ((0.0, 0.003, 0.0), (0.0, 0.003, 0.005), (0.0, 0.005, 0.01)):
        rise = np.r_[np.full(BEFORE_CYCLES, before), np.full(FOUND_CYCLES, after)]
        scope, source = _measured(sizes.paths, rise, before, reverse, len(rise), seed=10)
        alone, _ = _first(replace(scope, one_way={}), source)
        together, right = _first(scope, source)
        half = [float(np.quantile(delays, 0.5, method="higher")) for delays in (alone, together)]
        texts = ["not in 4 h" if np.isinf(minutes) else f"{minutes:.0f} min" for minutes in half]
        results.rows.append((f"{before:.1%} to {after:.1%}", f"{reverse:.1%}", *texts, right))
        if reverse and not half[1] < half[0]:
            results.failures.append(f"{after:.1%} beside {reverse:.1%}: {texts[1]}, of round trips alone {texts[0]}")
    return results


def _measured(
    count: int, forward: Floats, forward_before: float, reverse: float, cycles: int, seed: int
) -> tuple[RuleScope, RecordedSource]:
    """Pings that cross both directions, and a STAMP test of each direction."""
    random = np.random.default_rng(seed)
    both = 1.0 - (1.0 - forward) * (1.0 - reverse)
    both_before = 1.0 - (1.0 - forward_before) * (1.0 - reverse)

    def source(ratio: Floats, before: float, ways: tuple[RecordedSource, ...] = ()) -> RecordedSource:
        drawn = paths.bursts(count, cycles, ratio, random)
        return RecordedSource(drawn, past=paths.past(count, before, random), ways=ways)

    ways = source(forward, forward_before), source(np.full(1, reverse), reverse)
    scope = paths.scope(paths.apart(count))
    return replace(scope, one_way=dict(scope.pinged)), source(both, both_before, ways)


def _first(scope: RuleScope, source: RecordedSource) -> tuple[Floats, str]:
    """Minutes from the rise to the first finding of each path; and how many of those of a direction name forward."""
    began = BEGAN + timedelta(seconds=(BEFORE_CYCLES - 0.5) * CYCLE_S)
    replay, first = Replay(scope, source, RULES), np.full(len(scope.pinged), np.inf)
    named: dict[int, str] = {}
    for number, now in enumerate(moments(began, began + timedelta(seconds=FOUND_CYCLES * CYCLE_S), CYCLE_S), start=1):
        for finding in findings(replay.snapshot(now), scope, RULES):
            first[finding.path_id - 1] = min(first[finding.path_id - 1], number * CYCLE_S / 60.0)
            if DIRECTION in finding.figures:
                named.setdefault(finding.path_id, finding.figures[DIRECTION])
    return first, f"{list(named.values()).count('forward')} of {len(named)}"
