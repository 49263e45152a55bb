"""Backtest the rules on RTT series with hand-marked changes (`monitor.analysis.changes.labelled`); each sample is a
burst of a single packet.

Scores the rules as a detector (`monitor.analysis.changes.scoring`) and counts alarms far from marks.
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
from monitor.alerts.scope import RuleScope
from monitor.analysis.changes import scoring
from monitor.analysis.changes.detector import BEFORE
from monitor.analysis.changes.labelled import LabelledSeries, UnreadableSeriesError, read
from monitor.analysis.changes.scoring import DetectionScore
from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import Place, RuleSettings
from monitor.mesh.queries import MeasuredPath

LEAST_SAMPLES = 2
# A trace is left out this long after its end, before it would count as missing measurements.
ENDS_AFTER_CYCLES = 2

PACKET_BYTES = 100

# Default interval of evaluations.
EVERY_S = 3600.0

TimedFinding = tuple[datetime, RuleFinding]


@dataclass(frozen=True, slots=True)
class RaisedChange:
    """A change that the rule `rtt` raised on a path; times in seconds since the epoch."""

    path_id: int
    at_s: float  # first burst after the change
    raised_s: float  # burst that proved the change
    alarms: bool  # by the settings, unless a lasting incident has it already


class DatasetError(Exception):
    """A folder that cannot be read; the message states the place and a fix."""


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A series as a path, with sample times in seconds since the epoch."""

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
    traces: Sequence[LabelledTrace]
    alarms: Sequence[Alarm]
    findings: Sequence[TimedFinding]
    # All changes that the rule `rtt` raised with `every_change`.
    changes: Sequence[RaisedChange]

    @property
    def score(self) -> DetectionScore:
        return score_of(self.traces, self.changes)

    def quiet(self) -> QuietAlarms:
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
    """Run the rules on the traces every `every_s` seconds; `alerts` are the settings of mesh.toml."""
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


def score_of(traces: Sequence[LabelledTrace], changes: Sequence[RaisedChange]) -> DetectionScore:
    scores = []
    for trace in traces:
        of_trace = [change for change in changes if change.path_id == trace.path.path_id]
        at = [_sample(trace, change.at_s) for change in of_trace]
        raised = [_sample(trace, change.raised_s) for change in of_trace]
        scores.append(scoring.score(trace.series.changed_at, at, raised))
    return sum(scores, DetectionScore())


def quiet_alarms(traces: Sequence[LabelledTrace], changes: Sequence[RaisedChange]) -> QuietAlarms:
    alarms, quiet_s = 0, 0.0
    for trace in traces:
        still = scoring.quiet(trace.series.changed_at, len(trace.at_s))
        quiet_s += float(still.sum()) * trace.path.every_s
        of_trace = (change for change in changes if change.alarms and change.path_id == trace.path.path_id)
        alarms += sum(bool(still[_sample(trace, change.at_s)]) for change in of_trace)
    return QuietAlarms(alarms, quiet_s)


def _trace(file: Path, number: int) -> LabelledTrace:
    # Samples keep their order; after a clock step back, the next counts a cycle later.
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
    return int(np.abs(trace.at_s - at_s).argmin())


def _changes(
    snapshot: Snapshot, every: Mapping[int, RuleSettings], settings: Mapping[int, RuleSettings]
) -> list[RaisedChange]:
    trips = snapshot.trips
    alarms = {window for window, _, _ in RTT.raised(snapshot, settings)}
    return [
        RaisedChange(int(trips.path_id[at]), float(at_s[BEFORE]), float(at_s[-1]), at in alarms)
        for at in sorted({window for window, _, _ in RTT.raised(snapshot, every)})
        for at_s in (trips.window(at).at_s,)
    ]
