"""Charts of a path: RTT, loss and throughput, as Vega-Lite specs by Altair.

Layouts are built once; requests add rows. Lines never cross a gap. Colours are named styles: `CONFIG` is for paper, the
page has its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from monitor.analysis import figures
from monitor.analysis.loss import loss_bound_ratio
from monitor.archive.queries.paths import Series, SeriesPoint
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.web.charts.layout import filled, loss_layout, rtt_layout, scale_params, throughput_layout
from monitor.web.charts.marks import (
    LABEL_SHARE,
    SEEN_IN_LOSS,
    Absence,
    LabelledSpan,
    Row,
    Spec,
    TimeAxis,
    change_rows,
    epoch_ms,
    span_rows,
)
from monitor.web.charts.scales import log_scale
from monitor.web.labels import outcome_label
from probes.contract import Outcome

# The newest step takes a cycle, a delivery and a rollup to arrive; until then it is not called a gap.
LATEST_MAY_BE_LATE = timedelta(minutes=3)


def rtt_chart(series: Series, window: TimeAxis, own_tests: Sequence[datetime] = ()) -> Spec:
    """RTT in ms: minimum to maximum, interquartile range, median.

    `own_tests` are steps lost to our throughput tests.
    """
    return filled(
        rtt_layout(),
        window,
        {"steps": step_rows(series, _rtt_row), **_background_rows(series, window, Absence, own_tests)},
    )


def loss_chart(series: Series, window: TimeAxis, bound_s: int = 0, own_tests: Sequence[datetime] = ()) -> Spec:
    """Lost over sent, or without loss the upper 95% bound 3/N of adjacent steps, within `bound_s` if longer than a
    step."""
    rows = [_loss_row(point, until) for point, until in _loss_steps(series, max(bound_s, series.step_s))]
    return filled(loss_layout(), window, {"steps": rows, **_background_rows(series, window, SEEN_IN_LOSS, own_tests)})


def _loss_steps(series: Series, bound_s: int) -> Iterator[tuple[SeriesPoint, datetime]]:
    step = timedelta(seconds=series.step_s)
    clean: list[SeriesPoint] = []
    for point in series.points:
        if point.sent == 0:
            continue
        is_clean = point.received == point.sent
        if clean and not (is_clean and clean[-1].at + step == point.at):
            yield from _clean_parts(clean, step, bound_s)
            clean = []
        if is_clean:
            clean.append(point)
        else:
            yield point, point.at + step
    yield from _clean_parts(clean, step, bound_s)


def _clean_parts(steps: list[SeriesPoint], step: timedelta, bound_s: int) -> Iterator[tuple[SeriesPoint, datetime]]:
    parts = max(1, len(steps) * round(step.total_seconds()) // bound_s) if steps else 0
    for part in range(parts):
        members = steps[len(steps) * part // parts : len(steps) * (part + 1) // parts]
        yield _pooled_point(members[0].at, members), members[-1].at + step


def throughput_chart(hours: Series, tests: Iterable[ThroughputPoint], window: TimeAxis) -> Spec:
    """Mathis estimate from ping (dashed for a lower bound), and measured TCP throughput."""
    rows = step_rows(hours, _estimate_row, split_by="floor")
    floors = [
        {"t": epoch_ms(point.at + timedelta(seconds=hours.step_s / 2)), "bps": rounded(point.estimate_bps)}
        for point in hours.points
        if point.estimate_is_floor and point.estimate_bps is not None
    ]
    points = [_test_row(test) for test in tests]
    datasets = {
        "steps": rows,
        "floors": floors,
        "measured": [row for row in points if row["bps"] is not None],
        "failed": _labelled([row for row in points if row["bps"] is None], window),
        **change_rows(window),
    }
    spec = filled(throughput_layout(), window, datasets)
    spec["params"] += scale_params(log_scale([row["bps"] for row in (*rows, *datasets["measured"])]))
    return spec


def pool(series: Series, step_s: int) -> Series:
    """Add counts into longer steps; quantiles cannot be added."""
    if step_s <= series.step_s:
        return series
    pooled: dict[datetime, list[SeriesPoint]] = {}
    for point in series.points:
        start = datetime.fromtimestamp(point.at.timestamp() // step_s * step_s, tz=point.at.tzinfo)
        pooled.setdefault(start, []).append(point)
    points = tuple(_pooled_point(at, members) for at, members in sorted(pooled.items()))
    return Series(path_id=series.path_id, packet_bytes=series.packet_bytes, step_s=step_s, points=points)


def _pooled_point(at: datetime, members: Sequence[SeriesPoint]) -> SeriesPoint:
    return SeriesPoint(
        at=at,
        sent=sum(point.sent for point in members),
        received=sum(point.received for point in members),
        bursts_not_measured=sum(point.bursts_not_measured for point in members),
        rtt_min_ms=None,
        rtt_p25_ms=None,
        rtt_median_ms=None,
        rtt_p75_ms=None,
        rtt_p95_ms=None,
        rtt_max_ms=None,
        estimate_bps=None,
        estimate_is_floor=None,
    )


def step_rows(series: Series, values: Callable[[SeriesPoint], Row | None], *, split_by: str | None = None) -> list[Row]:
    """Rows for step lines. A gap, None from `values`, or a new value of `split_by` ends a `run`, which a row closes."""
    rows: list[Row] = []
    run, expected, kind = 0, None, None
    for point in series.points:
        row = values(point)
        begins = point.at != expected or (split_by is not None and row is not None and row[split_by] != kind)
        if rows and expected is not None and (row is None or begins):
            rows.append(_closing(rows[-1]))
            run += 1
        expected = None if row is None else point.at + timedelta(seconds=series.step_s)
        if row is not None:
            kind = None if split_by is None else row[split_by]
            rows.append({**_extent(point, series.step_s), "run": run, **row})
    if rows and expected is not None:
        rows.append(_closing(rows[-1]))
    return rows


def _closing(row: Row) -> Row:
    return {**row, "t": row["t2"], "t2": None}


def absences(series: Series, window: TimeAxis, own_tests: Sequence[datetime] = ()) -> dict[Absence, list[LabelledSpan]]:
    spans: dict[Absence, list[LabelledSpan]] = {kind: [] for kind in Absence}
    step = timedelta(seconds=series.step_s)
    covered = window.since
    for point in series.points:
        _missing(spans, covered, point.at, step, own_tests)
        covered = point.at + step
        reason = _absence_of(point)
        if reason is not None:
            _extend(spans[reason], point.at, covered, reason.label)
    if window.until - covered > max(step, LATEST_MAY_BE_LATE):
        _missing(spans, covered, window.until, step, own_tests)
    return spans


def _missing(
    spans: dict[Absence, list[LabelledSpan]],
    since: datetime,
    until: datetime,
    step: timedelta,
    own_tests: Sequence[datetime],
) -> None:
    covered = since
    for at in own_tests[bisect_left(own_tests, since) : bisect_left(own_tests, until)]:
        if at > covered:
            _extend(spans[Absence.NO_DATA], covered, at, Absence.NO_DATA.label)
        _extend(spans[Absence.OWN_TEST], at, at + step, Absence.OWN_TEST.label)
        covered = at + step
    if until > covered:
        _extend(spans[Absence.NO_DATA], covered, until, Absence.NO_DATA.label)


def _absence_of(point: SeriesPoint) -> Absence | None:
    if point.sent == 0:
        return Absence.NOT_MEASURED if point.bursts_not_measured > 0 else Absence.NO_DATA
    return Absence.ALL_LOST if point.received == 0 else None


def _extend(spans: list[LabelledSpan], since: datetime, until: datetime, label: str) -> None:
    if spans and spans[-1].until == since:
        spans[-1] = LabelledSpan(spans[-1].since, until, label)
    else:
        spans.append(LabelledSpan(since, until, label))


def quantiles(point: SeriesPoint) -> Row | None:
    if point.rtt_median_ms is None:
        return None
    return {
        "min": rounded(point.rtt_min_ms),
        "p25": rounded(point.rtt_p25_ms),
        "median": rounded(point.rtt_median_ms),
        "p75": rounded(point.rtt_p75_ms),
        "p95": rounded(point.rtt_p95_ms),
        "max": rounded(point.rtt_max_ms),
    }


def _rtt_row(point: SeriesPoint) -> Row | None:
    rtts_ms = quantiles(point)
    return None if rtts_ms is None else {**rtts_ms, "got": f"{point.received} of {point.sent}"}


def _loss_row(point: SeriesPoint, until: datetime) -> Row:
    lost = point.sent - point.received
    bound = loss_bound_ratio(point.sent, point.received)
    return {
        "t": epoch_ms(point.at),
        "t2": epoch_ms(until),
        "ratio": lost / point.sent if lost > 0 else None,
        "bound": bound,
        "text": loss_text(point),
    }


def loss_text(point: SeriesPoint) -> str:
    return _loss_words(point.sent - point.received, point.sent)


@lru_cache(maxsize=4096)
# Cached, since most bursts of a day have the same counts.
def _loss_words(lost: int, sent: int) -> str:
    return f"{lost if lost > 0 else 'none'} of {sent} lost: {figures.loss(lost, sent)}"


def _estimate_row(point: SeriesPoint) -> Row | None:
    if point.estimate_bps is None:
        return None
    return {"bps": rounded(point.estimate_bps), "floor": bool(point.estimate_is_floor)}


def measured_rows(tests: Iterable[ThroughputPoint]) -> list[Row]:
    values = ((test, rounded(test.throughput_bps)) for test in tests)
    return [{"t": epoch_ms(test.at), "value": value} for test, value in values if value is not None]


def _test_row(test: ThroughputPoint) -> Row:
    measured = test.outcome == Outcome.MEASURED
    return {
        "t": epoch_ms(test.at),
        "bps": rounded(test.throughput_bps) if measured else None,
        "outcome": outcome_label(test.outcome),
        "streams": test.streams,
        "retransmits": test.retransmits,
        "detail": test.detail or "",
    }


def _labelled(failed: list[Row], window: TimeAxis) -> list[Row]:
    room = LABEL_SHARE * (epoch_ms(window.until) - epoch_ms(window.since))
    rows: list[Row] = []
    free_from = float("-inf")
    for row in failed:
        shown = row["t"] >= free_from
        free_from = row["t"] + room if shown else free_from
        rows.append({**row, "shown": row["outcome"] if shown else ""})
    return rows


def _extent(point: SeriesPoint, step_s: int) -> Row:
    return {"t": epoch_ms(point.at), "t2": epoch_ms(point.at + timedelta(seconds=step_s))}


def rounded(value: float | None) -> float | None:
    # Five significant digits are more than a chart shows, and half the bytes.
    return None if value is None else float(f"{value:.5g}")


def _background_rows(
    series: Series, window: TimeAxis, kinds: Iterable[Absence], own_tests: Sequence[datetime] = ()
) -> dict[str, list[Row]]:
    spans = absences(series, window, own_tests)
    return {**{kind.style: span_rows(spans[kind], window) for kind in kinds}, **change_rows(window)}
