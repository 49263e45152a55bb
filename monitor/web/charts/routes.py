"""Strip of routes under the smoke chart, as safe SVG.

A band is solid to the route's last trace, then pale while the route is unknown. Bands carry numbers, since colours
repeat. Keyboard and screen reader have the list of routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from monitor.web.charts.marks import TimeAxis

LANE_PX, GAP_PX = 13, 3
# Width of a band with room for its number, as a share of the strip.
LABEL_SHARE = 0.018
# Narrowest band: a change that was seen by a single trace stays visible.
LEAST_SHARE = 0.0015


@dataclass(frozen=True, slots=True)
class RouteBand:
    """Solid until `last_at`, pale until `until`."""

    since: datetime
    last_at: datetime
    until: datetime
    style: str
    label: str
    title: str
    query: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """Bands without overlap; a direction's further lanes have no label."""

    label: str
    bands: Sequence[RouteBand]


def route_strip(lanes: Sequence[Lane], window: TimeAxis) -> SafeString:
    if not any(lane.bands for lane in lanes):
        return SafeString("")
    height = len(lanes) * (LANE_PX + GAP_PX)
    parts = [part for place, lane in enumerate(lanes) for part in _lane(lane, place * (LANE_PX + GAP_PX), window)]
    # Every part was made here out of numbers, and out of words that were escaped.
    return mark_safe(
        f'<svg class="route-strip" height="{height}" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'
    )


def _lane(lane: Lane, top: int, window: TimeAxis) -> Iterator[str]:
    if lane.label:
        yield f'<text class="lane" x="-7" y="{top + 10}" text-anchor="end">{escape(lane.label)}</text>'
    for band in lane.bands:
        first, last, end = (_share(at, window) for at in (band.since, band.last_at, band.until))
        last = min(1.0, max(last, first + LEAST_SHARE))
        selected = " selected" if band.is_selected else ""
        shapes = _rect("seen", first, last, top) + (_rect("unsure", last, end, top) if end > last else "")
        if last - first >= LABEL_SHARE:
            shapes += f'<text x="{(first + last) * 50:.3f}%" y="{top + 10}">{escape(band.label)}</text>'
        yield (
            f'<a href="?{escape(band.query)}#tab-routes" tabindex="-1" class="{band.style}{selected}">'
            f"<title>{escape(band.title)}</title>{shapes}</a>"
        )


def _rect(style: str, first: float, last: float, top: int) -> str:
    return (
        f'<rect class="{style}" x="{first * 100:.3f}%" y="{top}" width="{(last - first) * 100:.3f}%"'
        f' height="{LANE_PX}"/>'
    )


def _share(at: datetime, window: TimeAxis) -> float:
    return min(1.0, max(0.0, (at - window.since) / (window.until - window.since)))
