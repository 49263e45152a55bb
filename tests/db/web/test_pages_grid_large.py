"""The grid of many sites: order, folding, filters, the list, cells without figures, and refreshes by their changes."""

from __future__ import annotations

import gc
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace

import pytest
from django.test import RequestFactory

from monitor.archive.models import ReceivedBatch
from monitor.mesh.models import Measurement, Site
from monitor.web.pages.grid import below, contents
from monitor.web.request import grid_choices
from tests.db.batch_rows import store_batch
from tests.db.pages_mesh import MINUTE, NOW, burst, hour, make_mesh
from tests.db.web.test_pages_grid import cell
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
CLEAN, LOSSY, DEAD = [10.0] * 10, [10.0] * 4 + [None] * 6, [None] * 10


@pytest.fixture
def fetch(client):
    def get(address, status=200, **headers):
        answer = client.get(address, headers={"host": "localhost", **headers})
        assert answer.status_code == status, answer.content
        return answer

    return get


@pytest.fixture
def page(fetch):
    return lambda query="": fetch(f"/{query}").content.decode()


def columns(html):
    head = html[html.index('id="matrix-head"') : html.index('id="matrix-body"')]
    return re.findall(r'<a href="[^"]*">(?:▸ )?([^<]*)</a>', head)


def sites_of(html):
    return re.findall(r'<th scope="row" title="[^"]*"><a href="[^"]*">(?:▸ )?([^<]*)</a>', html)


def test_problems_only_leaves_out_sites_without_one(page, paths):
    for path in paths.values():
        burst(path, NOW - MINUTE, *CLEAN)
    burst(paths["slac", "cern"], NOW - 2 * MINUTE, *LOSSY)

    html = page("?paths=problems")

    assert (sites_of(html), columns(html)) == (["slac"], ["cern"])
    assert cell(html, paths["slac", "cern"])[1] == "30%"


def test_worst_first_orders_rows_and_columns(page, paths):
    for path in paths.values():
        burst(path, NOW - MINUTE, *CLEAN)
    burst(paths["uct", "slac"], NOW - 2 * MINUTE, *LOSSY)

    html = page("?order=worst")

    assert sites_of(html)[0] == "uct"
    assert columns(html)[0] == "slac"


def test_a_name_selects_paths_with_that_end(page, paths):
    for path in paths.values():
        burst(path, NOW - MINUTE, *CLEAN)

    html = page("?name=SLA")

    assert sites_of(html)[0] == columns(html)[0] == "slac"
    assert f'id="p{paths["cern", "slac"].pk}"' in html
    assert f'id="p{paths["cern", "uct"].pk}"' not in html
    assert "No path to show with “nowhere”" in page("?name=nowhere")


@pytest.fixture
def two_regions(paths):
    Site.objects.filter(name="uct").update(region="Africa")
    for path in paths.values():
        burst(path, NOW - MINUTE, *CLEAN)
    burst(paths["slac", "uct"], NOW - 2 * MINUTE, *LOSSY)
    return paths


def test_folded_regions_show_their_worst_path_and_its_number(page, two_regions):
    html = page("?order=region&fold=*")

    assert columns(html) == sites_of(html) == ["Africa", "North America"]
    (said,) = re.findall(r'aria-label="(North America to Africa: [^"]*)"', html)
    assert lacks(said, "1 of 2 paths are problems", "slac to uct", "loss 30%", " 6 of 20 lost") == []


def test_a_link_unfolds_a_single_region(page, two_regions):
    html = page("?order=region&fold=*")

    (link,) = re.findall(r'<th scope="row"[^>]*><a href="\?([^"]*)">▸ North America</a>', html)
    html = page(f"?{link.replace('&amp;', '&')}")

    assert columns(html) == ["Africa", "cern", "slac"]


def test_groups_fold_as_regions_do(page, two_regions):
    assert columns(page("?order=group&fold=all")) == ["all"]


def test_the_list_has_the_worst_path_first(page, two_regions):
    html = page("?order=list")

    assert re.findall(r">(\w+ → \w+)</a>", html[html.index('id="worst"') :])[0] == "slac → uct"
    assert "6 of 20 lost" in html
    assert 'id="matrix"' not in html


def test_compact_cells_have_signs_and_no_figures(page, two_regions):
    html = page("?cells=compact")

    style, text, sentence = cell(html, two_regions["slac", "uct"])
    assert (style, text) == ("loss-5", "!")
    assert "loss 30%" in sentence
    assert cell(html, two_regions["cern", "slac"])[:2] == ("none-lost", "")


@pytest.mark.parametrize("query", ["order=up", "order="])
def test_an_unknown_order_is_refused(fetch, paths, query):
    assert lacks(fetch(f"/?{query}", 404).content.decode(), "site, worst, region, group, list") == []


def version_of(html):
    return re.search(r'data-version="([^"]*)"', html)[1]


def test_a_refresh_at_rest_has_no_content(page, fetch, two_regions):
    version = version_of(page())

    answer = fetch("/grid/changes", 304, if_none_match=f'W/"{version}"')

    assert answer.content == b""
    assert fetch(f"/grid/changes?since={version}", 304).content == b""


def test_a_refresh_has_only_the_cells_that_changed(page, fetch, two_regions):
    version = version_of(page())

    for minute in (3, 4):
        burst(two_regions["cern", "slac"], NOW - minute * MINUTE, *DEAD)
    changes = fetch(f"/grid/changes?since={version}").json()

    # Rows and columns are cern, slac, uct.
    assert list(changes["cells"]) == ["1"]
    assert lacks(changes["cells"]["1"], "loss-5 outage", "66.7%", " 20 of 30 lost") == []
    fetch(f"/grid/changes?since={changes['version']}", 304)


def test_a_version_too_old_brings_all_cells(page, fetch, two_regions):
    version = version_of(page())
    contents._versions.clear()
    burst(two_regions["cern", "slac"], NOW - 3 * MINUTE, *DEAD)

    changes = fetch(f"/grid/changes?since={version}").json()

    assert changes["all"] is True
    assert len(changes["cells"]) == 9


def test_another_row_reloads_the_page(page, fetch, two_regions):
    version = version_of(page())
    Measurement.objects.filter(path__source__site__name="uct").update(retired_at=NOW)

    assert fetch(f"/grid/changes?since={version}").json()["reload"] is True


def test_parts_leave_out_the_matrix_and_keep_the_rest(page, two_regions):
    whole, parts = page(), page("?parts=1")

    assert 'id="matrix' not in parts
    live = set(re.findall(r'id="([\w-]+)" data-live', whole))
    assert live == set(re.findall(r'id="([\w-]+)" data-live', parts))
    assert {"choices", "mesh-state"} <= live
    assert "parts=1" not in re.search(r'id="choices".*?</nav>', parts, re.DOTALL)[0]


@pytest.fixture
def drawn(monkeypatch, two_regions):
    """Large enough to be drawn, with its ordinary mesh."""
    monkeypatch.setattr(contents, "DRAWN_FROM_CELLS", 4)
    return two_regions


def data_of(html):
    return json.loads(re.search(r'id="drawn-data">(.*?)</script>', html, re.DOTALL)[1])


def test_a_large_grid_is_data_for_a_script(page, drawn):
    data = data_of(page())

    assert [line[0] for line in data["rows"]] == ["cern", "slac", "uct"]
    styles = [data["styles"][letter] for letter in data["states"]]
    assert styles == ["same", "none-lost", "none-lost", "none-lost", "same", "loss-5", "none-lost", "none-lost", "same"]


def test_of_many_agents_those_with_a_problem_have_a_row(page, paths, monkeypatch):
    monkeypatch.setattr(below, "MOST_AGENTS", 2)
    sites = Site.objects.filter(has_agent=True).order_by("name")
    for site in sites:
        late = site == sites[0]
        store_batch(site, NOW - (10 if late else 1) * MINUTE)
    shown = page()
    ReceivedBatch.objects.update(received_at=NOW - MINUTE)
    well = page()

    [table] = re.findall(r'<div id="agent-list".*?</div>', shown, re.DOTALL)
    assert re.findall(r'<th scope="row">(\w+)', table) == [sites[0].name]
    assert f"1 of {len(sites)} agents with a problem" in table
    assert f"All {len(sites)} agents report" in well


def test_names_cannot_leave_the_data_of_the_script(page, drawn):
    Site.objects.filter(name="uct").update(name="</script><b>")

    assert "</script><b>" in [line[0] for line in data_of(page())["rows"]]


def test_a_large_grid_lists_its_problems_as_html(page, drawn):
    html = page()

    assert 'id="matrix"' not in html
    assert re.findall(r">(\w+ → \w+)</a>", html[html.index('id="worst"') :]) == ["slac → uct"]
    assert lacks(html, "Without JavaScript", "order=list", "order=region") == []


def test_a_refresh_of_a_large_grid_has_codes(page, fetch, drawn):
    version = data_of(page())["version"]
    burst(drawn["cern", "slac"], NOW - 3 * MINUTE, *DEAD)

    changes = fetch(f"/grid/changes?since={version}").json()
    contents._versions.clear()
    everything = fetch(f"/grid/changes?since={version}").json()

    styles = data_of(page())["styles"]
    assert {place: styles[code[0]] for place, code in changes["cells"].items()} == {"1": "loss-5"}
    assert changes["cells"]["1"][1] == "2", "an outage"
    assert everything["marks"] == {"1": "2"}
    assert styles[everything["states"][1]] == "loss-5"


def test_a_cell_is_told_in_words_with_its_address(fetch, drawn):
    cell_told = fetch("/grid/cell?source=slac&destination=uct").json()

    assert lacks(cell_told["sentence"], "slac to uct", "loss 30%", " 6 of 20 lost") == []
    assert cell_told["address"].startswith(f"/paths/{drawn['slac', 'uct'].pk}/?period=hour")
    fetch("/grid/cell?source=slac&destination=nowhere", 404)


def test_a_cell_of_history_is_told_too(fetch, drawn):
    hour(drawn["slac", "cern"], sent=1000, received=979, rtt_ms=150.0)

    assert " 21 of 1,000 lost" in fetch("/grid/cell?source=slac&destination=cern&period=day").json()["sentence"]


def test_the_cell_of_fifty_sites_needs_no_other_path(fetch, django_assert_max_num_queries):
    make_mesh(tuple(f"site-{number:02}" for number in range(12)))
    with django_assert_max_num_queries(16):
        fetch("/grid/cell?source=site-01&destination=site-02")


def test_a_large_grid_is_renewed_without_a_reader_waiting(monkeypatch):
    may_end = threading.Event()

    def load(*choices):
        assert choices[-1] == NOW or may_end.wait(10)
        return SimpleNamespace(figures=range(grid_choices.FEW_PATHS), until=choices[-1])

    monkeypatch.setattr(grid_choices, "_load", load)
    monkeypatch.setattr(grid_choices, "_large", {})
    request = RequestFactory().get("/")

    def read(seconds):
        return grid_choices.load_chosen_grid(request, NOW + timedelta(seconds=seconds)).until

    assert [read(second) for second in (0, 9, 12, 13)] == 4 * [NOW]
    may_end.set()
    deadline = monotonic() + 10
    while read(14) == NOW:
        assert monotonic() < deadline, "never renewed"
    # That of second 12, unless a grid of another test was still being loaded then.
    assert NOW + timedelta(seconds=12) <= read(14) <= NOW + timedelta(seconds=14)


def test_a_large_grid_is_worked_out_once_for_all_readers(monkeypatch):
    grid, small = SimpleNamespace(figures=()), SimpleNamespace(figures=())
    monkeypatch.setattr(grid_choices, "_large", {"choices": grid})
    monkeypatch.setattr(grid_choices, "_derived", {})
    computed = []

    def compute():
        computed.append(len(computed))
        return computed[-1]

    assert [grid_choices.derived_once(grid, "layout", compute) for _ in range(2)] == [0, 0]
    assert [grid_choices.derived_once(small, "layout", compute) for _ in range(2)] == [1, 2]


def test_readers_of_a_large_grid_share_one_load(monkeypatch):
    loads, first_began, both_wait = [], threading.Event(), threading.Event()

    def load(*choices):
        loads.append(gc.isenabled())
        if len(loads) > 1:
            first_began.set()
            both_wait.wait(1)
        return SimpleNamespace(figures=range(grid_choices.FEW_PATHS), until=choices[-1])

    monkeypatch.setattr(grid_choices, "_load", load)
    monkeypatch.setattr(grid_choices, "_large", {})
    request = RequestFactory().get("/")

    def read(seconds):
        return grid_choices.load_chosen_grid(request, NOW + timedelta(seconds=seconds)).until

    assert (read(0), read(9), len(loads)) == (NOW, NOW, 1)
    with ThreadPoolExecutor(3) as readers:
        leader = readers.submit(read, 40)
        first_began.wait(10)
        others = [readers.submit(read, 40.1), readers.submit(read, 40.2)]
        both_wait.set()

    assert {reader.result() for reader in (leader, *others)} == {NOW + timedelta(seconds=40)}
    assert loads == [False, False], "loads, each without collections of garbage"
    assert gc.isenabled()
