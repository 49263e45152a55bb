"""Latency of request-response transactions above the path's own earlier runs, by the rank test of `throughput`, or
above a limit.

Runs during throughput tests are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np
from msgspec import Meta

from monitor.alerts.detect.response_runs import FIGURES, ResponseRuns
from monitor.alerts.detect.rules.finding import ACCEPTED, AlertRule, RuleFinding, Trouble
from monitor.alerts.detect.rules.windows import settled_s
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.mesh.document.alert_rules import LimitSettings, RiseMs, RuleSettings
from probes.toml.keys import meaning

# Of all figures and sizes of a path together, as of its throughput tests.
ALARMS_AN_HOUR = 2e-5
CLEAR_RUNS = 3
CLEAR_SHARE_OF_RISE = 0.5
NEW_NORMAL_AFTER = timedelta(days=7)
# Share of the runs that may be above the limit.
SHARE_ABOVE = 0.05
WORDS = {"median_ms": "median", "p95_ms": "95th percentile"}


class RequestResponseRule(RuleSettings, frozen=True, kw_only=True):
    """The newest request-response latencies are significantly above the earlier, by both keys."""

    above_ratio: Annotated[
        float, Meta(gt=1, le=100), meaning("Ratio to the highest of the runs before above which an incident opens.")
    ] = 1.5
    least_rise_ms: Annotated[RiseMs, meaning("Minimum rise of the latency.")] = 5.0


class RequestResponseLimitRule(LimitSettings, frozen=True, kw_only=True):
    """Significantly more than 5% of the newest request-response runs have a 95th percentile above `above_ms`."""

    above_ms: (
        Annotated[
            float,
            Meta(ge=0.001, le=60_000),
            meaning("95th percentile of the latency above which an incident opens; without it the rule is off."),
        ]
        | None
    ) = None

    @property
    def limit(self) -> float | None:
        return self.above_ms


class _TransactionLatency(AlertRule):
    words = "transaction latency"
    trouble = Trouble.RESPONSES


class RequestResponseRise(_TransactionLatency):
    name = "request_response"
    settings = RequestResponseRule
    usual_cause = "RTT and loss of the pings are as before: the blocks meet a queue, a lower rate, or a busy server."

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        runs, gravest = snapshot.responses, dict[int, RuleFinding]()
        if not settings or not len(runs.path_id):
            return []
        for figure in FIGURES:
            latencies_ms = runs.usual(figure)
            rises = ranks.falls(-latencies_ms)
            for row in np.flatnonzero(rises.chance < 1.0).tolist():
                path_id = int(runs.path_id[row])
                rule = cast("RequestResponseRule | None", settings.get(path_id))
                chance = float(rises.chance[row]) * len(FIGURES) * _sizes(runs, path_id)
                if rule is None or chance > ALARMS_AN_HOUR * runs.paths[path_id].every_s / 3600.0:
                    continue
                after_ms, before_ms = -float(rises.newest_median[row]), -float(rises.before_median[row])
                counts = int(rises.count[row]), int(rises.before[row])
                highest_ms = float(np.nanmax(latencies_ms[row, -counts[0] - ranks.MOST_BEFORE : -counts[0]]))
                if after_ms < max(rule.above_ratio * highest_ms, before_ms + rule.least_rise_ms):
                    continue
                finding = self._finding(snapshot, row, figure, (before_ms, after_ms), counts, chance)
                is_gravest = path_id not in gravest or chance < gravest[path_id].figures["chance"]
                if is_gravest and not _is_back(_level_ms(runs, row, figure), finding.figures):
                    gravest[path_id] = finding
        return list(gravest.values())

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row = _row_of(snapshot.responses, path_id, figures)
        if row is None or not _is_later(snapshot.responses, row, figures):
            return None
        level_ms = _level_ms(snapshot.responses, row, figures["of"])
        if _is_back(level_ms, figures):
            return _over_text(level_ms, figures["of"])
        if snapshot.now - datetime.fromisoformat(figures["found"]) >= NEW_NORMAL_AFTER:
            return f"{self.words} {shown.milliseconds(level_ms)} for a week: {ACCEPTED}"
        return None

    def _finding(
        self,
        snapshot: Snapshot,
        row: int,
        figure: str,
        levels_ms: tuple[float, float],
        counts: tuple[int, int],
        chance: float,
    ) -> RuleFinding:
        runs, (before_ms, after_ms), (newest, before) = snapshot.responses, levels_ms, counts
        path_id = int(runs.path_id[row])
        since = datetime.fromtimestamp(float(runs.at_s[row, -newest]), UTC)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=runs.paths[path_id].name,
            sentence=(
                f"{self.words} {shown.milliseconds(after_ms)} ({WORDS[figure]}, {_blocks(runs, row)}), was "
                f"{shown.milliseconds(before_ms)}: the last {newest} runs are significantly slower than the {before} "
                f"before, since {since:%Y-%m-%d %H:%M} UTC; probability by chance {chance:.0e}"
            ),
            since=since,
            figures={
                "of": figure,
                **_sizes_of(runs, row),
                "before_ms": before_ms,
                "after_ms": after_ms,
                "runs": newest,
                "runs_before": before,
                "chance": chance,
                "found": snapshot.now.isoformat(),
            },
        )


class RequestResponseLimit(_TransactionLatency):
    name = "request_response_limit"
    settings = RequestResponseLimitRule
    usual_cause = "The latency was as high before: a long path, a slow link, or a limit too strict for these blocks."

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings = dict[int, RuleFinding]()
        for path_id, row in _rows(snapshot.responses, settings):
            limit_ms = cast("RequestResponseLimitRule", settings[path_id]).above_ms
            finding = None if limit_ms is None else self._judge_row(snapshot, path_id, row, limit_ms)
            if finding is not None:
                findings.setdefault(path_id, finding)
        return list(findings.values())

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row = _row_of(snapshot.responses, path_id, figures)
        if row is None or not _is_later(snapshot.responses, row, figures):
            return None
        level_ms = _level_ms(snapshot.responses, row, "p95_ms")
        return _over_text(level_ms, "p95_ms") if level_ms <= figures["limit_ms"] else None

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        return (cast("RequestResponseLimitRule", settings).above_ms or 0.0) > figures["limit_ms"]

    def _judge_row(self, snapshot: Snapshot, path_id: int, row: int, limit_ms: float) -> RuleFinding | None:
        runs = snapshot.responses
        is_new = runs.at_s[row] >= settled_s(snapshot, path_id, self.name)  # NaN is not
        latencies_ms, at_s = runs.p95_ms[row][is_new], runs.at_s[row][is_new]
        above = latencies_ms > limit_ms
        if not len(above) or not above[-1]:
            return None
        allowed = ALARMS_AN_HOUR * runs.paths[path_id].every_s / 3600.0 / _sizes(runs, path_id)
        chances = {
            count: len(ranks.NEWEST) * float(binomial.at_least(above[-count:].sum(), count, SHARE_ABOVE))
            for count in ranks.NEWEST
            if count <= len(above)
        }
        count = min(chances, key=lambda number: chances[number], default=None)
        if count is None or chances[count] > allowed:
            return None
        since = datetime.fromtimestamp(float(at_s[-count:][above[-count:]][0]), UTC)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=runs.paths[path_id].name,
            sentence=(
                f"{self.words} {shown.milliseconds(float(latencies_ms[-1]))} (95th percentile, {_blocks(runs, row)}) "
                f"in the newest run, limit {shown.milliseconds(limit_ms)} ({above[-count:].sum()} of the last {count} "
                f"runs above it, since {since:%Y-%m-%d %H:%M} UTC)"
            ),
            since=since,
            figures={
                "of": "p95_ms",
                **_sizes_of(runs, row),
                "after_ms": float(latencies_ms[-1]),
                "limit_ms": limit_ms,
                "runs": count,
                "runs_above": int(above[-count:].sum()),
                "found": snapshot.now.isoformat(),
            },
        )


def newest_latency_ms(runs: ResponseRuns, path_id: int, figures: Mapping[str, Any]) -> float | None:
    row = _row_of(runs, path_id, figures)
    return None if row is None else float(getattr(runs, figures["of"])[row, -1])


def _rows(runs: ResponseRuns, settings: Mapping[int, RuleSettings]) -> Iterator[tuple[int, int]]:
    return ((path_id, row) for row, path_id in enumerate(runs.path_id.tolist()) if path_id in settings)


def _row_of(runs: ResponseRuns, path_id: int, figures: Mapping[str, Any]) -> int | None:
    return runs.row_of(path_id, figures["request_bytes"], figures["response_bytes"])


def _sizes(runs: ResponseRuns, path_id: int) -> int:
    return int((runs.path_id == path_id).sum())


def _sizes_of(runs: ResponseRuns, row: int) -> dict[str, int]:
    return {"request_bytes": int(runs.request_bytes[row]), "response_bytes": int(runs.response_bytes[row])}


def _blocks(runs: ResponseRuns, row: int) -> str:
    return (
        f"{shown.count(int(runs.request_bytes[row]))} bytes sent, {shown.count(int(runs.response_bytes[row]))} answered"
    )


def _level_ms(runs: ResponseRuns, row: int, figure: str) -> float:
    return float(np.median(getattr(runs, figure)[row, -CLEAR_RUNS:]))


def _is_later(runs: ResponseRuns, row: int, figures: Mapping[str, Any]) -> bool:
    return bool(runs.at_s[row, -CLEAR_RUNS] >= datetime.fromisoformat(figures["found"]).timestamp())  # NaN is not


def _is_back(level_ms: float, figures: Mapping[str, Any]) -> bool:
    before_ms, after_ms = float(figures["before_ms"]), float(figures["after_ms"])
    return level_ms <= before_ms + CLEAR_SHARE_OF_RISE * (after_ms - before_ms)


def _over_text(level_ms: float, figure: str) -> str:
    return f"{WORDS[figure]} {shown.milliseconds(level_ms)}, median of the last {CLEAR_RUNS} runs"


REQUEST_RESPONSE = RequestResponseRise()
REQUEST_RESPONSE_LIMIT = RequestResponseLimit()
