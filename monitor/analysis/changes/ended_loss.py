"""When a loss is over, and when it begins again after that.

In: the newest packets of paths since their last lost one, with the loss before; packets of bursts since an end. Out:
whether they prove the end, and the first burst of a loss after it. Both want a proof, so that the statement neither
comes while the loss lasts, nor goes for a packet that a healthy path loses now and then.

The end: so many packets with so few losses have a probability of 1 - CONFIDENCE at half of the incident's loss, and at
that of the stretch before them; where nothing was lost, the upper bound of the loss is below half of that before. A new
loss: the newest bursts are likelier by AGAIN_NATS with a loss of their own than with the loss that a path may have
without an incident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.99
ENDED_SHARE = 0.5
"""Of the loss before: below this share of it a loss is over."""
OWN_NATS = 0.5
"""Where the packets of several paths prove the end, each has so much of a proof of its own: one of them may go on."""
SAME_END_S = 20.0
"""Two cycles of ten seconds: of a loss that ends on several paths, the last lost packets are as near."""
LIKELY_SHARE = 0.5
"""Of the nats of the likeliest run: the last burst of the loss may have lost as few packets as a healthy path."""
AGAIN_NATS = 6.0
"""Of a loss after the end; as for a change (`present.CHANGE_NATS`), it is looked for every ten seconds."""
USUAL_SHARE = 0.125
"""Of the loss before: so much may be lost after an end, or the alert threshold where that is less."""


@dataclass(frozen=True, slots=True)
class CleanRun:
    """The newest packets of a path, all or nearly all of them answered, in bursts since `since_s`; the loss in the same
    stretch before them, and how many times more its losses vary than independent ones."""

    sent: float
    since_s: float
    lost: float = 0.0
    before_ratio: float = 0.0
    together: float = 1.0

    def nats(self, ratio: float) -> float:
        """If the loss were still that, so few lost packets would have about the probability exp(-nats)."""
        counts = (np.array([count]) for count in (self.lost, self.sent, ratio))
        return float(nats_against(*counts)[0]) / self.together

    def proof(self, before_ratio: float) -> float:
        """The nats against half of the incident's loss, and against that of its last stretch, whichever are fewer."""
        return min(self.nats(ENDED_SHARE * before_ratio), self.nats(self.before_ratio))


def clean_run(begins_s: Floats, sent: Floats, received: Floats, together: float) -> CleanRun | None:
    """The newest of the likely ones that follow a burst with a loss, in which at most USUAL_SHARE of the loss before is
    lost; None without any. The last lost packet, which ends the time before, does not count in its loss."""
    lost = sent - received
    firsts = np.flatnonzero(lost) + 1
    firsts = firsts[firsts < len(lost)]
    packets, few = (of[::-1].cumsum()[::-1][firsts] for of in (sent, lost))
    before = np.minimum((lost.sum() - few - 1.0) / np.maximum(sent.sum() - packets - 1.0, 1.0), 1.0)
    is_clean = (packets > 0) & (few <= USUAL_SHARE * before * packets)
    if not is_clean.any():
        return None
    nats = np.where(is_clean, nats_against(few, packets, before), -1.0)
    newest = int(np.flatnonzero(nats >= LIKELY_SHARE * nats.max())[-1])
    sent_since, since_s = float(packets[newest]), float(begins_s[firsts[newest]])
    return CleanRun(sent_since, since_s, float(few[newest]), float(before[newest]), together)


def end_is_proven(runs: Sequence[CleanRun | None], before_ratios: Sequence[float]) -> list[bool]:
    """Whether the loss of each of these paths of an incident is over, each with its loss before: by its own packets, or
    by those of all paths together where all have ended at the same time."""
    clean, enough = [run for run in runs if run is not None], -log(1.0 - CONFIDENCE)
    proofs = [
        0.0 if run is None else run.proof(before_ratio) for run, before_ratio in zip(runs, before_ratios, strict=True)
    ]
    begins_s = [run.since_s for run in clean]
    end_together = len(clean) == len(runs) > 1 and max(begins_s) - min(begins_s) <= SAME_END_S
    least = OWN_NATS if end_together and sum(proofs) >= enough else enough
    return [proof >= least for proof in proofs]


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
