"""The time until the loss rule fires with the pings of the lab, and the time that its page promises.

The rule runs on snapshots of simulated bursts, of other random numbers than those of the promise.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Replay
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.loss_times import LONGEST_S, PingCadence, detection_time
from monitor.alerts.evaluate import findings
from tests.planted import paths
from tests.planted.paths import BEGAN
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

LAB = PingCadence(every_s=10.0, bursts=2, packets=10)
LAB_RULE = LossRule(above_ratio=0.01, window_s=120)
CLEAN_CYCLES = 60
LOSSES = (0.015, 0.02, 0.03, 0.05, 0.1, 0.2)
SLACK = 0.06
"""Below the share within the promised time, 0.9: three standard errors of 200 paths. Times are whole cycles, so that a
large loss has more paths within it."""


def table(sizes: Sizes) -> Table:
    """For each loss the promise, and the time of the rule itself."""
    results = Table(("loss", "promised: half", "9 of 10", "the rule: half", "9 of 10", "within the 9 of 10"))
    for ratio in LOSSES:
        promised, fired_s = detection_time(ratio, LAB_RULE, LAB), first_finding_s(ratio, sizes.paths)
        half_s, most_s = (float(np.quantile(fired_s, share, method="higher")) for share in (0.5, 0.9))
        within = float((fired_s <= (promised.most_s or LONGEST_S)).mean())
        texts = (_text(promised.half_s), _text(promised.most_s), _text(half_s), _text(most_s), f"{within:.0%}")
        results.rows.append((f"{ratio:.1%}", *texts))
        expected = 0.9 if promised.most_s is not None else promised.share
        if within < expected - SLACK:
            results.failures.append(f"{ratio:.1%}: {within:.0%} within the promised time, {expected:.0%} expected")
    return results


def first_finding_s(ratio: float, count: int, seed: int = 17, under_load: Collection[int] = ()) -> Floats:
    """The seconds from the loss to the first finding of each path; infinite after an hour. The cycles `under_load`,
    numbered from the loss on, do not count."""
    random, cycles = np.random.default_rng(seed), CLEAN_CYCLES + round(LONGEST_S / LAB.every_s)
    shape = (count, cycles, LAB.bursts)
    losses = np.where(np.arange(cycles) < CLEAN_CYCLES, 0.0, ratio)[np.newaxis, :, np.newaxis, np.newaxis]
    rtts_ms = np.where(random.random((*shape, LAB.packets)) < losses, np.nan, paths.RTT_MS)
    at_s = BEGAN.timestamp() + LAB.every_s * (np.arange(cycles)[np.newaxis, :, np.newaxis] + np.zeros(shape))
    is_counted = np.broadcast_to(~np.isin(np.arange(cycles) - CLEAN_CYCLES, list(under_load))[:, np.newaxis], shape)
    bursts = RecordedBursts.from_columns(
        np.broadcast_to(np.arange(1, count + 1)[:, np.newaxis, np.newaxis], shape)[is_counted],
        at_s[is_counted],
        rtts_ms[is_counted],
        np.broadcast_to(np.array(paths.SIZES), shape)[is_counted],
    )
    alerts = {"loss": {"above_ratio": LAB_RULE.above_ratio, "window_s": LAB_RULE.window_s}}
    scope = paths.scope(paths.apart(count, every_s=round(LAB.every_s)), alerts=alerts)
    runner, first_s = Replay(scope, RecordedSource(bursts), ("loss",)), np.full(count + 1, np.inf)
    for cycle in range(1, round(LONGEST_S / LAB.every_s) + 1):
        now = BEGAN + timedelta(seconds=(CLEAN_CYCLES + cycle) * LAB.every_s - 1.0)
        for finding in findings(runner.snapshot(now), scope, ("loss",)):
            first_s[finding.path_id] = min(first_s[finding.path_id], cycle * LAB.every_s)
        if np.isfinite(first_s[1:]).all():
            break
    return first_s[1:]


def _text(seconds: float | None) -> str:
    if seconds is None or math.isinf(seconds):
        return f"over {LONGEST_S / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
