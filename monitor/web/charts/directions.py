"""Charts of a path's directions from STAMP tests, drawn by the server (`monitor.web.charts.svg`).

Loss is drawn by its square root, to show 1% beside 100%. No delay is negative, since no interval is (`DirectionPoint`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from statistics import median

from monitor.analysis import figures
from monitor.archive.queries.directions import DirectionPoint, DirectionSeries
from monitor.web.charts.layout import filled, scale_params
from monitor.web.charts.marks import Absence, LabelledSpan, Row, Spec, TimeAxis, change_rows, epoch_ms, span_rows
from monitor.web.charts.scales import Scale, linear_scale
from monitor.web.charts.sentences import length_words, spans_words
from monitor.web.charts.series import LATEST_MAY_BE_LATE, rounded
from monitor.web.request import times

# Upper ends of the loss axis.
LOSS_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# In typical steps: a longer time without a cycle is a gap.
GAP_STEPS = 2.5
# Where the clocks allow so much more or less of a delay, its middle is more a share of the RTT.
LOOSE_RATIO = 0.25

# Lost and sent packets of a direction.
Losses = Callable[[DirectionPoint], tuple[int, int]]


def forward_losses(point: DirectionPoint) -> tuple[int, int]:
    return point.forward_lost, point.counted


def reverse_losses(point: DirectionPoint) -> tuple[int, int]:
    return point.reverse_lost, point.counted - point.forward_lost


def losses_of(points: Sequence[DirectionPoint], losses: Losses) -> tuple[int, int]:
    pairs = [losses(point) for point in points]
    return sum(lost for lost, _ in pairs), sum(sent for _, sent in pairs)


def loss_spec(series: DirectionSeries, window: TimeAxis, far: str) -> Spec:
    """Bars of the loss to and from the site `far`, on one scale."""
    steps = list(_steps(series))
    high = max((lost / sent for point, _ in steps for lost, sent in _both(point) if sent), default=0.0)
    end = next(end for end in LOSS_ENDS if end >= high)
    rows = {
        name: [_loss_row(point, until, *losses(point)) for point, until in steps if losses(point)[0]]
        for name, losses in (("forward", forward_losses), ("reverse", reverse_losses))
    }
    spec = _spec(series, window, rows)
    scale = Scale(0.0, math.sqrt(end), (0.0, math.sqrt(end / 4), math.sqrt(end)))
    spec["params"] += scale_params(scale)
    spec["names"] = {"forward": f"to {far}", "reverse": f"from {far}"}
    return spec


def delay_spec(series: DirectionSeries, window: TimeAxis) -> Spec | None:
    """Lines of both delays in their intervals."""
    rows = {
        "forward": _delay_rows(series, lambda point: (point.forward_delay_lo_ms, point.forward_delay_hi_ms)),
        "reverse": _delay_rows(series, lambda point: (point.reverse_delay_lo_ms, point.reverse_delay_hi_ms)),
    }
    every = [row for of_direction in rows.values() for row in of_direction]
    if not every:
        return None
    spec = _spec(series, window, rows)
    scale = linear_scale(min(row["low"] for row in every), max(row["high"] for row in every))
    spec["params"] += scale_params(scale)
    return spec


def loss_sentence(name: str, far: str, window: TimeAxis, series: DirectionSeries) -> str:
    """`Loss by direction of slac to cern, 60 min: to cern 20 of 600 lost, …`"""
    told = []
    for words, losses in ((f"to {far}", forward_losses), (f"from {far}", reverse_losses)):
        lost, sent = losses_of(series.points, losses)
        if not sent:
            continue
        told.append(f"{words} {figures.loss_evidence(sent, sent - lost)}")
        if lost:
            shares = [(of[0] / of[1], point.at) for point in series.points if (of := losses(point))[1]]
            share, at = max(shares)
            told[-1] += f", most {figures.percent(share)} in the interval at {times.minute(at)}"
    is_answered = any(point.received for point in series.points)
    said = "; ".join(told) or ("not known, the reflector keeps no counter" if is_answered else "not known")
    return (
        f"Loss by direction of {name}, {length_words(window)}: {said}{spans_words(window, _absences(series, window))}."
    )


def delay_sentence(name: str, far: str, window: TimeAxis, spec: Spec) -> str:
    """`One-way delay of slac to cern, 60 min: to cern 20.5 to 33.1 ms, ± 2 ms; …`"""
    told = []
    for words, direction in ((f"to {far}", "forward"), (f"from {far}", "reverse")):
        rows = spec["datasets"][direction]
        if rows:
            ends = sorted({figures.milliseconds(f(row["middle"] for row in rows)) for f in (min, max)}, key=_number)
            error_ms = max((row["high"] - row["low"]) / 2 for row in rows)
            told.append(f"{words} {' to '.join(ends)}, ± {figures.milliseconds(error_ms)} at most by the clocks")
    return f"One-way delay of {name}, {length_words(window)}: {'; '.join(told)}."


def is_loose(spec: Spec) -> bool:
    """Whether a delay's interval is so wide that the other direction moves its middle."""
    rows = (row for direction in ("forward", "reverse") for row in spec["datasets"][direction])
    return any(is_loose_interval(row["low"], row["high"]) for row in rows)


def is_loose_interval(low_ms: float, high_ms: float) -> bool:
    return (high_ms - low_ms) / 2 > LOOSE_RATIO * (low_ms + high_ms) / 2


def _number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def _both(point: DirectionPoint) -> tuple[tuple[int, int], tuple[int, int]]:
    return forward_losses(point), reverse_losses(point)


def _steps(series: DirectionSeries) -> Iterator[tuple[DirectionPoint, datetime]]:
    step = _typical_step(series)
    for point, following in zip_longest(series.points, series.points[1:]):
        if following is not None and following.at - point.at <= GAP_STEPS * step:
            yield point, following.at
        else:
            yield point, point.at + step


def _typical_step(series: DirectionSeries) -> timedelta:
    apart = [(after.at - before.at).total_seconds() for before, after in pairwise(series.points)]
    return timedelta(seconds=max(float(series.step_s), median(apart) if apart else 0.0))


def _loss_row(point: DirectionPoint, until: datetime, lost: int, sent: int) -> Row:
    return {"t": epoch_ms(point.at), "t2": epoch_ms(until), "root": math.sqrt(lost / sent)}


def _delay_rows(
    series: DirectionSeries, interval_of: Callable[[DirectionPoint], tuple[float | None, float | None]]
) -> list[Row]:
    rows: list[Row] = []
    run, expected = 0, None
    for point, until in _steps(series):
        low, high = map(rounded, interval_of(point))
        is_gap = low is None or high is None or point.at != expected
        if is_gap and expected is not None:
            rows.append({**rows[-1], "t": epoch_ms(expected)})
            run += 1
        expected = None
        if low is not None and high is not None:
            rows.append({"t": epoch_ms(point.at), "run": run, "low": low, "high": high, "middle": (low + high) / 2})
            expected = until
    if expected is not None:
        rows.append({**rows[-1], "t": epoch_ms(expected)})
    return rows


def _absences(series: DirectionSeries, window: TimeAxis) -> dict[Absence, list[LabelledSpan]]:
    spans: dict[Absence, list[LabelledSpan]] = {kind: [] for kind in Absence}
    step = GAP_STEPS * _typical_step(series)
    covered = window.since
    for point, until in _steps(series):
        if point.at - covered > (step if covered == window.since else timedelta(0)):
            _add(spans, Absence.NO_DATA, covered, point.at)
        if point.received == 0:
            _add(spans, Absence.ALL_LOST, point.at, until)
        covered = until
    if window.until - covered > max(step, LATEST_MAY_BE_LATE):
        _add(spans, Absence.NO_DATA, covered, window.until)
    return spans


def _add(spans: dict[Absence, list[LabelledSpan]], kind: Absence, since: datetime, until: datetime) -> None:
    of_kind = spans[kind]
    if of_kind and of_kind[-1].until == since:
        since = of_kind.pop().since
    of_kind.append(LabelledSpan(since, until, kind.label))


def _spec(series: DirectionSeries, window: TimeAxis, rows: dict[str, list[Row]]) -> Spec:
    spans = _absences(series, window)
    background = {kind.style: span_rows(spans[kind], window) for kind in Absence}
    return filled({"layer": []}, window, {**rows, **background, **change_rows(window)})
