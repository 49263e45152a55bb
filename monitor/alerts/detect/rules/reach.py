"""Paths without any reply (unreachable) and paths without measurements (no_data), never both.

Unreachable counts only time with requests and clears with two answered cycles in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.silences import Silence
from monitor.alerts.detect.rules.finding import AlertRule, BadBursts, Effect, LateResults, RuleFinding, Trouble
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting
from monitor.archive.queries.paths import LossWindow
from monitor.archive.statements import LONGEST_RAW
from monitor.arrays import Floats
from monitor.mesh.document.alert_rules import DAY_S, LeastSchedule, RuleSettings, RuleSeverity, WaitS
from probes.toml.keys import meaning

CYCLES = 3
CLEAR_CYCLES = 2
# Figure of a finding judged for its end: first reply after the outage, where packets tell it.
FIRST_REPLY = "first_reply"
# Counts reach back a day.
SCHEDULE = LeastSchedule(f"{CYCLES} cycles within a day", DAY_S / CYCLES)


class UnreachableRule(RuleSettings, frozen=True, kw_only=True):
    """No reply for `after_s`, and for at least three cycles."""

    schedule = SCHEDULE
    severity: RuleSeverity = "critical"

    after_s: Annotated[WaitS, meaning("Time without a reply after which an incident opens.")] = 180


class NoDataRule(RuleSettings, frozen=True, kw_only=True):
    """No measurement for `after_s`, and for at least three cycles."""

    schedule = SCHEDULE
    after_s: Annotated[WaitS, meaning("Time without a measurement after which an incident opens.")] = 300


def _time_without_data(figures: Mapping[str, Any]) -> tuple[datetime, datetime]:
    found_at = datetime.fromisoformat(figures["found"])
    return max(datetime.fromisoformat(figures["since"]) + timedelta(microseconds=1), found_at - LONGEST_RAW), found_at


def _correct(figures: Mapping[str, Any], counted: LossWindow) -> str:
    return f"{counted.bursts} bursts of that time arrived late: the path was measured, its results were delayed"


class UnreachablePath(AlertRule):
    name = "unreachable"
    settings = UnreachableRule
    words = "unreachable"
    effect = Effect.UNREACHABLE
    began_by = BadBursts("bursts without a reply", lambda bursts: bursts.received == 0)

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        measured, answered = snapshot.newest("measured_s"), snapshot.newest("answered_s")
        path_ids, rows = list(settings), by_setting.rows_of(settings, snapshot.rows)
        patience_s, silent_s = _patience_s(snapshot, settings, rows), (measured - answered)[rows]
        for place in np.flatnonzero(np.isnan(silent_s)).tolist():
            silent_s[place] = measured[rows[place]] - snapshot.paths[path_ids[place]].started_at.timestamp()
        long = np.flatnonzero(silent_s >= patience_s).tolist()
        silences = {place: of_path for place in long if (of_path := snapshot.silences.get(path_ids[place]))}
        return [
            self._finding(snapshot, path_ids[place], silence)
            for place, silence in silences.items()
            if silence.cycles >= CYCLES and silence.until_s - silence.since_s >= patience_s[place]
        ]

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        row = snapshot.rows[path_id]
        measured, answered = float(snapshot.newest("measured_s")[row]), float(snapshot.newest("answered_s")[row])
        every_s = snapshot.paths[path_id].every_s
        last = datetime.fromisoformat(figures["unanswered_until"]).timestamp()
        if (
            np.isnan(answered)
            or answered - last < CLEAR_CYCLES * every_s
            or measured - answered >= CLEAR_CYCLES * every_s
        ):
            return None
        first_reply = datetime.fromisoformat(figures[FIRST_REPLY]) if FIRST_REPLY in figures else None
        if first_reply is None or first_reply.timestamp() < last:
            return "answers again"
        return f"answered again by {first_reply:%Y-%m-%d %H:%M:%S} UTC"

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        return CLEAR_CYCLES * every_s

    def _finding(self, snapshot: Snapshot, path_id: int, silence: Silence) -> RuleFinding:
        since, last = (datetime.fromtimestamp(at_s, UTC) for at_s in (silence.since_s, silence.until_s))
        last_reply = "last burst with a reply" if silence.has_answered else "no reply since"
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=snapshot.paths[path_id].name,
            sentence=f"100% loss; {last_reply} {since:%Y-%m-%d %H:%M:%S} UTC",
            since=since,
            figures={"since": since.isoformat(), "unanswered_until": last.isoformat()},
        )


class NoData(AlertRule):
    name = "no_data"
    settings = NoDataRule
    words = "no data"
    trouble = Trouble.NO_DATA
    effect = Effect.NO_DATA
    late_results = LateResults(_time_without_data, _correct)

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        measured = snapshot.newest("measured_s")
        path_ids, rows = list(settings), by_setting.rows_of(settings, snapshot.rows)
        heard_s = measured[rows]
        known_s = heard_s.copy()
        for place in np.flatnonzero(np.isnan(heard_s)).tolist():
            started_s = snapshot.paths[path_ids[place]].started_at.timestamp()
            known_s[place] = max(started_s, snapshot.now.timestamp() - snapshot.recent_s)
        is_late = snapshot.now.timestamp() - known_s >= _patience_s(snapshot, settings, rows)
        return [
            self._finding(snapshot, path_ids[place], int(rows[place]), float(heard_s[place]), float(known_s[place]))
            for place in np.flatnonzero(is_late).tolist()
        ]

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        measured_s = float(snapshot.newest("measured_s")[snapshot.rows[path_id]])
        if np.isnan(measured_s) or measured_s <= datetime.fromisoformat(figures["since"]).timestamp():
            return None
        if snapshot.now.timestamp() - measured_s >= CYCLES * snapshot.paths[path_id].every_s:
            return None
        return f"measured again, last at {datetime.fromtimestamp(measured_s, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def _finding(self, snapshot: Snapshot, path_id: int, row: int, heard_s: float, known_s: float) -> RuleFinding:
        path = snapshot.paths[path_id]
        since = datetime.fromtimestamp(known_s, UTC)
        tried_s = float(snapshot.newest("tried_s")[row])
        last = "none for" if np.isnan(heard_s) else f"the last began at {since:%Y-%m-%d %H:%M:%S} UTC,"
        ago = shown.duration(snapshot.now.timestamp() - known_s)
        reason = self._reason(snapshot, path.place.source, tried_s, known_s)
        return RuleFinding(
            rule=self.name,
            path_id=path_id,
            path=path.name,
            sentence=f"no measurements: {last} {ago}{'' if np.isnan(heard_s) else ' ago'}; {reason}",
            since=since,
            figures={"since": since.isoformat(), "found": snapshot.now.isoformat()},
        )

    @staticmethod
    def _reason(snapshot: Snapshot, site: str, tried_s: float, known_s: float) -> str:
        if tried_s > known_s:
            return "the agent tries, but its tests fail"
        contact_s = snapshot.agents.get(site)
        if contact_s is None:
            return f"the agent of {site} has never reported"
        troubles = snapshot.troubles.get(site, ())
        of_itself = f"; it reported: {', '.join(troubles)}" if troubles else ""
        return (
            f"last report of the agent of {site} {shown.duration(snapshot.now.timestamp() - contact_s)} ago{of_itself}"
        )


def _patience_s(snapshot: Snapshot, settings: Mapping[int, RuleSettings], rows: NDArray[np.int64]) -> Floats:
    after_s = by_setting.each(settings, lambda rule: float(cast("UnreachableRule | NoDataRule", rule).after_s))
    return np.maximum(after_s, CYCLES * snapshot.every_s[rows])


UNREACHABLE = UnreachablePath()
NO_DATA = NoData()
