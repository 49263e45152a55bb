"""The page that compares paths: its charts, and how paths and metrics are added and removed."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
import vl_convert

from monitor.web.charts.compare import MOST_PATHS
from tests.db.pages_mesh import HOUR, MINUTE, burst, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer if status == 302 else unescape(answer.content.decode())

    return fetch


@pytest.fixture
def measured(paths):
    """Two bursts of a path, the second with a loss; of another path a burst in the minute between."""
    there, back = paths["slac", "cern"], paths["cern", "slac"]
    burst(there, HOUR, *[150.0] * 10)
    burst(there, HOUR + 2 * MINUTE, *[160.0] * 8, None, None)
    burst(back, HOUR + MINUTE, *[149.0] * 10)
    throughput(there, HOUR + MINUTE, 90e6)
    throughput(there, HOUR + 5 * MINUTE, None)
    return there, back


def spec(html, metric):
    return json.loads(re.search(rf'<script id="{metric}-spec" type="application/json">(.*?)</script>', html)[1])


def svg_of(chart):
    """A compiled chart with its rows and values, as static/web/charts.js draws it."""
    vega, values = chart["vega"], {param["name"]: param["value"] for param in chart["params"]}
    signals = [{**signal, "value": values[signal["name"]]} for signal in vega["signals"] if signal["name"] in values]
    others = [signal for signal in vega["signals"] if signal["name"] not in values]
    data = [
        {**source, "values": chart["datasets"].get(source["name"], [])} if "source" not in source else source
        for source in vega["data"]
    ]
    return vl_convert.vega_to_svg({**vega, "signals": [*others, *signals], "data": data})


def test_each_path_has_its_own_rows_in_its_own_style(get, measured):
    there, back = measured
    datasets = spec(get(f"/compare/?path={there.pk}&path={back.pk}&period=hour"), "rtt")["datasets"]

    begins = [(row["value"], row["t"]) for row in datasets["path-0"] if row["t2"] is not None]
    assert begins == [(150.0, ms(HOUR)), (160.0, ms(HOUR + 2 * MINUTE))]
    assert [row["value"] for row in datasets["path-1"] if row["t2"] is not None] == [149.0]
    assert [datasets[f"path-{place}"] for place in range(2, MOST_PATHS)] == [[]] * 4


def test_a_gap_stays_a_gap(get, measured):
    rows = spec(get(f"/compare/?path={measured[0].pk}&period=hour"), "rtt")["datasets"]["path-0"]

    assert len({row["run"] for row in rows}) == 2


def test_loss_is_lost_over_sent_with_the_counts(get, measured):
    burst(measured[0], HOUR - 240 * MINUTE, *[150.0] * 10)
    rows = spec(get(f"/compare/?path={measured[0].pk}&period=day&metric=loss"), "loss")["datasets"]["path-0"]
    (*_, row, _) = rows

    assert (row["value"], row["text"]) == (0.1, "2 of 20 lost: 10%")


def test_loss_begins_with_the_data_and_has_the_steps_of_the_rtt(get, measured):
    """Of a day whose data began half an hour ago, loss in steps of 5 minutes began before the first packet."""
    address = f"/compare/?path={measured[0].pk}&path={measured[1].pk}&period=day&metric=loss&metric=rtt"
    html = get(address)

    for metric in ("loss", "rtt"):
        begins = [row["t"] for row in spec(html, metric)["datasets"]["path-0"] if row["t2"] is not None]
        assert begins == [ms(HOUR), ms(HOUR + 2 * MINUTE)]


def test_throughput_shows_the_measured_tests(get, measured):
    rows = spec(get(f"/compare/?path={measured[0].pk}&period=hour&metric=throughput"), "throughput")["datasets"]

    assert rows["path-0"] == [{"t": ms(HOUR + MINUTE), "value": 90e6}]


@pytest.mark.parametrize("metric", ["rtt", "min-rtt", "p95-rtt", "loss", "estimate", "throughput"])
def test_vega_draws_every_chart(get, measured, metric):
    hour(measured[0], sent=600, received=590, rtt_ms=150.0, estimate_bps=9e5, estimate_is_floor=False)
    chart = spec(get(f"/compare/?path={measured[0].pk}&path={measured[1].pk}&metric={metric}"), metric)

    assert len(re.findall('role="graphics-symbol"|<path', svg_of(chart))) > 2


def test_without_loss_the_axis_still_has_a_length(get, paths):
    burst(paths["slac", "cern"], HOUR, *[150.0] * 10)
    drawn = svg_of(spec(get(f"/compare/?path={paths['slac', 'cern'].pk}&metric=loss"), "loss"))

    assert [tick for tick in ("0%", "0.1%", "1%") if f">{tick}<" in drawn] == ["0%", "0.1%", "1%"]
    assert ">80%<" not in drawn


def test_two_sites_add_their_path_and_keep_the_rest(get, measured, paths):
    answer = get(f"/compare/?path={measured[0].pk}&metric=loss&period=week&from=uct&to=cern", 302)

    assert (
        answer["Location"] == f"/compare/?path={measured[0].pk}&path={paths['uct', 'cern'].pk}&metric=loss&period=week"
    )


def test_a_path_can_be_removed_and_a_metric_added(get, measured):
    there, back = measured
    html = get(f"/compare/?path={there.pk}&path={back.pk}&metric=loss")

    assert f'href="?path={back.pk}&metric=loss" aria-label="remove slac to cern"' in html
    assert f'href="?path={there.pk}&path={back.pk}&metric=rtt&metric=loss">Median RTT</a>' in html


def test_without_a_path_it_says_how_to_add_a_path(get, paths):
    html = get("/compare/")

    assert "Choose two sites above" in html
    assert "vega" not in html


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("path=999999", ["no path 999999"]),
        ("path=one", ["no path one"]),
        ("path=²", ["no path ²"]),
        ("metric=speed", ["metric=speed", "rtt, min-rtt,"]),
        ("from=slac&to=mars", ["no path", "slac to mars"]),
        ("from=slac", ["no path", "slac to ?"]),
        ("&".join(f"path={n}" for n in range(7)), ["7 paths", "6 at most"]),
    ],
)
def test_an_invalid_address_is_reported(get, paths, query, facts):
    assert lacks(get(f"/compare/?{query}", 404), *facts) == []


def ms(at):
    return round(at.timestamp() * 1000)
