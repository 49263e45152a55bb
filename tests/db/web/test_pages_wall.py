"""The wall screen: its content on planted data, the choices in its address, and its size for many sites."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from django.utils import timezone

from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Path
from monitor.overview.grid import GridPeriod, GridSite, load_grid
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.wall.drawing import grid_svg
from tests.db.alert_rows import make_bursts
from tests.db.incident_rows import MINUTE, NOW, lossy, watched

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def wall(client):
    def get(query="", status=200):
        answer = client.get(f"/?wall=1{query}", headers={"host": "localhost"})
        assert answer.status_code == status
        return unescape(answer.content.decode())

    return get


def test_the_wall_has_sentence_incident_age_and_figures(wall):
    paths = watched()
    for name, path in paths.items():
        if name not in ("slac → cern", "cern → slac"):
            make_bursts(path, [0] * 30, NOW - 30 * MINUTE)
    incident = lossy(paths["slac → cern"])

    html = wall()

    assert "1 of 6 paths" in html
    assert re.findall(r'data-incident="(\d+)"', html) == [str(incident.pk)]
    assert "<b>10 min</b>" in html, "since its onset, as in the sentence"
    assert len(re.findall(r">▲~20%</text>", html)) == 1
    assert html.count('class="has-incident"') == 1
    assert 'data-at="2026-11-21T12:30:00+00:00"' in html
    assert "<nav" not in html
    assert "<a " not in html


def test_the_address_chooses_theme_metric_and_group(wall):
    watched()

    assert 'data-theme="dark"' in wall()
    assert 'data-theme="light"' in wall("&theme=light")
    assert 'data-theme="dark"' in wall("&theme=odd")
    assert "Median RTT" in wall("&metric=rtt")
    assert len(re.findall(r'class="name"', wall("&group=coast"))) == 4
    wall("&group=nowhere", status=404)


@pytest.mark.parametrize("names", [0, 1])
def test_a_wall_without_paths_says_so(wall, names):
    if names:
        watched()
        Path.objects.update(retired_at=NOW)

    assert "No path is measured yet" in wall() or "No mesh" in wall()


def test_a_wall_of_300_sites_stays_small():
    watched()
    grid = load_grid(Metric.LOSS, GridPeriod.NOW, timezone.now())
    sites = tuple(GridSite(number, f"site{number}", "") for number in range(300))
    figures = tuple(
        PathFigures(
            number * 300 + to, site.name, sites[to].name, 4, 1 if (number, to) == (1, 2) else None,
            state=FigureState.TOTAL_LOSS if number == 7 else FigureState.NONE_LOST, sent=10, received=10, value=0.0,
        )
        for number, site in enumerate(sites)
        for to in range(300)
        if to != number
    )  # fmt: skip
    many = replace(grid, sources=sites, destinations=sites, figures=figures)

    svg = grid_svg(many, measure_of_grid(many), "loss")

    assert len(svg) < 50_000
    assert svg.count("has-incident") == 1
    # A row is split by its own site, so that most have two runs, and the first and the last row one.
    runs = {style: drawn.count("M") for style, drawn in re.findall(r'<path class="([\w-]+)" d="([^"]*)"', svg)}
    assert runs == {"none-lost": 2 * 297 + 2, "total-loss": 2}
