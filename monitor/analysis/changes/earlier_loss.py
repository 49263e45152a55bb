"""Where an earlier loss ended for certain, before the loss that was detected.

In: packets sent and received of bursts in the order of time, up to the detection. Out: the first burst after the end of
the newest earlier loss. Its end is proven as that of an incident's loss is (`ended_loss`): so few packets are lost
after it, and then as many again, that it had not only become weaker. The bursts after it tell the onset of the loss
that was detected.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial
from monitor.analysis.changes.ended_loss import (
    CONFIDENCE,
    ENDED_SHARE,
    USUAL_SHARE,
    loss_again,
    nats_against,
    usual_ratio,
)
from monitor.analysis.changes.onset import onset_of_events

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Counts = tuple[Floats, Floats]
"""Packets lost and sent."""

LEAST_BURSTS = 6
"""Of a gap: fewer may be the replies between two parts of an outage."""
CLUSTERED = 1.25
"""From this dispersion on losses are taken as lost together: that of the few bursts of a short loss varies itself."""
MOST_STRAYS = 2
"""Bursts of a gap that lose a packet by chance."""


def end_of_earlier(sent: ArrayLike, received: ArrayLike, threshold_ratio: float | None) -> int:
    """The first burst after the newest end of an earlier loss; 0 without any."""
    packets = np.asarray(sent, dtype=np.float64)
    lost, start = packets - np.asarray(received, dtype=np.float64), 0
    while (onset := onset_of_events(lost[start:] > 0)) is not None:
        end = _newest_end(packets[start:], lost[start:], onset.at, threshold_ratio)
        if end is None:
            break
        start += end
    return start


def _newest_end(sent: Floats, lost: Floats, onset: int, threshold_ratio: float | None) -> int | None:
    """The first burst of the newest gap after this onset that proves an end, and is followed by another loss."""
    ends = []
    for strays in range(MOST_STRAYS + 1):
        first, end, before, nats = _gaps(sent, lost, onset, strays)
        for place in np.flatnonzero(nats >= 1.0)[::-1].tolist():
            earlier, after = slice(onset, int(first[place])), slice(int(end[place]), None)
            together = _together(sent, lost, earlier, after)
            if together >= CLUSTERED and nats[place] < together:
                continue
            usual = usual_ratio(float(before[place]), threshold_ratio)
            if loss_again(sent[after], (sent - lost)[after], usual, 1.0) is not None:
                ends.append(int(first[place]))
                break
    return max(ends, default=None)


def _together(sent: Floats, lost: Floats, *parts: slice) -> float:
    """How many times more the losses of these stretches vary than independent ones; of few bursts by their clusters."""
    packets, missing = sent[parts[0]], lost[parts[0]]
    clusters = binomial.clustering(len(packets), np.count_nonzero(missing), packets.sum(), missing.sum())
    return max(float(clusters), binomial.dispersion([(sent[part], lost[part]) for part in parts]))


def _gaps(sent: Floats, lost: Floats, onset: int, strays: int) -> tuple[Places, Places, Floats, Floats]:
    """The first burst of each stretch after a burst with a loss, with so many other lossy bursts in it; that after it;
    the loss before it since the onset, without its last lost packet, which ends that time; and how many times its nats
    are those of a proof: against half of the loss before, and for any of so many gaps against the same loss in it and
    before it, and in it and after it, as a weaker loss goes on without an end."""
    lossy = onset + np.flatnonzero(lost[onset:])
    first, end = lossy[: max(len(lossy) - 1 - strays, 0)] + 1, lossy[1 + strays :]
    sums, losses = (np.concatenate([[0.0], counts.cumsum()]) for counts in (sent, lost))
    gap = losses[end] - losses[first], sums[end] - sums[first]
    earlier = losses[first] - losses[onset] - 1.0, np.maximum(sums[first] - sums[onset] - 1.0, 1.0)
    later = losses[-1] - losses[end], sums[-1] - sums[end]
    before = np.clip(earlier[0] / earlier[1], 0.0, 1.0)
    is_gap = (end - first >= LEAST_BURSTS) & (gap[0] <= USUAL_SHARE * before * gap[1]) & (before > 0.0)
    enough = -log(1.0 - CONFIDENCE)
    of_any = enough + np.log(np.arange(1, len(first) + 1))
    nats = np.fmin.reduce(
        [
            nats_against(*gap, ENDED_SHARE * before) / enough,
            _apart(gap, earlier) / of_any,
            _apart(gap, later) / of_any,
        ]
    )
    return first, end, before, np.where(is_gap, nats, 0.0)


def _apart(gap: Counts, other: Counts) -> Floats:
    """How much likelier a gap and another stretch are with a loss of their own than with the same."""
    both = np.clip((gap[0] + other[0]) / (gap[1] + other[1]), 0.0, 1.0)
    return nats_against(*gap, both) + nats_against(*other, both)
