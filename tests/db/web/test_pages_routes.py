"""The page of routes: parts and links with the state of the paths through them, at any moment, filtered and opened."""

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Measurement, Path
from tests.db.pages_mesh import MINUTE, NOW
from tests.db.route_mesh import (
    COGENT,
    GEANT,
    SILENT,
    campus,
    campus_as,
    cogent,
    geant,
    name_networks,
    number,
    over,
    trace_mesh,
    trace_path,
)
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
ROUTES_QUERIES = 32
ALL_SITES = {"site cern", "site slac", "site uct"}


@pytest.fixture
def page(client):
    def get(query="", status=200):
        answer = client.get(f"/routes/{query}", headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def traced(paths):
    trace_mesh(paths, NOW)
    return paths


def parts(html):
    """The sentence of each part in the table, by its name."""
    body = html.split('id="parts-title"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r'<th scope="row"><a href="[^"]*">(.*?)</a></th><td>(?:<span[^>]*>.</span> )?(.*?)</td>', body)
    return {unescape(name): unescape(sentence) for name, sentence in rows}


def links(html):
    """The sentence of each link in the table, by its ends."""
    body = html.split('id="links-of-graph"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r'<a href="[^"]*">(.*?)</a>(.*?)</th><td>(?:<span[^>]*>.</span> )?(.*?)</td>', body)
    return {(unescape(name), "unknown" in gap): unescape(sentence) for name, gap, sentence in rows}


def routes_of(html):
    """The state and the routes of each path in the table."""
    body = html.split('id="paths-title"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(
        r'<a href="/paths/\d+/[^"]*">(.*?)</a>.*?</th>\s*<td[^>]*>(.*?)</td>\s*<td[^>]*>(.*?)</td>', body, re.DOTALL
    )
    return {unescape(name): (re.sub("<.*?>|▲", "", state).strip(), unescape(words)) for name, state, words in rows}


def drawn(html):
    """The style of each box by its spoken name."""
    boxes = re.findall(r'<g class="part \S+ (\S+)"><a href="[^"]*" aria-label="(.*?): ', html)
    return {unescape(name): style for style, name in boxes}


def trouble(path, since, until=None):
    incident = Incident.objects.create(rule="loss", cause=str(path), opened_at=since, summary="Loss", closed_at=until)
    IncidentPath.objects.create(
        incident=incident, path=path, added_at=since, rule="loss", sentence="loss 4%", since=since, figures={},
        is_over=until is not None, ended_at=until,
    )  # fmt: skip
    return incident


def test_each_part_counts_the_paths_through_it_by_state(page, traced):
    incident = trouble(traced["slac", "cern"], NOW - 10 * MINUTE)

    html = page()

    shown = parts(html)
    assert set(shown) == ALL_SITES | {
        "AS 20965 GEANT",
        *(f"AS {campus_as(host)} Campus {number(host)}" for host in hosts(traced)),
    }
    assert shown["AS 20965 GEANT"] == "1 of 6 paths through it has problems."
    assert shown["site uct"] == "all 4 paths through it are normal."
    assert drawn(html)["AS 20965 GEANT"] == "problem"
    assert drawn(html)["uct"] == "normal"
    assert routes_of(html)["slac → cern"][0] == "problem"
    assert f'href="/incidents/{incident.pk}/"' in html


def hosts(paths):
    return {path.source for path in paths.values()}


def test_a_path_without_data_is_no_normal_path(page, paths):
    name_networks()
    trace_path(paths["slac", "cern"], NOW - 5 * MINUTE, geant(paths["slac", "cern"]))
    Measurement.objects.update(started_at=NOW - timedelta(days=1))

    assert parts(page())["AS 20965 GEANT"] == "1 of 1 path through it has no data."


def test_the_past_shows_the_routes_and_states_of_then(page, traced):
    path = traced["slac", "cern"]
    trace_path(path, NOW - 20 * MINUTE, cogent(path))
    trace_path(path, NOW - 2 * MINUTE, cogent(path))
    trouble(path, NOW - 90 * MINUTE, NOW - 60 * MINUTE)

    now, before = page(), page(f"?at={NOW - 70 * MINUTE:%Y-%m-%dT%H:%M}")

    assert f"AS {COGENT}" in routes_of(now)["slac → cern"][1]
    assert routes_of(now)["slac → cern"][0] != "problem"
    assert f"AS {GEANT}" in routes_of(before)["slac → cern"][1]
    assert routes_of(before)["slac → cern"][0] == "problem"
    assert f"AS {COGENT}" not in before


def test_the_slider_takes_seconds_and_links_to_changes(page, traced):
    path = traced["slac", "cern"]
    changed_at = NOW - 20 * MINUTE
    trace_path(path, changed_at, cogent(path))

    html = unescape(page(f"?at={int((NOW - 60 * MINUTE).timestamp())}"))

    assert f"?at={changed_at:%Y-%m-%dT%H}%3A{changed_at:%M}%3A00Z" in html
    assert "2 route changes<" in page(), "to another route and back"
    assert re.search(r'type="range" name="at" min="(\d+)" max="(\d+)"', html)[2] == str(int(NOW.timestamp()))


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?site=uct", 4),
        (f"?as={COGENT}", 1),
        ("?hop=198.18.2.7", 1),
        (f"?as={GEANT}&site=uct", 4),
        ("?hop=203.0.113.9", 0),
    ],
)
def test_filters_leave_the_paths_through_a_part(page, traced, query, left):
    path = traced["slac", "cern"]
    trace_path(path, NOW - 2 * MINUTE, cogent(path))

    html = page(query)

    assert html.count('<th scope="row"><a href="/paths/') == left
    assert ("No path with these filters" in html) == (left == 0)


def test_a_link_of_the_graph_leaves_the_paths_over_it(page, traced):
    path = traced["slac", "cern"]
    trace_path(path, NOW - 2 * MINUTE, cogent(path))
    name = f"AS {COGENT} – AS {campus_as(path.source)}"
    html = page()
    address = re.search(rf'<a href="([^"]*)">{name}</a>', html)[1]

    assert list(routes_of(page(unescape(address)))) == ["slac → cern"]


def test_an_opened_as_shows_its_hops(page, traced):
    closed, html = page(), page(f"?open=as:{GEANT}")

    hops = {f"198.18.1.{number(host)} AS {GEANT} GEANT" for host in hosts(traced)}
    assert hops <= set(parts(html))
    assert f"AS {GEANT} GEANT" not in parts(html)
    assert not hops & set(parts(closed))


def test_without_names_hops_are_grouped_by_prefix(page, paths):
    for path in paths.values():
        trace_path(path, NOW - 5 * MINUTE, geant(path))

    shown = parts(page())

    assert "198.18.1.0/24" in shown
    assert campus(paths["slac", "cern"].source) in shown, "a prefix of a single hop is its address"


def test_silent_hops_never_join_paths(page, paths):
    name_networks()
    for pair in [("slac", "cern"), ("slac", "uct")]:
        trace_path(paths[pair], NOW - 5 * MINUTE, over(paths[pair], "198.18.1.1", SILENT, "198.18.1.9"))
    shown = page(f"?open=as:{GEANT}")

    silent = re.findall(r'<g class="part silent [^"]*"><a href="[^"]*" aria-label="([^"]*)"', shown)
    assert len(silent) == 2
    assert all("1 of 1 path through it" in words for words in silent)
    assert "198.18.1.1 – 198.18.1.9" not in {name for name, _ in links(shown)}


def test_a_silent_border_is_a_link_with_unknown_hops(page, paths):
    name_networks()
    path = paths["slac", "cern"]
    trace_path(path, NOW - 5 * MINUTE, [campus(path.source), SILENT, "198.18.1.1"], reached=False)

    shown = links(page())

    assert (f"AS {GEANT} – AS {campus_as(path.source)}", True) in shown or (
        f"AS {campus_as(path.source)} – AS {GEANT}",
        True,
    ) in shown
    assert {name for name, gap in shown if gap and "cern" in name} == {f"AS {GEANT} – cern"}
    [words] = re.findall(r'<td class="reason">([^<]*)', page())
    named = [part.split(" ")[:2] for part in words.split(" → ")]
    assert named == [["AS", str(campus_as(path.source))], ["(unknown)"], ["AS", str(GEANT)], ["(unknown)"]]


def test_private_addresses_of_different_sites_are_not_joined(page, paths):
    for pair in [("slac", "uct"), ("cern", "uct")]:
        path = paths[pair]
        trace_path(path, NOW - 5 * MINUTE, ["10.0.0.1", "62.40.98.1", path.destination.address])

    shown = parts(page())

    assert {"10.0.0.1 at slac", "10.0.0.1 at cern"} <= set(shown)
    assert shown["62.40.98.1"].startswith("2 of 2 paths")


def test_balanced_flows_are_both_drawn(page, paths):
    name_networks()
    path = paths["slac", "cern"]
    trace_path(path, NOW - 5 * MINUTE, geant(path), flow=1)
    trace_path(path, NOW - 5 * MINUTE, cogent(path), flow=2)

    html = page()

    assert {"AS 20965 GEANT", "AS 174 Cogent"} <= set(parts(html))
    assert "<br>or " in html


def test_a_path_without_a_trace_in_a_day_has_no_route(page, paths):
    name_networks()
    for path in paths.values():
        trace_path(path, NOW - timedelta(hours=25), geant(path))
    assert lacks(page(), "No path was traced in the day before", "LAB=four-sites-routed") == []
    path = paths["slac", "cern"]
    trace_path(path, NOW - 5 * MINUTE, geant(path))

    html = page()

    assert list(routes_of(html)) == ["slac → cern"]
    assert "<b>5</b> without a trace in the day before" in html


def test_too_many_paths_show_those_with_problems_only(page, traced, monkeypatch):
    monkeypatch.setattr("monitor.web.pages.routes.load.MOST_PATHS", 5)
    trouble(traced["slac", "cern"], NOW - 10 * MINUTE)

    html = page()

    assert "6 paths are too many to draw" in html
    assert list(routes_of(html)) == ["slac → cern"]
    assert len(routes_of(page("?site=uct"))) == 4
    assert len(routes_of(page(f"?as={campus_as(traced['slac', 'cern'].source)}"))) == 4


def test_many_sites_are_folded_into_regions(page, traced, monkeypatch):
    monkeypatch.setattr("monitor.web.pages.routes.load.MOST_SITES", 2)

    folded, opened = parts(page("?site=slac")), parts(page("?site=slac&open=region:North+America"))

    assert set(folded) >= {"site slac", "North America (2 sites)"}
    assert f"AS {campus_as(traced['uct', 'cern'].source)} Campus" not in " ".join(folded)
    assert set(opened) >= ALL_SITES


def test_more_parts_than_can_be_drawn_are_in_the_tables(page, traced, monkeypatch):
    monkeypatch.setattr("monitor.web.pages.routes.view.MOST_PARTS", 3)

    html = page()

    assert "7 parts are too many to draw" in html
    assert '<svg class="route-graph"' not in html
    assert len(parts(html)) == 7


@pytest.mark.parametrize(
    "query", ["?site=mars", "?hop=nowhere", "?as=GEANT", "?at=yesterday", "?link=site:cern", "?last=year"]
)
def test_an_invalid_choice_is_named(page, traced, query):
    assert query[1:].split("=")[0] in unescape(page(query, 404))


def test_without_traces_it_tells_what_to_do(page, paths):
    assert lacks(page(), "No path was traced", "<code>trace</code>") == []
    Path.objects.update(retired_at=NOW - MINUTE)
    assert "No path is measured" in page()


def test_the_number_of_queries_does_not_grow_with_the_paths(page, traced, django_assert_max_num_queries):
    with django_assert_max_num_queries(ROUTES_QUERIES):
        page(f"?open=as:{GEANT}")
