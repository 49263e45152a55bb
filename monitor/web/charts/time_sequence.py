"""Time-sequence plot of a captured TCP stream, as a Vega-Lite spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import altair as alt

from monitor.analysis.packets import TimeSequence
from monitor.analysis.packets.time_sequence import AckPoint, SackBlock, SentRange
from monitor.web.charts.layout import AXIS_PX, CONFIG, named
from monitor.web.charts.marks import Row, Spec
from monitor.web.charts.transfer import MARGINS_PX

HEIGHT_PX = 280
# Of the plot above the highest byte sent.
HEADROOM_RATIO = 1.05
# Of seconds: a microsecond.
DIGITS = 6


def time_sequence_chart(plot: TimeSequence) -> Spec:
    sent = (*plot.fresh, *plot.late, *plot.resent)
    top = HEADROOM_RATIO * max((part.end for part in sent), default=1)
    spec = deepcopy(_spec_without_rows())
    spec["datasets"] = {
        "fresh": _ranges(plot.fresh),
        "late": _ranges(plot.late),
        "resent": _ranges(plot.resent),
        "sacks": [_block(block) for block in plot.sacks],
        "acks": list(_acks(plot)),
        "missing": _ranges(plot.missing),
        "zero": [{"t": round(point.at_s, DIGITS), "ack": point.ack} for point in plot.zero_windows],
    }
    spec["params"] = [{"name": "until", "value": max(plot.duration_s, 0.001)}, {"name": "top", "value": top}]
    return spec


def empty_chart() -> Spec:
    return time_sequence_chart(TimeSequence(1.0, (), (), (), (), (), ()))


def _acks(plot: TimeSequence) -> Iterator[Row]:
    """Rows of acknowledged bytes; the line breaks where captured packets are missing."""
    # Lines break at packets not captured: their time of acknowledgement is unknown.
    last: AckPoint | None = None
    for point in plot.acks:
        if last is not None and any(gap.begin < point.ack and last.ack < gap.end for gap in plot.missing):
            yield {"t": round(last.at_s, DIGITS), "ack": None, "limit": None}
        yield {"t": round(point.at_s, DIGITS), "ack": point.ack, "limit": point.limit}
        last = point


def _ranges(parts: Sequence[SentRange]) -> list[Row]:
    return [
        {"t": round(part.begin_s, DIGITS), "t2": round(part.end_s, DIGITS), "begin": part.begin, "end": part.end}
        for part in parts
    ]


def _block(block: SackBlock) -> Row:
    return {"t": round(block.at_s, DIGITS), "begin": block.begin, "end": block.end}


@cache
def _spec_without_rows() -> Spec:
    x_scale = alt.Scale(domain=[0, alt.ExprRef(expr="until")], nice=False)
    y_scale = alt.Scale(domain=[0, alt.ExprRef(expr="top")], nice=False)
    x = alt.X("t:Q", title="seconds", scale=x_scale, axis=alt.Axis(grid=False, tickCount=10, format="~g"))
    axis = alt.Axis(title="bytes", format="~s", tickCount=5, minExtent=AXIS_PX)
    y = alt.Y("begin:Q", axis=axis, scale=y_scale)
    layers = [
        _line("acks", "peer-window", x, alt.Y("limit:Q", axis=axis, scale=y_scale)),
        _line("acks", "acknowledged", x, alt.Y("ack:Q", axis=axis, scale=y_scale)),
        _sent("missing", "not-captured", "not captured", x, y, strokeWidth=1),
        _sent("fresh", "sent-data", "sent", x, y),
        _sent("late", "late-data", "out of order", x, y),
        _sent("resent", "resent", "retransmitted", x, y, strokeWidth=4),
        named("sacks").mark_rule(style="sack-block", clip=True).encode(x=x, y=y, y2="end", tooltip=_tips("SACK block")),
        named("zero")
        .mark_point(style="zero-window", shape="diamond", filled=True, size=50, opacity=1)
        .encode(
            x=x,
            y=alt.Y("ack:Q", axis=axis, scale=y_scale),
            tooltip=[
                alt.Tooltip("t:Q", title="at, s", format=".3f"),
                alt.Tooltip("ack:Q", title="window zero at byte", format=",d"),
            ],
        ),
    ]
    chart = alt.layer(*layers).properties(width="container", height=HEIGHT_PX, padding=MARGINS_PX)
    return chart.configure(**CONFIG).to_dict()


def _line(name: str, style: str, x: alt.X, y: alt.Y) -> alt.Chart:
    return named(name).mark_line(style=style, interpolate="step-after", clip=True).encode(x=x, y=y)


def _sent(name: str, style: str, said: str, x: alt.X, y: alt.Y, **mark_options: float) -> alt.Chart:
    mark = named(name).mark_rule(style=style, clip=True, strokeCap="round", **mark_options)  # type: ignore[arg-type]
    return mark.encode(x=x, x2="t2", y=y, y2="end", tooltip=_tips(f"{said}, byte"))


def _tips(what: str) -> list[Any]:
    return [
        alt.Tooltip("t:Q", title="at, s", format=".3f"),
        alt.Tooltip("begin:Q", title=what, format=",d"),
        alt.Tooltip("end:Q", title="up to byte", format=",d"),
    ]
