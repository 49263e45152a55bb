"""The clock moved through the past: at each moment the sweep, the findings and the causes of the evaluation that runs
live, and of incidents what the next moment needs, in memory. Nothing is written and nobody is told.

In: which rules hold where, and a source. Out: `Alarm`, each an incident that would have opened, in the order in which
they were found. What a live evaluation had besides is left out: silences, maintenance, acknowledgements, and when
results came late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.alerts.detect import causes
from monitor.alerts.detect.causes import Held, Named
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.snapshot import Baselines, Key, Sweep, baselines_at
from monitor.alerts.detect.sources import Source
from monitor.alerts.evaluate import Scope, findings, look_at, why_over
from monitor.alerts.incidents.lifecycle import CONFIRM_S, REOPEN_S, gravest
from monitor.archive.periods import start_of


@dataclass(slots=True)
class Alarm:
    """One incident: what lasts of it, by path and rule, and all it ever had; when it was found, opened and ended."""

    cause: str
    because: str
    found_at: datetime
    findings: dict[Key, Finding]
    opened_at: datetime | None = None
    ended_at: datetime | None = None
    reopenings: int = 0
    is_part: bool = False
    """Whether it ended because another one has had all of it since."""
    ever: dict[Key, Finding] = field(default_factory=dict)

    @property
    def rule(self) -> str:
        """The gravest rule that found it."""
        return gravest(self.ever.values())[0].rule


class Replay:
    """Moments one after the other, each later than the one before."""

    def __init__(self, scope: Scope, source: Source, rules: Iterable[str] = RULES) -> None:
        self.scope = scope
        self.alarms: list[Alarm] = []
        self.found: list[tuple[datetime, Finding]] = []
        self._source = source
        self._rules = tuple(rules)
        self._judged_s: dict[int, float] = {}
        self._ended_s: dict[Key, float] = {}
        self._baselines: Baselines | None = None

    def at(self, now: datetime) -> Sweep:
        """One evaluation; `alarms` has what it made, `found` all that fired and in no incident lasted."""
        sweep = self.look(now)
        lasting = [alarm for alarm in self.alarms if alarm.ended_at is None]
        held = [Held(alarm.cause, frozenset(alarm.findings)) for alarm in lasting]
        named = causes.of(findings(sweep, self.scope, self._rules), held, sweep)
        for one in named:
            self._note(one, now)
        touched = {one.label for one in named}
        for alarm in lasting:
            if alarm.cause not in touched and not alarm.is_part:
                self._end_or_open(alarm, sweep)
        self.alarms = [alarm for alarm in self.alarms if alarm.ended_at is None or alarm.opened_at is not None]
        return sweep

    def look(self, now: datetime) -> Sweep:
        """The sweep alone, each new burst in one sweep only."""
        if self._baselines is None or self._baselines.hour != start_of("hour", now):
            self._baselines = baselines_at(now, self._source)
        watched = {path_id for alarm in self.alarms if alarm.ended_at is None for path_id, _ in alarm.findings}
        looked = look_at(now, self.scope, self._judged_s, watched, self._baselines, self._source)
        sweep = replace(looked, ended_s=self._ended_s)
        for path_id, judged_s in sweep.trips.judged_s.items():
            self._judged_s[path_id] = max(judged_s, self._judged_s.get(path_id, judged_s))
        return sweep

    def _note(self, named: Named, now: datetime) -> None:
        new: Mapping[Key, Finding] = {(one.path_id, one.rule): one for one in named.findings}
        self.found += [(now, finding) for finding in named.findings]
        if named.merged:
            self._merge(named, now)
        alarm = self._of_cause(named.label, now)
        if alarm is None:
            alarm = Alarm(named.label, named.because, now, {})
            self.alarms.append(alarm)
        elif alarm.ended_at is not None:
            alarm.ended_at, alarm.findings = None, {}
            alarm.reopenings += 1
        alarm.findings.update(new)
        alarm.ever.update(new)

    def _merge(self, named: Named, now: datetime) -> None:
        lasting = [alarm for alarm in self.alarms if alarm.cause in named.merged and alarm.ended_at is None]
        whole, *parts = sorted(lasting, key=lambda one: (one.opened_at is None, one.found_at))
        for part in parts:
            whole.findings |= part.findings
            whole.ever |= part.ever
            part.ended_at, part.is_part = now, True
        whole.cause = named.label

    def _of_cause(self, cause: str, now: datetime) -> Alarm | None:
        """The incident of a cause that lasts, or has ended so lately that it is the same one."""
        for alarm in reversed(self.alarms):
            if alarm.cause == cause and not alarm.is_part:
                lately = alarm.ended_at is None or now - alarm.ended_at <= timedelta(seconds=REOPEN_S)
                return alarm if lately else None
        return None

    def _end_or_open(self, alarm: Alarm, sweep: Sweep) -> None:
        ends = all(
            why_over(path_id, finding.path, rule, finding.figures, sweep, self.scope) is not None
            for (path_id, rule), finding in alarm.findings.items()
        )
        if ends:
            alarm.ended_at = sweep.now
            if alarm.opened_at is not None:
                self._ended_s |= dict.fromkeys(alarm.findings, sweep.now.timestamp())
        elif alarm.opened_at is None and sweep.now - alarm.found_at >= timedelta(seconds=CONFIRM_S):
            alarm.opened_at = sweep.now


def moments(since: datetime, until: datetime, every_s: float) -> Iterator[datetime]:
    """The times of the evaluations after `since`, up to `until`."""
    step = timedelta(seconds=every_s)
    for number in range(1, int((until - since) / step) + 1):
        yield since + number * step
