"""Find significant changes of paths against the eight weeks before (`monitor.analysis.noise`).

P-values of the whole report are corrected together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from monitor.analysis import noise
from monitor.archive.queries.for_reports import PathDay, PathThroughputDay
from monitor.arrays import Floats
from monitor.reports.contents.report import ComparedFigure, FigureChange, FigureChanges, PathReport

FALSE_SHARE = 0.05
LEAST_LOSS_RATIO = 0.0002
LEAST_RTT_SHARE, LEAST_RTT_MS = 0.02, 0.1
# Smaller changes are not reported, however significant.
LEAST_THROUGHPUT_SHARE = 0.1


def find(
    paths: Sequence[PathReport],
    days: Mapping[int, Sequence[PathDay]],
    throughput_days: Mapping[int, Sequence[PathThroughputDay]],
    since: datetime,
    first: datetime,
    last: datetime,
) -> FigureChanges:
    """Compare the days in [first, last) with those in [since, first), all three UTC midnights."""
    if not paths or last <= first:
        return FigureChanges(0, 0, (), ())
    before, every = (first - since).days, (last - since).days
    lost, sent, rtt_ms = _ping_days(paths, days, since, every)
    rates_bps = _throughput_days(paths, throughput_days, since, every)
    results = {
        ComparedFigure.LOSS: noise.loss_changes(lost[:, before:], sent[:, before:], lost[:, :before], sent[:, :before]),
        ComparedFigure.RTT: noise.value_changes(rtt_ms[:, before:], rtt_ms[:, :before]),
        ComparedFigure.THROUGHPUT: noise.value_changes(rates_bps[:, before:], rates_bps[:, :before]),
    }
    chances = np.concatenate([result.chance for result in results.values()])
    adjusted = noise.adjusted(chances).reshape(len(ComparedFigure), len(paths))
    told = [
        FigureChange(
            path,
            figure,
            float(result.now[row]),
            float(result.before[row]),
            float(result.chance[row]),
            float(corrected[row]),
        )
        for (figure, result), corrected in zip(results.items(), adjusted, strict=True)
        for row, path in enumerate(paths)
        if corrected[row] <= FALSE_SHARE and _matters(figure, float(result.now[row]), float(result.before[row]))
    ]
    told.sort(key=_size, reverse=True)
    tests = int((~np.isnan(chances)).sum())
    return FigureChanges(
        tests=tests,
        not_tested=int(np.isnan(results[ComparedFigure.LOSS].chance).sum()),
        worse=tuple(change for change in told if change.is_worse),
        better=tuple(change for change in told if not change.is_worse),
    )


def _matters(figure: ComparedFigure, now: float, before: float) -> bool:
    by = abs(now - before)
    if figure is ComparedFigure.LOSS:
        return by >= LEAST_LOSS_RATIO
    if figure is ComparedFigure.RTT:
        return by >= max(LEAST_RTT_MS, LEAST_RTT_SHARE * before)
    return by >= LEAST_THROUGHPUT_SHARE * before


def _size(change: FigureChange) -> float:
    # Comparable size: 0.1 percentage points of loss equal a factor of two.
    if change.figure is ComparedFigure.LOSS:
        return abs(change.now - change.before) / 0.001
    return abs(math.log2(change.now / change.before))


def _ping_days(
    paths: Sequence[PathReport], days: Mapping[int, Sequence[PathDay]], since: datetime, every: int
) -> tuple[Floats, Floats, Floats]:
    lost, sent = np.zeros((2, len(paths), every))
    rtt_ms = np.full((len(paths), every), np.nan)
    for row, path in enumerate(paths):
        for day in days.get(path.path_id, ()):
            place = _place(day.day, since)
            lost[row, place], sent[row, place] = day.sent - day.received, day.sent
            if day.rtt_median_ms is not None:
                rtt_ms[row, place] = day.rtt_median_ms
    return lost, sent, rtt_ms


def _throughput_days(
    paths: Sequence[PathReport], days: Mapping[int, Sequence[PathThroughputDay]], since: datetime, every: int
) -> Floats:
    rates_bps = np.full((len(paths), every), np.nan)
    for row, path in enumerate(paths):
        for day in days.get(path.path_id, ()):
            rates_bps[row, _place(day.day, since)] = day.throughput_median_bps
    return rates_bps


def _place(day: datetime, since: datetime) -> int:
    return (day - since) // timedelta(days=1)
