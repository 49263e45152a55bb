"""The newest stretch of bursts in which the loss has not changed, as a forecast needs it.

In: packets sent and received of the newest bursts, oldest first. Out: the first burst of the stretch. Its boundary is
the likeliest between two binomial levels, as in `onset`; it counts only if the two levels are likelier by so many nats
than a single level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial
from monitor.analysis.changes.present import CHANGE_NATS, change_nats

Floats = NDArray[np.float64]

ONSET_NATS = 2.0
"""For a boundary where a rise is known to be, so that only its place is in doubt."""


def present_stretch(sent: ArrayLike, received: ArrayLike, detected: int = 0, together: float = 1.0) -> int:
    """The first burst after the last change of the loss; 0 without any.

    `detected` is the number of bursts that had begun when a rise was detected: it began with one of them, or before
    the window. `together` is the least dispersion of the losses.
    """
    packets = np.asarray(sent, dtype=np.float64)
    return _boundaries(packets - np.asarray(received, dtype=np.float64), packets, detected, together)[-1]


def newest_run(hits: ArrayLike) -> int:
    """The first sample of the newest run of hits, which may have a few others in it: the beginning of the samples with
    the most hits less others, the longest of several."""
    gains = np.where(np.asarray(hits, dtype=np.bool_), 1, -1)[::-1].cumsum()
    return len(gains) - 1 - int(np.flatnonzero(gains == gains.max())[-1])


def _boundaries(lost: Floats, packets: Floats, detected: int, together: float) -> list[int]:
    """The first bursts of all stretches; the first of all is 0, or that after the rise."""
    boundaries = [_boundary(lost[:detected], packets[:detected], ONSET_NATS, together, only_rises=True)]
    while later := _boundary(lost[boundaries[-1] :], packets[boundaries[-1] :], CHANGE_NATS, together):
        boundaries.append(boundaries[-1] + later)
    return boundaries


def _boundary(lost: Floats, sent: Floats, least_nats: float, together: float, *, only_rises: bool = False) -> int:
    """The first burst after the likeliest change; 0 where it is less likely than that."""
    first, nats = likeliest(lost, sent, only_rises=only_rises)
    if nats < least_nats * together:
        return 0
    within = binomial.dispersion([(sent[:first], lost[:first]), (sent[first:], lost[first:])])
    return first if nats >= least_nats * within else 0


def likeliest(lost: Floats, sent: Floats, *, only_rises: bool = False) -> tuple[int, float]:
    """The first burst after the likeliest change, and how many nats likelier it is than none."""
    if len(sent) < 2:
        return 0, -np.inf
    nats = change_nats(lost, sent)
    if only_rises:
        before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
        after, of_after = lost.sum() - before, sent.sum() - of_before
        nats = np.where(after * of_before > before * of_after, nats, -np.inf)
    return int(nats.argmax()) + 1, float(nats.max())
