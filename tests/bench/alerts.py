"""Accuracy of RTT change detection on manually labelled traces, compared with older methods, and its speed.

Needs the labelled traces of W. Shao et al. (github.com/WenqinSHAO/rtt, MIT): a folder with `real/*.csv`, named by
SOUNDINGS_LABELLED_DATA or at `../shared/datasets/rtt_changes` beside the repository. All methods use the same scorer.
The references get the best of their settings on all traces and unlimited time; ours must report a change within 15
samples. Its threshold is also chosen on one half of the traces and shown on the other.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from monitor.analysis.changes import detector, scoring
from monitor.analysis.changes.detector import ChangeSeverity
from monitor.analysis.changes.labelled import LabelledSeries, read
from monitor.analysis.changes.scoring import DetectionScore
from tests.bench import Row

FOLDER_VARIABLE = "SOUNDINGS_LABELLED_DATA"
USUAL_FOLDER = Path(__file__).resolve().parents[3] / "shared" / "datasets" / "rtt_changes"
PATHS = 10_000
LEAST_EVIDENCES = np.arange(4.0, 12.1, 0.5)
MEDIAN_STEPS_MS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
MEDIAN_BEFORE, MEDIAN_AFTER = 15, 8
RIVALS_BEFORE, RIVALS_AFTER = 10, 3
WHENEVER = 1_000_000_000
MINUTES_A_MONTH = 30 * 24 * 60

Report = tuple[int, int]  # at, raised at
Method = Callable[[NDArray[np.float64]], list[Report]]


def run() -> list[Row]:
    """The table; without the traces only the speed."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, USUAL_FOLDER))
    files = sorted((folder / "real").glob("*.csv"), key=lambda file: int(file.stem))
    if not files:
        message = f"no traces in {folder / 'real'}; set {FOLDER_VARIABLE} to the folder that has real/*.csv"
        return [Row("labelled traces", message), *_speed()]
    traces = [read(file.read_text().splitlines()) for file in files]
    marked = sum(len(trace.changed_at) for trace in traces)
    return [
        Row("labelled traces", f"{len(traces)}, {marked} changes"),
        *_ours(traces),
        *_references(traces),
        *_speed(),
    ]


def _ours(traces: list[LabelledSeries]) -> list[Row]:
    """Scores with the default setting; then the threshold chosen on either half and shown on the other."""
    detected = [detector.changes(trace.rtts_ms, LEAST_EVIDENCES[0]) for trace in traces]

    def pooled(least_evidence: float, half: slice) -> DetectionScore:
        return _pooled(
            (trace, [(change.at, change.raised_at) for change in changes if change.evidence >= least_evidence])
            for trace, changes in zip(traces[half], detected[half], strict=True)
        )

    def across(chosen_on: slice, shown_on: slice) -> str:
        best = max(LEAST_EVIDENCES, key=lambda least: _f1(pooled(least, chosen_on)))
        return f"{_figures(pooled(best, shown_on))}, threshold {best:.1f}"

    shipped, every, even, odd = detector.LEAST_EVIDENCE, slice(None), slice(0, None, 2), slice(1, None, 2)
    kept = [[change for change in changes if change.evidence >= shipped] for changes in detected]
    warnings = [[change for change in changes if change.severity is ChangeSeverity.WARNING] for changes in kept]
    return [
        Row("ours, all traces", _figures(pooled(shipped, every)), "F1 0.70, raised within 15 samples"),
        Row("ours, 1st, 3rd, … trace", _figures(pooled(shipped, even))),
        Row("ours, 2nd, 4th, … trace", _figures(pooled(shipped, odd))),
        Row("ours, chosen on 1st, 3rd, …; shown on the others", across(even, odd)),
        Row("ours, chosen on 2nd, 4th, …; shown on the others", across(odd, even)),
        Row("false warnings a path-month, quiet stretches", _false_alarms(traces, warnings), "≤ 1"),
        Row("false notices a path-month, quiet stretches", _false_alarms(traces, kept)),
    ]


def _false_alarms(traces: list[LabelledSeries], detected: list[list[detector.RttChange]]) -> str:
    """Changes reported far from any mark, per time that is far from any mark."""
    alarms, minutes = 0, 0.0
    for trace, changes in zip(traces, detected, strict=True):
        still = scoring.quiet(trace.changed_at, len(trace.rtts_ms))
        apart = np.diff(np.array([at.timestamp() for at in trace.measured_at])) / 60
        alarms += sum(bool(still[change.at]) for change in changes)
        minutes += float(still.sum() * np.median(apart))
    months = minutes / MINUTES_A_MONTH
    return f"{alarms / months:.2f} ({alarms} in {months:.1f} months)"


def _references(traces: list[LabelledSeries]) -> list[Row]:
    plateaus = [_scored(traces, partial(plateau, setting=setting)) for setting in PLATEAUS]
    medians = [_scored(traces, partial(median_steps, step_ms=step)) for step in MEDIAN_STEPS_MS]
    best, step = (
        int(np.argmax([_f1(plateau) for plateau in plateaus])),
        int(np.argmax([_f1(median) for median in medians])),
    )
    best_plateau = PLATEAUS[best]
    settings_text = (
        f"{best_plateau.history} and {best_plateau.trigger} samples, {best_plateau.deviations:g} s, "
        f"{best_plateau.shift_ratio:.0%}"
    )
    return [
        Row("PingER's plateau detector, as documented", _figures(plateaus[0])),
        Row(f"PingER's plateau detector, best of {len(PLATEAUS)}: {settings_text}", _figures(plateaus[best])),
        Row(f"medians of 15 before and 8 after, best step: {MEDIAN_STEPS_MS[step]} ms", _figures(medians[step])),
    ]


def _f1(score: DetectionScore) -> float:
    return score.f1 or 0.0


def _scored(traces: list[LabelledSeries], method: Method) -> DetectionScore:
    """A reference's score, however late it reports."""
    return _pooled(((trace, method(trace.rtts_ms)) for trace in traces), latest=WHENEVER)


def _pooled(reports: Iterable[tuple[LabelledSeries, list[Report]]], latest: int = scoring.LATEST) -> DetectionScore:
    scores = (
        scoring.score(
            trace.changed_at, [at for at, _ in changes_found], [raised for _, raised in changes_found], latest=latest
        )
        for trace, changes_found in reports
    )
    return sum(scores, DetectionScore())


def _figures(score: DetectionScore) -> str:
    parts = (("F1", score.f1), ("precision", score.precision), ("recall", score.recall))
    figures = [f"{name} {'-' if value is None else f'{value:.3f}'}" for name, value in parts]
    return f"{', '.join(figures)}, median delay {'-' if score.median_delay is None else f'{score.median_delay:.0f}'}"


@dataclass(frozen=True, slots=True)
class Plateau:
    """A setting of PingER's plateau detector."""

    history: int  # samples
    trigger: int  # samples
    deviations: float
    shift_ratio: float


# as documented (5 days, 6 h, 33%) at 4 minutes per sample, then shorter ones
PLATEAUS = [
    Plateau(1800, 90, 2.0, 0.33),
    Plateau(120, 5, 3.0, 0.01),
    Plateau(120, 5, 2.0, 0.01),
    Plateau(60, 5, 3.0, 0.01),
    Plateau(120, 8, 3.0, 0.01),
]


def plateau(rtts_ms: NDArray[np.float64], setting: Plateau) -> list[Report]:
    """The plateau detector of SLAC's IEPM-BW, here for both directions.

    A sample further than so many deviations from the history's mean goes to the trigger buffer, any other to the
    history, which also removes the oldest sample from the buffer. A full buffer whose mean differs by the shift or more
    is an alert, and becomes the history.
    """
    normal: deque[float] = deque(maxlen=setting.history)
    odd: deque[tuple[int, float]] = deque()
    total = squares = 0.0
    reports: list[Report] = []
    for now in np.flatnonzero(~np.isnan(rtts_ms)).tolist():
        rtt = float(rtts_ms[now])
        mean = total / len(normal) if normal else rtt
        deviation = max(squares / len(normal) - mean**2, 0.0) ** 0.5 if normal else 0.0
        if len(normal) < setting.trigger or abs(rtt - mean) <= setting.deviations * deviation:
            dropped = normal[0] if len(normal) == setting.history else 0.0
            total, squares = total + rtt - dropped, squares + rtt**2 - dropped**2
            normal.append(rtt)
            if odd:
                odd.popleft()
            continue
        odd.append((now, rtt))
        if len(odd) < setting.trigger:
            continue
        values = [value for _, value in odd]
        if abs(sum(values) / len(values) - mean) >= setting.shift_ratio * mean:
            reports.append((odd[0][0], now))
            normal = deque(values, maxlen=setting.history)
            total, squares = sum(values), sum(value**2 for value in values)
            odd.clear()
        else:
            odd.popleft()
    return reports


def median_steps(rtts_ms: NDArray[np.float64], step_ms: float) -> list[Report]:
    """Where the medians of 15 samples before and 8 after differ by a step, at the maximum within the samples nearby.

    The medians alone place a step too early; it is moved to where most samples are on their own side of the mean of
    both medians.
    """
    received = np.flatnonzero(~np.isnan(rtts_ms))
    rtts = rtts_ms[received]
    before = np.median(sliding_window_view(rtts[:-MEDIAN_AFTER], MEDIAN_BEFORE), axis=1)
    after = np.median(sliding_window_view(rtts[MEDIAN_BEFORE:], MEDIAN_AFTER), axis=1)
    steps = np.abs(after - before)
    rivals = sliding_window_view(np.pad(steps, (RIVALS_BEFORE, RIVALS_AFTER)), RIVALS_BEFORE + 1 + RIVALS_AFTER)
    detections = {}
    for place in np.flatnonzero((rivals.argmax(axis=1) == RIVALS_BEFORE) & (steps >= step_ms)).tolist():
        first, last = place + MEDIAN_BEFORE - 5, place + MEDIAN_BEFORE + MEDIAN_AFTER
        beyond = (rtts[first:last] > (before[place] + after[place]) / 2) == (after[place] > before[place])
        wrong = [beyond[:split].sum() + (~beyond[split:]).sum() for split in range(len(beyond))]
        raised = min(place + MEDIAN_BEFORE + MEDIAN_AFTER - 1 + RIVALS_AFTER, len(received) - 1)
        detections[int(received[first + int(np.argmin(wrong))])] = int(received[raised])
    return list(detections.items())


def _speed() -> list[Row]:
    """An evaluation of all paths, from the window of each."""
    windows = 100 + np.random.default_rng(1).gamma(2, 3, (PATHS, detector.BEFORE + detector.AFTER))
    began = time.process_time()
    detector.evidence(windows)
    took_s = time.process_time() - began
    return [Row(f"a new sample on {PATHS:,} paths", f"{took_s:.2f} s, {took_s / PATHS * 1e6:.0f} µs a path", "< 5 s")]
