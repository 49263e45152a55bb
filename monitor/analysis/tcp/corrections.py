"""Correct the throughput of tests for a change of RTT or loss since.

In: the throughput of the tests, the pings of the path then and now, each without a loss that was over. Out: the
throughput to expect now. Only the ratio of the models is used, so that their constants, and the difference between a
ping's loss and TCP's, cancel.

  - The loss that there was limits the tests if the model gives at most twice their rate. Throughput then follows the
    model in both directions; else more loss only matters where the model falls below the rate of the tests.
  - A window limits the tests if window per RTT is at most their rate over 0.7; throughput is then proportional to
    1/RTT. Without a known window, tests that loss does not limit may be limited by window or capacity: half of the
    change, on a scale of logarithms.
  - BBR does not reduce its rate for a loss up to 5% and little up to 15% (Cardwell and others, "BBR: congestion-based
    congestion control", ACM Queue 14 (2016), figure 8): it delivers 1 - p. Beyond 15% it falls toward the models:
    the geometric mean of both, and of tests and capacity once such a loss is over.
  - No correction exceeds window and capacity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.analysis.tcp.figures import ATTAINED_LOW, Loss
from monitor.analysis.tcp.models import MSS_BYTES, CongestionControl, loss_limit_bps, window_limit_bps

LIMITED_FACTOR = 2.0
"""Tests of at least the model's rate over this are limited by the model's loss."""
BBR_LOSS_RATIO = 0.15
"""Maximum loss at which BBR keeps its rate."""
LEAST_DELIVERED_RATIO = 1e-3
"""What a total loss of a few pings is taken to deliver: the factor must not be zero."""


@dataclass(frozen=True, slots=True)
class PathPings:
    """The newest pings of a path, from `since` on, between which its loss has not changed; None where unknown. `ttl` is
    the usual TTL of the replies. `is_since_change`: a change was seen then."""

    rtt_ms: float | None = None
    lost: int = 0
    sent: int = 0
    ttl: int | None = None
    since: datetime | None = None
    is_since_change: bool = False

    @property
    def loss_ratio(self) -> float | None:
        """Loss, at its 95% bound if nothing was lost (3/N) or everything; None where unknown."""
        return Loss.counted(self.lost, self.sent).bound_ratio if self.sent else None


NOT_PINGED = PathPings()


@dataclass(frozen=True, slots=True)
class TransferKind:
    """The transfers that are forecast. `is_bbr`: the sender does not follow the loss model of `control`."""

    control: CongestionControl = CongestionControl.CUBIC
    streams: int = 1
    is_bbr: bool = False
    window_bytes: float | None = None
    capacity_bps: float | None = None


def corrected_bps(tested_bps: float, then: PathPings, now: PathPings, kind: TransferKind) -> float:
    """Throughput to expect now of transfers that reached `tested_bps` then."""
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
    """Change by the RTT of transfers that loss does not limit."""
    if then.rtt_ms is None or now.rtt_ms is None:
        return 1.0
    factor = then.rtt_ms / now.rtt_ms
    if kind.window_bytes is None:
        return math.sqrt(factor)
    by_window_bps = kind.streams * float(window_limit_bps(kind.window_bytes, then.rtt_ms))
    return factor if tested_bps >= ATTAINED_LOW * by_window_bps else 1.0


def _ceiling_bps(tested_bps: float, now: PathPings, kind: TransferKind) -> float:
    """Window and capacity, as far as known; never below the tests where the RTT is as it was."""
    limits = [] if kind.capacity_bps is None else [max(tested_bps, kind.capacity_bps)]
    if kind.window_bytes is not None and now.rtt_ms is not None:
        limits.append(kind.streams * float(window_limit_bps(kind.window_bytes, now.rtt_ms)))
    return min(limits, default=math.inf)
