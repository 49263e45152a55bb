"""Whether a change of a one-way delay is the network's, and of this direction alone, in raw delays with the clock
offset.

Two exact rank tests, as for a proof of equivalence (D. Schuirmann 1987): both directions together moved, the other did
not by half as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.alarms.ranks import at_most
from monitor.arrays import Floats

# Bound on the other direction's move against this one, as share of the change.
SHARE_OF_CLOCK = 0.5
# A clock alone leaves both together as they were.
SHARE_OF_CLOCK_WITH_BOUNDS = 0.9
SHARE_ALONG = 0.5
# Most change of the clocks by their bounds, as share of the change.
SHARE_BY_BOUNDS = 0.5
CLOCK_CHANCE = 1e-5
# Probability of taking a clock step for the network's; with bounds, the clock's error estimate must be wrong as well.
CLOCK_CHANCE_WITH_BOUNDS = 0.01
ALONG_CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class OtherDirection:
    """Raw delays of the other direction before and after a change of this direction."""

    before_ms: Floats
    after_ms: Floats
    both_before_ms: Floats  # of both directions together
    both_after_ms: Floats
    change_ms: float  # of this direction
    clock_change_ms: float = np.inf  # the most by the clocks' own bounds; infinite without bounds


def is_alone(other: OtherDirection) -> bool:
    """Whether the change is the network's, and the other direction has not changed as well."""
    return not is_clock(other) and not moved_along(other)


def is_clock(other: OtherDirection) -> bool:
    is_bounded = other.clock_change_ms <= SHARE_BY_BOUNDS * abs(other.change_ms)
    share = SHARE_OF_CLOCK_WITH_BOUNDS if is_bounded else SHARE_OF_CLOCK
    least_ms = (1.0 - share) * other.change_ms
    chance = _chance_of_order(other.both_before_ms, other.both_after_ms - least_ms, other.change_ms)
    if is_bounded:
        return chance > CLOCK_CHANCE_WITH_BOUNDS
    margin_ms = share * other.change_ms
    of_other = _chance_of_order(other.before_ms, other.after_ms + margin_ms, other.change_ms)
    return max(chance, of_other) > CLOCK_CHANCE


def moved_along(other: OtherDirection) -> bool:
    """Whether the other direction may have changed in the same sense, by half as much or more."""
    margin_ms = SHARE_ALONG * other.change_ms
    return _chance_of_order(other.after_ms - margin_ms, other.before_ms, other.change_ms) > ALONG_CHANCE


def _chance_of_order(low_ms: Floats, high_ms: Floats, sign: float) -> float:
    low, high = (low_ms, high_ms) if sign >= 0.0 else (-low_ms, -high_ms)
    wrong = int((low[:, np.newaxis] >= high[np.newaxis, :]).sum())
    return at_most(wrong, len(low), len(high))
