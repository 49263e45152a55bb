"""The throughput that a path allows fell: the Mathis estimate of its newest whole days against that of the days before.

It is made of the pings' loss and round trips, so it watches every path and family, also those without throughput tests;
tests are watched by `throughput`. One figure a day, of all packets of the day, keeps small samples honest: where
nothing was lost it is the floor that so many packets allow. Proven by ranks, exactly; few days never prove what few
cannot. Slower than the rules of loss and round trips, it finds what has
become worse bit by bit in both, and what it finds belongs to the incident that those have of the path. It is over when
the newest whole day is back above half way, or after a week.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np

from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.snapshot import Sweep
from monitor.analysis import figures as shown
from monitor.analysis.alarms import ranks
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import EstimateRule

CHANCE_A_DAY = 24 * 1e-5
"""One look a day: a false alarm in 100,000 path-hours."""

CLEAR_SHARE_OF_FALL = 0.5
NEW_NORMAL_AFTER = timedelta(days=7)


class Estimate:
    """A proven fall of the estimated throughput."""

    name = "estimate"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        if not settings or not sweep.paths:
            return []
        widest = max(cast("EstimateRule", rule).below_ratio for rule in settings.values())
        rows = np.flatnonzero(ranks.may_have_fallen(sweep.daily_estimates_bps, widest))
        falls = ranks.falls(sweep.daily_estimates_bps[rows])
        ratio = falls.newest_median / falls.before_median
        ids = list(sweep.paths)
        found = []
        for place in np.flatnonzero(falls.chance <= CHANCE_A_DAY).tolist():
            path_id = ids[rows[place]]
            rule = cast("EstimateRule | None", settings.get(path_id))
            if rule is not None and ratio[place] < rule.below_ratio:
                found.append(self._finding(sweep, path_id, place, falls))
        return found

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        before, after = float(figures["before_bps"]), float(figures["after_bps"])
        newest = float(sweep.daily_estimates_bps[sweep.rows[path_id], -1])
        if not np.isnan(newest) and newest >= after + CLEAR_SHARE_OF_FALL * (before - after):
            return f"estimated throughput of yesterday {shown.bit_rate(newest)}"
        if sweep.now - datetime.fromisoformat(figures["found"]) >= NEW_NORMAL_AFTER:
            return "the estimated throughput has been so for a week: this is the normal level from here on"
        return None

    def _finding(self, sweep: Sweep, path_id: int, place: int, falls: ranks.Falls) -> Finding:
        path, days = sweep.paths[path_id], int(falls.count[place])
        before, after = float(falls.before_median[place]), float(falls.newest_median[place])
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=(
                f"loss and round trips over IPv{path.family} allow one Reno transfer {shown.bit_rate(after)}, median "
                f"of the last {days} days, was {shown.bit_rate(before)} in the {int(falls.before[place])} days before"
            ),
            since=sweep.now - timedelta(days=days),
            figures={
                "before_bps": before,
                "after_bps": after,
                "days": days,
                "days_before": int(falls.before[place]),
                "chance": float(falls.chance[place]),
                "found": sweep.now.isoformat(),
            },
        )


ESTIMATE = Estimate()
