"""The charts of a path: from query results to Vega-Lite specs, drawn with Altair.

Three charts share one time axis in UTC: round-trip times, loss, and throughput (estimated and measured). What goes in
are results of `monitor.archive.queries`; what comes out are plain dicts, ready for vega-embed on the page or for
vl-convert in a file. The layout of a chart is constant, so it is built and checked once; each request only adds rows.

A step is drawn over the whole time that it covers, and where there is none nothing is drawn: lines never cross a gap.
Colours are named styles; `CONFIG` has them for paper, the page replaces them with its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

import altair as alt

from monitor.analysis import figures
from monitor.analysis.loss import loss_bound_ratio
from monitor.api.changes import Change, ChangeKind
from monitor.archive.queries import Series, SeriesPoint, ThroughputPoint
from probes.contract import Outcome

Spec = dict[str, Any]
Row = dict[str, Any]

LATEST_MAY_BE_LATE = timedelta(minutes=3)
"""The newest step takes a cycle, a delivery and a rollup to arrive; until then it is not called a gap."""
LABEL_SHARE = 0.07
"""Of the width of a chart: what a label of two words takes."""
AXIS_PX = 44
LEAST_LOSS_SHOWN = 0.01
"""The loss axis reaches this far whatever was lost; else it would have no length where nothing was."""
LOSS_TICKS = (0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)
HEIGHT_PX = 210
SMALL_HEIGHT_PX = 170

TIME_FORMAT = {
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "day": "%a %d %b",
    "date": "%a %d %b",
    "week": "%d %b",
    "month": "%B",
    "year": "%Y",
}

CONFIG: Spec = {
    "background": "#ffffff",
    "view": {"stroke": None},
    "font": "system-ui, sans-serif",
    "axis": {
        "labelColor": "#4a5560",
        "titleColor": "#4a5560",
        "titleFontWeight": "normal",
        "gridColor": "#e3e8ec",
        "domainColor": "#aab4bc",
        "tickColor": "#aab4bc",
    },
    "style": {
        "rtt-range": {"color": "#0b6e99", "fillOpacity": 0.16},
        "rtt-quartiles": {"color": "#0b6e99", "fillOpacity": 0.36},
        "rtt-median": {"color": "#0b4f6c", "strokeWidth": 1.4},
        "loss": {"color": "#c2410c"},
        "loss-bound": {"color": "#0b6e99", "fillOpacity": 0.10},
        "loss-bound-line": {"color": "#0b6e99", "strokeDash": [3, 2], "strokeWidth": 1},
        "estimate": {"color": "#6b46a8", "strokeWidth": 1.8},
        "estimate-floor": {"color": "#6b46a8", "strokeWidth": 1.2, "strokeDash": [4, 3]},
        "estimate-floor-mark": {"color": "#6b46a8"},
        "measured": {"color": "#0b6e99"},
        "failed": {"color": "#b91c1c"},
        "failed-label": {"color": "#b91c1c"},
        "no-data": {"color": "#7b8791", "fillOpacity": 0.18},
        "own-test": {"color": "#6b46a8", "fillOpacity": 0.16},
        "not-measured": {"color": "#a16207", "fillOpacity": 0.20},
        "all-lost": {"color": "#111111", "fillOpacity": 0.35},
        "transfer-rate": {"color": "#0b6e99", "fillOpacity": 0.55},
        "steady-rate": {"color": "#0b4f6c", "strokeDash": [5, 3], "strokeWidth": 1.4},
        "slow-start": {"color": "#6b46a8", "fillOpacity": 0.14},
        "recovery": {"color": "#c2410c", "fillOpacity": 0.16},
        "resent": {"color": "#c2410c"},
        "cwnd": {"color": "#0b4f6c", "strokeWidth": 1.6},
        "peer-window": {"color": "#a16207", "strokeDash": [4, 3], "strokeWidth": 1.6},
        "transfer-rtt": {"color": "#0b4f6c", "strokeWidth": 1.6},
        "idle-rtt": {"color": "#0b6e99", "strokeDash": [3, 2], "strokeWidth": 1.2},
        "path-0": {"color": "#0072b2", "strokeWidth": 1.8},
        "path-1": {"color": "#b34700", "strokeWidth": 1.8, "strokeDash": [6, 3]},
        "path-2": {"color": "#00795c", "strokeWidth": 1.8, "strokeDash": [2, 2]},
        "path-3": {"color": "#8a3b94", "strokeWidth": 1.8, "strokeDash": [8, 3, 2, 3]},
        "path-4": {"color": "#7a5c00", "strokeWidth": 1.8, "strokeDash": [1, 3]},
        "path-5": {"color": "#111111", "strokeWidth": 1.8, "strokeDash": [10, 4]},
        "knee": {"color": "#c2410c"},
        "span-label": {"color": "#4a5560"},
        "incident": {"color": "#b91c1c", "fillOpacity": 0.12},
        "incident-start": {"color": "#b91c1c", "strokeWidth": 1.4},
        "plan-change": {"color": "#0b5c80", "strokeDash": [2, 3], "strokeWidth": 1.4},
        "plan-change-sign": {"color": "#0b5c80"},
        "route-change": {"color": "#a16207", "strokeDash": [7, 3], "strokeWidth": 1.4},
        "route-change-sign": {"color": "#a16207"},
    },
}


class Absence(StrEnum):
    """Why a stretch of time has no round-trip times. The value is what is written over it."""

    NO_DATA = "no data"
    OWN_TEST = "own test"
    NOT_MEASURED = "not measured"
    ALL_LOST = "all lost"

    @property
    def style(self) -> str:
        return self.value.replace(" ", "-")


CHANGE_SIGNS = {ChangeKind.PLAN: "◆", ChangeKind.ROUTE: "⇄"}
"""What stands at the head of the line of a change; the page has the same signs beside the words."""

SEEN_IN_LOSS = (Absence.NO_DATA, Absence.NOT_MEASURED)
"""What a loss chart shades: there total loss is a value."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time with a word for it."""

    since: datetime
    until: datetime
    label: str


@dataclass(frozen=True, slots=True)
class Window:
    """What the time axis covers, and what is shaded and marked on it."""

    since: datetime
    until: datetime
    incidents: tuple[Span, ...] = ()
    changes: tuple[Change, ...] = ()


def rtt_chart(series: Series, window: Window, own_tests: Sequence[datetime] = ()) -> Spec:
    """Quantile bands of the RTT: least to greatest, the middle half, and the median line, in ms.

    `own_tests` are the steps that lack since our own throughput test ran.
    """
    return filled(
        _rtt_layout(),
        window,
        {"steps": step_rows(series, _rtt_row), **_background_rows(series, window, Absence, own_tests)},
    )


def loss_chart(pooled: Series, window: Window) -> Spec:
    """Lost over sent in each step; where none was lost, what the loss may be at most (95% bound, 3/N)."""
    rows = [_loss_row(point, pooled.step_s) for point in pooled.points if point.sent > 0]
    return filled(_loss_layout(), window, {"steps": rows, **_background_rows(pooled, window, SEEN_IN_LOSS)})


def throughput_chart(hours: Series, tests: Iterable[ThroughputPoint], window: Window) -> Spec:
    """The Mathis estimate from ping (the Reno index; dashed where it is a floor) against what TCP tests measured."""
    rows = step_rows(hours, _estimate_row, split_by="floor")
    floors = [
        {"t": _ms(point.at + timedelta(seconds=hours.step_s / 2)), "bps": rounded(point.estimate_bps)}
        for point in hours.points
        if point.estimate_is_floor and point.estimate_bps is not None
    ]
    points = [_test_row(test) for test in tests]
    datasets = {
        "steps": rows,
        "floors": floors,
        "measured": [row for row in points if row["bps"] is not None],
        "failed": _labelled([row for row in points if row["bps"] is None], window),
        **_change_rows(window),
    }
    return filled(_throughput_layout(), window, datasets)


def pool(series: Series, step_s: int) -> Series:
    """The same counts in longer steps. Counts add up; quantiles do not, so the result has none."""
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
    """Rows for step lines. Each run of steps without a gap is a `run` of its own, closed by a row at its end.

    `values(point)` gives the row's values, or None where the step has none, which ends a run as a gap does; so does a
    change of the value named by `split_by`.
    """
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
    """What ends a run: the last step again, at its end; it covers no time of its own, so it has no `t2`."""
    return {**row, "t": row["t2"], "t2": None}


def absences(series: Series, window: Window, own_tests: Sequence[datetime] = ()) -> dict[Absence, list[Span]]:
    """The stretches of the window in which there are no round-trip times, by their reason."""
    found: dict[Absence, list[Span]] = {kind: [] for kind in Absence}
    step = timedelta(seconds=series.step_s)
    covered = window.since
    for point in series.points:
        _missing(found, covered, point.at, step, own_tests)
        covered = point.at + step
        reason = _absence_of(point)
        if reason is not None:
            _extend(found[reason], point.at, covered, reason)
    if window.until - covered > max(step, LATEST_MAY_BE_LATE):
        _missing(found, covered, window.until, step, own_tests)
    return found


def _missing(
    found: dict[Absence, list[Span]], since: datetime, until: datetime, step: timedelta, own_tests: Sequence[datetime]
) -> None:
    """Say why there is no point from `since` to `until`: our own test where that is known, else no data."""
    covered = since
    for at in own_tests[bisect_left(own_tests, since) : bisect_left(own_tests, until)]:
        if at > covered:
            _extend(found[Absence.NO_DATA], covered, at, Absence.NO_DATA)
        _extend(found[Absence.OWN_TEST], at, at + step, Absence.OWN_TEST)
        covered = at + step
    if until > covered:
        _extend(found[Absence.NO_DATA], covered, until, Absence.NO_DATA)


def _absence_of(point: SeriesPoint) -> Absence | None:
    if point.sent == 0:
        return Absence.NOT_MEASURED if point.bursts_not_measured > 0 else Absence.NO_DATA
    return Absence.ALL_LOST if point.received == 0 else None


def _extend(spans: list[Span], since: datetime, until: datetime, label: str) -> None:
    """Add a span, as part of the last one where it continues it."""
    if spans and spans[-1].until == since:
        spans[-1] = Span(spans[-1].since, until, label)
    else:
        spans.append(Span(since, until, label))


def _rtt_row(point: SeriesPoint) -> Row | None:
    if point.rtt_median_ms is None:
        return None
    return {
        "min": rounded(point.rtt_min_ms),
        "p25": rounded(point.rtt_p25_ms),
        "median": rounded(point.rtt_median_ms),
        "p75": rounded(point.rtt_p75_ms),
        "p95": rounded(point.rtt_p95_ms),
        "max": rounded(point.rtt_max_ms),
        "got": f"{point.received} of {point.sent}",
    }


def _loss_row(point: SeriesPoint, step_s: int) -> Row:
    lost = point.sent - point.received
    bound = loss_bound_ratio(point.sent, point.received)
    return {
        **_extent(point, step_s),
        "ratio": lost / point.sent if lost > 0 else None,
        "bound": bound,
        "text": loss_text(point),
    }


def loss_text(point: SeriesPoint) -> str:
    """How many of how many packets were lost, in words."""
    lost = point.sent - point.received
    return f"{lost if lost > 0 else 'none'} of {point.sent} lost: {figures.loss(lost, point.sent)}"


def _estimate_row(point: SeriesPoint) -> Row | None:
    if point.estimate_bps is None:
        return None
    return {"bps": rounded(point.estimate_bps), "floor": bool(point.estimate_is_floor)}


def measured_rows(tests: Iterable[ThroughputPoint]) -> list[Row]:
    """The tests that measured, as points."""
    found = ((test, rounded(test.throughput_bps)) for test in tests)
    return [{"t": _ms(test.at), "value": value} for test, value in found if value is not None]


def _test_row(test: ThroughputPoint) -> Row:
    measured = test.outcome == Outcome.MEASURED
    return {
        "t": _ms(test.at),
        "bps": rounded(test.throughput_bps) if measured else None,
        "outcome": str(test.outcome).replace("_", " "),
        "streams": test.streams,
        "retransmits": test.retransmits,
        "detail": test.detail or "",
    }


def _labelled(failed: list[Row], window: Window) -> list[Row]:
    """Failed tests with their outcome as a label, where it has room beside the one before."""
    room = LABEL_SHARE * (_ms(window.until) - _ms(window.since))
    rows: list[Row] = []
    free_from = float("-inf")
    for row in failed:
        shown = row["t"] >= free_from
        free_from = row["t"] + room if shown else free_from
        rows.append({**row, "shown": row["outcome"] if shown else ""})
    return rows


def _extent(point: SeriesPoint, step_s: int) -> Row:
    return {"t": _ms(point.at), "t2": _ms(point.at + timedelta(seconds=step_s))}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def rounded(value: float | None) -> float | None:
    """Five significant digits: more than a chart can show, less than half the bytes."""
    return None if value is None else float(f"{value:.5g}")


def _background_rows(
    series: Series, window: Window, kinds: Iterable[Absence], own_tests: Sequence[datetime] = ()
) -> dict[str, list[Row]]:
    """What `_background` names, but for the incidents."""
    found = absences(series, window, own_tests)
    return {**{kind.style: _span_rows(found[kind], window) for kind in kinds}, **_change_rows(window)}


def _span_rows(spans: Iterable[Span], window: Window) -> list[Row]:
    """Spans cut to the window; those wide enough for it carry their label in the middle."""
    whole = window.until - window.since
    rows = []
    for span in spans:
        since, until = max(span.since, window.since), min(span.until, window.until)
        if since < until:
            wide = (until - since) / whole >= LABEL_SHARE
            middle = since + (until - since) / 2
            rows.append(
                {
                    "t": _ms(since),
                    "t2": _ms(until),
                    "mid": _ms(middle),
                    "label": span.label,
                    "shown": span.label if wide else "",
                }
            )
    return rows


def _change_rows(window: Window) -> dict[str, list[Row]]:
    return {
        _change_style(kind): [{"t": _ms(one.at), "label": one.text} for one in window.changes if one.kind is kind]
        for kind in ChangeKind
    }


def _change_style(kind: ChangeKind) -> str:
    return f"{kind}-change"


def filled(layout: Spec, window: Window, datasets: dict[str, list[Row]]) -> Spec:
    """The layout with its rows and the ends of its time axis."""
    spec = deepcopy(layout)
    spec["datasets"] = {**datasets, "incidents": _span_rows(window.incidents, window)}
    spec["params"] = [{"name": "since", "value": _ms(window.since)}, {"name": "until", "value": _ms(window.until)}]
    return spec


def _named(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name=name))


def time_axis() -> alt.X:
    """The time axis, said once in each chart: the other layers share it."""
    ends = [alt.ExprRef(expr="since"), alt.ExprRef(expr="until")]
    return alt.X(
        "t:T",
        title=None,
        scale=alt.Scale(type="utc", domain=ends, nice=False, clamp=True),
        axis=alt.Axis(labelOverlap=True, tickCount=8, grid=False, format=TIME_FORMAT),
    )


def when(field: str = "t", title: str = "from") -> alt.Tooltip:
    """A time in a tooltip."""
    return alt.Tooltip(
        f"{field}:T", title=f"{title} (UTC)", format="%Y-%m-%d %H:%M:%S", timeUnit="utcyearmonthdatehoursminutesseconds"
    )


def _background(*kinds: Absence) -> list[alt.Chart]:
    """Shaded stretches, from behind: incidents, then absences with their labels; then the lines of changes."""
    incidents = _named("incidents")
    why = [alt.Tooltip("label:N", title="incident"), when(), when("t2", "until")]
    layers = [
        incidents.mark_rect(style="incident").encode(x="t:T", x2="t2", tooltip=why),
        incidents.mark_rule(style="incident-start").encode(x=time_axis()),
    ]
    for kind in kinds:
        spans = _named(kind.style)
        why = [alt.Tooltip("label:N", title="RTT"), when(), when("t2", "until")]
        layers.append(spans.mark_rect(style=kind.style).encode(x="t:T", x2="t2", tooltip=why))
        label = spans.mark_text(style="span-label", fontSize=11)
        layers.append(label.encode(x="mid:T", y=alt.value(14), text="shown:N"))
    for change, sign in CHANGE_SIGNS.items():
        style = _change_style(change)
        changes = _named(style)
        layers.append(changes.mark_rule(style=style).encode(x="t:T"))
        mark = changes.mark_text(style=f"{style}-sign", text=sign, fontSize=13, baseline="bottom")
        why = [alt.Tooltip("label:N", title=change.value), when("t", "at")]
        layers.append(mark.encode(x="t:T", y=alt.value(0), tooltip=why))
    return layers


def layout(layers: Sequence[alt.Chart], height_px: int) -> Spec:
    """The spec of these layers, as wide as its place."""
    chart = alt.layer(*layers).properties(width="container", height=height_px)
    return chart.configure(**CONFIG).to_dict()


@cache
def _rtt_layout() -> Spec:
    steps = _named("steps")
    shape: dict[str, Any] = {"interpolate": "step-after"}
    axis = alt.Axis(title="RTT, ms", tickCount=5, minExtent=AXIS_PX)
    layers = [
        *_background(*Absence),
        steps.mark_area(style="rtt-range", **shape).encode(
            x="t:T", y=alt.Y("min:Q", axis=axis, scale=alt.Scale(zero=False)), y2="max", detail="run:N"
        ),
        steps.mark_area(style="rtt-quartiles", **shape).encode(x="t:T", y="p25:Q", y2="p75", detail="run:N"),
        steps.mark_line(style="rtt-median", **shape).encode(x="t:T", y="median:Q", detail="run:N"),
        steps.transform_filter("isValid(datum.t2)")
        .mark_rect(opacity=0)
        .encode(
            x="t:T",
            x2="t2",
            tooltip=[
                when(),
                *(
                    alt.Tooltip(f"{field}:Q", title=f"{title} RTT, ms", format=".4~g")
                    for field, title in (("min", "least"), ("median", "median"), ("p95", "95%"), ("max", "greatest"))
                ),
                alt.Tooltip("got:N", title="answered"),
            ],
        ),
    ]
    return layout(layers, HEIGHT_PX)


@cache
def _loss_layout() -> Spec:
    steps = _named("steps")
    scale = alt.Scale(type="sqrt", domainMin=0, nice=True)
    axis = alt.Axis(title="loss", format=".2~%", values=LOSS_TICKS, labelOverlap=True, minExtent=AXIS_PX)
    tooltip = [when(), when("t2", "until"), alt.Tooltip("text:N", title="loss")]
    layers = [
        *_background(*SEEN_IN_LOSS),
        steps.mark_rule(opacity=0).encode(y=alt.datum(LEAST_LOSS_SHOWN)),
        steps.mark_rect(style="loss-bound").encode(
            x="t:T", x2="t2", y=alt.Y("bound:Q", scale=scale, axis=axis), y2=alt.datum(0), tooltip=tooltip
        ),
        steps.mark_rule(style="loss-bound-line").encode(x="t:T", x2="t2", y="bound:Q"),
        steps.mark_rect(style="loss").encode(x="t:T", x2="t2", y="ratio:Q", y2=alt.datum(0), tooltip=tooltip),
    ]
    return layout(layers, SMALL_HEIGHT_PX)


@cache
def _throughput_layout() -> Spec:
    steps, measured, failed = _named("steps"), _named("measured"), _named("failed")
    axis = alt.Axis(title="bit/s", format="~s", tickCount=4, minExtent=AXIS_PX)
    y = alt.Y("bps:Q", scale=alt.Scale(type="log", nice=True), axis=axis)
    test = [
        when("t", "at"),
        alt.Tooltip("outcome:N", title="outcome"),
        alt.Tooltip("bps:Q", title="measured, bit/s", format=".4~s"),
        alt.Tooltip("streams:Q", title="streams"),
        alt.Tooltip("retransmits:Q", title="retransmits"),
    ]
    shape: dict[str, Any] = {"interpolate": "step-after"}
    layers = [
        *_background(),
        steps.transform_filter("!datum.floor")
        .mark_line(style="estimate", **shape)
        .encode(x="t:T", y=y, detail="run:N"),
        steps.transform_filter("datum.floor")
        .mark_line(style="estimate-floor", **shape)
        .encode(x="t:T", y="bps:Q", detail="run:N"),
        _named("floors")
        .mark_point(style="estimate-floor-mark", shape="triangle-up", filled=True, size=28)
        .encode(
            x="t:T",
            y="bps:Q",
            tooltip=[when("t", "around"), alt.Tooltip("bps:Q", title="at least, bit/s", format=".3~s")],
        ),
        measured.mark_circle(style="measured", size=60, opacity=1).encode(x="t:T", y="bps:Q", tooltip=test),
        failed.mark_text(style="failed", text="✕", fontSize=13, fontWeight="bold").encode(
            x="t:T", y=alt.value(HEIGHT_PX - 10), tooltip=[*test[:2], alt.Tooltip("detail:N", title="because")]
        ),
        failed.mark_text(style="failed-label", fontSize=10, dy=-12).encode(
            x="t:T", y=alt.value(HEIGHT_PX - 10), text="shown:N"
        ),
    ]
    return layout(layers, HEIGHT_PX)
