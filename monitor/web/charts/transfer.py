"""Charts of a throughput test as Vega-Lite specs; time is in seconds from its start.

The rate is the receiver's where known; windows and RTTs are at an interval's end.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt

from monitor.archive.diagnosis.findings import SHORTEST_S
from monitor.archive.queries.throughput.transfers import StoredTransfer
from monitor.web.charts import layout
from monitor.web.charts.layout import AXIS_PX, CONFIG, named
from monitor.web.charts.marks import Row, Spec
from monitor.web.charts.series import rounded

HEIGHT_PX = 150
LOSS_AT_PX = HEIGHT_PX - 7
# With room for the title of the time axis.
MARGINS_PX = {**layout.MARGINS_PX, "bottom": 40}
# The rows of each dataset.
Rows = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class TransferCharts:
    """Specs from top to bottom; None where no interval has the value."""

    rate: Spec
    windows: Spec | None
    round_trips: Spec | None


def transfer_charts(stored: StoredTransfer) -> TransferCharts | None:
    """Return None for unknown intervals, or all too short for a rate."""
    transfer = stored.transfer
    if transfer is None or (transfer.sent is None and transfer.received is None):
        return None
    sent, rows = transfer.sent, _rows(stored)
    if not rows["rates"]:
        return None
    duration_s = max(row["t2"] for row in rows["rates"])
    findings = stored.findings
    rows["start"] = [{"t": 0, "t2": findings.start_s}] if findings is not None else []
    rows["recoveries"] = [
        {
            "t": recovery.start_s,
            "t2": recovery.end_s,
            "resent": recovery.resent_segments,
            "lost": rounded(recovery.lost_s),
        }
        for recovery in (findings.recoveries if findings is not None else ())
    ]
    rows["steady"] = [{"bps": rounded(stored.throughput_bps)}] if stored.steady_s is not None else []
    idle_ms = None if findings is None else findings.idle_rtt_ms
    rows["idle"] = [] if idle_ms is None else [{"rtt": rounded(idle_ms)}]
    return TransferCharts(
        rate=_rate_chart(rows, duration_s),
        windows=None if sent is None or sent.cwnd_bytes is None else _window_chart(rows, duration_s),
        round_trips=None if sent is None or sent.rtt_ms is None else _rtt_chart(rows, duration_s),
    )


def empty_charts() -> tuple[Spec, ...]:
    return tuple(chart(defaultdict(list), 1.0) for chart in (_rate_chart, _window_chart, _rtt_chart))


def _rate_chart(rows: Rows, duration_s: float) -> Spec:
    return _filled(_rate_layout(), rows, duration_s, ("rates", "start", "recoveries", "steady", "resent"))


def _window_chart(rows: Rows, duration_s: float) -> Spec:
    return _filled(_window_layout(), rows, duration_s, ("ends", "recoveries"))


def _rtt_chart(rows: Rows, duration_s: float) -> Spec:
    return _filled(_rtt_layout(), rows, duration_s, ("ends", "recoveries", "idle"))


def _rows(stored: StoredTransfer) -> Rows:
    assert stored.transfer is not None
    sent, received = stored.transfer.sent, stored.transfer.received
    rates: list[Row] = []
    if received is not None:
        rates = _rates(received.end_s, received.received_bytes)
    elif sent is not None:
        rates = _rates(sent.end_s, sent.sent_bytes)
    if sent is None:
        return {"rates": rates, "ends": [], "resent": []}
    columns = {
        "resent": sent.retransmits,
        "cwnd": sent.cwnd_bytes,
        "window": sent.peer_window_bytes,
        "rtt": sent.rtt_ms,
    }
    present = {name: column for name, column in columns.items() if column is not None}
    ends: list[Row] = [
        {"t": end_s, **{name: column[place] for name, column in present.items()}}
        for place, end_s in enumerate(sent.end_s)
    ]
    return {"rates": rates, "ends": ends, "resent": [row for row in ends if row.get("resent")]}


def _rates(end_s: Sequence[float], moved_bytes: Sequence[int]) -> list[Row]:
    return [
        {"t": start, "t2": end, "bps": rounded(8 * moved / (end - start))}
        for (start, end), moved in zip(itertools.pairwise((0.0, *end_s)), moved_bytes, strict=True)
        if end - start >= SHORTEST_S
    ]


def _filled(spec_without_rows: Spec, rows: Rows, duration_s: float, names: Sequence[str]) -> Spec:
    spec = deepcopy(spec_without_rows)
    spec["datasets"] = {name: rows[name] for name in names}
    spec["params"] = [{"name": "until", "value": duration_s}]
    return spec


def _seconds() -> alt.X:
    scale = alt.Scale(domain=[0, alt.ExprRef(expr="until")], nice=False, clamp=True)
    return alt.X("t:Q", title="seconds", scale=scale, axis=alt.Axis(grid=False, tickCount=10, format="~g"))


def _recoveries() -> alt.Chart:
    return (
        named("recoveries")
        .mark_rect(style="recovery")
        .encode(
            x=_seconds(),
            x2="t2",
            tooltip=[
                alt.Tooltip("t:Q", title="loss at, s", format=".2f"),
                alt.Tooltip("resent:Q", title="segments retransmitted"),
                alt.Tooltip("lost:Q", title="time lost, s", format=".3~g"),
            ],
        )
    )


def _layout(layers: Sequence[alt.Chart]) -> Spec:
    chart = alt.layer(*layers).properties(width="container", height=HEIGHT_PX, padding=MARGINS_PX)
    return chart.configure(**CONFIG).to_dict()


@cache
def _rate_layout() -> Spec:
    rates = named("rates")
    axis = alt.Axis(title="bit/s", format="~s", tickCount=4, minExtent=AXIS_PX)
    y = alt.Y("bps:Q", axis=axis, scale=alt.Scale(domainMin=0))
    why = [
        alt.Tooltip("t:Q", title="from, s", format=".2f"),
        alt.Tooltip("t2:Q", title="to, s", format=".2f"),
        alt.Tooltip("bps:Q", title="rate, bit/s", format=".4~s"),
    ]
    return _layout(
        [
            named("start").mark_rect(style="slow-start").encode(x=_seconds(), x2="t2"),
            _recoveries(),
            rates.mark_rect(style="transfer-rate").encode(x="t:Q", x2="t2", y=y, y2=alt.datum(0), tooltip=why),
            named("steady").mark_rule(style="steady-rate").encode(y="bps:Q"),
            named("resent")
            .mark_point(style="resent", shape="triangle-up", filled=True, size=36, opacity=1)
            .encode(
                x="t:Q",
                y=alt.value(LOSS_AT_PX),
                tooltip=[
                    alt.Tooltip("t:Q", title="until, s", format=".2f"),
                    alt.Tooltip("resent:Q", title="segments retransmitted"),
                ],
            ),
        ]
    )


@cache
def _window_layout() -> Spec:
    ends = named("ends")
    axis = alt.Axis(title="bytes", format="~s", tickCount=4, minExtent=AXIS_PX)
    y = alt.Y("cwnd:Q", axis=axis, scale=alt.Scale(type="sqrt", domainMin=0))
    why = [
        alt.Tooltip("t:Q", title="at, s", format=".2f"),
        alt.Tooltip("cwnd:Q", title="congestion window, bytes", format=",d"),
        alt.Tooltip("window:Q", title="receiver window, bytes", format=",d"),
    ]
    return _layout(
        [
            _recoveries(),
            ends.mark_line(style="peer-window", interpolate="step-before", clip=True).encode(x="t:Q", y="window:Q"),
            ends.mark_line(style="cwnd").encode(x="t:Q", y=y),
            ends.mark_point(opacity=0, size=80).encode(x="t:Q", y="cwnd:Q", tooltip=why),
        ]
    )


@cache
def _rtt_layout() -> Spec:
    ends = named("ends")
    axis = alt.Axis(title="RTT, ms", tickCount=4, minExtent=AXIS_PX)
    y = alt.Y("rtt:Q", axis=axis, scale=alt.Scale(domainMin=0))
    why: list[Any] = [
        alt.Tooltip("t:Q", title="at, s", format=".2f"),
        alt.Tooltip("rtt:Q", title="RTT, ms", format=".4~g"),
    ]
    return _layout(
        [
            _recoveries(),
            named("idle").mark_rule(style="idle-rtt").encode(y="rtt:Q"),
            ends.mark_line(style="transfer-rtt").encode(x="t:Q", y=y),
            ends.mark_point(opacity=0, size=80).encode(x="t:Q", y="rtt:Q", tooltip=why),
        ]
    )
