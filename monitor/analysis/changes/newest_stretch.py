"""The newest stretch of bursts without a change of the loss, for forecasts: the likeliest boundary between two binomial
levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monitor.analysis import binomial
from monitor.analysis.changes.present import CHANGE_NATS, change_nats
from monitor.arrays import Floats


def present_stretch(sent: ArrayLike, received: ArrayLike) -> int:
    """The first burst after the last change of the loss; 0 without any."""
    packets = np.asarray(sent, dtype=np.float64)
    lost, first = packets - np.asarray(received, dtype=np.float64), 0
    while later := _boundary(lost[first:], packets[first:]):
        first += later
    return first


def newest_run(hits: ArrayLike) -> int:
    """First sample of the newest run: the start with the most hits less misses after it, the earliest of several."""
    gains = np.where(np.asarray(hits, dtype=np.bool_), 1, -1)[::-1].cumsum()
    return len(gains) - 1 - int(np.flatnonzero(gains == gains.max())[-1])


def _boundary(lost: Floats, sent: Floats) -> int:
    """The first burst after the likeliest change; 0 if none is likely enough."""
    if len(sent) < 2:
        return 0
    nats = change_nats(lost, sent)
    first, likeliest_nats = int(nats.argmax()) + 1, float(nats.max())
    if likeliest_nats < CHANGE_NATS:
        return 0
    within = binomial.dispersion([(sent[:first], lost[:first]), (sent[first:], lost[first:])])
    return first if likeliest_nats >= CHANGE_NATS * within else 0
