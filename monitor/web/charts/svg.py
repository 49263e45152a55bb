"""First drawing of a path's charts as SVG, with the geometry of the interactive chart.

The plot is stretched to the page; text is in a second SVG. Colours and margins are in style.css: the page's policy
allows no styles here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby, pairwise

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.overview.changes import PathChangeKind
from monitor.web.charts import smoke
from monitor.web.charts.layout import ALARM_SIGN, LANE_PX, THROUGHPUT_PX
from monitor.web.charts.marks import CHANGE_SIGNS, Absence, Row, Spec, change_style
from monitor.web.charts.scales import Scale, rate_label, time_label

UNITS = 10_000
STRIP_PX, STRIP_NAME_PX = 74, 20
DIRECTIONS_PX = LANE_PX + 2 * STRIP_PX
# Heights: of the strip of a direction and of its name, and of the charts of directions.
DELAYS_PX = 130


class Plot:
    """Positions of times and values in the plot."""

    def __init__(self, spec: Spec, top_px: float, bottom_px: float, *, is_log: bool) -> None:
        values = {param["name"]: param["value"] for param in spec["params"]}
        self.rows: dict[str, list[Row]] = spec["datasets"]
        self.since, self.until, self.times = values["since"], values["until"], values["times"]
        self.scale = Scale(values["low"], values["high"], tuple(values["ticks"]), is_log)
        self._top_px, self._length_px = top_px, bottom_px - top_px

    def x(self, epoch_ms: int) -> int:
        share = (epoch_ms - self.since) / (self.until - self.since)
        return round(UNITS * min(1.0, max(0.0, share)))

    def percent(self, epoch_ms: int) -> str:
        return f"{self.x(epoch_ms) / (UNITS / 100):g}%"

    def y(self, value: float) -> float:
        return self.tenths(value) / 10

    def tenths(self, value: float) -> int:
        return round(10 * (self._top_px + (1.0 - self.scale.share(value)) * self._length_px))


class Run:
    """Steps without a gap as shapes; relative coordinates halve the bytes."""

    def __init__(self, plot: Plot, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._plot = plot
        self._xs = [plot.x(row["t"]) for row in rows]
        self._levels: dict[str, list[int]] = {}

    def line(self, field: str) -> str:
        levels = self._of(field)
        return f"M{self._xs[0]} {_px(levels[0])}{_stairs(self._xs, levels)}"

    def band(self, low: str, high: str) -> str:
        """Area between two step lines."""
        lows = self._of(low)[::-1]
        return f"{self.line(high)}V{_px(lows[0])}{_stairs(self._xs[::-1], lows)}z"

    def ticks(self, field: str) -> Iterator[str]:
        for (x, following), level in zip(pairwise(self._xs), self._of(field), strict=True):
            yield f"M{x} {_px(level)}h{following - x}"

    def _of(self, field: str) -> list[int]:
        if field not in self._levels:
            self._levels[field] = [self._plot.tenths(row[field]) for row in self.rows[:-1]]
        return self._levels[field]


def smoke_svg(spec: Spec) -> SafeString:
    plot = Plot(spec, LANE_PX, smoke.SMOKE_PX, is_log=False)
    rows = plot.rows
    top, bottom = smoke.STRIP_PX
    shapes = [*_grid(plot), *_background(plot, smoke.HEIGHT_PX, tuple(Absence))]
    for kind in Absence:
        middle = (top + bottom) // 2
        line = "".join(f"M{plot.x(row['t'])} {middle}H{plot.x(row['t2'])}" for row in rows[kind.style])
        shapes += _path(f"{kind.style}-line", line)
    runs = [Run(plot, run) for run in _runs(rows["steps"])]
    for name, low, high in (("range", "min", "max"), ("most", "min", "p95"), ("quartiles", "p25", "p75")):
        shapes += _path(f"smoke-{name}", "".join(run.band(low, high) for run in runs))
    shapes += _path("smoke-median", "".join(run.line("median") for run in runs))
    ticks: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        for row, tick in zip(run.rows, run.ticks("median"), strict=False):
            ticks[row["step"]].append(tick)
    for step in range(smoke.ALL_LOST + 1):
        shapes += _path(f"loss-step-{step}", "".join(ticks[step]))
        bars = "".join(
            f"M{plot.x(row['t'])} {bottom}V{row['top']}H{plot.x(row['t2'])}V{bottom}z"
            for row in rows["lossy"]
            if row["step"] == step
        )
        shapes += _path(f"loss-bar-{step}", bars)
    tests = (("measured", "●", True), ("failed", "✕", False))
    signs = [
        _sign(plot, row["t"], smoke.MARK_PX, f"{style}-sign", sign)
        for style, sign, measured in tests
        for row in rows["tests"]
        if row["ok"] is measured
    ]
    strip = f'<text class="tick" x="-7" y="{(top + bottom) / 2 + 4}" text-anchor="end">loss</text>'
    texts = [strip, *_axes(plot, smoke.HEIGHT_PX, "RTT, ms", lambda value: f"{value:,g}"), *_labels(plot), *signs]
    return _drawing("smoke-drawn", smoke.HEIGHT_PX, shapes, texts)


def throughput_svg(spec: Spec) -> SafeString:
    plot = Plot(spec, LANE_PX, THROUGHPUT_PX, is_log=True)
    rows = plot.rows
    shapes = [*_grid(plot), *_background(plot, THROUGHPUT_PX, ())]
    for style, is_floor in (("estimate", False), ("estimate-floor", True)):
        runs = (Run(plot, run) for run in _runs(rows["steps"]) if run[0]["floor"] is is_floor)
        shapes += _path(style, "".join(run.line("bps") for run in runs))
    for style, dots in (("measured", "measured"), ("floor-mark", "floors")):
        dotted = "".join(f"M{plot.x(row['t'])} {plot.y(row['bps'])}h0" for row in rows[dots])
        shapes += _path(f"{style}-dot", dotted)
    signs = [_sign(plot, row["t"], THROUGHPUT_PX - 10, "failed-sign", "✕") for row in rows["failed"]]
    texts = [*_axes(plot, THROUGHPUT_PX, "bit/s", rate_label), *_marks(plot), *signs]
    return _drawing("throughput-drawn", THROUGHPUT_PX, shapes, texts)


def direction_losses_svg(spec: Spec) -> SafeString:
    strips = {
        "forward": Plot(spec, LANE_PX + STRIP_NAME_PX, LANE_PX + STRIP_PX, is_log=False),
        "reverse": Plot(spec, LANE_PX + STRIP_PX + STRIP_NAME_PX, DIRECTIONS_PX, is_log=False),
    }
    plot = strips["reverse"]
    shapes = [*_background(plot, DIRECTIONS_PX, tuple(Absence))]
    texts = [*_axes(plot, DIRECTIONS_PX, "loss", _root_label), *_ticks(strips["forward"], _root_label), *_labels(plot)]
    for direction, strip in strips.items():
        bottom = strip.y(0.0)
        bars = "".join(
            f"M{strip.x(row['t'])} {bottom}V{min(strip.y(row['root']), bottom - 3)}H{strip.x(row['t2'])}V{bottom}z"
            for row in plot.rows[direction]
        )
        shapes += [*_grid(strip), *_path(f"{direction}-bar", bars)]
        name = escape(spec["names"][direction])
        texts.append(f'<text class="strip-name" x="4" y="{strip.y(strip.scale.high) - 4:g}">{name}</text>')
    return _drawing("directions-drawn", DIRECTIONS_PX, shapes, texts)


def delays_svg(spec: Spec) -> SafeString:
    plot = Plot(spec, LANE_PX, DELAYS_PX, is_log=False)
    shapes = [*_grid(plot), *_background(plot, DELAYS_PX, tuple(Absence))]
    for direction in ("forward", "reverse"):
        runs = [Run(plot, run) for run in _runs(plot.rows[direction])]
        shapes += _path(f"{direction}-interval", "".join(run.band("low", "high") for run in runs))
        shapes += _path(f"{direction}-delay", "".join(run.line("middle") for run in runs))
    texts = [*_axes(plot, DELAYS_PX, "delay, ms", lambda value: f"{value:,g}"), *_labels(plot)]
    return _drawing("delays-drawn", DELAYS_PX, shapes, texts)


def _root_label(root: float) -> str:
    return figures.percent(root * root)


def _drawing(style: str, height_px: int, shapes: Iterable[str], texts: Iterable[str]) -> SafeString:
    plot = (
        f'<svg height="{height_px}" viewBox="0 0 {UNITS} {height_px}" preserveAspectRatio="none"'
        f' focusable="false">{"".join(shapes)}</svg>'
    )
    words = f'<svg class="words" height="{height_px}" focusable="false">{"".join(texts)}</svg>'
    # Every part was made here out of numbers, and out of words that were escaped.
    return mark_safe(f'<div class="drawn {style}" aria-hidden="true">{plot}{words}</div>')


def _background(plot: Plot, height_px: int, kinds: Sequence[Absence]) -> Iterator[str]:
    for style in ("incidents", *(kind.style for kind in kinds)):
        spans = plot.rows[style]
        boxes = "".join(f"M{plot.x(row['t'])} 0H{plot.x(row['t2'])}V{height_px}H{plot.x(row['t'])}z" for row in spans)
        yield from _path("incident-band" if style == "incidents" else f"{style}-band", boxes)
    for style in ("incidents", *(change_style(kind) for kind in PathChangeKind)):
        lines = "".join(f"M{plot.x(row['t'])} 0V{height_px}" for row in plot.rows[style])
        yield from _path("incident-start" if style == "incidents" else style, lines)


def _grid(plot: Plot) -> Iterator[str]:
    yield from _path("grid", "".join(f"M0 {plot.y(tick)}H{UNITS}" for tick in plot.scale.ticks))


def _axes(plot: Plot, height_px: int, title: str, label: Callable[[float], str]) -> Iterator[str]:
    middle = height_px / 2
    yield f'<text class="title" transform="translate(-49 {middle}) rotate(-90)" text-anchor="middle">{title}</text>'
    yield from _ticks(plot, label)
    yield f'<line class="axis" x1="0" x2="100%" y1="{height_px}" y2="{height_px}"/>'
    for place, epoch_ms in enumerate(plot.times):
        at, words = plot.percent(epoch_ms), time_label(datetime.fromtimestamp(epoch_ms / 1000, tz=UTC))
        yield f'<line class="axis" x1="{at}" x2="{at}" y1="{height_px}" y2="{height_px + 5}"/>'
        odd = " odd" if place % 2 else ""
        yield f'<text class="tick{odd}" x="{at}" y="{height_px + 16}" text-anchor="middle">{words}</text>'


def _ticks(plot: Plot, label: Callable[[float], str]) -> Iterator[str]:
    for tick in plot.scale.ticks:
        yield f'<text class="tick" x="-7" y="{plot.y(tick) + 3.5}" text-anchor="end">{label(tick)}</text>'


def _labels(plot: Plot) -> Iterator[str]:
    for kind in Absence:
        for row in plot.rows[kind.style]:
            if row["shown"]:
                words = escape(row["shown"])
                yield f'<text class="word" x="{plot.percent(row["mid"])}" y="{LANE_PX + 18}">{words}</text>'
    yield from _marks(plot)


def _marks(plot: Plot) -> Iterator[str]:
    for kind, sign in CHANGE_SIGNS.items():
        for row in plot.rows[change_style(kind)]:
            yield _sign(plot, row["t"], smoke.MARK_PX, f"{change_style(kind)}-sign", sign)
    for row in plot.rows["incidents"]:
        yield _sign(plot, row["t"], smoke.MARK_PX, "alarm-sign", ALARM_SIGN)


def _sign(plot: Plot, epoch_ms: int, y_px: float, style: str, sign: str) -> str:
    return f'<text class="sign-mark {style}" x="{plot.percent(epoch_ms)}" y="{y_px + 4}">{sign}</text>'


def _path(style: str, shape: str) -> Iterator[str]:
    if shape:
        yield f'<path class="{style}" d="{shape}"/>'


def _runs(rows: Iterable[Row]) -> list[list[Row]]:
    return [list(run) for _, run in groupby(rows, key=lambda row: row["run"])]


def _stairs(xs: Sequence[int], levels: Sequence[int]) -> str:
    parts = []
    length, at = 0, levels[0]
    for (x, following), level in zip(pairwise(xs), levels, strict=True):
        if level != at:
            parts.append(f"h{length}v{_px(level - at)}")
            length, at = 0, level
        length += following - x
    parts.append(f"h{length}")
    return "".join(parts)


@cache
def _px(tenths: int) -> str:
    return f"{tenths / 10:g}"
