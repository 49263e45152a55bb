"""Where an earlier loss ended for certain, before the loss that was detected.

In: packets sent and received of bursts in the order of time, up to the detection. Out: the first burst after the end of
the newest earlier loss. Its end is a gap between two losses, with so few lost packets that neither the loss before nor
that after it goes on in it: each would leave such a gap with CHANCE at most, at any of the places where the gap may be.
The bursts after it tell the onset of the loss that was detected.

The places: where the loss has changed, these are the gaps at the boundaries that are likely for the change, since a
loss that became weaker or stronger without an end has a gap just there no more often than elsewhere. Where it has not,
all boundaries are likely, and the places are all gaps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.changes.gap import chance_of_gap, lost_together
from monitor.analysis.changes.loss_again import USUAL_SHARE, loss_again, usual_ratio
from monitor.analysis.changes.onset import LIKELY_NATS, onset_of_events
from monitor.analysis.changes.present import change_nats

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

CHANCE = 0.05
"""That a loss without an end is cut: as its onset is outside of its 95% interval."""
LEAST_BURSTS = 6
"""Of a gap: fewer may be the replies between two parts of an outage."""
MOST_STRAYS = 2
"""Bursts of a gap that lose a packet by chance."""


def end_of_earlier(sent: ArrayLike, received: ArrayLike, threshold_ratio: float | None) -> int:
    """The first burst after the newest end of an earlier loss; 0 without any."""
    packets = np.asarray(sent, dtype=np.float64)
    lost, start = packets - np.asarray(received, dtype=np.float64), 0
    while (onset := onset_of_events(lost[start:] > 0, packets[start:])) is not None:
        first = start + onset.at
        end = _newest_end(packets[first:], lost[first:], threshold_ratio)
        if end is None:
            break
        start = first + end
    return start


def _newest_end(sent: Floats, lost: Floats, threshold_ratio: float | None) -> int | None:
    """The first burst of the newest gap in these bursts since an onset that proves an end, and is followed by another
    loss."""
    ends = []
    for strays in range(MOST_STRAYS + 1):
        first, end, before, chances = _gaps(sent, lost, strays)
        for place in np.flatnonzero(chances <= CHANCE)[::-1].tolist():
            earlier, after = slice(0, int(first[place])), slice(int(end[place]), None)
            together = lost_together([(sent[part], lost[part]) for part in (earlier, after)])
            if _chance_anywhere(sent, lost, earlier, after, together) > CHANCE:
                continue
            usual = usual_ratio(float(before[place]), threshold_ratio)
            if loss_again(sent[after], (sent - lost)[after], usual, 1.0) is not None:
                ends.append(int(first[place]))
                break
    return max(ends, default=None)


def _gaps(sent: Floats, lost: Floats, strays: int) -> tuple[Places, Places, Floats, Floats]:
    """The first burst of each stretch after a burst with a loss, with so many other lossy bursts in it; that after it;
    the loss before it, without its last lost packet, which ends that time; and the chance of such a gap at this place,
    of independent losses."""
    lossy = np.flatnonzero(lost)
    first, end = lossy[: max(len(lossy) - 1 - strays, 0)] + 1, lossy[1 + strays :]
    sums, losses = (np.concatenate([[0.0], counts.cumsum()]) for counts in (sent, lost))
    few, packets = losses[end] - losses[first], sums[end] - sums[first]
    before = np.clip((losses[first] - 1.0) / np.maximum(sums[first] - 1.0, 1.0), 0.0, 1.0)
    chances = np.maximum(
        chance_of_gap(losses[first], sums[first], few, packets, 1.0),
        chance_of_gap(losses[-1] - losses[end], sums[-1] - sums[end], few, packets, 1.0),
    )
    is_gap = (end - first >= LEAST_BURSTS) & (few <= USUAL_SHARE * before * packets)
    return first, end, before, np.where(is_gap, chances, 1.0)


def _chance_anywhere(sent: Floats, lost: Floats, earlier: slice, after: slice, together: float) -> float:
    """The chance of a gap between these stretches, at any of the places where it may be: 1 at most."""
    gap = slice(earlier.stop, after.start)
    few, packets = lost[gap].sum(), sent[gap].sum()
    at_place = max(
        float(chance_of_gap(lost[part].sum(), sent[part].sum(), few, packets, together)) for part in (earlier, after)
    )
    return min(_places(sent, lost, gap, together) * at_place, 1.0)


def _places(sent: Floats, lost: Floats, gap: slice, together: float) -> int:
    """The gaps that begin at a likely boundary of the change of the loss; all where this gap is at none."""
    lossy, nats = np.flatnonzero(lost), change_nats(lost, sent)
    likely = np.flatnonzero(nats >= nats.max() - LIKELY_NATS * together) + 1
    if likely[0] > gap.stop or likely[-1] < gap.start:
        return len(lossy)
    return max(int(((lossy + 1 >= likely[0]) & (lossy + 1 <= likely[-1])).sum()), 1)
