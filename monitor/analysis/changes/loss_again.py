"""When a loss begins again after its end, which few packets that a healthy path loses are not.

In: packets of bursts since an end. Out: the first burst of a loss after it: the newest bursts are likelier by
AGAIN_NATS with a loss of their own than with the loss that a path may have without an incident.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

AGAIN_NATS = 6.0
"""Of a loss after the end; as for a change (`present.CHANGE_NATS`), it is looked for every ten seconds."""
USUAL_SHARE = 0.125
"""Of the loss before: so much may be lost after an end, or the alert threshold where that is less."""


def loss_again(sent: ArrayLike, received: ArrayLike, usual_ratio: float, together: float) -> int | None:
    """The first of these bursts, oldest first, with which a loss begins that is proven above `usual_ratio`; None
    without one."""
    packets = np.asarray(sent, dtype=np.float64)
    missing = packets - np.asarray(received, dtype=np.float64)
    lost, of = missing[::-1].cumsum()[::-1], np.maximum(packets[::-1].cumsum()[::-1], 1.0)
    nats = np.where(lost > usual_ratio * of, nats_against(lost, of, np.full(len(of), usual_ratio)), 0.0)
    if not len(nats) or nats.max() < AGAIN_NATS * together:
        return None
    return int(nats.argmax())


def usual_ratio(before_ratio: float, threshold_ratio: float | None) -> float:
    """The loss that a path may have after an end: up to the alert threshold, but far below the loss before."""
    share = USUAL_SHARE * before_ratio
    return share if threshold_ratio is None else min(share, threshold_ratio)


def nats_against(lost: Floats, sent: Floats, ratio: Floats | float) -> Floats:
    """How much likelier so many lost packets are with the loss of their own than with this one."""
    own = lost / np.maximum(sent, 1.0)
    other = np.clip(ratio, 1e-9, 1.0 - 1e-9)
    return np.asarray(
        scipy.special.xlogy(lost, own / other) + scipy.special.xlogy(sent - lost, (1.0 - own) / (1.0 - other))
    )
