"""The time until the loss rule fires, simulated for independent packets: `tests.scored planted loss-times`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from monitor.alerts.detect.rules.loss import ALARMS_AN_HOUR, COMPARISONS, MIN_LOSSY_BURSTS_TO_FIRE, LossRule, chances
from monitor.alerts.detect.rules.windows import LOOKS_A_CYCLE, RECENT_WINDOWS
from monitor.alerts.detect.snapshot import RECENT_S, RECENT_STEPS
from monitor.arrays import Floats, Ints

PATHS = 400
# Of the simulation: nearer to the threshold a loss takes hours.
LONGEST_S = 3600.0
CLEAN_S = 3600.0

# Begin and end of throughput tests, in seconds since the loss began.
Periods = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class PingCadence:
    every_s: float
    bursts: int  # in a cycle
    packets: int  # in a burst
    alarm_share: float = 1.0  # the round trips' share of false alarms (`Snapshot.alarm_shares`)


@dataclass(frozen=True, slots=True)
class DetectionTime:
    """Seconds until paths with this loss have a finding; None beyond `LONGEST_S`."""

    half_s: float | None  # half of the paths
    most_s: float | None  # nine of ten paths
    share: float  # paths with a finding within `LONGEST_S`


@lru_cache(maxsize=64)
def detection_time(loss_ratio: float, rule: LossRule, pings: PingCadence, tests: Periods = ()) -> DetectionTime:
    """Simulate the time until the rule fires, without packets sent during `tests`; takes a second of CPU time near the
    threshold."""
    fired_s = _fired_s(loss_ratio, rule, pings, tests)
    half_s, most_s = (float(np.quantile(fired_s, share, method="higher")) for share in (0.5, 0.9))
    share = float(np.isfinite(fired_s).mean())
    return DetectionTime(half_s if math.isfinite(half_s) else None, most_s if math.isfinite(most_s) else None, share)


def packets_counted(pings: PingCadence, cycles: int, tests: Periods) -> Ints:
    """Packets of each burst sent outside `tests`, of shape (cycles,), if spread evenly over its cycle."""
    packet_s = pings.every_s / pings.packets
    sent_s = (np.arange(cycles * pings.packets) + 0.5) * packet_s
    is_counted = np.ones(len(sent_s), np.bool_)
    for since_s, until_s in tests:
        is_counted &= (sent_s < since_s) | (sent_s > until_s)
    counted: Ints = is_counted.reshape(cycles, pings.packets).sum(axis=1)
    return counted


def _fired_s(loss_ratio: float, rule: LossRule, pings: PingCadence, tests: Periods) -> Floats:
    before, cycles = (math.ceil(length_s / pings.every_s) for length_s in (CLEAN_S, LONGEST_S))
    packets = packets_counted(pings, cycles, tests)
    shape = (PATHS, cycles, pings.bursts)
    drawn = np.random.default_rng(1).binomial(packets[:, np.newaxis], loss_ratio, shape)
    full = np.full(before, pings.packets)
    sent = pings.bursts * np.r_[0, np.r_[full, packets].cumsum()]
    bursts = pings.bursts * np.r_[0, (np.r_[full, packets] > 0).cumsum()]
    clean = np.zeros((PATHS, before + 1))
    lost = np.c_[clean, drawn.sum(axis=2).cumsum(axis=1)]
    lossy = np.c_[clean, (drawn > 0).sum(axis=2).cumsum(axis=1)]
    steps_s = [steps * RECENT_S / RECENT_STEPS for steps in RECENT_WINDOWS]
    windows_s = {rule.window_s, *(length_s for length_s in steps_s if length_s >= rule.window_s / 2)}
    lengths = [max(1, int(window_s / pings.every_s)) for window_s in windows_s if window_s <= CLEAN_S]
    allowed = ALARMS_AN_HOUR * pings.alarm_share / (LOOKS_A_CYCLE * 3600.0 / pings.every_s * COMPARISONS)
    fired_s = np.full(PATHS, np.inf)
    for end in range(before + 1, before + cycles + 1):
        left = np.flatnonzero(np.isinf(fired_s))
        if not len(left):
            break
        for length in lengths:
            had, missing = (column[left, end] - column[left, end - length] for column in (lossy, lost))
            of, packets_sent = (float(column[end] - column[end - length]) for column in (bursts, sent))
            chance = chances(of, had, packets_sent, missing, rule.above_ratio)
            is_hit = (chance <= allowed) & (had >= MIN_LOSSY_BURSTS_TO_FIRE)
            fired_s[left[is_hit]] = (end - before) * pings.every_s
    return fired_s
