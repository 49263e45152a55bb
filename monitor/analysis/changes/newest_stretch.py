"""The newest stretch of bursts without a change of the loss, for forecasts: the likeliest boundary between two binomial
levels, as in `onset`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial
from monitor.analysis.changes.present import CHANGE_NATS, change_nats

Floats = NDArray[np.float64]

# For a boundary where a rise is known to be, so that only its place is in doubt.
ONSET_NATS = 2.0


def present_stretch(sent: ArrayLike, received: ArrayLike, detected: int = 0, together: float = 1.0) -> int:
    """The first burst after the last change of the loss; 0 without any.

    `detected` is the number of bursts begun when a rise was detected. `together` is the least dispersion of the losses.
    """
    packets = np.asarray(sent, dtype=np.float64)
    return _boundaries(packets - np.asarray(received, dtype=np.float64), packets, detected, together)[-1]


def newest_run(hits: ArrayLike) -> int:
    """First sample of the newest run: the start with the most hits less misses after it, the earliest of several."""
    gains = np.where(np.asarray(hits, dtype=np.bool_), 1, -1)[::-1].cumsum()
    return len(gains) - 1 - int(np.flatnonzero(gains == gains.max())[-1])


def _boundaries(lost: Floats, packets: Floats, detected: int, together: float) -> list[int]:
    boundaries = [_boundary(lost[:detected], packets[:detected], ONSET_NATS, together, only_rises=True)]
    while later := _boundary(lost[boundaries[-1] :], packets[boundaries[-1] :], CHANGE_NATS, together):
        boundaries.append(boundaries[-1] + later)
    return boundaries


def _boundary(lost: Floats, sent: Floats, least_nats: float, together: float, *, only_rises: bool = False) -> int:
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
