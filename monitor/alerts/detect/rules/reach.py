"""Whether a path is heard of at all: nothing answers (unreachable), or nothing was measured (no_data). Never both.

Unreachable is what was measured: bursts were sent, in three cycles at least and for `after_s`, and none was answered.
It is over with two answered cycles in a row. No data is the lack of measurements: none came, or they could not be made.
It says nothing of loss, neither opens nor closes an incident about loss, and is over with the next measured burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.snapshot import Sweep
from monitor.analysis import figures as shown
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import NoDataRule, UnreachableRule

CYCLES = 3
CLEAR_CYCLES = 2


class Unreachable:
    """Everything that was sent was lost."""

    name = "unreachable"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        measured, answered = sweep.newest("measured_s"), sweep.newest("answered_s")
        began = np.where(np.isnan(answered), _began(sweep), answered)
        found = []
        for path_id, one in settings.items():
            row, rule = sweep.rows[path_id], cast("UnreachableRule", one)
            path = sweep.paths[path_id]
            silent_s = float(measured[row] - began[row])
            if silent_s >= max(rule.after_s, CYCLES * path.every_s):
                found.append(self._finding(sweep, path_id, float(began[row]), not np.isnan(answered[row])))
        return found

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        row = sweep.rows[path_id]
        measured, answered = float(sweep.newest("measured_s")[row]), float(sweep.newest("answered_s")[row])
        every_s = sweep.paths[path_id].every_s
        last = datetime.fromisoformat(figures["unanswered_until"]).timestamp()
        if (
            np.isnan(answered)
            or answered - last < CLEAR_CYCLES * every_s
            or measured - answered >= CLEAR_CYCLES * every_s
        ):
            return None
        return f"answers again, last at {datetime.fromtimestamp(answered, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def _finding(self, sweep: Sweep, path_id: int, began_s: float, has_answered: bool) -> Finding:
        since = datetime.fromtimestamp(began_s, UTC)
        last = datetime.fromtimestamp(float(sweep.newest("measured_s")[sweep.rows[path_id]]), UTC)
        said = "the last answer came" if has_answered else "no answer since"
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=sweep.paths[path_id].name,
            sentence=f"nothing is answered; {said} at {since:%Y-%m-%d %H:%M:%S} UTC",
            since=since,
            figures={"since": since.isoformat(), "unanswered_until": last.isoformat()},
        )


class NoData:
    """Nothing was measured."""

    name = "no_data"

    def judge(self, sweep: Sweep, settings: Mapping[int, alert_rules.Rule]) -> list[Finding]:
        measured = sweep.newest("measured_s")
        found = []
        for path_id, one in settings.items():
            row, path = sweep.rows[path_id], sweep.paths[path_id]
            patience_s = max(cast("NoDataRule", one).after_s, CYCLES * path.every_s)
            heard_s = float(measured[row])
            known_s = max(path.started_at.timestamp(), _began(sweep)) if np.isnan(heard_s) else heard_s
            if sweep.now.timestamp() - known_s >= patience_s:
                found.append(self._finding(sweep, path_id, row, heard_s, known_s))
        return found

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        measured_s = float(sweep.newest("measured_s")[sweep.rows[path_id]])
        if np.isnan(measured_s) or measured_s <= datetime.fromisoformat(figures["since"]).timestamp():
            return None
        if sweep.now.timestamp() - measured_s >= CYCLES * sweep.paths[path_id].every_s:
            return None
        return f"measured again, last at {datetime.fromtimestamp(measured_s, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def _finding(self, sweep: Sweep, path_id: int, row: int, heard_s: float, known_s: float) -> Finding:
        path = sweep.paths[path_id]
        since = datetime.fromtimestamp(known_s, UTC)
        tried_s = float(sweep.newest("tried_s")[row])
        last = "none for" if np.isnan(heard_s) else f"the last began at {since:%Y-%m-%d %H:%M:%S} UTC,"
        ago = shown.duration(sweep.now.timestamp() - known_s)
        reason = self._reason(sweep, path.place.source, tried_s, known_s)
        return Finding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=f"no measurements: {last} {ago}{'' if np.isnan(heard_s) else ' ago'}; {reason}",
            since=since,
            figures={"since": since.isoformat(), "found": sweep.now.isoformat()},
        )

    @staticmethod
    def _reason(sweep: Sweep, site: str, tried_s: float, known_s: float) -> str:
        if tried_s > known_s:
            return "bursts are tried and cannot be measured"
        contact_s = sweep.agents.get(site)
        if contact_s is None:
            return f"the agent of {site} has never delivered anything"
        told = sweep.troubles.get(site, ())
        of_itself = f"; it told that {' and '.join(told)}" if told else ""
        return f"the agent of {site} delivered last {shown.duration(sweep.now.timestamp() - contact_s)} ago{of_itself}"


def _began(sweep: Sweep) -> float:
    """Where what the sweep knows begins, in seconds since the epoch."""
    return sweep.now.timestamp() - sweep.recent_s


UNREACHABLE = Unreachable()
NO_DATA = NoData()
