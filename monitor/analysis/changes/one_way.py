"""Whether a change of a one-way delay is the network's, and of this direction alone.

In: raw one-way delays of both directions before and after a change, which contain the offset of the clocks of both
ends: positive in this direction, negative in the other. Out: whether the other direction stayed as it was. A step or
drift of a clock changes both directions by as much, with opposite signs, so that the round trip stays; a change in both
directions of the network changes the round trip by more than this direction.

Two exact rank tests (Mann and Whitney 1947), as for a proof of equivalence (D. Schuirmann, Journal of Pharmacokinetics
and Biopharmaceutics 15, 1987): both directions together, which contain no clock, moved as well; and the other direction
did not move along by half as much. The first is strict, and shown of the other direction too, unless the clocks' own
bounds exclude that their offset has changed by more than half of the change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.alarms.ranks import at_most

Floats = NDArray[np.float64]

SHARE_OF_CLOCK = 0.5
"""The other direction has not moved against this one by so much of the change: both together moved by the rest."""
SHARE_OF_CLOCK_WITH_BOUNDS = 0.9
"""A clock alone leaves both together as they were."""
SHARE_ALONG = 0.5
SHARE_BY_BOUNDS = 0.5
"""The most by which the clocks may have changed by their bounds, of the change: the rest is the network's."""
CLOCK_CHANCE = 1e-5
CLOCK_CHANCE_WITH_BOUNDS = 0.01
"""Probability of taking a step of a clock for one of the network. With bounds that exclude it, it takes a clock that is
wrong about its own error as well."""
ALONG_CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class OtherDirection:
    """The raw delays of the other direction before and after a change of this direction by `change_ms`; the same delays
    of both directions together; and the most by which the clocks can have changed this direction by their own bounds,
    infinite without bounds."""

    before_ms: Floats
    after_ms: Floats
    both_before_ms: Floats
    both_after_ms: Floats
    change_ms: float
    clock_change_ms: float = np.inf


def is_alone(other: OtherDirection) -> bool:
    """Whether the change is the network's, and the other direction has not changed as well."""
    return not is_clock(other) and not moved_along(other)


def is_clock(other: OtherDirection) -> bool:
    """Whether the change may be a clock's."""
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
    """The probability that the first are so much below the others (above for a negative sign) by chance."""
    low, high = (low_ms, high_ms) if sign >= 0.0 else (-low_ms, -high_ms)
    wrong = int((low[:, np.newaxis] >= high[np.newaxis, :]).sum())
    return at_most(wrong, len(low), len(high))
