"""How likely a stretch with few lost packets, or none, is by chance beside a loss that goes on.

In: packets sent and lost of stretches of bursts. Out: a probability, exact for losses that are independent (a Poisson
process), and the number by which counts are divided where packets are lost together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial

Floats = NDArray[np.float64]


def chance_of_gap(lost: ArrayLike, sent: ArrayLike, few: ArrayLike, packets: ArrayLike, together: float) -> Floats:
    """The probability that at most `few` of so many packets next to a stretch are lost if its loss goes on.

    The stretch begins and ends with a lost packet, so that its `lost` packets are one interval less. Of independent
    losses the place of each of these is uniform over both stretches, whatever the loss is: binomial. 1 where the
    stretch has lost too few.
    """
    intervals = np.asarray(lost, dtype=np.float64) / together - 1.0
    of, missing, other = (np.asarray(counts, dtype=np.float64) for counts in (sent, few, packets))
    share = of / np.maximum(of + other, 1.0)
    chance = scipy.special.betainc(np.maximum(intervals, np.finfo(np.float64).tiny), missing / together + 1.0, share)
    return np.where(intervals > 0.0, chance, 1.0)


def lost_together(parts: Sequence[tuple[Floats, Floats]]) -> float:
    """How many times more the losses of these parts vary than independent ones, each part with a loss of its own; at
    least 1. `parts` are packets sent and lost of their bursts. By the bursts that lost any, of all parts together, or
    by `binomial.dispersion`, whichever is more."""
    lossy = [(sent, lost) for sent, lost in parts if lost.any()]
    if not lossy:
        return 1.0
    had = sum(np.count_nonzero(lost) for _, lost in lossy)
    expected = sum(
        len(sent) * (1.0 - (1.0 - lost.sum() / sent.sum()) ** (sent.sum() / len(sent))) for sent, lost in lossy
    )
    return max(float(expected / had), binomial.dispersion(lossy))
