"""Whether load balancing changes RTT or loss of a path, by flow. No I/O.

RTT by medians and Kruskal-Wallis test (Kruskal and Wallis, JASA 47, 1952), loss by chi-squared homogeneity (Pearson
1900).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from probes.trace.spec import FlowEffect, FlowVerdict

# Of a flow whose RTTs are compared.
FEWEST_REPLIES = 3
LEAST_MS = 0.2
LEAST_RATIO = 0.01
# Of 0.999: a path has a false difference in a thousand days.
NORMAL_QUANTILE = 3.09


def effect_of(rtts_ms: Sequence[Sequence[float | None]]) -> FlowEffect | None:
    """The effect from each flow's RTTs (None: lost); None below two flows."""
    flows = [of_flow for of_flow in rtts_ms if of_flow]
    if len(flows) < 2:
        return None
    losses = [list(of_flow).count(None) for of_flow in flows]
    ratios = [lost / len(of_flow) for lost, of_flow in zip(losses, flows, strict=True)]
    loss_statistic = _homogeneity(losses, [len(of_flow) for of_flow in flows])
    loss_critical = _critical(len(flows) - 1)
    replies = [[rtt_ms for rtt_ms in of_flow if rtt_ms is not None] for of_flow in flows]
    replies = [of_flow for of_flow in replies if len(of_flow) >= FEWEST_REPLIES]
    medians_ms = [statistics.median(of_flow) for of_flow in replies]
    rtt_statistic = _rank_test(replies) if len(replies) >= 2 else None
    rtt_critical = _critical(len(replies) - 1) if len(replies) >= 2 else None
    return FlowEffect(
        verdict=_verdict(medians_ms, rtt_statistic, rtt_critical, is_loss=loss_statistic > loss_critical),
        flows=len(flows),
        sent=sum(len(of_flow) for of_flow in flows),
        lost=sum(losses),
        rtt_low_ms=min(medians_ms, default=None),
        rtt_high_ms=max(medians_ms, default=None),
        rtt_statistic=rtt_statistic,
        rtt_critical=rtt_critical,
        loss_low_ratio=min(ratios),
        loss_high_ratio=max(ratios),
        loss_statistic=loss_statistic,
        loss_critical=loss_critical,
    )


def _verdict(
    medians_ms: Sequence[float], statistic: float | None, critical: float | None, *, is_loss: bool
) -> FlowVerdict:
    if statistic is None or critical is None:
        return FlowVerdict.DIFFER if is_loss else FlowVerdict.UNKNOWN
    low_ms, high_ms = min(medians_ms), max(medians_ms)
    is_far = high_ms - low_ms > max(LEAST_MS, LEAST_RATIO * low_ms)
    if is_loss or (is_far and statistic > critical):
        return FlowVerdict.DIFFER
    return FlowVerdict.UNKNOWN if is_far else FlowVerdict.SAME


def _rank_test(groups: Sequence[Sequence[float]]) -> float:
    """Kruskal-Wallis H with mean ranks for ties, without the tie correction, which would raise it."""
    ordered = sorted(value for group in groups for value in group)
    first = {value: place for place, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: place for place, value in enumerate(ordered, 1)}
    count = len(ordered)
    squares = sum(sum((first[value] + last[value]) / 2 for value in group) ** 2 / len(group) for group in groups)
    return 12 / (count * (count + 1)) * squares - 3 * (count + 1)


def _homogeneity(losses: Sequence[int], sent: Sequence[int]) -> float:
    """Pearson's chi-squared of equal loss; 0 if all or none are lost."""
    share = sum(losses) / sum(sent)
    if share in (0.0, 1.0):
        return 0.0
    return sum(
        (lost - count * share) ** 2 / (count * share * (1 - share)) for lost, count in zip(losses, sent, strict=True)
    )


def _critical(freedom: int) -> float:
    # Quantile of chi-squared (Wilson and Hilferty, PNAS 17, 1931).
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + NORMAL_QUANTILE * math.sqrt(part)) ** 3)
