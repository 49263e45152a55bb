"""Loss above a threshold, decided on counted packets: does a path lose too much, is it well again, or neither.

In: the packets of each path over windows of many lengths, from half of `window_s` to half a day, and the rule of the
mesh. Out: the paths that fire, each with the figures it rests on. No database, no clock; what follows is in
`monitor.alerts.incidents.lifecycle`.

A path fires when in one of its windows both hold:
  - the pooled loss is above the threshold by proof: where the true loss is the threshold, the chance of as many lost
    packets is at most the share that this window at this look has of ALARMS_AN_HOUR. It is the same to say that the
    lower bound (Clopper-Pearson) of the loss, wrong with that chance, is above the threshold. By Boole's inequality a
    path that loses just as much as it may alarms so often at most, however the windows overlap. Packets that are lost
    together within bursts count as fewer (`binomial.clustering`);
  - its losses lie in at least three bursts: an interruption that is shorter than a cycle hits no more than two, one of
    each size. So a single lost packet never fires.
A path that fired is clear when both hold:
  - its pooled loss is at or below half the threshold (the hysteresis: between half the threshold and firing, nothing
    changes), over `window_s` or, where that is longer, a window as long as the one that fired, an hour at most;
  - the window holds at least half as many packets as the one that fired; a hundred are always enough. A handful of
    packets after a gap clears nothing; where cycles are so long that an hour has fewer, the window is longer.
What lies before the end of an incident is in no window that can fire again. A path without packets in the window has no
data. It neither fires nor is it clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.rules.windows import WINDOWS, Windows, looks_an_hour, pooled, unjudged
from monitor.alerts.detect.snapshot import Sweep
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import LossRule

Floats = NDArray[np.float64]

ALARMS_AN_HOUR = 1e-4
COMPARISONS = WINDOWS + 1
"""At each look: all windows, and one of `window_s`."""

COUNTS = ("bursts", "lossy", "sent", "received")
CONFIDENCE = 0.95
"""Of the bound that people read."""

MIN_LOSSY_BURSTS_TO_FIRE = 3
CLEAR_SHARE_OF_THRESHOLD = 0.5
CLEAR_SHARE_OF_PACKETS = 0.5
PACKETS_ENOUGH_TO_CLEAR = 100


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a window of a path has: `chance` is that of so much loss where the true loss is the threshold."""

    window_s: float
    sent: int
    lost: int
    lossy_bursts: int
    threshold_ratio: float
    chance: float

    def fires(self, most_chance: float) -> bool:
        """Whether the loss is proven to be above the threshold, with so much chance of error."""
        return self.lossy_bursts >= MIN_LOSSY_BURSTS_TO_FIRE and self.chance <= most_chance

    def is_enough(self, sent_when_fired: int) -> bool:
        """Whether there are packets enough to say that a path is well again which fired on so many."""
        return self.sent > 0 and self.sent >= min(CLEAR_SHARE_OF_PACKETS * sent_when_fired, PACKETS_ENOUGH_TO_CLEAR)

    @property
    def is_low(self) -> bool:
        """Whether the loss is low enough for that."""
        return self.lost <= CLEAR_SHARE_OF_THRESHOLD * self.threshold_ratio * self.sent

    @property
    def lower_ratio(self) -> float:
        """The loss that the true one is above with CONFIDENCE; NaN where nothing was sent."""
        return float(binomial.lower_bound(self.lost, self.sent, CONFIDENCE))


def chances(bursts: ArrayLike, lossy: ArrayLike, sent: ArrayLike, lost: ArrayLike, threshold_ratio: float) -> Floats:
    """How probable as many lost packets are where the true loss is the threshold; 1 where there are no more than it
    expects. All arrays broadcast."""
    columns = [np.asarray(one, dtype=np.float64) for one in (bursts, lossy, sent, lost)]
    of, had, packets, missing = np.broadcast_arrays(*columns)
    found = np.ones(of.shape)
    above = missing > threshold_ratio * packets
    together = binomial.clustering(of[above], had[above], packets[above], missing[above])
    found[above] = binomial.at_least(missing[above] / together, packets[above] / together, threshold_ratio)
    return found


def evidence(counts: Iterable[float], threshold_ratio: float, window_s: float) -> Evidence:
    """Of one window with these `COUNTS`."""
    bursts, lossy, sent, received = counts
    lost = sent - received
    chance = float(chances(bursts, lossy, sent, lost, threshold_ratio))
    return Evidence(window_s, round(sent), round(lost), round(lossy), threshold_ratio, chance)


class Threshold:
    """Loss above a threshold."""

    name = "loss"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        by_rule: dict[LossRule, list[int]] = {}
        for path_id, rule in settings.items():
            by_rule.setdefault(cast("LossRule", rule), []).append(path_id)
        windows, allowed = pooled(sweep, COUNTS), ALARMS_AN_HOUR / (looks_an_hour(sweep) * COMPARISONS)
        return [
            finding
            for rule, path_ids in by_rule.items()
            for finding in self._above(rule, path_ids, self._windows_of(rule, windows, sweep), allowed, sweep)
        ]

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        threshold_ratio, sent = float(figures["threshold_ratio"]), int(figures["sent"])
        clear_s = figures.get("clear_s", figures["window_s"])
        found = (evidence(*window) for window in self._newest(sweep.rows[path_id], clear_s, threshold_ratio, sweep))
        first = next((one for one in found if one.is_enough(sent)), None)
        return None if first is None or not first.is_low else describe_clear(first, sweep.now)

    @staticmethod
    def _newest(
        row: int, window_s: float, threshold_ratio: float, sweep: Sweep
    ) -> Iterator[tuple[list[float], float, float]]:
        """What `evidence` takes of one path: the window of this length, then longer ones."""
        own = sweep.newest_counts(window_s, row)
        yield [float(own.counts[name]) for name in COUNTS], threshold_ratio, own.window_s
        longer = pooled(sweep, COUNTS, row)
        for place, lasting_s in enumerate(longer.lasting_s):
            if lasting_s > own.window_s:
                yield [float(longer.sums[name][place]) for name in COUNTS], threshold_ratio, lasting_s

    @staticmethod
    def _windows_of(rule: LossRule, windows: Windows, sweep: Sweep) -> Windows:
        """One of `window_s`, and the others that are half as long at least."""
        own = sweep.newest_counts(rule.window_s)
        others = [
            place for place, lasting_s in enumerate(windows.lasting_s) if rule.window_s / 2 <= lasting_s != own.window_s
        ]
        sums = {name: np.column_stack([own.counts[name], windows.sums[name][:, others]]) for name in COUNTS}
        return Windows(sums, (own.window_s, *(windows.lasting_s[place] for place in others)))

    def _above(
        self, rule: LossRule, path_ids: Sequence[int], windows: Windows, allowed: Floats, sweep: Sweep
    ) -> list[Finding]:
        rows = np.array([sweep.rows[path_id] for path_id in path_ids])
        bursts, lossy, sent, received = (windows.sums[name][rows] for name in COUNTS)
        of_rows = chances(bursts, lossy, sent, sent - received, rule.above_ratio)
        of_rows[(lossy < MIN_LOSSY_BURSTS_TO_FIRE) | ~unjudged(sweep, self.name, windows.lasting_s)[rows]] = 1.0
        strongest = of_rows.argmin(axis=1)
        found = []
        for place in np.flatnonzero(of_rows.min(axis=1) <= allowed[rows]).tolist():
            window = int(strongest[place])
            counts = (float(one[place, window]) for one in (bursts, lossy, sent, received))
            proof = evidence(counts, rule.above_ratio, windows.lasting_s[window])
            found.append(self._finding(path_ids[place], proof, float(allowed[rows[place]]), rule.window_s, sweep))
        return [one for one in found if self.over(one.path_id, one.figures, sweep) is None]

    def _finding(self, path_id: int, proof: Evidence, most_chance: float, clear_s: float, sweep: Sweep) -> Finding:
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=sweep.paths[path_id].name,
            sentence=describe(proof, sweep.now),
            since=sweep.now - timedelta(seconds=proof.window_s),
            figures={
                "window_s": proof.window_s,
                "clear_s": max(clear_s, min(proof.window_s, sweep.recent_s)),
                "until": sweep.now.isoformat(),
                "sent": proof.sent,
                "lost": proof.lost,
                "loss_lower_ratio": proof.lower_ratio,
                "threshold_ratio": proof.threshold_ratio,
                "chance": proof.chance,
                "most_chance": most_chance,
            },
        )


def describe(proof: Evidence, until: datetime) -> str:
    """The figures that fired, in words, as in `loss 3.5% (40 of 1,140 packets in 1 h to 2026-11-21 10:05 UTC; at least
    2.7% with 95% confidence), threshold 1%`. `until` is the end of the window, aware UTC."""
    return (
        f"loss {shown.loss(proof.lost, proof.sent)} ({_counts(proof, until)}; at least "
        f"{shown.percent(proof.lower_ratio)} with {shown.percent(CONFIDENCE)} confidence), "
        f"threshold {shown.percent(proof.threshold_ratio)}"
    )


def describe_clear(counted: Evidence, until: datetime) -> str:
    """The figures of a path that is well again, in words: `loss 0.18% (2 of 1,140 packets in 10 min to …)`."""
    return f"loss {shown.loss(counted.lost, counted.sent)} ({_counts(counted, until)})"


def _counts(counted: Evidence, until: datetime) -> str:
    return (
        f"{shown.count(counted.lost)} of {shown.count(counted.sent)} packets in "
        f"{shown.duration(counted.window_s)} to {until:%Y-%m-%d %H:%M} UTC"
    )
