"""Use of a path's links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache

import altair as alt

from monitor.analysis.link_use import FULL_RATIO, YEAR_WEEKS, FullForecast
from monitor.archive.queries.throughput.interfaces import InterfaceAverage, interface_averages
from monitor.mesh.models import Path
from monitor.overview.links.use import WEEK, LinkUse, links_of_path
from monitor.web.charts.layout import AXIS_PX, SMALL_HEIGHT_PX, background_layer, filled, layout, named, when
from monitor.web.charts.marks import Row, Spec, TimeAxis, change_rows, epoch_ms
from monitor.web.charts.series import rounded

LEAST_AHEAD_WEEKS = 4


def day_chart(averages: Sequence[InterfaceAverage], capacity_bps: float | None, window: TimeAxis) -> Spec:
    """Five-minute averages of both directions in bit/s."""
    rows: list[Row] = [
        {
            "t": epoch_ms(average.at),
            "in": rounded(average.in_bps),
            "out": rounded(average.out_bps),
            "errors": average.errors,
            "drops": average.drops,
        }
        for average in averages
    ]
    return filled(_day_layout(), window, {"use": rows, "capacity": _capacity(capacity_bps), **change_rows(window)})


def weeks_chart(use: LinkUse) -> Spec:
    """Weekly 95th percentiles in bit/s, capacity, fitted line, and full weeks."""
    ends = [_end(week.week) for week in use.weeks]
    ahead = _weeks_ahead(use.forecast)
    window = TimeAxis(ends[0] - WEEK, ends[-1] + ahead * WEEK)
    weeks: list[Row] = [
        {"t": epoch_ms(end), "use": rounded(week.p95_bps)} for end, week in zip(ends, use.weeks, strict=True)
    ]
    datasets = {
        "weeks": weeks,
        "capacity": _capacity(use.forecast.capacity_bps),
        "trend": _trend(use.forecast, ends[-1], ahead),
        "full": _full(use.forecast, ends[-1], ahead),
        **change_rows(window),
    }
    return filled(_weeks_layout(), window, datasets)


def _end(week: date) -> datetime:
    return datetime.combine(week, time(), UTC) + WEEK


def _weeks_ahead(forecast: FullForecast) -> int:
    if forecast.weeks is None:
        return LEAST_AHEAD_WEEKS
    return min((forecast.high_weeks or YEAR_WEEKS) + 2, YEAR_WEEKS)


def _capacity(capacity_bps: float | None) -> list[Row]:
    return [] if capacity_bps is None else [{"capacity": rounded(capacity_bps)}]


def _trend(forecast: FullForecast, last: datetime, ahead: int) -> list[Row]:
    if forecast.level_bps is None or forecast.slope_bps is None:
        return []
    return [
        {
            "t": epoch_ms(last + weeks * WEEK),
            "use": rounded(max(forecast.level_bps + weeks * forecast.slope_bps, 0.0)),
        }
        for weeks in (1 - forecast.weeks_used, ahead)
    ]


def _full(forecast: FullForecast, last: datetime, ahead: int) -> list[Row]:
    if forecast.low_weeks is None or forecast.capacity_bps is None:
        return []
    high = min(forecast.high_weeks or ahead, ahead)
    return [
        {
            "t": epoch_ms(last + forecast.low_weeks * WEEK),
            "t2": epoch_ms(last + max(high, forecast.low_weeks) * WEEK + timedelta(days=1)),
            "use": rounded(FULL_RATIO * forecast.capacity_bps),
        }
    ]


def _axis() -> alt.Axis:
    return alt.Axis(title="bit/s", tickCount=5, minExtent=AXIS_PX, format="~s")


def _capacity_rule() -> alt.Chart:
    return named("capacity").mark_rule(style="steady-rate").encode(y="capacity:Q")


@cache
def _day_layout() -> Spec:
    use = named("use")
    tooltip = [
        when(),
        alt.Tooltip("in:Q", title="in, bit/s", format=".4~s"),
        alt.Tooltip("out:Q", title="out, bit/s", format=".4~s"),
        alt.Tooltip("errors:Q", title="errors"),
        alt.Tooltip("drops:Q", title="drops"),
    ]
    y = alt.Y("out:Q", axis=_axis(), scale=alt.Scale(zero=True))
    layers = [
        *background_layer(),
        _capacity_rule(),
        use.mark_line(style="path-0").encode(x="t:T", y=y),
        use.mark_line(style="path-1").encode(x="t:T", y="in:Q"),
        use.mark_point(opacity=0, size=60, filled=True).encode(x="t:T", y="out:Q", tooltip=tooltip),
    ]
    return layout(layers, SMALL_HEIGHT_PX)


@cache
def _weeks_layout() -> Spec:
    tooltip = [when(), alt.Tooltip("use:Q", title="95th percentile, bit/s", format=".4~s")]
    y = alt.Y("use:Q", axis=_axis(), scale=alt.Scale(zero=True))
    layers = [
        *background_layer(),
        _capacity_rule(),
        named("full").mark_bar(style="rtt-quartiles", height=12).encode(x="t:T", x2="t2", y=y),
        named("trend").mark_line(style="loss-bound-line").encode(x="t:T", y="use:Q"),
        named("weeks").mark_circle(style="measured", size=28, opacity=1).encode(x="t:T", y="use:Q", tooltip=tooltip),
    ]
    return layout(layers, SMALL_HEIGHT_PX)


MOST_SHOWN = 4
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LinkView:
    """Charts are None without readings of the last day, or without a summarized week."""

    use: LinkUse
    day: Spec | None
    weeks: Spec | None
    errors: int  # packets of the last day
    drops: int  # packets of the last day


def load_links(path: Path, now: datetime) -> tuple[LinkView, ...]:
    """Links at present, whatever the page's period."""
    return tuple(_view(use, now) for use in links_of_path(path, now)[:MOST_SHOWN])


def _view(use: LinkUse, now: datetime) -> LinkView:
    averages: list[InterfaceAverage] = []
    if use.test is not None:
        averages = interface_averages(use.path_id, use.test, now - DAY, now)
    return LinkView(
        use=use,
        day=day_chart(averages, use.forecast.capacity_bps, TimeAxis(now - DAY, now)) if averages else None,
        weeks=weeks_chart(use) if use.weeks else None,
        errors=sum(average.errors for average in averages),
        drops=sum(average.drops for average in averages),
    )
