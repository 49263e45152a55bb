"""Smoke chart of a path: RTT and loss in one chart, as SmokePing draws them.

Bars repeat the loss colours for readers who do not see them. The RTT axis ends a little above the largest median;
`cut_off_ms` has higher RTTs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any

import altair as alt

from monitor.analysis import figures
from monitor.archive.queries.paths import Series, SeriesPoint
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.web.charts.layout import (
    AXIS_PX,
    CONFIG,
    LANE_PX,
    background_layer,
    filled,
    layout,
    named,
    scale_params,
    when,
)
from monitor.web.charts.marks import Absence, Row, Spec, TimeAxis, change_rows, epoch_ms, span_rows
from monitor.web.charts.scales import Scale, linear_scale
from monitor.web.charts.series import absences, loss_text, quantiles, step_rows
from monitor.web.labels import outcome_label
from probes.contract import Outcome

SMOKE_PX = 172
STRIP_PX = (178, 214)
HEIGHT_PX = 214
# From the top: the end of the smoke, the strip of loss, the middle of the lane.
MARK_PX = 9

# SmokePing's steps for 20 pings (0, 1, 2, 3, 4, 10 lost) as ratios: each is the upper end of its colour.
LOSS_STEPS = (0.0, 0.05, 0.10, 0.15, 0.20, 0.50)
# The numbers of the colours of more loss, and of total loss, which only the strip shows.
ABOVE_STEPS, ALL_LOST = 6, 7
LOSS_STEP_LABELS = ("0", "≤ 5%", "≤ 10%", "≤ 15%", "≤ 20%", "≤ 50%", "> 50%")
STEP_WIDTHS_PX = (2.0, 2.6, 3.0, 3.4, 3.8, 4.4, 5.0, 0.0)
# SmokePing's: the axis ends at this many times the largest median.
HEADROOM = 1.2


def smoke_chart(
    series: Series, tests: Iterable[ThroughputPoint], window: TimeAxis, own_tests: Sequence[datetime] = ()
) -> Spec:
    """Chart of RTT and loss; `own_tests` are steps lost to our throughput tests."""
    spans = absences(series, window, own_tests)
    datasets: dict[str, list[Row]] = {
        "steps": step_rows(series, _step_row),
        "lossy": [row for point in series.points if (row := _lossy_row(point, series.step_s)) is not None],
        "tests": [_test_row(test) for test in tests],
        "strip": [{}],
        **{kind.style: span_rows(spans[kind], window) for kind in Absence},
        **change_rows(window),
    }
    spec = filled(smoke_layout(), window, datasets)
    spec["params"] += [*scale_params(rtt_scale(series)), {"name": "palette", "value": list(palette())}]
    return spec


def palette() -> tuple[str, ...]:
    return tuple(CONFIG["style"][f"loss-step-{step}"]["color"] for step in range(ALL_LOST + 1))


@lru_cache(maxsize=4096)
def loss_step(lost: int, sent: int) -> int:
    """SmokePing's first step not below the loss."""
    if lost == sent:
        return ALL_LOST
    return next((number for number, most in enumerate(LOSS_STEPS) if lost <= most * sent), ABOVE_STEPS)


def rtt_scale(series: Series) -> Scale:
    """Scale from the smallest RTT to SmokePing's headroom above the largest median, or to the largest RTT if less."""
    measured = [point for point in series.points if point.rtt_median_ms is not None]
    if not measured:
        return Scale(0.0, 1.0, ())
    low = min(_number(point.rtt_min_ms) for point in measured)
    median = max(_number(point.rtt_median_ms) for point in measured)
    return linear_scale(low, min(max(_number(point.rtt_max_ms) for point in measured), HEADROOM * median))


def cut_off_ms(series: Series) -> float | None:
    largest = max((point.rtt_max_ms for point in series.points if point.rtt_max_ms is not None), default=None)
    return largest if largest is not None and largest > rtt_scale(series).high else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _step_row(point: SeriesPoint) -> Row | None:
    rtts_ms = quantiles(point)
    if rtts_ms is None:
        return None
    return {**rtts_ms, "step": loss_step(point.sent - point.received, point.sent), "loss": loss_text(point)}


def _lossy_row(point: SeriesPoint, step_s: int) -> Row | None:
    # Bar as high as the loss's square root, to show 1% beside 100%.
    lost = point.sent - point.received
    if lost == 0:
        return None
    top, bottom = STRIP_PX
    return {
        "t": epoch_ms(point.at),
        "t2": epoch_ms(point.at + timedelta(seconds=step_s)),
        "top": round(bottom - max(3.0, (bottom - top) * math.sqrt(lost / point.sent)), 1),
        "step": loss_step(lost, point.sent),
        "loss": loss_text(point),
        "all": point.received == 0,
    }


def _test_row(test: ThroughputPoint) -> Row:
    measured = test.outcome == Outcome.MEASURED and test.throughput_bps is not None
    text = figures.bit_rate(test.throughput_bps) if measured else outcome_label(test.outcome)
    return {"t": epoch_ms(test.at), "text": f"{test.test}: {text}", "ok": measured}


@cache
def smoke_layout() -> Spec:
    steps, lossy, tests = named("steps"), named("lossy"), named("tests")
    shape: dict[str, Any] = {"interpolate": "step-after", "clip": True}
    axis = alt.Axis(
        title="RTT, ms",
        values=alt.ExprRef(expr="ticks"),
        minExtent=AXIS_PX,
        maxExtent=AXIS_PX,
        labelExpr="format(datum.value, ',')",
        domain=False,
    )
    scale = alt.Scale(
        domain=[alt.ExprRef(expr="low"), alt.ExprRef(expr="high")],
        range=[SMOKE_PX, LANE_PX],
        nice=False,
        zero=False,
        clamp=True,
    )
    top, bottom = STRIP_PX
    tip = [
        when(),
        *(
            alt.Tooltip(f"{field}:Q", title=f"{title} RTT, ms", format=".4~g")
            for field, title in (
                ("min", "minimum"),
                ("p25", "25%"),
                ("median", "median"),
                ("p75", "75%"),
                ("p95", "95%"),
                ("max", "maximum"),
            )
        ),
        alt.Tooltip("loss:N", title="loss"),
    ]
    lossy_tip = [when(), when("t2", "until"), alt.Tooltip("loss:N", title="loss")]
    coloured: dict[str, Any] = {"color": alt.ExprRef(expr="palette[datum.step]")}
    widths = f"{list(STEP_WIDTHS_PX)}[datum.step]"
    layers = [
        *background_layer(*Absence, lane_px=LANE_PX),
        *absence_lines((top + bottom) / 2),
        steps.mark_area(style="smoke-range", **shape).encode(
            x="t:T", y=alt.Y("min:Q", axis=axis, scale=scale), y2="max", detail="run:N"
        ),
        steps.mark_area(style="smoke-most", **shape).encode(x="t:T", y="min:Q", y2="p95", detail="run:N"),
        steps.mark_area(style="smoke-quartiles", **shape).encode(x="t:T", y="p25:Q", y2="p75", detail="run:N"),
        steps.mark_line(style="smoke-median", **shape).encode(x="t:T", y="median:Q", detail="run:N"),
        steps.transform_filter("isValid(datum.t2)")
        .mark_rule(strokeWidth=alt.ExprRef(expr=widths), clip=True, **coloured)
        .encode(x="t:T", x2="t2", y="median:Q"),
        lossy.mark_rect(
            y=alt.ExprRef(expr="datum.top"),
            y2=bottom,
            stroke=alt.ExprRef(expr="palette[datum.step]"),
            strokeWidth=0.6,
            **coloured,
        ).encode(x="t:T", x2="t2"),
        steps.transform_filter("isValid(datum.t2)").mark_rect(opacity=0).encode(x="t:T", x2="t2", tooltip=tip),
        lossy.transform_filter("datum.all").mark_rect(opacity=0).encode(x="t:T", x2="t2", tooltip=lossy_tip),
        _lane_of(tests.transform_filter("datum.ok"), "measured", "●", 11),
        _lane_of(tests.transform_filter("!datum.ok"), "failed", "✕", 12),
        named("strip").mark_text(
            style="span-label", text="loss", x=-7, y=(top + bottom) / 2, align="right", baseline="middle", fontSize=10
        ),
    ]
    return layout(layers, HEIGHT_PX)


def absence_lines(y_px: float) -> list[alt.Chart]:
    lines = []
    for kind in Absence:
        style = f"{kind.style}-line"
        lines.append(named(kind.style).mark_rule(style=style, y=y_px).encode(x="t:T", x2="t2"))
    return lines


def _lane_of(rows: alt.Chart, style: str, sign: str, size_px: int) -> alt.Chart:
    tip = [when("t", "at"), alt.Tooltip("text:N", title="throughput test")]
    return rows.mark_text(style=style, text=sign, fontSize=size_px, baseline="middle", y=MARK_PX).encode(
        x="t:T", tooltip=tip
    )
