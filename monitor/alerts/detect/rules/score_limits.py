"""Limits on a path's mean opinion score (MOS) and test throughput, off until set in mesh.toml.

MOS is judged by confidence bounds of latency (order statistics) and loss; at the limit a path alarms once in 10,000
hours at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, cast

import numpy as np
import scipy
from msgspec import Meta

from monitor.alerts.detect.past.recent_bursts import RecentBursts
from monitor.alerts.detect.rules.finding import AlertRule, Effect, RuleFinding, Trouble
from monitor.alerts.detect.rules.loss import ALARMS_AN_HOUR, COUNTS, MIN_LOSSY_BURSTS_TO_FIRE
from monitor.alerts.detect.rules.windows import (
    CLEAR_SHARE,
    WINDOWS,
    Windows,
    bursts_to_clear,
    looks_an_hour,
    pooled,
    settled_s,
)
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.analysis.bursts import averages, interquartile_ranges
from monitor.analysis.mos import mos
from monitor.arrays import Floats
from monitor.mesh.document.alert_rules import LimitSettings, RuleSettings
from probes.toml.keys import meaning

MOST_BURSTS = 28
CLEAR_TESTS = 3
# Share of the tests that may be below the limit.
SHARE_BELOW = 0.05


class MosRule(LimitSettings, frozen=True, kw_only=True):
    """The mean opinion score is significantly below `mos_below`."""

    mos_below: (
        Annotated[
            float,
            Meta(gt=1, le=4.4),
            meaning("MOS (1 to 4.5) below which an incident opens; without it the rule is off."),
        ]
        | None
    ) = None

    @property
    def limit(self) -> float | None:
        return self.mos_below


class ThroughputLimitRule(LimitSettings, frozen=True, kw_only=True):
    """Significantly more than 5% of the newest throughput tests are below `below_bps`."""

    below_bps: (
        Annotated[
            float,
            Meta(ge=1),
            meaning("Throughput of a test below which an incident opens; without it the rule is off."),
        ]
        | None
    ) = None

    @property
    def limit(self) -> float | None:
        return self.below_bps


class MosLimit(AlertRule):
    name = "mos"
    needs_rtts = True
    settings = MosRule
    words = "MOS"
    usual_cause = "Loss and RTT were as high before: a long or lossy route, or a limit too strict for this path."

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        if not settings or not snapshot.paths:
            return []
        windows, findings = pooled(snapshot, COUNTS), []
        allowed = ALARMS_AN_HOUR / (looks_an_hour(snapshot) * WINDOWS)
        for path_id, rule in settings.items():
            limit, bursts = cast("MosRule", rule).mos_below, snapshot.trips.bursts_of(path_id)
            if limit is None or bursts is None:
                continue
            row, settled = snapshot.rows[path_id], settled_s(snapshot, path_id, self.name)
            first = int(np.searchsorted(bursts.at_s, settled))
            newest = bursts.part(first, len(bursts.at_s)).newest(MOST_BURSTS)
            own = Windows({name: windows.sums[name][row] for name in COUNTS}, windows.lasting_s, windows.counted_s)
            window = self._proven(newest, own, limit, float(allowed[row]), snapshot.now.timestamp() - settled)
            if window is not None:
                findings.append(self._finding(snapshot, path_id, newest, own, window, limit))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        path, bursts = snapshot.paths[path_id], snapshot.trips.bursts_of(path_id)
        if bursts is None or len(bursts.at_s) < bursts_to_clear(int(figures["bursts"]), path.every_s):
            return None
        windows = pooled(snapshot, COUNTS, snapshot.rows[path_id])
        longest_s = max(windows.lasting_s)
        for place in np.argsort(windows.lasting_s, kind="stable").tolist():
            if windows.lasting_s[place] < min(float(figures["window_s"]), longest_s):
                continue
            if windows.sums["sent"][place] < CLEAR_SHARE * figures["sent"] and windows.lasting_s[place] < longest_s:
                continue
            score = _score(bursts.newest(int(figures["bursts"])), windows, place)
            if score is None or score < figures["limit_mos"]:
                return None
            return f"MOS {score:.2f} in {shown.duration(windows.counted_s[place])}, limit {figures['limit_mos']:g}"
        return None

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        return (cast("MosRule", settings).mos_below or np.inf) < figures["limit_mos"]

    @staticmethod
    def _proven(bursts: RecentBursts, windows: Windows, limit: float, allowed: float, unjudged_s: float) -> int | None:
        bursts_of, lossy, sent, received = (windows.sums[name] for name in COUNTS)
        lost = np.where(lossy >= MIN_LOSSY_BURSTS_TO_FIRE, sent - received, 0.0)
        ratio = np.where(sent > 0, lost / np.maximum(sent, 1.0), 0.0)
        if not len(bursts.at_s) or float(mos(_most_latency_ms(bursts), 0.0, ratio.max())) >= limit:
            return None  # as on most paths
        latency_ms = _least_latency_ms(bursts, allowed / 2.0)
        least = np.zeros(len(lost))
        some = lost > 0
        together = binomial.clustering(bursts_of[some], lossy[some], sent[some], lost[some])
        least[some] = binomial.lower_bound(lost[some] / together, sent[some] / together, 1.0 - allowed / 2.0)
        scores = mos(latency_ms, 0.0, least)
        scores[(np.asarray(windows.lasting_s) > unjudged_s) | (sent == 0)] = np.inf
        place = int(scores.argmin())
        score = _score(bursts, windows, place)
        return place if scores[place] < limit and score is not None and score < limit else None

    def _finding(
        self, snapshot: Snapshot, path_id: int, bursts: RecentBursts, windows: Windows, place: int, limit: float
    ) -> RuleFinding:
        sent, received = (round(float(windows.sums[name][place])) for name in ("sent", "received"))
        counted_s, score = windows.counted_s[place], cast("float", _score(bursts, windows, place))
        rtt_ms = float(np.nanmean(bursts.rtts_ms))
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=(
                f"MOS {score:.2f}, limit {limit:g}: loss {shown.loss(sent - received, sent)} in "
                f"{shown.duration(counted_s)} to {snapshot.now:%Y-%m-%d %H:%M} UTC, mean RTT "
                f"{shown.milliseconds(rtt_ms)} and IPDV {shown.milliseconds(_ipdv_ms(bursts))} in "
                f"{len(bursts.at_s)} bursts"
            ),
            since=snapshot.now - timedelta(seconds=counted_s),
            figures={
                "mos": score,
                "limit_mos": limit,
                "window_s": windows.lasting_s[place],
                "counted_s": counted_s,
                "sent": sent,
                "bursts": len(bursts.at_s),
                "rtt_ms": rtt_ms,
            },
        )


class ThroughputLimit(AlertRule):
    name = "throughput_limit"
    settings = ThroughputLimitRule
    words = "throughput"
    trouble = Trouble.THROUGHPUT
    effect = Effect.LOW_THROUGHPUT

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings = []
        for path_id, rule in settings.items():
            limit_bps, row = cast("ThroughputLimitRule", rule).below_bps, snapshot.test_rows[path_id]
            if limit_bps is None:
                continue
            is_new = snapshot.tested_at_s[row] >= settled_s(snapshot, path_id, self.name)  # NaN is not
            rates = snapshot.tests_bps[row][is_new]
            allowed = ALARMS_AN_HOUR * snapshot.tested_paths[path_id].every_s / 3600.0
            below = rates[::-1] < limit_bps
            chance_by_count = {
                count: len(ranks.NEWEST) * float(binomial.at_least(below[:count].sum(), count, SHARE_BELOW))
                for count in ranks.NEWEST
                if count <= len(rates) and below[0]
            }
            count = min(chance_by_count, key=lambda number: chance_by_count[number], default=None)
            if count is not None and chance_by_count[count] <= allowed:
                at_s = snapshot.tested_at_s[row][is_new]
                findings.append(self._finding(snapshot, path_id, rates[-count:], at_s[-count:], limit_bps))
        return findings

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row = snapshot.test_rows[path_id]
        last, at_s = snapshot.tests_bps[row, -CLEAR_TESTS:], snapshot.tested_at_s[row, -CLEAR_TESTS:]
        if np.isnan(last).any() or at_s[0] < datetime.fromisoformat(figures["found"]).timestamp():
            return None
        if float(np.median(last)) < figures["limit_bps"]:
            return None
        return f"throughput {shown.bit_rate(float(np.median(last)))}, median of the last {CLEAR_TESTS} tests"

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        return (cast("ThroughputLimitRule", settings).below_bps or np.inf) < figures["limit_bps"]

    def _finding(
        self, snapshot: Snapshot, path_id: int, rates_bps: Floats, at_s: Floats, limit_bps: float
    ) -> RuleFinding:
        path, is_below = snapshot.tested_paths[path_id], rates_bps < limit_bps
        since = datetime.fromtimestamp(float(at_s[np.flatnonzero(is_below)[0]]), UTC)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=(
                f"throughput {shown.bit_rate(float(rates_bps[-1]))} over IPv{path.family} in the newest test, limit "
                f"{shown.bit_rate(limit_bps)} ({is_below.sum()} of the last {len(rates_bps)} tests below it, since "
                f"{since:%Y-%m-%d %H:%M} UTC)"
            ),
            since=since,
            figures={
                "value_bps": float(rates_bps[-1]),
                "limit_bps": limit_bps,
                "tests": len(rates_bps),
                "tests_below": int(is_below.sum()),
                "found": snapshot.now.isoformat(),
            },
        )


def _most_latency_ms(bursts: RecentBursts) -> float:
    """A cheap upper bound of the mean RTT and twice the IPDV."""
    most_ms, least_ms = float(np.nanmax(bursts.rtts_ms)), float(bursts.values_ms["minimum"].min())
    return most_ms + 4.0 * (most_ms - least_ms)


def _least_latency_ms(bursts: RecentBursts, most_chance: float) -> float:
    """Lower bound of the bursts' median latency at this error probability; 0 with too few."""
    place = _order(len(bursts.at_s), most_chance)
    if place is None:
        return 0.0
    ipdv_ms = np.nan_to_num(interquartile_ranges(np.diff(bursts.rtts_ms, axis=1)))
    return float(np.sort(averages(bursts.rtts_ms) + 2.0 * ipdv_ms)[place])


@cache
def _order(count: int, most_chance: float) -> int | None:
    """Place of the largest ordered value that exceeds the true median with at most this chance; None if none does."""
    below = scipy.special.bdtr(np.arange(count), count, 0.5) if count else np.ones(1)
    places = np.flatnonzero(below <= most_chance)
    return int(places[-1]) if len(places) else None


def _score(bursts: RecentBursts, windows: Windows, place: int) -> float | None:
    sent, received = (float(windows.sums[name][place]) for name in ("sent", "received"))
    ipdv_ms = _ipdv_ms(bursts)
    if not sent or not len(bursts.at_s) or np.isnan(ipdv_ms):
        return None
    return float(mos(float(np.nanmean(bursts.rtts_ms)), ipdv_ms, (sent - received) / sent))


def _ipdv_ms(bursts: RecentBursts) -> float:
    """Interquartile range of consecutive RTT differences within bursts; NaN without any."""
    return float(interquartile_ranges(np.diff(bursts.rtts_ms, axis=1).reshape(1, -1))[0])


MOS = MosLimit()
THROUGHPUT_LIMIT = ThroughputLimit()
