"""Chart layouts as Altair specs; `filled` adds rows and time axis."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import altair as alt

from monitor.web.charts.marks import (
    CHANGE_SIGNS,
    SEEN_IN_LOSS,
    Absence,
    Row,
    Spec,
    TimeAxis,
    change_style,
    epoch_ms,
    span_rows,
)
from monitor.web.charts.scales import Scale, time_ticks
from monitor.web.request.times import ChartZone, chart_zone

UTC_LABEL = "UTC"
# The fields of rows that are times, in ms since the epoch.
TIME_FIELDS = ("t", "t2", "mid")
AXIS_PX = 44
# In a narrower chart the words over absences would overlap.
NARROW_PX = 480
ALARM_SIGN = "▲"
# Minimum upper end of the loss axis: without loss it would have no length.
LEAST_LOSS_SHOWN = 0.01
LOSS_TICKS = (0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)
HEIGHT_PX = 210
SMALL_HEIGHT_PX = 170
THROUGHPUT_PX = 130
# Around the plot of a chart over time, as of the first drawing in style.css.
MARGINS_PX = {"left": 64, "top": 7, "right": 5, "bottom": 22}
# Height of the lane of marks at the top of a chart of the path page.
LANE_PX = 18

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
        "smoke-range": {"color": "#4a5763", "fillOpacity": 0.14},
        "smoke-most": {"color": "#4a5763", "fillOpacity": 0.14},
        "smoke-quartiles": {"color": "#4a5763", "fillOpacity": 0.28},
        "smoke-median": {"color": "#4a5763", "strokeWidth": 0.8},
        "loss-step-0": {"color": "#15803d"},
        "loss-step-1": {"color": "#0284c7"},
        "loss-step-2": {"color": "#1d4ed8"},
        "loss-step-3": {"color": "#5b21b6"},
        "loss-step-4": {"color": "#9333ea"},
        "loss-step-5": {"color": "#db2777"},
        "loss-step-6": {"color": "#dc2626"},
        "loss-step-7": {"color": "#111111"},
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
        "no-data-line": {"color": "#4a5763", "strokeDash": [1, 4], "strokeWidth": 2},
        "own-test-line": {"color": "#6b46a8", "strokeWidth": 1.4},
        "not-measured-line": {"color": "#8a5300", "strokeDash": [7, 4], "strokeWidth": 2},
        "all-lost-line": {"color": "#111111", "strokeWidth": 1.4},
        "transfer-rate": {"color": "#0b6e99", "fillOpacity": 0.55},
        "steady-rate": {"color": "#0b4f6c", "strokeDash": [5, 3], "strokeWidth": 1.4},
        "slow-start": {"color": "#6b46a8", "fillOpacity": 0.14},
        "recovery": {"color": "#c2410c", "fillOpacity": 0.16},
        "resent": {"color": "#c2410c"},
        "cwnd": {"color": "#0b4f6c", "strokeWidth": 1.6},
        "peer-window": {"color": "#a16207", "strokeDash": [4, 3], "strokeWidth": 1.6},
        "sent-data": {"color": "#0b6e99", "strokeWidth": 2},
        "late-data": {"color": "#db2777", "strokeWidth": 2.4},
        "not-captured": {"color": "#4a5763", "strokeDash": [1, 3], "strokeWidth": 1.2},
        "acknowledged": {"color": "#15803d", "strokeWidth": 1.4},
        "sack-block": {"color": "#6b46a8", "strokeWidth": 1.4},
        "zero-window": {"color": "#b42318"},
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
        "annotation-change": {"color": "#7a3e8f", "strokeDash": [6, 2], "strokeWidth": 1.4},
        "annotation-change-sign": {"color": "#7a3e8f"},
        "route-change": {"color": "#a16207", "strokeDash": [7, 3], "strokeWidth": 1.4},
        "route-change-sign": {"color": "#a16207"},
    },
}


def filled(layout: Spec, window: TimeAxis, datasets: dict[str, list[Row]]) -> Spec:
    """Add rows and the time axis, in the reader's zone."""
    spec = deepcopy(layout)
    spec["datasets"] = {**datasets, "incidents": span_rows(window.incidents, window)}
    spec["params"] = [
        {"name": "since", "value": epoch_ms(window.since)},
        {"name": "until", "value": epoch_ms(window.until)},
    ]
    zone = chart_zone(window.until)
    if zone.label != UTC_LABEL:
        _shift(spec, zone)
    ticks = time_ticks(window.since + zone.offset, window.until + zone.offset)
    spec["params"].append({"name": "times", "value": [epoch_ms(at) for at in ticks]})
    return spec


def _shift(spec: Spec, zone: ChartZone) -> None:
    """Shift all times of a chart by its zone's offset."""
    # Vega draws only UTC and browser time; charts.js subtracts the offset in addresses.
    spec["usermeta"] = {"offset_ms": zone.offset_ms, "zone": zone.label}
    for parameter in spec["params"]:
        parameter["value"] += zone.offset_ms
    spec["datasets"] = {
        name: [_shifted(row, zone.offset_ms) for row in rows] for name, rows in spec["datasets"].items()
    }
    for layer in spec["layer"]:
        tips = layer.get("encoding", {}).get("tooltip", ())
        for tip in tips if isinstance(tips, list) else ():
            tip["title"] = tip["title"].replace(f"({UTC_LABEL})", f"({zone.label})")


def _shifted(row: Row, offset_ms: int) -> Row:
    return {**row, **{key: row[key] + offset_ms for key in TIME_FIELDS if row.get(key) is not None}}


def scale_params(scale: Scale) -> list[Row]:
    return [
        {"name": "low", "value": scale.low},
        {"name": "high", "value": scale.high},
        {"name": "ticks", "value": list(scale.ticks)},
    ]


def named(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name=name))


def time_axis() -> alt.X:
    """Time axis, shared by a chart's layers."""
    ends = [alt.ExprRef(expr="since"), alt.ExprRef(expr="until")]
    return alt.X(
        "t:T",
        title=None,
        scale=alt.Scale(type="utc", domain=ends, nice=False, clamp=True),
        axis=alt.Axis(labelOverlap=True, values=alt.ExprRef(expr="times"), grid=False, format=TIME_FORMAT),
    )


def when(field: str = "t", title: str = "from") -> alt.Tooltip:
    return alt.Tooltip(f"{field}:T", title=f"{title} ({UTC_LABEL})", format="%Y-%m-%d %H:%M:%S")


def background_layer(*kinds: Absence, lane_px: int | None = None) -> list[alt.Chart]:
    """Layers of incidents, absences with labels, and change lines; signs are in the lane of `lane_px` at the top, or
    above the chart."""
    place: dict[str, Any] = (
        {"baseline": "bottom", "y": 0} if lane_px is None else {"baseline": "middle", "y": lane_px // 2}
    )
    incidents = named("incidents")
    why = [alt.Tooltip("label:N", title="incident"), when(), when("t2", "until")]
    layers = [
        incidents.mark_rect(style="incident").encode(x="t:T", x2="t2", tooltip=why),
        incidents.mark_rule(style="incident-start").encode(x=time_axis()),
    ]
    for kind in kinds:
        spans = named(kind.style)
        why = [alt.Tooltip("label:N", title="RTT"), when(), when("t2", "until")]
        layers.append(spans.mark_rect(style=kind.style).encode(x="t:T", x2="t2", tooltip=why))
        words = alt.ExprRef(expr=f"width < {NARROW_PX} ? '' : datum.shown")
        label = spans.mark_text(style="span-label", fontSize=11, text=words, y=14 + (lane_px or 0))
        layers.append(label.encode(x="mid:T"))
    for change, sign in CHANGE_SIGNS.items():
        style = change_style(change)
        changes = named(style)
        layers.append(changes.mark_rule(style=style).encode(x="t:T"))
        mark = changes.mark_text(style=f"{style}-sign", text=sign, fontSize=13, **place)
        why = [alt.Tooltip("label:N", title=change.label), when("t", "at")]
        layers.append(mark.encode(x="t:T", tooltip=why))
    if lane_px is not None:
        alarm = incidents.mark_text(style="incident-start", text=ALARM_SIGN, fontSize=11, align="left", dx=3, **place)
        why = [alt.Tooltip("label:N", title="incident"), when(), when("t2", "until")]
        layers.append(alarm.encode(x="t:T", tooltip=why))
    return layers


def layout(layers: Sequence[alt.Chart], height_px: int) -> Spec:
    chart = alt.layer(*layers).properties(width="container", height=height_px, padding=MARGINS_PX)
    return chart.configure(**CONFIG).to_dict()


@cache
def rtt_layout() -> Spec:
    steps = named("steps")
    shape: dict[str, Any] = {"interpolate": "step-after"}
    axis = alt.Axis(title="RTT, ms", tickCount=5, minExtent=AXIS_PX)
    layers = [
        *background_layer(*Absence),
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
def loss_layout() -> Spec:
    steps = named("steps")
    scale = alt.Scale(type="sqrt", domainMin=0, nice=True)
    axis = alt.Axis(title="loss", format=".2~%", values=LOSS_TICKS, labelOverlap=True, minExtent=AXIS_PX)
    tooltip = [when(), when("t2", "until"), alt.Tooltip("text:N", title="loss")]
    layers = [
        *background_layer(*SEEN_IN_LOSS),
        steps.mark_rule(opacity=0).encode(y=alt.datum(LEAST_LOSS_SHOWN)),
        steps.mark_rect(style="loss-bound").encode(
            x="t:T", x2="t2", y=alt.Y("bound:Q", scale=scale, axis=axis), y2=alt.datum(0), tooltip=tooltip
        ),
        steps.mark_rule(style="loss-bound-line").encode(x="t:T", x2="t2", y="bound:Q"),
        steps.mark_rect(style="loss").encode(x="t:T", x2="t2", y="ratio:Q", y2=alt.datum(0), tooltip=tooltip),
    ]
    return layout(layers, SMALL_HEIGHT_PX)


@cache
def throughput_layout() -> Spec:
    steps, measured, failed = named("steps"), named("measured"), named("failed")
    axis = alt.Axis(
        title="bit/s",
        format="~s",
        values=alt.ExprRef(expr="ticks"),
        minExtent=AXIS_PX,
        maxExtent=AXIS_PX,
        domain=False,
    )
    ends = [alt.ExprRef(expr="low"), alt.ExprRef(expr="high")]
    scale = alt.Scale(type="log", domain=ends, range=[THROUGHPUT_PX, LANE_PX], nice=False, clamp=True)
    y = alt.Y("bps:Q", scale=scale, axis=axis)
    test = [
        when("t", "at"),
        alt.Tooltip("outcome:N", title="outcome"),
        alt.Tooltip("bps:Q", title="measured, bit/s", format=".4~s"),
        alt.Tooltip("streams:Q", title="streams"),
        alt.Tooltip("retransmits:Q", title="retransmits"),
    ]
    shape: dict[str, Any] = {"interpolate": "step-after"}
    layers = [
        *background_layer(lane_px=LANE_PX),
        steps.transform_filter("!datum.floor")
        .mark_line(style="estimate", **shape)
        .encode(x="t:T", y=y, detail="run:N"),
        steps.transform_filter("datum.floor")
        .mark_line(style="estimate-floor", **shape)
        .encode(x="t:T", y="bps:Q", detail="run:N"),
        named("floors")
        .mark_point(style="estimate-floor-mark", shape="triangle-up", filled=True, size=28)
        .encode(
            x="t:T",
            y="bps:Q",
            tooltip=[when("t", "around"), alt.Tooltip("bps:Q", title="lower bound, bit/s", format=".3~s")],
        ),
        measured.mark_circle(style="measured", size=60, opacity=1).encode(x="t:T", y="bps:Q", tooltip=test),
        failed.mark_text(style="failed", text="✕", fontSize=13, fontWeight="bold").encode(
            x="t:T", y=alt.value(THROUGHPUT_PX - 10), tooltip=[*test[:2], alt.Tooltip("detail:N", title="reason")]
        ),
        failed.mark_text(style="failed-label", fontSize=10, dy=-12).encode(
            x="t:T", y=alt.value(THROUGHPUT_PX - 10), text="shown:N"
        ),
    ]
    return layout(layers, THROUGHPUT_PX)
