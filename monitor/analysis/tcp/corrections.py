"""Correct the throughput of tests for a later change of RTT or loss by the ratio of the models, up to window and
capacity.

BBR delivers 1 - p up to 15% loss (Cardwell and others, ACM Queue 14 (2016), figure 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.analysis.tcp.figures import ATTAINED_LOW, Loss
from monitor.analysis.tcp.models import MSS_BYTES, CongestionControl, loss_limit_bps, window_limit_bps

# Tests of at least the model's rate over this are limited by the model's loss.
LIMITED_FACTOR = 2.0
# Maximum loss at which BBR keeps its rate.
BBR_LOSS_RATIO = 0.15
# Assumed delivery at total loss of a few pings: the factor must not be zero.
LEAST_DELIVERED_RATIO = 1e-3


@dataclass(frozen=True, slots=True)
class PathPings:
    """The newest pings of a path without a change of loss; None where unknown."""

    rtt_ms: float | None = None
    lost: int = 0
    sent: int = 0
    ttl: int | None = None  # usual TTL of the replies
    since: datetime | None = None
    is_since_change: bool = False  # a change was seen at since

    @property
    def loss_ratio(self) -> float | None:
        """Loss, at its 95% bound if nothing (3/N) or everything was lost; None where unknown."""
        return Loss.counted(self.lost, self.sent).bound_ratio if self.sent else None


NOT_PINGED = PathPings()


@dataclass(frozen=True, slots=True)
class TransferKind:
    control: CongestionControl = CongestionControl.CUBIC
    streams: int = 1
    is_bbr: bool = False  # the sender does not follow the loss model of control
    window_bytes: float | None = None
    capacity_bps: float | None = None


def corrected_bps(tested_bps: float, then: PathPings, now: PathPings, kind: TransferKind) -> float:
    if now.rtt_ms is None:
        now = replace(now, rtt_ms=then.rtt_ms)
    ceiling_bps = _ceiling_bps(tested_bps, now, kind)
    then_bps, now_bps = _by_loss_bps(then, kind), _by_loss_bps(now, kind)
    rate_bps = tested_bps * _rtt_factor(tested_bps, then, now, kind)
    if kind.is_bbr:
        return min(_bbr_bps(rate_bps, then, now, kind, now_bps), ceiling_bps)
    if then.lost and then_bps is not None and now_bps is not None and tested_bps >= then_bps / LIMITED_FACTOR:
        return min(tested_bps * now_bps / then_bps, ceiling_bps)
    if now.lost and now_bps is not None:
        rate_bps = min(rate_bps, now_bps)
    return min(rate_bps, ceiling_bps)


def _by_loss_bps(state: PathPings, kind: TransferKind) -> float | None:
    loss_ratio = state.loss_ratio
    if loss_ratio is None or state.rtt_ms is None:
        return None
    return kind.streams * float(loss_limit_bps(kind.control, state.rtt_ms, loss_ratio, MSS_BYTES))


def _bbr_bps(
    tested_bps: float, then: PathPings, now: PathPings, kind: TransferKind, by_loss_bps: float | None
) -> float:
    loss_then, loss_now = (state.lost / state.sent if state.sent else 0.0 for state in (then, now))
    if loss_now > BBR_LOSS_RATIO and loss_now > loss_then and by_loss_bps is not None:
        # Neither its own model nor Reno's holds there: between the two.
        return math.sqrt(tested_bps * min(tested_bps, by_loss_bps))
    if loss_then > BBR_LOSS_RATIO and loss_now <= BBR_LOSS_RATIO and kind.capacity_bps is not None:
        return math.sqrt(tested_bps * max(tested_bps, kind.capacity_bps))
    return tested_bps * max(1.0 - loss_now, LEAST_DELIVERED_RATIO) / max(1.0 - loss_then, LEAST_DELIVERED_RATIO)


def _rtt_factor(tested_bps: float, then: PathPings, now: PathPings, kind: TransferKind) -> float:
    """RTT factor without a loss limit; its square root without a known window."""
    if then.rtt_ms is None or now.rtt_ms is None:
        return 1.0
    factor = then.rtt_ms / now.rtt_ms
    if kind.window_bytes is None:
        return math.sqrt(factor)
    by_window_bps = kind.streams * float(window_limit_bps(kind.window_bytes, then.rtt_ms))
    # Tests from 0.7 of the window limit on are limited by the window.
    return factor if tested_bps >= ATTAINED_LOW * by_window_bps else 1.0


def _ceiling_bps(tested_bps: float, now: PathPings, kind: TransferKind) -> float:
    """Limit by window and capacity; not below the tests' rate at the same RTT."""
    limits = [] if kind.capacity_bps is None else [max(tested_bps, kind.capacity_bps)]
    if kind.window_bytes is not None and now.rtt_ms is not None:
        limits.append(kind.streams * float(window_limit_bps(kind.window_bytes, now.rtt_ms)))
    return min(limits, default=math.inf)
