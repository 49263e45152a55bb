"""The loss rule, as a pure decision on counted packets: does a path lose too much, is it well again, or neither.

In: packets sent and lost on each path in the rule's window, and the rule of the mesh. Out: a verdict for each path with
the figures it rests on. No database, no clock; what follows from a verdict is in `monitor.alerts.incidents`.

A path fires when both hold:
  - the lower one-sided 95% bound (Clopper-Pearson) of its pooled loss is above the threshold;
  - at least two packets were lost. In a window with few packets even one lost packet can pass the first test.
A path that fired is clear when both hold:
  - its pooled loss is at or below half the threshold (the hysteresis: between half the threshold and firing, nothing
    changes);
  - the window holds at least half as many packets as the one that fired; a hundred are always enough. A handful of
    packets after a gap clears nothing.
A path without packets in the window has no data. It neither fires nor is it clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from monitor.analysis import binomial, figures

if TYPE_CHECKING:  # only for the types: this module runs without a database
    from monitor.archive.queries import LossWindow
    from monitor.mesh.document import LossRule

CONFIDENCE = 0.95
MIN_LOST_TO_FIRE = 2
CLEAR_SHARE_OF_THRESHOLD = 0.5
CLEAR_SHARE_OF_PACKETS = 0.5
PACKETS_ENOUGH_TO_CLEAR = 100

NAME = "loss"


class Verdict(StrEnum):
    FIRING = "firing"
    UNDECIDED = "undecided"
    LOW = "low"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rule found on one path in one window. `loss_lower_ratio` is NaN when nothing was sent."""

    path_id: int
    window_s: int
    sent: int
    lost: int
    loss_lower_ratio: float
    threshold_ratio: float

    @property
    def verdict(self) -> Verdict:
        if self.sent == 0:
            return Verdict.NO_DATA
        if self.lost >= MIN_LOST_TO_FIRE and self.loss_lower_ratio > self.threshold_ratio:
            return Verdict.FIRING
        if self.lost <= CLEAR_SHARE_OF_THRESHOLD * self.threshold_ratio * self.sent:
            return Verdict.LOW
        return Verdict.UNDECIDED

    def is_clear(self, sent_when_fired: int) -> bool:
        """Whether the path is well again, after it fired on a window of `sent_when_fired` packets."""
        enough = min(CLEAR_SHARE_OF_PACKETS * sent_when_fired, PACKETS_ENOUGH_TO_CLEAR)
        return self.verdict is Verdict.LOW and self.sent >= enough


def judge(windows: Sequence[LossWindow], rule: LossRule) -> list[Evidence]:
    """The rule applied to each window; a path that is absent from `windows` has no data."""
    sent = [window.sent for window in windows]
    lost = [window.sent - window.received for window in windows]
    bounds = binomial.lower_bound(lost, sent, CONFIDENCE)
    return [
        Evidence(window.path_id, rule.window_s, sent_packets, lost_packets, float(bound), rule.above_ratio)
        for window, sent_packets, lost_packets, bound in zip(windows, sent, lost, bounds, strict=True)
    ]


def pooled(evidence: Sequence[Evidence]) -> Evidence:
    """The evidence of several paths taken together: their packets are summed and bounded as one sample."""
    first = evidence[0]
    if len(evidence) == 1:
        return first
    sent, lost = sum(one.sent for one in evidence), sum(one.lost for one in evidence)
    bound = float(binomial.lower_bound(lost, sent, CONFIDENCE))
    return Evidence(first.path_id, first.window_s, sent, lost, bound, first.threshold_ratio)


def describe(evidence: Evidence, until: datetime) -> str:
    """The figures that fired, in words, as in `loss 2.1% (24 of 1,140 packets in 10 min to 2026-11-21 10:05 UTC; at
    least 1.5% with 95% confidence), threshold 1%`. `until` is the end of the window, aware UTC."""
    return (
        f"loss {figures.loss(evidence.lost, evidence.sent)} ({_counts(evidence, until)}; at least "
        f"{figures.percent(evidence.loss_lower_ratio)} with {figures.percent(CONFIDENCE)} confidence), "
        f"threshold {figures.percent(evidence.threshold_ratio)}"
    )


def describe_clear(evidence: Evidence, until: datetime) -> str:
    """The figures of a path that is well again, in words: `loss 0.18% (2 of 1,140 packets in 10 min to …)`."""
    return f"loss {figures.loss(evidence.lost, evidence.sent)} ({_counts(evidence, until)})"


def _counts(evidence: Evidence, until: datetime) -> str:
    return (
        f"{figures.count(evidence.lost)} of {figures.count(evidence.sent)} packets in "
        f"{figures.duration(evidence.window_s)} to {until:%Y-%m-%d %H:%M} UTC"
    )
