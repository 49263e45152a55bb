"""Loss above a threshold, decided on counted packets: does a path lose too much, is it well again, or neither.

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
A path without packets in the window has no data. It neither fires nor is it clear. And a path fires only if its losses
lie in at least three bursts: an interruption that is shorter than a cycle hits no more than two, one of each size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, cast

from monitor.alerts.rules.finding import Finding
from monitor.alerts.sweep import Sweep
from monitor.analysis import binomial, figures
from monitor.archive.queries import LossWindow
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import LossRule

CONFIDENCE = 0.95
MIN_LOST_TO_FIRE = 2
MIN_LOSSY_BURSTS_TO_FIRE = 3
CLEAR_SHARE_OF_THRESHOLD = 0.5
CLEAR_SHARE_OF_PACKETS = 0.5
PACKETS_ENOUGH_TO_CLEAR = 100


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
    lossy_bursts: int
    loss_lower_ratio: float
    threshold_ratio: float

    @property
    def verdict(self) -> Verdict:
        if self.sent == 0:
            return Verdict.NO_DATA
        enough = self.lost >= MIN_LOST_TO_FIRE and self.lossy_bursts >= MIN_LOSSY_BURSTS_TO_FIRE
        if enough and self.loss_lower_ratio > self.threshold_ratio:
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
        Evidence(one.path_id, rule.window_s, of, missing, one.lossy_bursts, float(bound), rule.above_ratio)
        for one, of, missing, bound in zip(windows, sent, lost, bounds, strict=True)
    ]


class Threshold:
    """Loss above a threshold."""

    name = "loss"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        by_rule: dict[LossRule, list[LossWindow]] = {}
        for path_id, one in settings.items():
            rule = cast("LossRule", one)
            window = sweep.losses.get(rule.window_s, {}).get(path_id)
            if window is not None:
                by_rule.setdefault(rule, []).append(window)
        evidence = [one for rule, windows in by_rule.items() for one in judge(windows, rule)]
        return [self._finding(one, sweep) for one in evidence if one.verdict is Verdict.FIRING]

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        window_s = int(figures["window_s"])
        window = sweep.losses.get(window_s, {}).get(path_id)
        if window is None:
            return None
        rule = LossRule(above_ratio=float(figures["threshold_ratio"]), window_s=window_s)
        (evidence,) = judge([window], rule)
        return describe_clear(evidence, sweep.now) if evidence.is_clear(int(figures["sent"])) else None

    def _finding(self, evidence: Evidence, sweep: Sweep) -> Finding:
        return Finding(
            rule=self.name,
            path_id=evidence.path_id,
            path=sweep.paths[evidence.path_id].name,
            sentence=describe(evidence, sweep.now),
            since=sweep.now - timedelta(seconds=evidence.window_s),
            figures={
                "window_s": evidence.window_s,
                "until": sweep.now.isoformat(),
                "sent": evidence.sent,
                "lost": evidence.lost,
                "loss_lower_ratio": evidence.loss_lower_ratio,
                "threshold_ratio": evidence.threshold_ratio,
            },
        )


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
