"""Routes on the path page: the strip on the time axis, hops as in mtr, and two routes side by side."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.core.management import call_command

from probes.trace.flow_effect import effect_of
from probes.trace.spec import MplsLabel
from tests.db.mesh_of_three import batch
from tests.db.pages_mesh import MINUTE, NOW, burst, chart_spec
from tests.db.trace_rows import address, delivered, hop, trace
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
START = NOW - 60 * MINUTE
TABLE = "8.1.0.0,8.1.255.255,64500,Coast\n8.2.0.0,8.2.255.255,3356,Level3\n8.3.0.0,8.3.255.255,174,Cogent\n"
NETWORKS = {letter: f"8.{place}.0." for place, letter in enumerate("ABC", 1)}


@pytest.fixture
def there(paths):
    """The path from slac to cern, with pings over the last hour."""
    path = paths["slac", "cern"]
    for minute in range(60):
        burst(path, START + minute * MINUTE, 10.0)
    return path


@pytest.fixture
def page(client):
    def get(path, query="?period=hour"):
        answer = client.get(f"/paths/{path.pk}/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return unescape(answer.content.decode())

    return get


def traced(path, *runs):
    """Deliver traces of a path as its agent does."""
    number = traced.number = getattr(traced, "number", 0) + 1
    results = [delivered(path, run, sequence) for sequence, run in enumerate(runs, 1)]
    assert store(path.source.site_id, batch(*results, number=number), NOW).refused == ()


def at(minute, letters="", **fields):
    return trace(letters, at=START + minute * MINUTE, **fields)


def every_ten_minutes(path, letters, first, last, **fields):
    traced(path, *(at(minute, letters, **fields) for minute in range(first, last, 10)))


def bands(html):
    """Colour class, share of the axis at which it begins, and solid share, of each band of the strip."""
    strip = re.search(r'<div id="route-strip" data-live>(.*?)</div>', html, re.DOTALL)[1]
    shapes = re.findall(
        r'class="(route-\d)[^"]*">.*?<rect class="seen" x="([\d.]+)%".*?width="([\d.]+)%"', strip, re.DOTALL
    )
    return [(style, float(first), float(share)) for style, first, share in shapes]


def hops(html, name="Forward route 1"):
    """The cells of each hop of a table, as text."""
    table = html.partition(f'aria-label="Hops of {name[0].lower()}{name[1:]}">')[2].partition("</table>")[0]
    rows = re.findall(r'<tr data-hop="\d+">(.*?)</tr>', table, re.DOTALL)
    return [[text(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in rows]


def text(markup):
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def route_links(html):
    """The query that selects each route, by its name."""
    pattern = r'href="\?([^"#]*)#tab-routes" aria-label="(?:hops|compare|hide): (\w+ route \d+)"'
    return {name: f"?{query}" for query, name in re.findall(pattern, html)}


def test_a_path_without_traces_shows_nothing_of_routes(page, there):
    html = page(there, "?period=hour&tab=routes")

    assert 'route-strip" data-live></div>' in html
    assert 'id="tab-routes"' not in html
    assert "routes.csv" not in html
    assert re.search(r'id="to-tests"[^>]*aria-current="true"', html)


def test_bands_lie_where_the_traces_were_on_the_time_axis(page, there, paths):
    every_ten_minutes(there, "ABD", 0, 30)
    every_ten_minutes(there, "ACD", 30, 60)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 60)

    html = page(there)

    assert [(first, share) for _, first, share in bands(html)] == [
        (pytest.approx(0, abs=0.1), pytest.approx(100 * 20 / 60, abs=0.1)),
        (pytest.approx(50, abs=0.1), pytest.approx(100 * 20 / 60, abs=0.1)),
        (pytest.approx(0, abs=0.1), pytest.approx(100 * 50 / 60, abs=0.1)),
    ]
    assert len({style for style, _, _ in bands(html)}) == 3
    assert list(route_links(html)) == ["forward route 2", "forward route 1", "reverse route 1"]
    assert len(hops(html, "Forward route 2")) == len(hops(html, "Reverse route 1")) == 3


def test_whether_flows_differ_is_stated_of_each_direction(page, there, paths):
    every_ten_minutes(there, "ABD", 0, 30)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 30)
    effect = effect_of([[12.1] * 5, [19.8] * 5] * 4)
    traced(there, at(30, "ABD", flow_effect=effect))

    lines = re.search(r'<ul id="load-balancing".*?</ul>', page(there), re.DOTALL)[0]
    forward, reverse = (text(line) for line in re.findall(r"<li>.*?</li>", lines, re.DOTALL))

    stated = "flows differ: RTT 12.1 to 19.8 ms over 8 flows"
    assert lacks(forward, "forward", stated, "H 29.3, critical value 24.5 ") == []
    assert lacks(reverse, "reverse", "not measured") == []


def test_a_gap_between_traces_is_not_known(page, there):
    """Traces every minute up to the 20th, none for half an hour, and again along the same route."""
    traced(there, *(at(minute, "ABD") for minute in (*range(21), *range(51, 60))))

    assert [(first, share) for _, first, share in bands(page(there))] == [
        (pytest.approx(0, abs=0.1), pytest.approx(100 * 20 / 60, abs=0.1)),
        (pytest.approx(100 * 51 / 60, abs=0.1), pytest.approx(100 * 8 / 60, abs=0.1)),
    ]


def test_flows_at_the_same_time_have_a_lane_each(page, there):
    for flow, letters in ((1, "ABD"), (2, "ACD")):
        every_ten_minutes(there, letters, 0, 60, flow=flow)
    every_ten_minutes(there, "ABD", 5, 6, flow=3)

    html = page(there)

    strip = re.search(r'<svg class="route-strip" height="(\d+)".*?</svg>', html, re.DOTALL)
    assert int(strip[1]) == 3 * 16
    assert [first for _, first, _ in bands(html)] == pytest.approx([0, 0, 100 * 5 / 60], abs=0.1)


def test_middle_hop_loss_that_does_not_go_on_is_a_rate_limit(page, there):
    first, limited = hop(1, "A", rtts_ms=(1.0, 1.1, 1.2)), hop(2, "B", rtts_ms=(None, None, 4.0))
    silent = hop(3, "*")
    ends = {minute: hop(4, "D", rtts_ms=(9.0, 10.0, 14.0 if minute else None)) for minute in range(0, 60, 2)}
    traced(there, *(at(minute, hops=(first, limited, silent, end)) for minute, end in ends.items()))

    html = page(there)

    first, second, third, last = hops(html)
    assert first[2:] == ["0", "90", "1.20 ms", "1.10 ms", "1.00 ms", "1.20 ms"]
    assert second[2:5] == ["66.7% rate limit", "90", "4.00 ms"]
    assert third[1:3] == ["unknown: no reply", "–"]
    assert last[1] == f"{address('D')} {last[1].split(' ', 1)[1]}"
    assert lacks(last[1], "destination") == []
    assert last[2] == "1.1%"
    assert lacks(text(html), "30 traces", "Loss at hop 2 does not go on") == []


def test_loss_that_goes_on_to_the_end_is_no_rate_limit(page, there):
    first = hop(1, "A", rtts_ms=(1.0, 1.1, 1.2))
    lossy = [hop(ttl, letter, rtts_ms=(None, 5.0, 6.0)) for ttl, letter in ((2, "B"), (3, "C"), (4, "D"))]
    traced(there, *(at(minute, hops=(first, *lossy)) for minute in range(0, 60, 2)))

    html = page(there)

    assert [row[2] for row in hops(html)] == ["0", "33.3%", "33.3%", "33.3%"]
    assert "rate limit" not in html


def test_labels_other_routers_and_errors_are_in_the_table(page, there):
    labelled = hop(2, "B", mpls=(MplsLabel(label=24001, traffic_class=0, ttl=1),), others=(address("X"),))
    refused = hop(3, "C", error="host_unreachable")
    traced(there, at(10, hops=(hop(1, "A", is_inferred=True, rtts_ms=()), labelled, refused), reached=False))

    first, second, third = hops(page(there))

    assert first[2:4] == ["–", "0"]
    assert lacks(second[1], "MPLS 24001", f"or {address('X')}") == []
    assert lacks(third[1], "host_unreachable") == []


def test_two_routes_are_compared_hop_by_hop_without_a_table(page, there):
    every_ten_minutes(there, "ABD", 0, 30)
    every_ten_minutes(there, "AXYD", 30, 60)
    html = page(there, "?period=hour&tab=routes")

    html = page(there, route_links(html)["forward route 2"])
    html = page(there, route_links(html)["forward route 1"])

    assert "Forward route 1 → route 2" in html
    assert "Differs at hops 2 to 3." in html
    assert 'class="plain as-blocks"' not in html
    pairs = re.search(r'class="plain hop-pairs">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)[1]
    kinds = re.findall(r'<tr class="(\w+)">', pairs)
    assert kinds == ["unchanged", "replaced", "replaced", "unchanged"]
    assert ["selected" in band for band in re.findall(r'class="(route-\d[^"]*)"><title>', html)] == [True, True]
    assert (
        route_links(page(there, route_links(html)["forward route 1"]))["forward route 2"] == "?period=hour&tab=routes"
    )


def test_two_routes_are_compared_by_blocks_of_as(page, there, tmp_path):
    (tmp_path / "asn.csv").write_text(TABLE)
    call_command("routes", "asn", "load", str(tmp_path / "asn.csv"), stdout=None)

    def route(letters):
        return tuple(
            hop(ttl, letter, address=f"{NETWORKS[letter]}{ttl}") if letter in NETWORKS else hop(ttl, "*")
            for ttl, letter in enumerate(letters, 1)
        )

    traced(there, *(at(minute, hops=route("AABB*A" if minute < 30 else "AAC*A")) for minute in (0, 10, 30, 40)))
    html = page(there)
    html = page(there, route_links(html)["forward route 1"])
    html = page(there, route_links(html)["forward route 2"])

    blocks = re.search(r'class="plain as-blocks">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)[1]
    rows = [
        [text(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)] for row in re.findall(r"<tr.*?</tr>", blocks)
    ]
    [changed] = [row for row in rows if row[0] == "replaced"]
    assert lacks(changed[1], "AS 3356 Level3", "hops 3 to") == []
    assert lacks(changed[2], "AS 174 Cogent", "hop") == []
    assert "AS 3356 → AS 174" in html
    assert "AS 64500 Coast → AS 3356 Level3 → (unknown) → AS 64500 Coast" in html
    assert lacks(re.search(r'id="name-sources">(.*?)</p>', html)[1], "asn.csv, 20") == [], "the table and its date"


def test_routes_of_both_directions_are_shown_but_not_compared(page, there, paths):
    every_ten_minutes(there, "ABD", 0, 60)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 60)
    html = page(there)
    html = page(there, route_links(html)["forward route 1"])
    html = page(there, route_links(html)["reverse route 1"])

    assert 'id="comparison"' not in html
    assert len(hops(html)) == len(hops(html, "Reverse route 1")) == 3


@pytest.mark.parametrize("query", ["?route=x", "?route=0", "?route=1&route=2&route=3", f"?route={2**63}"])
def test_a_selection_that_is_none_is_a_404(client, there, query):
    assert client.get(f"/paths/{there.pk}/{query}", headers={"host": "localhost"}).status_code == 404


def test_a_selected_route_outside_the_time_is_left_out(page, there):
    every_ten_minutes(there, "ABD", 0, 60)

    assert len(hops(page(there, "?period=hour&route=4711"))) == 3


def test_routes_take_a_fixed_number_of_queries(page, there, paths, django_assert_max_num_queries):
    every_ten_minutes(there, "ABD", 0, 60)
    with django_assert_max_num_queries(76) as without_change:
        page(there)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 60)
    with django_assert_max_num_queries(76) as reverse_too:
        page(there)
    every_ten_minutes(paths["cern", "slac"], "DXA", 3, 4)
    with django_assert_max_num_queries(76) as with_changes:
        page(there)
    every_ten_minutes(paths["cern", "slac"], "DXA", 13, 60)
    with django_assert_max_num_queries(76) as many_changes:
        page(there)

    assert len(reverse_too) <= len(without_change) + 1
    assert len(many_changes) == len(with_changes)


def test_only_a_route_change_with_an_effect_is_marked(page, paths):
    there = paths["slac", "cern"]
    for minute in range(-150, 60):
        burst(there, START + minute * MINUTE, *[12.0 + 0.1 * (minute % 3) + (60.0 if minute >= 33 else 0.0)] * 3)
    every_ten_minutes(there, "ABD", 0, 20)
    every_ten_minutes(there, "ACD", 15, 26)
    every_ten_minutes(there, "ABD", 35, 60)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 60)

    html = page(there)

    [(_, label)] = marks(html)
    assert lacks(label, "route changed", "+60 ms") == []
    assert len(bands(html)) == 4


def test_a_change_of_the_ttl_is_not_marked_beside_its_trace(page, paths):
    there = paths["slac", "cern"]
    for minute in range(-150, 60):
        is_after = minute >= 33
        burst(there, START + minute * MINUTE, *[72.0 if is_after else 12.0] * 3, ttl=50 if is_after else 52)
    every_ten_minutes(paths["cern", "slac"], "DBA", 0, 31)
    every_ten_minutes(paths["cern", "slac"], "DXYA", 35, 60)

    [(_, label)] = marks(page(there))

    assert lacks(label, "reverse route changed", "+60 ms") == []


def marks(html):
    """Time in minutes and text of each mark of a route change on the smoke chart."""
    rows = chart_spec(html, "rtt")["datasets"]["route-change"]
    return [((row["t"] / 1000 - START.timestamp()) / 60, row["label"]) for row in rows]
