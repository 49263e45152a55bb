"""The present stretch of a loss: the newest bursts between which the loss has not changed.

In: the packets sent and received in the bursts of a window, oldest first. Out: the number of the stretch's first burst.
The boundary is the likeliest between two binomial levels, as in `onset`; it counts only if the two levels are likelier
by so many nats than a single level.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CHANGE_NATS = 5.5
"""Twice this is the 0.1% point of chi-squared with one degree of freedom: about 1% over the boundaries of a window."""
ONSET_NATS = 2.0
"""For a boundary where a rise is known to be, so that only its place is in doubt."""


def present_stretch(sent: ArrayLike, received: ArrayLike, detected: int = 0) -> int:
    """The first burst after the last change of the loss; 0 without any.

    `detected` is the number of bursts that had begun when a rise was detected: it began with one of them, or before
    the window.
    """
    packets = np.asarray(sent, dtype=np.float64)
    lost = packets - np.asarray(received, dtype=np.float64)
    first = _boundary(lost[:detected], packets[:detected], ONSET_NATS, only_rises=True)
    while True:
        later = _boundary(lost[first:], packets[first:], CHANGE_NATS)
        if not later:
            return first
        first += later


def _boundary(lost: Floats, sent: Floats, least_nats: float, *, only_rises: bool = False) -> int:
    """The first burst after the likeliest change; 0 where it is less likely than that."""
    if len(sent) < 2:
        return 0
    before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
    after, of_after = lost.sum() - before, sent.sum() - of_before
    nats = _binomial(before, of_before) + _binomial(after, of_after) - _binomial(lost.sum(), sent.sum())
    if only_rises:
        nats = np.where(after * of_before > before * of_after, nats, -np.inf)
    best = int(nats.argmax())
    return best + 1 if nats[best] >= least_nats else 0


def _binomial(lost: ArrayLike, sent: ArrayLike) -> Floats:
    """The maximum log-likelihood of so many lost packets."""
    missing, of = np.asarray(lost, dtype=np.float64), np.maximum(np.asarray(sent, dtype=np.float64), 1.0)
    return np.asarray(
        scipy.special.xlogy(missing, missing / of) + scipy.special.xlogy(of - missing, 1.0 - missing / of)
    )
