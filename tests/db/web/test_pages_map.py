"""The map page: a line per pair of sites in the state of the grid's cell, and its text without data."""

import re
from html import unescape

import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Path
from tests.db.pages_mesh import HOUR, MINUTE, burst, hour, of_a_day
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
MAP_QUERIES = 19


@pytest.fixture
def page(client):
    def get(query="", status=200):
        answer = client.get(f"/map/{of_a_day(query)}", headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return get


def lines(html: str) -> dict[int, tuple[str, str]]:
    """Class and spoken sentence of each line, by the path that it opens."""
    matches = re.findall(
        r'<a href="/paths/(\d+)/[^"]*" aria-label="([^"]*)">.*?<path class="line ([^"]*)"', html, re.DOTALL
    )
    return {int(path): (style, unescape(sentence)) for path, sentence, style in matches}


def test_each_pair_is_a_line_in_its_worse_directions_state(page, paths):
    hour(paths["slac", "cern"], sent=1000, received=979, rtt_ms=150.0)
    hour(paths["cern", "slac"], sent=1000, received=1000, rtt_ms=150.0)
    hour(paths["cern", "uct"], sent=600, received=0, bursts_all_lost=60)

    drawn = lines(page())

    assert len(drawn) == 3
    style, sentence = drawn[paths["slac", "cern"].pk]
    assert style == "loss-2"
    assert "slac to cern: loss 2.1%" in sentence
    assert lacks(sentence, "cern to slac: no loss", "below 0.3%") == []
    assert drawn[paths["cern", "uct"].pk][0] == "total-loss"
    assert "no-data" in {style for style, _ in drawn.values()}


def test_an_incident_has_its_sign_on_the_map(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=1000, received=900, rtt_ms=150.0)
    incident = Incident.objects.create(rule="loss", cause=str(path), opened_at=HOUR - MINUTE, summary="Loss")
    IncidentPath.objects.create(
        incident=incident,
        path=path,
        added_at=HOUR,
        rule="loss",
        sentence="loss 4%",
        since=HOUR,
        figures={},
    )

    html = page()

    assert lines(html)[path.pk][0] == "loss-4 incident"
    assert html.count('class="map-sign"') == 1


def test_every_site_has_a_label_or_a_tooltip(page, paths):
    html = page()

    for name in ("cern", "slac", "uct"):
        assert f"<title>{name}: {name.upper()}</title>" in html


def test_an_invalid_metric_lists_the_valid_metrics(page, paths):
    metrics = "loss, rtt, min-rtt, ipdv, unreachability, throughput, estimate, mos"
    assert lacks(unescape(page("?metric=speed", 404)), "metric=speed", metrics) == []


def test_without_a_mesh_it_gives_instructions(page):
    assert not Path.objects.exists()
    assert lacks(page(), "Write a mesh.toml", "manage.py mesh apply mesh.toml") == []


def test_a_mesh_without_paths_says_so(page, paths):
    burst(paths["slac", "cern"], HOUR, 1.0)
    Path.objects.update(retired_at=HOUR)

    assert "No path is measured." in page()


def test_the_number_of_queries_does_not_grow_with_the_paths(page, paths, django_assert_max_num_queries):
    burst(paths["slac", "cern"], HOUR, 1.0)
    for path in paths.values():
        hour(path, sent=1000, received=979, rtt_ms=150.0)
    with django_assert_max_num_queries(MAP_QUERIES):
        page()
