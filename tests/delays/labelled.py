"""Changes of the RTT by stretches, against those that a person marked: a check on traces that chose no prior.

In: the traces of `tests.bench alerts`. Out: F1, precision, recall and delay, beside those of the detector.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from monitor.analysis.changes import detector
from monitor.analysis.changes.labelled import LabelledSeries, read
from monitor.analysis.changes.scoring import WINDOW, DetectionScore, score
from monitor.analysis.segments.delay_filter import SINCE_S, DelayFilter
from tests.bench.alerts import FOLDER_VARIABLE, USUAL_FOLDER
from tests.reproduce.table import Table

Report = tuple[int, int]
"""The first sample of the new stretch, and the sample after which it was certain enough."""

CERTAIN = 0.8
WAITS = (0, 4, 8)
"""Samples after the first of a stretch, before it is reported."""
FOLDERS = ("real", "artificial")


def table(share: float) -> Table:
    """All traces, whatever the share."""
    del share
    result = Table(("traces", "method", "F1", "precision", "recall", "median delay"))
    for name in FOLDERS:
        folder = Path(os.environ.get(FOLDER_VARIABLE, USUAL_FOLDER)) / name
        traces = [read(file.read_text().splitlines()) for file in sorted(folder.glob("*.csv"))]
        if not traces:
            continue
        methods = {"detector": [[(of.at, of.raised_at) for of in detector.changes(each.rtts_ms)] for each in traces]}
        for wait in WAITS:
            methods[f"stretches, {wait} samples later"] = reports(traces, wait)
        for method, found in methods.items():
            scored = sum((_score(*each) for each in zip(traces, found, strict=True)), DetectionScore())
            figures = (f"{figure or 0.0:.3f}" for figure in (scored.f1, scored.precision, scored.recall))
            result.rows.append((f"{len(traces)} {name}", method, *figures, f"{scored.median_delay:g}"))
    return result


def reports(traces: list[LabelledSeries], wait: int) -> list[list[Report]]:
    """The begin of each stretch that is certain to be later than the one reported before; `wait` samples after it."""
    places = [np.flatnonzero(~np.isnan(trace.rtts_ms)) for trace in traces]
    apart_s = [float(np.median(np.diff([at.timestamp() for at in trace.measured_at]))) for trace in traces]
    followed, last = DelayFilter(len(traces)), np.zeros((len(traces), 1))
    found: list[list[Report]] = [[] for _ in traces]
    for number in range(max(map(len, places))):
        rows = np.array([row for row, of in enumerate(places) if number < len(of)])
        figures_ms = [traces[row].rtts_ms[places[row][number]] for row in rows]
        followed.take(rows, float(number), [apart_s[row] for row in rows], figures_ms)
        begun = followed.stretches[SINCE_S]
        chances = np.where((begun > last + WINDOW) & (begun <= number - wait), np.exp(followed.log_weights), 0.0)
        for row in rows[chances[rows].sum(axis=1) > CERTAIN].tolist():
            at = int(begun[row, chances[row].argmax()])
            last[row] = at
            found[row].append((int(places[row][at]), int(places[row][number])))
    return found


def _score(trace: LabelledSeries, found: list[Report]) -> DetectionScore:
    return score(trace.changed_at, [at for at, _ in found], [raised_at for _, raised_at in found])
