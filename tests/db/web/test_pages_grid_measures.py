"""The grid's other metrics, and its changes against an earlier week: text, class and sentence of the cells."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from monitor.archive.queries.metrics import Metric
from monitor.overview import measures
from tests.db.merging import merge_hours
from tests.db.pages_mesh import HOUR, MINUTE, NOW, hour, of_a_day, throughput
from tests.db.web.test_pages_grid import cell
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
WEEK = timedelta(weeks=1)


@pytest.fixture
def page(client):
    def get(query=""):
        answer = client.get(f"/{of_a_day(query)}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


@pytest.mark.parametrize(
    ("metric", "style", "text", "sentence"),
    [
        ("min-rtt", "step-0", "83.41 ms", "minimum RTT 83.41 ms"),
        ("ipdv", "step-0", "2.50 ms", "jitter (IPDV) 2.50 ms"),
        ("unreachability", "loss-3", "2%", "unreachable time 2%"),
        ("estimate", "step-0", "1.4 Mbit/s", "Mathis (Reno) estimate 1.4 Mbit/s"),
    ],
)
def test_each_metric_has_its_unit_and_its_colour(page, path, metric, style, text, sentence):
    """1,460 bytes over 83.41 ms at 1% loss are 1460·8/0.08341/0.1 = 1.40 Mbit/s."""
    hour(path, sent=1000, received=990, rtt_ms=83.41, ipdv_ms=2.5, bursts_all_lost=2)

    cell_shown = cell(page(f"?metric={metric}"), path)

    assert cell_shown[:2] == (f"{style} outage", f"✕{text}")
    assert sentence in cell_shown[2]
    assert lacks(cell_shown[2], "100% loss", " 2 of 100 bursts") == []


def test_mos_equals_that_of_g107(page, path):
    """R = 93.2 − (120 + 2·0 + 10)/40 = 89.95, from which G.107 computes 1 + 0.035·R + 7e-6·R·(R−60)·(100−R) = 4.338."""
    hour(path, sent=1000, received=1000, rtt_ms=120.0, ipdv_ms=0.0)

    assert cell(page("?metric=mos"), path)[:2] == ("loss-1", "4.34")
    assert lacks(cell(page("?metric=mos"), path)[2], "MOS 4.34", "(satisfied)", " 1,000 of 1,000 answered") == []


def test_an_estimate_without_loss_is_a_floor(page, path):
    """3/N replaces the loss: 1460·8/0.1/√0.003 = 2.13 Mbit/s."""
    hour(path, sent=1000, received=1000, rtt_ms=100.0)

    assert cell(page("?metric=estimate"), path)[:2] == ("bound", "≥ 2.13 Mbit/s")


def test_lower_bounds_leave_the_colours_to_the_estimates(page, paths):
    """1460·8/0.1/√0.01 = 1.17 Mbit/s; the slower path, 10 times as far, has a tenth of it and the darker colour."""
    hour(paths["cern", "uct"], sent=10_000, received=10_000, rtt_ms=1.0)
    hour(paths["slac", "cern"], sent=1000, received=990, rtt_ms=100.0)
    hour(paths["cern", "slac"], sent=1000, received=990, rtt_ms=1000.0)

    html = page("?metric=estimate")

    assert cell(html, paths["cern", "uct"])[0] == "bound"
    assert cell(html, paths["slac", "cern"])[:2] == ("step-0", "1.17 Mbit/s")
    assert cell(html, paths["cern", "slac"])[:2] == ("step-3", "117 kbit/s")
    assert "370 kbit/s or more" in html


@pytest.mark.parametrize(
    ("lost_before", "lost_now", "expected", "facts"),
    [
        (0, 21, ("worse", "+2.10 pts"), ["loss 2.1%", "acceptable", "worse", "week before (0%)"]),
        (
            21,
            0,
            ("better", "−2.10 pts"),
            ["no loss", "better", "week before (2.1%)", "0 of 1,000", "below 0.3%", "95%"],
        ),
        (20, 20, ("steady", "+0.00 pts"), ["loss 2%", "acceptable", "about the same", "week before (2%)"]),
    ],
)
def test_a_change_has_its_sign_and_the_earlier_value(page, path, lost_before, lost_now, expected, facts):
    hour(path, sent=1000, received=1000 - lost_now, rtt_ms=10.0)
    hour(path, sent=1000, received=1000 - lost_before, rtt_ms=10.0, hour=HOUR - WEEK)

    cell_shown = cell(page("?against=week&period=hour"), path)

    assert cell_shown[:2] == expected
    assert lacks(cell_shown[2], *facts) == []


@pytest.mark.parametrize(("rtt_ms", "expected"), [(120.0, ("worse", "+20%")), (80.0, ("better", "−20%"))])
def test_rtts_change_by_a_percentage(page, path, rtt_ms, expected):
    hour(path, sent=600, received=600, rtt_ms=rtt_ms)
    hour(path, sent=600, received=600, rtt_ms=100.0, hour=HOUR - WEEK)

    assert cell(page("?metric=rtt&against=week&period=hour"), path)[:2] == expected


def test_less_throughput_is_worse(page, path):
    throughput(path, HOUR + MINUTE, 50e6)
    throughput(path, HOUR + MINUTE - WEEK, 100e6)

    assert cell(page("?metric=throughput&against=week"), path)[:2] == ("worse", "−50%")


def test_a_path_without_a_past_is_new(page, paths):
    hour(paths["slac", "cern"], sent=600, received=500, rtt_ms=10.0)
    hour(paths["cern", "slac"], sent=600, received=0, bursts_all_lost=60)
    hour(paths["cern", "slac"], sent=600, received=600, rtt_ms=10.0, hour=HOUR - WEEK)
    html = page("?against=week&period=hour")

    style, text, sentence = cell(html, paths["slac", "cern"])
    assert (style, text) == ("no-data", "new")
    assert lacks(sentence, "no data", "week before") == []
    assert cell(html, paths["cern", "slac"])[:2] == ("total-loss", "all lost")


def test_a_year_is_52_weeks_so_that_weekdays_match(page, path):
    hour(path, sent=600, received=600, rtt_ms=100.0)
    hour(path, sent=600, received=600, rtt_ms=50.0, hour=HOUR - 52 * WEEK)
    merge_hours(NOW)

    assert cell(page("?metric=rtt&against=year&period=hour"), path)[:2] == ("worse", "+100%")


def test_the_api_gives_both_values(client, path):
    hour(path, sent=600, received=600, rtt_ms=120.0)
    hour(path, sent=600, received=600, rtt_ms=100.0, hour=HOUR - WEEK)

    query = "?metric=rtt_median_ms&period=hour"
    plain = client.get(f"/api/v1/grid{query}", headers={"host": "localhost"}).json()
    compared = client.get(f"/api/v1/grid{query}&against=week", headers={"host": "localhost"}).json()

    def figures(grid):
        (path_cell,) = [shown_cell for shown_cell in grid["cells"] if shown_cell["path_id"] == path.pk]
        return grid["against"], path_cell["value"], path_cell["value_before"]

    assert figures(plain) == (None, 120.0, None)
    assert figures(compared) == ("week", 120.0, 100.0)


def test_every_offered_metric_has_a_measure():
    assert {choice.metric for choice in measures.MetricChoice} == set(measures.MEASURES) <= set(Metric)


@pytest.mark.parametrize(("query", "is_told"), [("", True), ("?metric=rtt", False), ("?against=week", False)])
def test_the_legend_says_that_a_colour_is_of_the_lower_bound(page, path, query, is_told):
    """4 of 400 lost are 1%, in the next band; their exact lower 95% bound is 0.34%, in that below 1%."""
    hour(path, sent=400, received=396, rtt_ms=10.0)

    html = page(query)

    [legend] = re.findall(r'<ul class="legend".*?</ul>', html, re.DOTALL)
    assert ("lower 95% bound" in legend) == is_told
    assert query or cell(html, path)[:2] == ("loss-1", "1%")
