"""What a path is like now: `conditions` alone decides, by the first of its rules that holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.segment import OUTSIDE

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]

# A result is overdue after so many cycles plus the time for packets, timeout and delivery.
OVERDUE_CYCLES, DELIVERY_S = 2.0, 15.0
# Time for a new test's first result; a test without a newer result has no data.
LATELY_S = 600.0
# Figures of now are of LATELY_S, or of these cycles where longer.
SHOWN_CYCLES = 3
# Outages within the longer of LATELY_S and these cycles that are called flapping.
FLAPS, FLAPS_WITHIN_CYCLES = 3, 20.0
# Of a path without a limit: as many packets are awaited as with this limit.
UNKNOWN_LIMIT = 0.01


class Condition(IntEnum):
    """Condition of a track now; a path has its tracks' highest."""

    NORMAL = 0
    AWAITED = 1
    OWN_TESTS = 2
    OVERDUE = 3
    SUSPECT = 4
    BAD = 5
    FLAPS = 6
    DEAD = 7
    SET_ASIDE = 8
    NOT_PERMITTED = 9

    @property
    def is_trouble(self) -> bool:
        least, most = TROUBLE
        return least <= self <= most


# The least and the highest condition of a path that has a problem, proven or suspected.
TROUBLE = (Condition.SUSPECT, Condition.DEAD)


# A trouble that has ended is over in these: a path in maintenance is still measured.
CALM = (Condition.NORMAL, Condition.AWAITED, Condition.SET_ASIDE)
# In these nothing is known of now.
UNKNOWN = (Condition.OWN_TESTS, Condition.OVERDUE, Condition.NOT_PERMITTED)


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """Inputs of the conditions, a value for each track; times in seconds since the epoch, -inf without any."""

    every_s: Floats
    started_s: Floats  # start of the test
    newest_s: Floats  # newest result that counts
    own_s: Floats  # newest during own tests
    failed_s: Floats  # newest that was not measured
    is_set_aside: Bools
    packets: Floats  # since the last gap
    limits: Floats
    is_dead: Bools  # the newest bursts are an outage
    outages: Floats  # number that ended lately
    is_above: Bools  # loss above its limit
    is_unusual: Bools  # loss above the path's usual
    is_part: Bools  # of a part of a path's packets; decides only on loss


def conditions(of: TrackFacts, now_s: float) -> Codes:
    late_s = OVERDUE_CYCLES * of.every_s + DELIVERY_S
    first_s = of.started_s + np.maximum(LATELY_S, late_s)
    is_overdue = now_s > np.maximum(of.newest_s + late_s, first_s * ~np.isfinite(of.newest_s))
    is_failing = (of.failed_s > of.newest_s) & (now_s - of.failed_s <= late_s)
    is_failing &= is_overdue | ~np.isfinite(of.newest_s)
    limits = np.where(np.isnan(of.limits), UNKNOWN_LIMIT, of.limits)
    is_flapping = (of.outages + of.is_dead >= FLAPS) & ~of.is_part  # outages of a part may end later than the path's
    few = of.packets < -np.log(OUTSIDE) / limits  # all answered, more would exclude a loss above
    rules = {
        Condition.NOT_PERMITTED: is_failing,
        Condition.SET_ASIDE: of.is_set_aside,
        Condition.OWN_TESTS: is_overdue & (now_s - of.own_s <= late_s),
        Condition.OVERDUE: is_overdue,
        Condition.FLAPS: is_flapping,
        Condition.DEAD: of.is_dead,
        Condition.BAD: of.is_above,
        Condition.AWAITED: few | ~np.isfinite(of.newest_s),
        Condition.SUSPECT: of.is_unusual,
    }
    decided = np.select(list(rules.values()), [np.int8(code) for code in rules], np.int8(Condition.NORMAL))
    is_loss = (decided >= TROUBLE[0]) & (decided <= TROUBLE[1])
    of_part = np.where(is_loss, np.minimum(decided, Condition.BAD), Condition.NORMAL)
    return np.where(of.is_part, of_part, decided).astype(np.int8)


def delay_conditions(is_longer: Bools, has_finding: Bools, newest_s: Floats, every_s: Floats, now_s: float) -> Codes:
    """The condition of each RTT track: longer is bad once a rule has found it; without newer replies the loss track
    decides."""
    is_current = now_s <= newest_s + OVERDUE_CYCLES * every_s + DELIVERY_S
    condition = np.where(has_finding, np.int8(Condition.BAD), np.int8(Condition.SUSPECT))
    return np.where(is_longer & is_current, condition, np.int8(Condition.NORMAL)).astype(np.int8)


def test_condition(every_s: float, started_s: float, newest_s: float, now_s: float) -> Condition:
    """The condition of a path with only throughput tests; `newest_s` is NaN before the first result."""
    late_s = OVERDUE_CYCLES * every_s + DELIVERY_S
    if np.isnan(newest_s):
        return Condition.AWAITED if now_s <= started_s + max(LATELY_S, late_s) else Condition.OVERDUE
    return Condition.NORMAL if now_s <= newest_s + late_s else Condition.OVERDUE


def flaps_within_s(every_s: float) -> float:
    """The longest time since an outage ended, for a path to count as flapping."""
    return max(LATELY_S, FLAPS_WITHIN_CYCLES * every_s)
