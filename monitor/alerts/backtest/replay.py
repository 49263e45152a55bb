"""Replay past evaluations with incidents kept in memory.

Silences, maintenance, acknowledgements and late results are not replayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.alerts.closing import reason_for_end
from monitor.alerts.detect import causes, route_places, suspects
from monitor.alerts.detect.causes import CauseGroup
from monitor.alerts.detect.past.baselines import Baselines, baselines_at, baselines_since
from monitor.alerts.detect.past.incident_times import IncidentTimes, MeasureKind, PathTime
from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import NEW_NORMAL, RuleFinding
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.sources import Source
from monitor.alerts.detect.troubles import LastingIncident, lasting_keys
from monitor.alerts.evaluate import findings, snapshot_at
from monitor.alerts.incidents.gravest import gravest_of
from monitor.alerts.incidents.lifecycle import CONFIRM_S, REOPEN_S
from monitor.alerts.incidents.past_times import measures_of
from monitor.alerts.scope import RuleScope
from monitor.archive.periods import start_of


@dataclass(slots=True)
class Alarm:
    cause: str
    because: str
    found_at: datetime
    findings: dict[Key, RuleFinding]  # those that last
    opened_at: datetime | None = None
    ended_at: datetime | None = None
    reopenings: int = 0
    # Whether it ended by merging into another alarm.
    is_part: bool = False
    ever: dict[Key, RuleFinding] = field(default_factory=dict)  # all, lasting or over
    # Ends of single findings while others kept it open.
    ended_s: dict[Key, float] = field(default_factory=dict)
    # First onset of each finding.
    since_s: dict[Key, float] = field(default_factory=dict)
    # Findings that are over though the path is as bad as before.
    accepted: set[Key] = field(default_factory=set)

    @property
    def rule(self) -> str:
        """The gravest rule among its findings."""
        return gravest_of(self.ever.values())[0].rule


class Replay:
    """A series of evaluations; call `at` with increasing times."""

    def __init__(self, scope: RuleScope, source: Source, rules: Iterable[str] = RULES) -> None:
        self.scope = scope
        self.alarms: list[Alarm] = []
        self.findings: list[tuple[datetime, RuleFinding]] = []
        self._source = source
        self._rules = tuple(rules)
        self._judged_s: dict[int, float] = {}
        self._delays_judged_s: dict[int, float] = {}
        self._ended_s: dict[Key, float] = {}
        self._baselines: Baselines | None = None

    def at(self, now: datetime) -> Snapshot:
        """Evaluate the rules at `now`: update `alarms` and add new findings to `findings`."""
        snapshot = self.snapshot(now)
        lasting = [alarm for alarm in self.alarms if alarm.ended_at is None]
        lasting_incidents = [
            LastingIncident(
                alarm.cause,
                frozenset(alarm.findings),
                min((finding.since for finding in alarm.findings.values()), default=None),
            )
            for alarm in lasting
        ]
        firing = findings(snapshot, self.scope, self._rules)
        held = lasting_keys(lasting_incidents)
        seen = suspects.with_trips(snapshot, firing, held, self._source)
        seen = route_places.with_routes(seen, firing, held, self._source)
        groups = causes.find_causes(firing, lasting_incidents, seen)
        before = [set(alarm.findings) for alarm in lasting]
        for group in groups:
            self._note(group, now)
        for alarm, keys in zip(lasting, before, strict=True):
            if not alarm.is_part:
                self._end_findings(alarm, keys, snapshot)
                self._open_if_confirmed(alarm, now)
        self.alarms = [alarm for alarm in self.alarms if alarm.ended_at is None or alarm.opened_at is not None]
        return snapshot

    def snapshot(self, now: datetime) -> Snapshot:
        if self._baselines is None or self._baselines.hour != start_of("hour", now):
            hour = start_of("hour", now)
            self._baselines = baselines_at(hour, self._source, self._times(baselines_since(hour), hour))
        watched = {path_id for alarm in self.alarms if alarm.ended_at is None for path_id, _ in alarm.ever}
        looked = snapshot_at(
            now, self.scope, self._judged_s, watched, self._baselines, self._source, self._delays_judged_s
        )
        snapshot = replace(looked, ended_s=self._ended_s)
        for stored, newest in (
            (self._judged_s, snapshot.trips.judged_s),
            (self._delays_judged_s, snapshot.delays_judged_s),
        ):
            for path_id, judged_s in newest.items():
                stored[path_id] = max(judged_s, stored.get(path_id, judged_s))
        return snapshot

    def _note(self, group: CauseGroup, now: datetime) -> None:
        new: Mapping[Key, RuleFinding] = {(finding.path_id, finding.rule): finding for finding in group.findings}
        self.findings += [(now, finding) for finding in group.findings]
        if group.merged:
            self._merge(group, now)
        alarm = self._of_cause(group, now)
        if alarm is None:
            alarm = Alarm(group.label, group.because, now, {})
            self.alarms.append(alarm)
        elif alarm.ended_at is not None:
            alarm.ended_at, alarm.findings = None, {}
            alarm.reopenings += 1
        alarm.findings.update(new)
        alarm.ever.update(new)
        alarm.accepted -= new.keys()
        alarm.since_s = {key: finding.since.timestamp() for key, finding in new.items()} | alarm.since_s

    def _merge(self, group: CauseGroup, now: datetime) -> None:
        lasting = [alarm for alarm in self.alarms if alarm.cause in group.merged and alarm.ended_at is None]
        whole, *parts = sorted(lasting, key=lambda alarm: (alarm.opened_at is None, alarm.found_at))
        for part in parts:
            whole.findings |= part.findings
            whole.ever |= part.ever
            whole.since_s = whole.since_s | part.since_s
            part.ended_at, part.is_part = now, True
        whole.cause = group.label

    def _of_cause(self, group: CauseGroup, now: datetime) -> Alarm | None:
        gravest = gravest_of(group.findings)[0].rule
        of_cause = [alarm for alarm in reversed(self.alarms) if alarm.cause == group.label and not alarm.is_part]
        lasting = [alarm for alarm in of_cause if alarm.ended_at is None]
        lately = [
            alarm
            for alarm in of_cause
            if alarm.ended_at is not None
            and alarm.rule == gravest
            and now - alarm.ended_at <= timedelta(seconds=REOPEN_S)
        ]
        return next(iter([*lasting, *lately]), None)

    def _end_findings(self, alarm: Alarm, keys: Collection[Key], snapshot: Snapshot) -> None:
        """End findings that are over, unless others replace all of them; the last ends the alarm."""
        over = {key for key in keys if self._is_over(alarm, key, snapshot)}
        if over == alarm.findings.keys():
            alarm.ended_at = snapshot.now
            if alarm.opened_at is not None:
                self._ended_s |= dict.fromkeys(alarm.ever, snapshot.now.timestamp())
        elif len(over) < len(keys):
            for key in over:
                del alarm.findings[key]
                alarm.ended_s[key] = snapshot.now.timestamp()
            if alarm.opened_at is not None:
                self._ended_s |= alarm.ended_s

    def _is_over(self, alarm: Alarm, key: Key, snapshot: Snapshot) -> bool:
        (path_id, rule), finding = key, alarm.findings[key]
        reason = reason_for_end(path_id, finding.path, rule, finding.figures, snapshot, self.scope)
        if reason is not None and reason.endswith(NEW_NORMAL):
            alarm.accepted.add(key)
        return reason is not None

    def _times(self, since: datetime, now: datetime) -> IncidentTimes:
        times: dict[MeasureKind, list[PathTime]] = defaultdict(list)
        reverse = {(path.source, path.destination): path_id for path_id, path in self.scope.every.items()}
        for alarm in self.alarms:
            if alarm.opened_at is None:
                continue
            ended_s = None if alarm.ended_at is None else alarm.ended_at.timestamp()
            for key in alarm.ever.keys() - alarm.accepted:
                path, end_s = self.scope.every.get(key[0]), alarm.ended_s.get(key, ended_s)
                if path is None or (end_s is not None and end_s <= since.timestamp()):
                    continue
                for path_id in {key[0], reverse.get((path.destination, path.source), key[0])}:
                    time = PathTime(path_id, alarm.since_s[key], end_s or now.timestamp(), end_s is not None)
                    for measure in measures_of(rule_of(key[1])):
                        times[measure].append(time)
        return IncidentTimes({measure: tuple(of_measure) for measure, of_measure in times.items()})

    def _open_if_confirmed(self, alarm: Alarm, now: datetime) -> None:
        is_lasting = alarm.opened_at is None and alarm.ended_at is None
        if is_lasting and now - alarm.found_at >= timedelta(seconds=CONFIRM_S):
            alarm.opened_at = now
            self._ended_s |= alarm.ended_s


def moments(since: datetime, until: datetime, every_s: float) -> Iterator[datetime]:
    """Yield the times of the evaluations in (since, until]."""
    step = timedelta(seconds=every_s)
    for number in range(1, int((until - since) / step) + 1):
        yield since + number * step
