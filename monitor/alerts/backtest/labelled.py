"""The rules on series of round trips whose changes a person has marked: what they find, and how right that is.

In: a folder of files in the format that `monitor.analysis.changes.labelled` reads, each a path. Out: what the replay of
all of them found, and scores. Each sample becomes a burst of one packet and is judged by the sweep and the rules that
run live. Rules of round trips judge each burst once, with what was before it, however many bursts an evaluation finds
new; so it does not matter to them how often it comes. Two questions are asked of the rule `rtt`:

  - as a detector, with `every_change` on: each change that it raises, against the marks (`monitor.analysis.changes.
    scoring`: within 2 samples, one to one, raised at most 15 samples late);
  - as an alarm, as it is set: how many it raises on quiet stretches, which lie more than 15 samples from every mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from monitor.alerts.backtest.recorded import Bursts, Recorded
from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.rules.round_trips import RTT
from monitor.alerts.detect.snapshot import Sweep
from monitor.alerts.evaluate import Scope
from monitor.analysis.changes import scoring
from monitor.analysis.changes.detector import BEFORE
from monitor.analysis.changes.labelled import LabelledSeries, UnreadableSeriesError, read
from monitor.analysis.changes.scoring import Score
from monitor.mesh import alert_rules
from monitor.mesh.alert_rules import Place, RoundTripRule, Rule
from monitor.mesh.queries import MeasuredPath

LEAST_SAMPLES = 2
ENDS_AFTER_CYCLES = 2
"""A trace that has ended is measured no longer: it is left out before it could look like missing measurements."""

PACKET_BYTES = 100

EVERY_S = 3600.0
"""How often the rules are evaluated, unless said otherwise."""

Found = tuple[datetime, Finding]


@dataclass(frozen=True, slots=True)
class Raised:
    """A change on a path: when the new stretch began and the burst that proved it, in seconds since the epoch; and
    whether it alarms by the settings, where no incident lasts that has such an alarm already."""

    path_id: int
    at_s: float
    raised_s: float
    alarms: bool


class DatasetError(Exception):
    """A folder that cannot be used. The text says where and what to do."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One series, the path that it is, and the seconds since the epoch of its samples."""

    name: str
    path: MeasuredPath
    series: LabelledSeries
    at_s: np.ndarray


@dataclass(frozen=True, slots=True)
class QuietAlarms:
    """How many alarms were raised on quiet stretches, and how long those are together."""

    alarms: int
    quiet_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay of labelled series gave."""

    traces: Sequence[Trace]
    alarms: Sequence[Alarm]
    findings: Sequence[Found]
    changes: Sequence[Raised]
    """With `every_change`: all that the rule `rtt` raised."""

    @property
    def score(self) -> Score:
        """Of the changes against the marks, all traces together."""
        return score_of(self.traces, self.changes)

    def quiet(self) -> QuietAlarms:
        """The alarms of the rule `rtt`, as it is set, that lie on quiet stretches."""
        return quiet_alarms(self.traces, self.changes)


def load(folder: Path) -> list[Trace]:
    """The traces of a folder, each in a file of its own. Raises `DatasetError`."""
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give one that has a .csv file for each series")
    files = sorted(folder.glob("*.csv"), key=lambda file: (len(file.stem), file.stem))
    if not files:
        below = sorted({file.parent.name for file in folder.glob("*/*.csv")})
        hint = f"; there are some in {', '.join(below)}: name one of these" if below else ""
        raise DatasetError(f"{folder}: no .csv file in it{hint}")
    return [_trace(file, number) for number, file in enumerate(files, start=1)]


def replay(
    traces: Sequence[Trace],
    alerts: Mapping[str, object],
    rules: Iterable[str] = (RTT.name,),
    every_s: float = EVERY_S,
    show: Callable[[datetime], None] = lambda now: None,
) -> Outcome:
    """What the rules find in the traces, evaluated every so many seconds; `alerts` are the settings of mesh.toml."""
    source = Recorded(_bursts(traces))
    settings = {
        name: alert_rules.settings_for(alerts, name, {one.path.path_id: one.path.place for one in traces})
        for name in RULES
    }
    runner = Replay(Scope({}, {}, settings), source, tuple(rules))
    ends_s = {one.path.path_id: one.at_s[-1] + ENDS_AFTER_CYCLES * one.path.every_s for one in traces}
    every: dict[int, Rule] = {one.path.path_id: RoundTripRule(every_change=True) for one in traces}
    changes: list[Raised] = []
    since = min(one.path.started_at for one in traces)
    until = datetime.fromtimestamp(max(one.at_s[-1] for one in traces), UTC)
    for now in moments(since, until + timedelta(seconds=every_s), every_s):
        pinged = {
            one.path.path_id: one.path
            for one in traces
            if one.at_s[0] < now.timestamp() <= ends_s[one.path.path_id] + every_s
        }
        if pinged:
            runner.scope = replace(runner.scope, pinged=pinged, settings=_within(settings, pinged))
            changes += _raised(runner.at(now), every, settings[RTT.name])
        show(now)
    return Outcome(traces, runner.alarms, runner.found, changes)


def score_of(traces: Sequence[Trace], changes: Sequence[Raised], latest: int = scoring.LATEST) -> Score:
    """Of changes against the marks of their traces."""
    scores = []
    for trace in traces:
        of_trace = [change for change in changes if change.path_id == trace.path.path_id]
        at = [_sample(trace, change.at_s) for change in of_trace]
        raised = [_sample(trace, change.raised_s) for change in of_trace]
        scores.append(scoring.score(trace.series.changed_at, at, raised, latest=latest))
    return sum(scores, Score())


def quiet_alarms(traces: Sequence[Trace], changes: Sequence[Raised]) -> QuietAlarms:
    """The alarms of the rule `rtt` on quiet stretches."""
    alarms, quiet_s = 0, 0.0
    for trace in traces:
        still = scoring.quiet(trace.series.changed_at, len(trace.at_s))
        quiet_s += float(still.sum()) * trace.path.every_s
        of_trace = (change for change in changes if change.alarms and change.path_id == trace.path.path_id)
        alarms += sum(bool(still[_sample(trace, change.at_s)]) for change in of_trace)
    return QuietAlarms(alarms, quiet_s)


def _trace(file: Path, number: int) -> Trace:
    """Samples are in the order of measuring; where a clock was set back, the next one counts as a period later."""
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
    return Trace(file.stem, path, series, at_s)


def _bursts(traces: Sequence[Trace]) -> Bursts:
    return Bursts.of(
        np.concatenate([np.full(len(one.at_s), one.path.path_id) for one in traces]),
        np.concatenate([one.at_s for one in traces]),
        np.concatenate([one.series.rtts_ms for one in traces]),
        PACKET_BYTES,
    )


def _within(settings: Mapping[str, dict[int, Rule]], pinged: Mapping[int, MeasuredPath]) -> dict[str, dict[int, Rule]]:
    return {
        name: {path_id: of_path[path_id] for path_id in pinged if path_id in of_path}
        for name, of_path in settings.items()
    }


def _sample(trace: Trace, at_s: float) -> int:
    """The index of the sample that was measured at this moment."""
    return int(np.abs(trace.at_s - at_s).argmin())


def _raised(sweep: Sweep, every: Mapping[int, Rule], settings: Mapping[int, Rule]) -> list[Raised]:
    """All changes of the new bursts, each once, whichever of the figures of its burst shows it."""
    trips = sweep.trips
    alarms = {window for window, _, _ in RTT.raised(sweep, settings)}
    return [
        Raised(int(trips.path_id[at]), float(trips.at_s[at, BEFORE]), float(trips.at_s[at, -1]), at in alarms)
        for at in sorted({window for window, _, _ in RTT.raised(sweep, every)})
    ]
