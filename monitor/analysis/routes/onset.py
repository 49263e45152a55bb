"""The probability of each link as the beginning of loss, from packets sent to and lost at each hop, from one or both
ends. The lossy link adds the same loss to every hop beyond it; routers may limit replies, be silent, or reply by other
routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from monitor.analysis.routes.medians import CONFIDENCE_Z, wilson
from monitor.arrays import Floats

# Least probability of a named link; calibrated by `python -m tests.scored routes`, see docs/method/routes.md.
CERTAIN = 0.9

# Least 99% lower bound of the destination's loss.
LEAST_END_LOSS = 0.002

LIMITED_SHARE = 0.2
# Shares of routers: LIMITED_SHARE limit replies, SILENT_SHARE never reply.
SILENT_SHARE = 0.15

# Share of replies that come back by another way than the mirrored links.
OTHER_WAY_SHARE = 0.3

# Of those, the share with loss at any hops; the rest have it from some hop on.
SCATTERED_SHARE = 0.25

# Loss before the lossy link.
BASE_RATIOS, BASE_WEIGHTS = np.array([2e-4, 3e-3]), np.array([0.9, 0.1])

LOSS_RATIOS = np.geomspace(0.003, 1.0, 40)
# Deviation in log odds of the loss at different hops, probed at different moments.
SPREAD = 0.3

LIMITS = np.concatenate(([0.0], np.linspace(0.01, 0.99, 30), [1.0]))
LIMIT_WEIGHTS = np.concatenate(([1.0 - LIMITED_SHARE - SILENT_SHARE], np.full(30, LIMITED_SHARE / 30), [SILENT_SHARE]))


@dataclass(frozen=True, slots=True)
class HopCounts:
    """Packets sent to a hop and lost, during the trouble and before it."""

    sent: int
    lost: int
    sent_before: int = 0
    lost_before: int = 0

    @property
    def is_silent(self) -> bool:
        return self.lost == self.sent and self.lost_before == self.sent_before


@dataclass(frozen=True, slots=True)
class LossOnset:
    """Where loss begins: between two hops, by TTL; 0 is the sender."""

    near_ttl: int
    far_ttl: int
    is_of_reverse: bool  # TTLs of the reverse traces
    probability: float
    next_probability: float  # of the likeliest other links
    ends: int

    @property
    def is_certain(self) -> bool:
        return self.probability >= CERTAIN


# Whether forward link and reverse link, by number, may join the same routers. Link n ends at TTL n.
MirrorTest = Callable[[int, int], bool]


def positions(forward_hops: int, reverse_hops: int) -> MirrorTest:
    """The mirror of routes with unknown routers: link by link, for equal lengths."""
    return lambda forward, reverse: forward_hops == reverse_hops and forward + reverse == forward_hops + 1


def by_as(forward: Sequence[int | None], reverse: Sequence[int | None]) -> MirrorTest:
    """Mirror of routes by the AS of each node, both ends included: link by link for equal lengths unless contradictory,
    else links between the same AS."""

    def mirrors(ahead: int, back: int) -> bool:
        here, there = (forward[ahead - 1], forward[ahead]), (reverse[back], reverse[back - 1])
        if len(forward) == len(reverse):
            same_place = ahead + back == len(forward)
            return same_place and all(x is None or y is None or x == y for x, y in zip(here, there, strict=True))
        return None not in here and here == there

    return mirrors


def find_onset(
    forward: Sequence[HopCounts],
    reverse: Sequence[HopCounts] = (),
    mirror: MirrorTest | None = None,
    forward_probability: float = 0.5,
) -> LossOnset | None:
    """The likeliest link; None if the destination does not certainly lose packets.

    `forward` ends with the destination and its pings, `reverse` with the source. `forward_probability` of a loss is 1/2
    for round trips, 0 or 1 if measured.
    """
    if not forward or wilson(forward[-1].lost, forward[-1].sent, CONFIDENCE_Z[0.99])[0] < LEAST_END_LOSS:
        return None
    same = mirror or positions(len(forward), len(reverse))
    if reverse and forward_probability < 0.5:  # a lossy link of the reverse route is named after its own hops
        onset = _find(reverse, forward, lambda ahead, back: same(back, ahead), 1.0 - forward_probability)
        return replace(onset, is_of_reverse=not onset.is_of_reverse)
    return _find(forward, reverse, same, forward_probability)


def _find(
    forward: Sequence[HopCounts], reverse: Sequence[HopCounts], same: MirrorTest, forward_probability: float
) -> LossOnset:
    near, near_other = _likelihoods(forward)
    if not reverse:
        ahead = forward_probability + (1.0 - forward_probability) * (1.0 - OTHER_WAY_SHARE)
        elsewhere = (1.0 - forward_probability) * OTHER_WAY_SHARE * near_other
        return _named(forward, (), ahead * near / len(near), np.zeros(0), elsewhere)
    far, far_other = _likelihoods(reverse)
    pairs = np.array([[same(ahead + 1, back + 1) for back in range(len(far))] for ahead in range(len(near))])
    of_forward = forward_probability * near * _mirrored(pairs, far, far_other) / len(near)
    of_reverse = (1.0 - forward_probability) * far * _mirrored(pairs.T, near, near_other) / len(far)
    # Loss on a link of the reverse route that mirrors links of the forward route is named after those.
    shares = pairs * near[:, np.newaxis]
    total = shares.sum(axis=0)
    moved = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0.0) * of_reverse
    return _named(forward, reverse, of_forward + moved.sum(axis=1), np.where(total > 0.0, 0.0, of_reverse), 0.0)


def _mirrored(pairs: np.ndarray, likelihood: Floats, other: float) -> Floats:
    """Likelihood of the other end's figures, by link of this end."""
    count = pairs.sum(axis=1)
    mean = np.divide(pairs @ likelihood, count, out=np.full(len(pairs), other), where=count > 0)
    return np.asarray((1.0 - OTHER_WAY_SHARE) * mean + OTHER_WAY_SHARE * other)


def _likelihoods(hops: Sequence[HopCounts]) -> tuple[Floats, float]:
    """Scaled likelihoods: loss from each link, and replies by another way."""
    # The destination counts in each likelihood, so loss that does not go on to the end does not blame a router.
    tables = [_hop_likelihood(hop, is_end=place == len(hops) - 1) for place, hop in enumerate(hops)]
    before = np.log(np.array([table[0] for table in tables]))
    beyond = np.log(np.array([table[1] for table in tables]))
    earlier = np.concatenate(([0.0], np.cumsum(before)))[:-1, np.newaxis]
    later = np.cumsum(beyond[::-1], axis=0)[::-1]
    of_links = earlier + later
    of_any = np.logaddexp(before[:-1, np.newaxis], beyond[:-1]).sum(axis=0) - np.log(2.0) * (len(hops) - 1) + beyond[-1]
    scale = max(of_links.max(), of_any.max())
    links: Floats = np.exp(of_links - scale).mean(axis=1)
    other = (1.0 - SCATTERED_SHARE) * links.mean() + SCATTERED_SHARE * np.exp(of_any - scale).mean()
    return links, float(other)


def _hop_likelihood(hop: HopCounts, *, is_end: bool) -> tuple[float, Floats]:
    """Likelihood of a hop's counts before the link, and beyond by LOSS_RATIOS."""
    limits, weights = (np.zeros(1), np.ones(1)) if is_end else (LIMITS, LIMIT_WEIGHTS)
    # A router that limits replies shows it before the trouble already.
    if hop.sent_before and not is_end:
        weights = weights * (_binomial(hop.lost_before, hop.sent_before, _either(BASE_RATIOS, limits)) @ BASE_WEIGHTS)
        weights = weights / weights.sum()
    before = _binomial(hop.lost, hop.sent, _either(BASE_RATIOS, limits)) @ BASE_WEIGHTS
    beyond = _binomial(hop.lost, hop.sent, _either(LOSS_RATIOS, limits))
    return max(float(weights @ before), 1e-300), np.maximum(_SPREADING @ (weights @ beyond), 1e-300)


def _either(ratios: Floats, limits: Floats) -> Floats:
    """Loss by either, of shape (limits, ratios)."""
    return np.asarray(1.0 - (1.0 - ratios) * (1.0 - limits[:, np.newaxis]))


def _binomial(lost: int, sent: int, ratios: Floats) -> Floats:
    # Over its maximum, so that many packets do not underflow.
    share = np.clip(ratios, 1e-9, 1.0 - 1e-9)
    best = lost / sent if sent else 0.0
    most = (lost * np.log(best) if lost else 0.0) + ((sent - lost) * np.log1p(-best) if lost < sent else 0.0)
    return np.asarray(np.exp(lost * np.log(share) + (sent - lost) * np.log1p(-share) - most))


def _spreading() -> Floats:
    """Weights of LOSS_RATIOS at a hop, by LOSS_RATIOS of the link."""
    odds = np.log(LOSS_RATIOS) - np.log(np.maximum(1.0 - LOSS_RATIOS, 1e-3))
    weights = np.exp(-0.5 * ((odds[:, np.newaxis] - odds) / SPREAD) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


_SPREADING = _spreading()


def _named(
    forward: Sequence[HopCounts], reverse: Sequence[HopCounts], ahead: Floats, back: Floats, elsewhere: float
) -> LossOnset:
    """Merge links that silent hops make indistinguishable."""
    total = ahead.sum() + back.sum() + elsewhere
    spans = [
        [(float(weights[near:far].sum() / total), near, far, is_of_reverse) for near, far in _spans(hops)]
        for hops, weights, is_of_reverse in ((forward, ahead, False), (reverse, back, True))
    ]
    singles = sorted((span for of_route in spans for span in of_route), reverse=True)
    probability, near, far, is_of_reverse = singles[0]
    if probability < CERTAIN:
        # A router whose own limit hides whether loss begins before or after it is left out of the name.
        pairs = [
            (first[0] + second[0], first[1], second[2], first[3])
            for of_route in spans
            for first, second in pairwise(of_route)
        ]
        widest = max(pairs, default=singles[0])
        if widest[0] >= CERTAIN:
            probability, near, far, is_of_reverse = widest
    others = [span[0] for span in singles if span[3] != is_of_reverse or span[2] <= near or span[1] >= far]
    next_probability = max([*others, float(elsewhere / total)])
    return LossOnset(near, far, is_of_reverse, probability, next_probability, 2 if reverse else 1)


def _spans(hops: Sequence[HopCounts]) -> list[tuple[int, int]]:
    """(Near TTL, far TTL) of neighbouring hops that replied."""
    replied = [0, *(ttl for ttl, hop in enumerate(hops, 1) if not hop.is_silent or ttl == len(hops))]
    return list(pairwise(replied)) if hops else []
