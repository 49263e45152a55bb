"""The direction in which a path loses packets, and of a step in its delay, without synchronised clocks.

Losses (RFC 8762) are tested by Przyborowski and Wilenski's conditional test (1940). A network step changes the RTT; a
clock step changes both delays with opposite signs and the RTT not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from monitor.analysis.binomial import at_least, clustering, lower_bound
from monitor.analysis.changes.one_way import OtherDirection, is_alone
from monitor.arrays import Floats

# Loss of a normal direction: PingER's bound of an excellent path.
USUAL_LOSS_RATIO = 1e-3
# Probability of naming a single direction where both lose alike, for each of the two.
ALONE_CHANCE = 0.0025
LOSES_CONFIDENCE = 0.995
# Least probability of a normal direction's losses at its usual loss.
NORMAL_CHANCE = 0.05
# Standard errors added to the clustering: few lossy bursts tell little of it.
CLUSTERING_MARGIN = 2.0

LEAST_STEP_MS = 0.5
# Share of the RTT's step by which the other direction may change; more is both directions or a clock.
SHARE_OF_OTHER = 0.25
# On each side of a step.
LEAST_DELAYS = 5
# A step must exceed so many standard errors of its median.
NOISES = 4.0
# Delays next to the step compared by ranks: more take long.
MOST_RANKED = 30


class LostDirection(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "both"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OneWayLosses:
    """Packets that went one way."""

    lost: int
    sent: int
    bursts: int
    lossy: int  # bursts that lost a packet

    @property
    def ratio(self) -> float | None:
        """Pooled loss, None where nothing was sent."""
        return self.lost / self.sent if self.sent else None

    def plus(self, other: OneWayLosses) -> OneWayLosses:
        return OneWayLosses(
            self.lost + other.lost, self.sent + other.sent, self.bursts + other.bursts, self.lossy + other.lossy
        )


@dataclass(frozen=True, slots=True)
class DirectionLosses:
    """Packets of a path by the reflector's counters."""

    sent: int
    forward_lost: int
    reverse_lost: int
    bursts: int  # with the reflector's counters
    forward_lossy: int  # bursts that lost a packet in this direction
    reverse_lossy: int
    undecided: int = 0  # lost in an unknown direction; not in the other counts

    @property
    def forward(self) -> OneWayLosses:
        """The packets to the reflector."""
        return OneWayLosses(self.forward_lost, self.sent, self.bursts, self.forward_lossy)

    @property
    def reverse(self) -> OneWayLosses:
        """The packets that the reflector sent back."""
        return OneWayLosses(self.reverse_lost, self.sent - self.forward_lost, self.bursts, self.reverse_lossy)

    def plus(self, other: DirectionLosses) -> DirectionLosses:
        return DirectionLosses(
            self.sent + other.sent,
            self.forward_lost + other.forward_lost,
            self.reverse_lost + other.reverse_lost,
            self.bursts + other.bursts,
            self.forward_lossy + other.forward_lossy,
            self.reverse_lossy + other.reverse_lossy,
            self.undecided + other.undecided,
        )


def loss_direction(counts: DirectionLosses, before: DirectionLosses | None = None) -> LostDirection:
    """The direction of a path that loses more than usual, as `lost_direction`."""
    if before is None:
        return lost_direction(counts.forward, counts.reverse)
    return lost_direction(counts.forward, counts.reverse, before.forward, before.reverse)


def lost_direction(
    forward: OneWayLosses,
    reverse: OneWayLosses,
    forward_before: OneWayLosses | None = None,
    reverse_before: OneWayLosses | None = None,
) -> LostDirection:
    """The direction that loses more than `USUAL_LOSS_RATIO` and (if given) than before; a single one also clearly more
    than the other."""
    ahead, back = _independent(forward), _independent(reverse)
    usual = _usual(forward_before), _usual(reverse_before)
    is_lossy = _loses(*ahead, usual[0]), _loses(*back, usual[1])
    if is_lossy == (True, True):
        return LostDirection.BOTH
    if is_lossy[0] and _is_normal(*back, usual[1]) and _is_more(ahead, back):
        return LostDirection.FORWARD
    if is_lossy[1] and _is_normal(*ahead, usual[0]) and _is_more(back, ahead):
        return LostDirection.REVERSE
    return LostDirection.UNKNOWN


def _independent(losses: OneWayLosses) -> tuple[float, float]:
    """Lost and sent packets, divided by the number lost together."""
    lost, sent = losses.lost, losses.sent
    if not lost or not losses.lossy:
        return float(lost), float(sent)
    together = float(clustering(losses.bursts, losses.lossy, sent, lost))
    together = 1.0 + (together - 1.0) * (1.0 + CLUSTERING_MARGIN / losses.lossy**0.5)
    return lost / together, sent / together


def _usual(before: OneWayLosses | None) -> float:
    return max(USUAL_LOSS_RATIO, (None if before is None else before.ratio) or 0.0)


def _loses(lost: float, sent: float, usual_ratio: float) -> bool:
    return sent > 0 and float(lower_bound(lost, sent, LOSES_CONFIDENCE)) > usual_ratio


def _is_normal(lost: float, sent: float, usual_ratio: float) -> bool:
    return sent > 0 and float(at_least(lost, sent, usual_ratio)) >= NORMAL_CHANCE


def _is_more(direction: tuple[float, float], other: tuple[float, float]) -> bool:
    (lost, sent), (other_lost, other_sent) = direction, other
    even = sent / (sent + other_sent)
    return float(at_least(lost, lost + other_lost, even)) < ALONE_CHANCE


class SteppedDirection(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "both"
    CLOCK = "clock"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DelayStep:
    """A step of the one-way delays, measured in the steady direction if the other is noisy."""

    direction: SteppedDirection
    step_ms: float | None = None  # of the RTT, which contains no clock; None for UNKNOWN
    error_ms: float | None = None  # half width of the interval of step_ms; None for UNKNOWN
    forward_ms: float | None = None
    reverse_ms: float | None = None


@dataclass(frozen=True, slots=True)
class OneWayDelays:
    """Raw one-way delays of successive bursts in ms, including the clock offset; possibly negative."""

    forward_ms: Sequence[float]
    reverse_ms: Sequence[float]


NO_STEP = DelayStep(SteppedDirection.UNKNOWN)


def delay_step_direction(before: OneWayDelays, after: OneWayDelays) -> DelayStep:
    """The direction of a step between two neighbouring periods."""
    if min(map(len, (before.forward_ms, before.reverse_ms, after.forward_ms, after.reverse_ms))) < LEAST_DELAYS:
        return NO_STEP
    forward_ms, forward_error_ms = _change(before.forward_ms, after.forward_ms)
    reverse_ms, reverse_error_ms = _change(before.reverse_ms, after.reverse_ms)
    step_ms, error_ms = forward_ms + reverse_ms, float(np.hypot(forward_error_ms, reverse_error_ms))
    least_ms = max(LEAST_STEP_MS, NOISES * error_ms)
    allowed_ms = max(SHARE_OF_OTHER * abs(step_ms), least_ms)

    def step(direction: SteppedDirection) -> DelayStep:
        return DelayStep(direction, step_ms, error_ms, forward_ms, reverse_ms)

    if abs(step_ms) < least_ms:
        differs = max(abs(forward_ms), abs(reverse_ms)) >= 2 * least_ms
        return step(SteppedDirection.CLOCK) if differs else _step_alone(before, after)
    if 2 * least_ms > abs(step_ms):
        return _step_alone(before, after)
    if abs(reverse_ms) <= allowed_ms and abs(reverse_ms) <= SHARE_OF_OTHER * abs(forward_ms):
        return step(SteppedDirection.FORWARD)
    if abs(forward_ms) <= allowed_ms and abs(forward_ms) <= SHARE_OF_OTHER * abs(reverse_ms):
        return step(SteppedDirection.REVERSE)
    if forward_ms * reverse_ms > 0 and min(abs(forward_ms), abs(reverse_ms)) >= least_ms:
        return step(SteppedDirection.BOTH)
    return NO_STEP


def _step_alone(before: OneWayDelays, after: OneWayDelays) -> DelayStep:
    ways = (
        (SteppedDirection.FORWARD, (before.forward_ms, after.forward_ms), (before.reverse_ms, after.reverse_ms)),
        (SteppedDirection.REVERSE, (before.reverse_ms, after.reverse_ms), (before.forward_ms, after.forward_ms)),
    )
    for direction, own, other in ways:
        change_ms, error_ms = _change(*own)
        if abs(change_ms) < 2 * max(LEAST_STEP_MS, NOISES * error_ms):
            continue
        if abs(_change(*other)[0]) > SHARE_OF_OTHER * abs(change_ms):
            continue
        near = slice(-MOST_RANKED, None), slice(MOST_RANKED)
        others = [np.asarray(side, dtype=np.float64)[part] for side, part in zip(other, near, strict=True)]
        both = [np.asarray(side)[part] + of for side, part, of in zip(own, near, others, strict=True)]
        if is_alone(OtherDirection(others[0], others[1], both[0], both[1], change_ms)):
            return DelayStep(direction, change_ms, error_ms)
    return NO_STEP


def _change(before_ms: Sequence[float], after_ms: Sequence[float]) -> tuple[float, float]:
    """The change of the median, and its standard error."""
    was, now = np.asarray(before_ms, dtype=np.float64), np.asarray(after_ms, dtype=np.float64)
    error_ms = np.hypot(_median_error(was), _median_error(now))
    return float(np.median(now) - np.median(was)), float(error_ms)


def _median_error(values_ms: Floats) -> float:
    # Standard error sqrt(pi / 2) times the mean's, from 1.4826 MAD.
    deviation_ms = 1.4826 * np.median(np.abs(values_ms - np.median(values_ms)))
    return float(1.2533 * deviation_ms / np.sqrt(len(values_ms)))
