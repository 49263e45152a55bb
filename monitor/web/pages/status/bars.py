"""Uptime bars of a site as SVG; a bar's state shows in height as well as colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures

STEP_WIDTH = 8
BAR_WIDTH = 6
HEIGHT = 26
# Steps with a problem in the sentence; the others are counted.
MOST_NAMED = 10
MAJOR_RATIO = 0.5
SOME_DATA_MISSING = 0.1


class BarState(Enum):
    """Style, bar height as a share, words; worst first."""

    NO_DATA = ("silent", 0.2, "no data")
    MAJOR = ("major", 0.4, "major incident")
    MINOR = ("minor", 0.7, "incident")
    PARTIAL = ("partial", 0.85, "part of the data missing")
    NORMAL = ("normal", 1.0, "no incident")
    UNPLANNED = ("unplanned", 0.0, "not measured")

    def __init__(self, style: str, height: float, words: str) -> None:
        self.style = style
        self.height = height
        self.words = words


@dataclass(frozen=True, slots=True)
class UptimeBar:
    at: datetime
    name: str
    incident_ratio: float  # path time with an open incident
    measured_ratio: float | None  # planned measurements that arrived; None without plan

    @property
    def state(self) -> BarState:
        if self.incident_ratio >= MAJOR_RATIO:
            return BarState.MAJOR
        if self.measured_ratio is not None and self.measured_ratio < 1.0 - MAJOR_RATIO:
            return BarState.NO_DATA
        if self.incident_ratio > 0.0:
            return BarState.MINOR
        if self.measured_ratio is None:
            return BarState.UNPLANNED
        return BarState.PARTIAL if self.measured_ratio < 1.0 - SOME_DATA_MISSING else BarState.NORMAL

    @property
    def words(self) -> str:
        parts = [self.state.words]
        if self.incident_ratio > 0.0:
            parts = [f"{parts[0]}, {figures.percent(self.incident_ratio)} of path time"]
        if self.measured_ratio is not None and self.measured_ratio < 1.0 - SOME_DATA_MISSING:
            parts.append(f"{figures.percent(self.measured_ratio)} of data received")
        return f"{self.name}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Bars:
    svg: SafeString
    sentence: str


def draw(bars: Sequence[UptimeBar], what: str, places: int) -> Bars:
    """Bars are oldest first. Only problems have tooltips: there may be 300 sites."""
    sentence = describe(bars, what)
    paths: dict[str, list[str]] = {}
    marked = []
    for number, bar in enumerate(bars):
        state, x = bar.state, number * STEP_WIDTH
        height = round(HEIGHT * state.height)
        if state in (BarState.NORMAL, BarState.UNPLANNED):
            drawn = (
                f"M{x} {HEIGHT - height}h{BAR_WIDTH}v{height}h-{BAR_WIDTH}z"
                if height
                else f"M{x} {HEIGHT - 2}h{BAR_WIDTH}v2h-{BAR_WIDTH}z"
            )
            paths.setdefault(state.style, []).append(drawn)
        else:
            marked.append(
                f'<rect class="{state.style}" x="{x}" y="{HEIGHT - height}" width="{BAR_WIDTH}" height="{height}">'
                f"<title>{escape(bar.words)}</title></rect>"
            )
    plain = "".join(f'<path class="{style}" d="{"".join(drawn)}"/>' for style, drawn in paths.items())
    width = places * STEP_WIDTH - (STEP_WIDTH - BAR_WIDTH)
    svg = (
        f'<svg class="uptime" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(sentence)}">{plain}{"".join(marked)}</svg>'
    )
    return Bars(mark_safe(svg), sentence)


def describe(bars: Sequence[UptimeBar], what: str) -> str:
    steps = [bar for bar in reversed(bars) if bar.state not in (BarState.NORMAL, BarState.UNPLANNED)]
    if not steps:
        planned = any(bar.state is BarState.NORMAL for bar in bars)
        return f"{what}: {'no incident' if planned else 'not measured yet'}"
    left = len(steps) - MOST_NAMED
    named = "; ".join(bar.words for bar in steps[:MOST_NAMED])
    return f"{what}: {named}{f'; and {left} more' if left > 0 else ''}"
