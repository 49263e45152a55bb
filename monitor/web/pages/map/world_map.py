"""Map: sites as points and paths as great circles, styled as the grid's cells.

Units are degrees north, and degrees east times `x_scale`. The world is cut where emptiest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import cos, radians

import numpy as np
import numpy.typing as npt
from django.urls import reverse

from monitor.analysis.geography import great_circle_km
from monitor.archive.queries.metrics import Metric
from monitor.overview.grid import Grid, GridSite
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import PathFigures, badness, worst
from monitor.web.pages.grid import cells

# Of shape (points, 2): degrees east and north.
Points = npt.NDArray[np.float64]

# Pairs of sites that are drawn; beyond that, the worst.
LINES_SHOWN = 600
KM_A_STEP = 250.0
MARGIN = 0.08
LEAST_WIDTH_DEG = 24.0
ASPECT = 2.0
LEAST_X_SCALE = 0.4
# Width of the map in letter widths: sets the size of its letters.
LETTERS_A_LINE = 110
# How much larger letters are, against the map, on a phone.
NARROW_FACTOR = 2.6
LETTER_WIDTH = 0.6
LABEL_GAP = 0.75
# Positions of a name, best first: offset east and south of its point in letter sizes, and its text anchor.
SIDES = (
    (LABEL_GAP, 0.35, "start"),
    (-LABEL_GAP, 0.35, "end"),
    (0.0, -LABEL_GAP, "middle"),
    (0.0, LABEL_GAP + 0.8, "middle"),
)

# Where a name's baseline is, and which end of it is there: SVG's `text-anchor`.
Label = tuple[float, float, str]
# Left, top, right, bottom.
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class MapSite:
    name: str
    title: str
    x: float
    y: float
    label: Label | None  # None where its name would overlap another
    wide_only: bool  # on a phone its name would overlap another


@dataclass(frozen=True, slots=True)
class LineText:
    ends: tuple[str, str]
    style: str
    sentence: str
    address: str
    sign: str


@dataclass(frozen=True, slots=True)
class PairLine:
    pieces: str  # SVG path data
    text: LineText
    sign_at: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class WorldMap:
    left: float
    top: float
    width: float
    height: float
    x_scale: float
    letter: float
    land_at: tuple[float, ...]  # how far east to move the land's outline, once for each copy
    places: tuple[MapSite, ...]
    lines: tuple[PairLine, ...]
    pairs: int
    dots: str  # SVG path data of sites without a name


def world_map(grid: Grid, where: Mapping[int, tuple[float, float]], query: str = "") -> WorldMap | None:
    """Map of a grid, None without sites; `where` has (latitude_deg, longitude_deg) by site id."""
    sites = {site.name: site for site in (*grid.sources, *grid.destinations)}
    if not sites:
        return None
    pairs = list(_pairs(grid.metric, grid.figures))
    drawn = sorted(pairs, key=lambda pair: badness(grid.metric, pair[0]))[-LINES_SHOWN:]
    measure = cells.measure_of_grid(grid)
    lines = [_text(grid, measure, pair, others, query) for pair, others in drawn]
    return draw_map(sites.values(), {name: where[site.id] for name, site in sites.items()}, lines, len(pairs))


def draw_map(
    named: Iterable[GridSite],
    at: Mapping[str, tuple[float, float]],
    lines: Sequence[LineText],
    pairs: int,
) -> WorldMap:
    """Map with sites `named`; others are dots. `pairs` counts all."""
    named = list(named)
    cut = empty_meridian([longitude for _, longitude in at.values()])
    arcs = [great_circle(at[line.ends[0]], at[line.ends[1]]) for line in lines]
    view = _view([*arcs, np.array([(longitude, latitude) for latitude, longitude in at.values()])], cut)
    others = [at[name] for name in at.keys() - {site.name for site in named}]
    return WorldMap(
        left=view.left,
        top=view.top,
        width=view.width,
        height=view.height,
        x_scale=view.x_scale,
        letter=view.width / LETTERS_A_LINE,
        land_at=(-cut - 360.0, -cut, 360.0 - cut),
        places=tuple(_places(named, at, view)) if named else (),
        lines=tuple(_line(line, arc, view) for line, arc in zip(lines, arcs, strict=True)),
        pairs=pairs,
        dots=_dots(others, view),
    )


def _dots(places: Sequence[tuple[float, float]], view: _View) -> str:
    if not places:
        return ""
    points = view.project(np.array([(longitude, latitude) for latitude, longitude in places]))
    return "".join(sorted({f"M{x:.2f} {y:.2f}h0" for x, y in points.tolist()}))


def empty_meridian(longitudes_deg: Sequence[float]) -> float:
    """Middle of the widest empty stretch, in [-180, 180)."""
    rising = sorted({longitude % 360.0 for longitude in longitudes_deg})
    gaps = [
        (following - west) % 360.0 or 360.0 for west, following in zip(rising, rising[1:] + rising[:1], strict=True)
    ]
    widest = max(range(len(gaps)), key=gaps.__getitem__)
    return (rising[widest] + gaps[widest] / 2 + 180.0) % 360.0 - 180.0


def great_circle(start: tuple[float, float], end: tuple[float, float]) -> Points:
    """Points between (latitude, longitude), at most 250 km apart, ends included."""
    steps = max(2, int(great_circle_km(*start, *end) / KM_A_STEP) + 2)
    a, b = _unit(start), _unit(end)
    angle = np.arccos(np.clip(a @ b, -1.0, 1.0))
    share = np.linspace(0.0, 1.0, steps)[:, np.newaxis]
    if np.sin(angle) < 1e-9:
        # The same place, or its antipode, to which every way is the shortest.
        way = a + share * (b - a)
    else:
        way = (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / np.sin(angle)
    longitude = np.degrees(np.arctan2(way[:, 1], way[:, 0]))
    latitude = np.degrees(np.arctan2(way[:, 2], np.hypot(way[:, 0], way[:, 1])))
    return np.column_stack((longitude, latitude))


def _unit(place: tuple[float, float]) -> npt.NDArray[np.float64]:
    latitude, longitude = np.radians(place)
    return np.array([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])


@dataclass(frozen=True, slots=True)
class _View:
    """Visible part of the world, in drawing units, and its cut meridian."""

    cut: float
    x_scale: float
    left: float
    top: float
    width: float
    height: float

    def project(self, points: Points) -> Points:
        return np.column_stack(((points[:, 0] - self.cut) % 360.0 * self.x_scale, -points[:, 1]))


def _view(shown: Sequence[Points], cut: float) -> _View:
    points = np.concatenate(shown)
    east, north = (points[:, 0] - cut) % 360.0, points[:, 1]
    x_scale = max(LEAST_X_SCALE, cos(radians(float(north.min() + north.max()) / 2)))
    low, high = float(east.min()) * x_scale, float(east.max()) * x_scale
    tall = float(np.ptp(north)) * (1 + 2 * MARGIN)
    width = min(max(LEAST_WIDTH_DEG, (high - low) * (1 + 2 * MARGIN), tall * ASPECT), 360.0 * x_scale)
    height = max(width / ASPECT, tall)
    left = min(max((low + high - width) / 2, 0.0), 360.0 * x_scale - width)
    top = -float(north.min() + north.max()) / 2 - height / 2
    return _View(cut, x_scale, left, top, width, height)


def _pairs(metric: Metric, figures: Iterable[PathFigures]) -> Iterator[tuple[PathFigures, list[PathFigures]]]:
    between: dict[frozenset[str], list[PathFigures]] = defaultdict(list)
    for path in figures:
        between[frozenset((path.source, path.destination))].append(path)
    for together in between.values():
        chosen = worst(metric, together)
        yield chosen, [path for path in together if path is not chosen]


def _text(grid: Grid, measure: MetricFormat, chosen: PathFigures, others: list[PathFigures], query: str) -> LineText:
    troubled = any(cells.has_incident(grid, path) for path in (chosen, *others))
    is_checked = any(path.is_in_trouble for path in (chosen, *others))
    has_outage = any(path.has_outage for path in (chosen, *others))
    quiet_sign = cells.CHECK_SIGN if is_checked else cells.OUTAGE_SIGN if has_outage else ""
    return LineText(
        ends=(chosen.source, chosen.destination),
        style=cells.cell_style(grid, measure, chosen) + (" incident" if troubled else ""),
        sentence="; ".join(cells.sentence(grid, path) for path in (chosen, *others)),
        address=f"{reverse('path', args=[chosen.path_id])}?{query}",
        sign=cells.INCIDENT_SIGN if troubled else quiet_sign,
    )


def _line(text: LineText, arc: Points, view: _View) -> PairLine:
    along = view.project(arc)
    middle = along[len(along) // 2]
    sign_at = (round(float(middle[0]), 2), round(float(middle[1]), 2)) if text.sign else None
    return PairLine(_pieces(along, view), text, sign_at)


def _pieces(along: Points, view: _View) -> str:
    breaks = np.flatnonzero(np.abs(np.diff(along[:, 0])) > 180.0 * view.x_scale) + 1
    pieces = (piece for piece in np.split(along, breaks) if len(piece) > 1)
    return "".join("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in piece) for piece in pieces)


def _places(sites: Iterable[GridSite], at: Mapping[str, tuple[float, float]], view: _View) -> Iterator[MapSite]:
    ordered = list(sites)
    points = view.project(np.array([(at[site.name][1], at[site.name][0]) for site in ordered]))
    letter = view.width / LETTERS_A_LINE
    wide = [_around(x, y, letter) for x, y in points.tolist()]
    narrow = list(wide)
    for site, (x, y) in zip(ordered, points.tolist(), strict=True):
        place = MapSite(site.name, site.title, round(x, 2), round(y, 2), None, wide_only=True)
        labels = ((x + across * letter, y + down * letter, anchor) for across, down, anchor in SIDES)
        label = next((label for label in labels if _fits(_box(site.name, label, letter), wide)), None)
        if label is not None:
            wide.append(_box(site.name, label, letter))
            large = _box(site.name, label, letter * NARROW_FACTOR)
            fits_narrow = _fits(large, narrow)
            narrow.extend([large] if fits_narrow else [])
            place = replace(place, label=label, wide_only=not fits_narrow)
        yield place


def _around(x: float, y: float, letter: float) -> Box:
    return x - 0.4 * letter, y - 0.4 * letter, x + 0.4 * letter, y + 0.4 * letter


def _box(name: str, label: Label, letter: float) -> Box:
    x, baseline, anchor = label
    width = len(name) * LETTER_WIDTH * letter
    left = x - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
    return left, baseline - 0.8 * letter, left + width, baseline + 0.2 * letter


def _fits(wanted: Box, taken: Iterable[Box]) -> bool:
    left, top, right, bottom = wanted
    return all(right <= box[0] or left >= box[2] or bottom <= box[1] or top >= box[3] for box in taken)
