"""Backtest on RTT series whose changes a person has marked: findings, and scores against the marks.

In: a folder of files in the format of `monitor.analysis.changes.labelled`, a path each. Out: the findings of the
replay, and scores. Each sample becomes a burst of a single packet and is judged by the code that runs live. RTT rules
judge each burst once, with the bursts before it, however many bursts are new in an evaluation, so the interval of
evaluations does not matter to them. The rule `rtt` is scored in two ways:

  - as a detector, with `every_change` on: each change that it raises, against the marks (`monitor.analysis.changes.
    scoring`: within 2 samples, matched in pairs, raised at most 15 samples late);
  - as an alarm, with its settings: the number on quiet stretches, which are more than 15 samples from every mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.rules.round_trips import RTT, RoundTripRule
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.evaluate import RuleScope
from monitor.analysis.changes import scoring
from monitor.analysis.changes.detector import BEFORE
from monitor.analysis.changes.labelled import LabelledSeries, UnreadableSeriesError, read
from monitor.analysis.changes.scoring import DetectionScore
from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import Place, RuleSettings
from monitor.mesh.queries import MeasuredPath

LEAST_SAMPLES = 2
ENDS_AFTER_CYCLES = 2
"""A trace is left out this long after its end, before it would count as missing measurements."""

PACKET_BYTES = 100

EVERY_S = 3600.0
"""Default interval of evaluations."""

TimedFinding = tuple[datetime, RuleFinding]


@dataclass(frozen=True, slots=True)
class RaisedChange:
    """A change on a path: the first burst after it and the burst that proved it, in seconds since the epoch; and
    whether it alarms by the settings, unless a lasting incident has it already."""

    path_id: int
    at_s: float
    raised_s: float
    alarms: bool


class DatasetError(Exception):
    """A folder that cannot be read; the message states where and a fix."""


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A series as a path, and the times of its samples in seconds since the epoch."""

    name: str
    path: MeasuredPath
    series: LabelledSeries
    at_s: np.ndarray


@dataclass(frozen=True, slots=True)
class QuietAlarms:
    """The number of alarms on quiet stretches, and their total length."""

    alarms: int
    quiet_s: float


@dataclass(frozen=True, slots=True)
class LabelledReplay:
    """The result of a replay of labelled series."""

    traces: Sequence[LabelledTrace]
    alarms: Sequence[Alarm]
    findings: Sequence[TimedFinding]
    changes: Sequence[RaisedChange]
    """All changes that the rule `rtt` raised with `every_change`."""

    @property
    def score(self) -> DetectionScore:
        """The score of the changes against the marks, over all traces."""
        return score_of(self.traces, self.changes)

    def quiet(self) -> QuietAlarms:
        """The alarms of the rule `rtt`, with its settings, on quiet stretches."""
        return quiet_alarms(self.traces, self.changes)


def load(folder: Path) -> list[LabelledTrace]:
    """Read the traces of a folder, a file each. Raises `DatasetError`."""
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give one that has a .csv file for each series")
    files = sorted(folder.glob("*.csv"), key=lambda file: (len(file.stem), file.stem))
    if not files:
        below = sorted({file.parent.name for file in folder.glob("*/*.csv")})
        hint = f"; there are some in {', '.join(below)}: name one of these" if below else ""
        raise DatasetError(f"{folder}: no .csv file in it{hint}")
    return [_trace(file, number) for number, file in enumerate(files, start=1)]


def replay(
    traces: Sequence[LabelledTrace],
    alerts: Mapping[str, object],
    rules: Iterable[str] = (RTT.name,),
    every_s: float = EVERY_S,
    show: Callable[[datetime], None] = lambda now: None,
) -> LabelledReplay:
    """Run the rules on the traces, evaluated every `every_s` seconds; `alerts` are the settings of mesh.toml."""
    source = RecordedSource(_bursts(traces))
    settings = {
        name: alert_rules.settings_for(alerts, name, {trace.path.path_id: trace.path.place for trace in traces})
        for name in RULES
    }
    runner = Replay(RuleScope({}, {}, settings), source, tuple(rules))
    ends_s = {trace.path.path_id: trace.at_s[-1] + ENDS_AFTER_CYCLES * trace.path.every_s for trace in traces}
    every: dict[int, RuleSettings] = {trace.path.path_id: RoundTripRule(every_change=True) for trace in traces}
    changes: list[RaisedChange] = []
    since = min(trace.path.started_at for trace in traces)
    until = datetime.fromtimestamp(max(trace.at_s[-1] for trace in traces), UTC)
    for now in moments(since, until + timedelta(seconds=every_s), every_s):
        pinged = {
            trace.path.path_id: trace.path
            for trace in traces
            if trace.at_s[0] < now.timestamp() <= ends_s[trace.path.path_id] + every_s
        }
        if pinged:
            runner.scope = replace(runner.scope, pinged=pinged, settings=_within(settings, pinged))
            changes += _changes(runner.at(now), every, settings[RTT.name])
        show(now)
    return LabelledReplay(traces, runner.alarms, runner.findings, changes)


def score_of(
    traces: Sequence[LabelledTrace], changes: Sequence[RaisedChange], latest: int = scoring.LATEST
) -> DetectionScore:
    """Score changes against the marks of their traces."""
    scores = []
    for trace in traces:
        of_trace = [change for change in changes if change.path_id == trace.path.path_id]
        at = [_sample(trace, change.at_s) for change in of_trace]
        raised = [_sample(trace, change.raised_s) for change in of_trace]
        scores.append(scoring.score(trace.series.changed_at, at, raised, latest=latest))
    return sum(scores, DetectionScore())


def quiet_alarms(traces: Sequence[LabelledTrace], changes: Sequence[RaisedChange]) -> QuietAlarms:
    """Count the alarms of the rule `rtt` on quiet stretches."""
    alarms, quiet_s = 0, 0.0
    for trace in traces:
        still = scoring.quiet(trace.series.changed_at, len(trace.at_s))
        quiet_s += float(still.sum()) * trace.path.every_s
        of_trace = (change for change in changes if change.alarms and change.path_id == trace.path.path_id)
        alarms += sum(bool(still[_sample(trace, change.at_s)]) for change in of_trace)
    return QuietAlarms(alarms, quiet_s)


def _trace(file: Path, number: int) -> LabelledTrace:
    """Samples are in the order of measuring; after a clock was set back, the next sample counts as a cycle later."""
    try:
        series = read(file.read_text(encoding="utf-8").split("\n"))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{file}: is not UTF-8 text; give a folder of .csv files with time;rtt;cp") from error
    except UnreadableSeriesError as error:
        raise DatasetError(f"{file}: {error}") from error
    at_s = np.array([at.timestamp() for at in series.measured_at])
    if len(at_s) < LEAST_SAMPLES:
        raise DatasetError(f"{file}: has {len(at_s)} samples; a series needs {LEAST_SAMPLES} at least")
    apart_s = np.diff(at_s)
    every_s = max(1, round(float(np.median(apart_s))))
    at_s = at_s[0] + np.append(0.0, np.cumsum(np.where(apart_s > 0, apart_s, every_s)))
    place_of = Place(file.stem, f"{file.stem}-far", hosts=(file.stem, f"{file.stem}-far"))
    path = MeasuredPath(
        number, file.stem, f"{file.stem}-far", 4, place_of, every_s, PACKET_BYTES, series.measured_at[0]
    )
    return LabelledTrace(file.stem, path, series, at_s)


def _bursts(traces: Sequence[LabelledTrace]) -> RecordedBursts:
    return RecordedBursts.from_columns(
        np.concatenate([np.full(len(trace.at_s), trace.path.path_id) for trace in traces]),
        np.concatenate([trace.at_s for trace in traces]),
        np.concatenate([trace.series.rtts_ms for trace in traces]),
        PACKET_BYTES,
    )


def _within(
    settings: Mapping[str, Mapping[int, RuleSettings]], pinged: Mapping[int, MeasuredPath]
) -> dict[str, Mapping[int, RuleSettings]]:
    return {
        name: {path_id: of_path[path_id] for path_id in pinged if path_id in of_path}
        for name, of_path in settings.items()
    }


def _sample(trace: LabelledTrace, at_s: float) -> int:
    """The index of the sample measured at this time."""
    return int(np.abs(trace.at_s - at_s).argmin())


def _changes(
    snapshot: Snapshot, every: Mapping[int, RuleSettings], settings: Mapping[int, RuleSettings]
) -> list[RaisedChange]:
    """All changes of the new bursts, each once, even if several figures of the burst changed."""
    trips = snapshot.trips
    alarms = {window for window, _, _ in RTT.raised(snapshot, settings)}
    return [
        RaisedChange(int(trips.path_id[at]), float(at_s[BEFORE]), float(at_s[-1]), at in alarms)
        for at in sorted({window for window, _, _ in RTT.raised(snapshot, every)})
        for at_s in (trips.window(at).at_s,)
    ]
