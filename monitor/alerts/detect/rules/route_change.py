"""Route changes with a rise of RTT or loss, judged late so that they join the incident as its cause."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np

from monitor.alerts.detect.route_effects import RouteEffect
from monitor.alerts.detect.rules.finding import ACCEPTED, AlertRule, RuleFinding
from monitor.alerts.detect.rules.round_trips import NEW_NORMAL_AFTER, RTT
from monitor.alerts.detect.rules.windows import FiredLevel, Windows, clearing, pooled, settled_s
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.changes.detector import AFTER
from monitor.mesh.document.alert_rules import OpenRatio, RiseMs, RuleSettings, RuleSeverity
from probes.toml.keys import meaning

SPARE_CYCLES = 2
LOSS_WINDOW_S = 600.0
CLEAR_SHARE = 0.5
FIGURE = "median"


class RouteChangeRule(RuleSettings, frozen=True, kw_only=True):
    """The route of the path or of its reverse path has changed, and with it RTT or loss rose."""

    severity: RuleSeverity = "notice"

    least_rise_ms: Annotated[RiseMs, meaning("Minimum rise of the RTT with the change.")] = 2.0
    least_loss_ratio: Annotated[
        OpenRatio, meaning("Minimum rise of the loss with the change, as a share of packets.")
    ] = 0.005


class RouteChanged(AlertRule):
    name = "route_change"
    settings = RouteChangeRule
    words = "route change"
    figure_words = "RTT"

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        findings: dict[int, RuleFinding] = {}
        for effect in snapshot.route_effects:
            rule, path = settings.get(effect.path_id), snapshot.paths.get(effect.path_id)
            if rule is None or path is None:
                continue
            waited = snapshot.now - effect.seen_at >= timedelta(seconds=(AFTER + SPARE_CYCLES) * path.every_s)
            is_new = effect.seen_at.timestamp() > settled_s(snapshot, effect.path_id, self.name)
            figures = _figures(effect, cast("RouteChangeRule", rule), snapshot.now)
            if waited and is_new and figures is not None and self.over(effect.path_id, figures, snapshot) is None:
                findings[effect.path_id] = RuleFinding(
                    self.name, effect.path_id, path.name, effect.text, effect.since, figures
                )
        return list(findings.values())

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        if "after_ms" in figures:
            return RTT.over(path_id, {**figures, "figure": FIGURE}, snapshot)
        windows = pooled(snapshot, ("bursts", "sent", "received"), snapshot.rows[path_id])
        place = _loss_cleared(windows, figures, snapshot, path_id)
        if place is not None:
            return f"loss {_loss_text(windows, place)} again"
        if snapshot.now - datetime.fromisoformat(figures["since"]) >= NEW_NORMAL_AFTER:
            return f"loss {_loss_text(windows, int(np.argmax(windows.lasting_s)))} for a day: {ACCEPTED}"
        return None


def _loss_cleared(windows: Windows, figures: Mapping[str, Any], snapshot: Snapshot, path_id: int) -> int | None:
    before, after = float(figures["loss_before_ratio"]), float(figures["loss_after_ratio"])
    # Findings of old versions have neither `until` nor `together`.
    until_s = datetime.fromisoformat(figures.get("until", figures["since"])).timestamp()
    fired = FiredLevel(until_s, LOSS_WINDOW_S, after, 0.0, float(figures.get("together", 1.0)))
    sent = windows.sums["sent"]
    lost = sent - windows.sums["received"]
    is_low = (sent > 0) & (lost <= (before + CLEAR_SHARE * (after - before)) * sent)
    return clearing(windows, is_low, lost, sent, fired, snapshot.paths[path_id], snapshot.now)


def _loss_text(windows: Windows, place: int) -> str:
    sent, received = (round(float(windows.sums[name][place])) for name in ("sent", "received"))
    return f"{shown.loss(sent - received, sent)} in {shown.duration(windows.counted_s[place])}"


def _figures(effect: RouteEffect, rule: RouteChangeRule, now: datetime) -> dict[str, Any] | None:
    times = {"since": effect.since.isoformat(), "not_before": effect.not_before.isoformat()}
    rtt, loss = effect.effect.rtt, effect.effect.loss
    if rtt is not None and rtt.shift_ms >= rule.least_rise_ms:
        levels = {"before_ms": rtt.before_ms, "after_ms": rtt.after_ms, "minimum_rise_ms": rtt.shift_ms}
        return {"follows": FIGURE, **levels, **times}
    if loss is None:
        return None
    before, after = loss.lost_before / loss.sent_before, loss.lost_after / loss.sent_after
    if after - before < rule.least_loss_ratio:
        return None
    proof = {"together": loss.together, "until": now.isoformat()}
    return {"loss_before_ratio": before, "loss_after_ratio": after, **proof, **times}


ROUTE_CHANGE = RouteChanged()
