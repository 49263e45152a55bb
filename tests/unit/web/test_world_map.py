"""The map's geometry: where the world is cut, great circles through published waypoints, labels that do not overlap."""

from datetime import UTC, datetime
from itertools import combinations, pairwise
from math import acos, cos, degrees, radians, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.archive.queries.metrics import Metric
from monitor.overview.grid import Grid, GridPeriod, GridSite
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.web.pages.map.world_map import LINES_SHOWN, NARROW_FACTOR, empty_meridian, great_circle, world_map

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LAX, JFK = (33 + 57 / 60, -(118 + 24 / 60)), (40 + 38 / 60, -(73 + 47 / 60))
TOKYO, SAN_FRANCISCO = (35.7, 139.7), (37.8, -122.4)
GENEVA, NEW_YORK, SYDNEY = (46.2, 6.1), (40.7, -74.0), (-33.9, 151.2)

places = st.tuples(st.floats(-80, 80), st.floats(-180, 180))


def drawn(at, figures=(), metric=Metric.LOSS):
    """The map of sites at (latitude, longitude) by name."""
    sites = tuple(GridSite(number, name, name.upper()) for number, name in enumerate(at))
    grid = Grid(
        metric=metric,
        period=GridPeriod.DAY,
        packet_bytes=100,
        packet_sizes=(100,),
        group=None,
        groups=(),
        since=NOW,
        until=NOW,
        covered_since=NOW,
        newest_measured_at=NOW,
        sources=sites,
        destinations=sites,
        figures=tuple(figures),
        lasting_incidents=(),
    )
    return world_map(grid, dict(enumerate(at.values())))


def path(source, destination, path_id=1, incident_id=None, state=FigureState.NO_DATA, **fields):
    return PathFigures(path_id, source, destination, 4, incident_id, state=state, **fields)


def angle_deg(a, b):
    """By the spherical law of cosines."""
    (north_a, east_a), (north_b, east_b) = a, b
    cosine = sin(radians(north_a)) * sin(radians(north_b))
    cosine += cos(radians(north_a)) * cos(radians(north_b)) * cos(radians(east_a - east_b))
    return degrees(acos(max(-1.0, min(1.0, cosine))))


@pytest.mark.parametrize(
    ("longitudes", "cut"),
    [((10, 20), -165), ((139.7, -122.4), 8.65), ((6.1, -74.0, 139.7), -147.15), ((0,), -180), ((-180, 180), 0)],
)
def test_the_world_is_cut_at_its_emptiest_longitude(longitudes, cut):
    assert empty_meridian(longitudes) == pytest.approx(cut)


def test_a_published_waypoint_lies_on_the_great_circle():
    """Ed Williams, Aviation Formulary: 40% of the way from LAX to JFK is at 38°40.167'N 101°37.570'W."""
    waypoint = (38 + 40.167 / 60, -(101 + 37.570 / 60))
    way = great_circle(LAX, JFK)

    nearest = min(
        angle_deg((north, east), waypoint)
        for east, north in np.vstack([np.linspace(a, b, 200) for a, b in pairwise(way)])
    )

    assert nearest * 111.2 < 2.0  # km, which a chord of 250 km leaves


@given(places, places)
def test_a_great_circle_has_equal_steps_and_is_the_shortest_way(start, end):
    way = great_circle(start, end)
    steps = [angle_deg((a[1], a[0]), (b[1], b[0])) for a, b in pairwise(way)]

    assert angle_deg((way[0][1], way[0][0]), start) < 1e-3
    assert angle_deg((way[-1][1], way[-1][0]), end) < 1e-3
    if angle_deg(start, end) < 179.9:
        assert sum(steps) == pytest.approx(angle_deg(start, end), abs=0.05)
        assert max(steps) - min(steps) < 0.02


def test_a_mesh_around_the_pacific_is_not_cut():
    drawing = drawn({"tokyo": TOKYO, "sfo": SAN_FRANCISCO, "sydney": SYDNEY}, [path("tokyo", "sfo")])

    assert drawing.lines[0].pieces.count("M") == 1
    assert drawing.width < 200


def test_a_line_across_the_edge_of_the_map_is_in_two_pieces():
    sites = {"tokyo": TOKYO, "sfo": SAN_FRANCISCO, "geneva": GENEVA, "nyc": NEW_YORK, "in": (20.0, 77.0)}

    drawing = drawn(sites, [path("tokyo", "sfo")])

    pieces = drawing.lines[0].pieces.split("M")[1:]
    assert len(pieces) == 2
    for piece in pieces:
        xs = [float(point.split()[0]) for point in piece.split("L")]
        assert max(abs(a - b) for a, b in pairwise(xs)) < 20


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=12), places, min_size=1, max_size=25))
def test_labels_do_not_overlap_and_are_inside_the_map(at):
    drawing = drawn(at)

    for factor, visible in (
        (1.0, drawing.places),
        (NARROW_FACTOR, [place for place in drawing.places if not place.wide_only]),
    ):
        boxes = []
        for line in visible:
            if line.label is None:
                continue
            x, baseline, anchor = line.label
            width, letter = 0.6 * len(line.name) * drawing.letter * factor, drawing.letter * factor
            # Letters grow about the anchor, whose position is fixed.
            left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
            boxes.append((left, baseline - 0.75 * letter, left + width, baseline + 0.15 * letter))
        for a, b in combinations(boxes, 2):
            assert a[2] <= b[0] + 0.02 or b[2] <= a[0] + 0.02 or a[3] <= b[1] + 0.02 or b[3] <= a[1] + 0.02


def test_both_directions_are_one_line_in_the_worse_state():
    better = path("geneva", "nyc", 1, state=FigureState.VALUE, value=0.001, sent=1000, received=999)
    worse = path("nyc", "geneva", 2, incident_id=7, state=FigureState.TOTAL_LOSS, sent=1000, received=0)

    [line] = drawn({"geneva": GENEVA, "nyc": NEW_YORK}, [better, worse]).lines

    assert (line.text.address.split("?")[0], line.text.style) == ("/paths/2/", "total-loss incident")
    assert line.text.sentence.startswith("nyc to geneva: all lost")
    assert "geneva to nyc: loss 0.1%" in line.text.sentence
    assert line.sign_at is not None


def test_of_too_many_pairs_the_worst_are_drawn():
    at = {f"s{number}": (float(number % 70), float(number)) for number in range(40)}
    pairs = list(combinations(at, 2))
    figures = [
        path(a, b, number, state=FigureState.VALUE, value=number / 1000, sent=1000, received=1000 - number)
        for number, (a, b) in enumerate(pairs, 1)
    ]

    drawing = drawn(at, figures)

    assert drawing.pairs == len(pairs) == 780
    opened = {line.text.address.split("/")[2] for line in drawing.lines}
    assert opened == {str(number) for number in range(780 - LINES_SHOWN + 1, 781)}


def test_without_sites_there_is_no_map():
    assert drawn({}) is None
