"""The table page: medians between pairs, order, bands, missing figures, and the same figures as a file."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from html import unescape
from statistics import median

import pytest
from django.db import connection
from django.utils import timezone

from monitor.archive.models import DirtyHour, DirtySummary
from monitor.mesh.models import Host, Measurement, Path, Site
from tests.db.merging import merge_all, merge_hours, roll_up_raw
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY = timedelta(days=1)
QUERIES = 9
"""The number of sites, the mesh, its packet sizes, its paths, the table, the planned pairs, the state of pairs without
a figure, and how current the rollups are."""


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return fetch


@pytest.fixture
def days(paths):
    """Two days of three paths; a path has only the older day."""
    measured(paths["slac", "cern"], 0, 0.02)
    measured(paths["slac", "cern"], 1, 0.06)
    measured(paths["cern", "slac"], 0, 0.0005)
    measured(paths["cern", "slac"], 1, 0.0005)
    measured(paths["uct", "cern"], 1, 0.3)
    merge_hours(NOW)
    return paths


def measured(path, days_ago, loss_ratio):
    hour(
        path,
        sent=10_000,
        received=round(10_000 * (1 - loss_ratio)),
        rtt_ms=50.0,
        ipdv_ms=1.0,
        hour=HOUR - days_ago * DAY,
    )


def rows(html, *, every=False):
    """Source, destination and the text and class of each cell of each row, of pairs with a figure or of every pair."""
    body = re.search(r"<tbody.*?</tbody>", html, re.DOTALL)[0]
    table = [
        (*re.findall(r'<th scope="row">(.*?)</th>', row), *re.findall(r'<td class="(.*?)">(.*?)</td>', row))
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]
    return [row for row in table if every or row[2] != ("no-data", "–")]


def test_the_worst_pair_is_first_and_each_cell_has_its_band(get, days):
    assert rows(get("/table/")) == [
        ("uct", "cern", ("loss-5", "30%"), ("loss-5", "30%"), ("no-data", "no data"), ("loss-5", "30%")),
        ("slac", "cern", ("loss-4", "6%"), ("loss-3", "4%"), ("loss-2", "2%"), ("loss-4", "6%")),
        ("cern", "slac", ("loss-0", "0.05%"), ("loss-0", "0.05%"), ("loss-0", "0.05%"), ("loss-0", "0.05%")),
    ]


def test_no_loss_has_a_style_of_its_own(get, paths):
    measured(paths["slac", "cern"], 0, 0.0)

    (row,) = rows(get("/table/?tick=hour"))

    # 3 of 10,000 packets, as on the grid.
    assert row[2:] == (("none-lost", "&lt; 0.03%"),) * 3


def delivered(path, minutes_ago, *rtts_ms):
    burst(path, NOW - timedelta(minutes=minutes_ago), *rtts_ms)


@pytest.mark.parametrize("tick", ["hour", "day", "month", "year"])
def test_loss_of_the_last_minute_is_in_the_table_and_the_grid(get, paths, tick):
    delivered(paths["slac", "cern"], 20, *[10.0] * 10)
    roll_up_raw(NOW)
    merge_all(NOW)
    for minutes_ago in (3, 2, 1):
        delivered(paths["slac", "cern"], minutes_ago, *[10.0] * 8, None, None)
    roll_up_raw(NOW)

    (row,) = rows(get(f"/table/?tick={tick}"))

    # 6 of 40 packets.
    assert row[2:] == (("loss-5", "15%"),) * 3
    assert ">15%</a>" in get("/?period=day")


def test_no_loss_has_the_same_bound_in_the_table_and_the_grid(get, paths):
    delivered(paths["slac", "cern"], 20, *[10.0] * 200)
    delivered(paths["slac", "cern"], 10, *[10.0] * 133)
    roll_up_raw(NOW)

    (row,) = rows(get("/table/"))

    # 3 of 333, rounded up.
    assert row[2:] == (("none-lost", "&lt; 0.91%"),) * 3
    assert "0 of 333, so below 0.91%" in get("/?period=day")


def test_a_path_not_permitted_says_so_on_every_page(get, paths):
    delivered(paths["slac", "cern"], 20, *[10.0] * 10)
    burst(paths["slac", "uct"], NOW - timedelta(minutes=5), outcome="not_permitted")
    roll_up_raw(NOW)

    table = {row[:2]: row[-1] for row in rows(get("/table/"), every=True)}

    assert table["slac", "uct"] == ("not-measured", "not permitted")
    assert table["uct", "slac"] == ("no-data", "no data")
    assert len(table) == len(paths)
    for address in ("/?period=hour", "/", "/sites/uct/"):
        assert ">not permitted</a>" in get(address), address


def test_an_outage_is_marked_only_in_its_day(get, paths):
    delivered(paths["slac", "cern"], 24 * 60, *[10.0] * 99, None)
    for minutes_ago in range(60, 50, -1):
        delivered(paths["slac", "cern"], minutes_ago, None)
    delivered(paths["slac", "cern"], 40, *[10.0] * 1430)
    roll_up_raw(NOW)
    merge_all(NOW)

    (row,) = rows(get("/table/"))

    # Today 10 of 1,440, yesterday a packet of a hundred.
    today, yesterday = row[4:]
    assert (today[0], today[1].endswith("0.69%"), "100% loss for a time" in today[1]) == ("loss-1 outage", True, True)
    assert yesterday == ("loss-2", "1%")


def test_after_midnight_the_previous_day_is_current(get, paths, monkeypatch):
    midnight = HOUR.replace(hour=0)
    monkeypatch.setattr(timezone, "now", lambda: midnight + timedelta(minutes=5))
    burst(paths["slac", "cern"], midnight - timedelta(minutes=30), *[10.0] * 10)
    roll_up_raw(NOW)
    merge_all(midnight)
    burst(paths["slac", "cern"], midnight - timedelta(minutes=2), *[None] * 10)
    burst(paths["slac", "cern"], midnight + timedelta(minutes=2), *[10.0] * 10)
    roll_up_raw(NOW)

    (row,) = rows(get("/table/"))

    today, yesterday = (text for _, text in row[4:])
    assert today == "&lt; 30%"
    assert yesterday.endswith("</b> 50%")  # after the mark of an outage


def test_a_metric_of_rollups_has_its_time(get, paths):
    delivered(paths["slac", "cern"], 20, *[10.0] * 10)
    roll_up_raw(NOW)
    merge_all(NOW)
    assert "as of" not in get("/table/?metric=rtt_median_ms")

    DirtySummary.objects.create(
        tier="day", path_id=paths["slac", "cern"].pk, starts_at=HOUR.replace(hour=0), marked_at=NOW - 4 * MINUTE
    )

    assert re.search(r"as of <time[^>]*>2026-11-21 12:26 UTC", get("/table/?metric=rtt_median_ms"))
    assert "as of" not in get("/table/")


def test_the_latest_column_says_as_of_when_where_results_of_more_than_a_minute_wait(get, paths):
    path = paths["slac", "cern"]
    delivered(path, 20, *[10.0] * 10)
    roll_up_raw(NOW)
    mark = DirtyHour.objects.create(path_id=path.pk, hour=HOUR, marked_at=NOW - timedelta(seconds=59))
    fresh = get("/table/")
    DirtyHour.objects.filter(pk=mark.pk).update(marked_at=NOW - timedelta(minutes=4))

    assert "as of" not in fresh
    assert re.search(r"as of <time[^>]*>2026-11-21 12:26 UTC", get("/table/"))


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("-worst", "cern"),
        ("source", "cern"),
        ("-source", "uct"),
        ("median", "uct"),
        ("2026-11-21T00:00Z", "slac"),
        ("-2026-11-21T00:00Z", "cern"),
    ],
)
def test_columns_sort_both_ways_with_missing_figures_last(get, days, sort, first):
    table = rows(get(f"/table/?sort={sort}"))

    assert table[0][0] == first
    if "2026" in sort:
        assert table[-1][:2] == ("uct", "cern")


def test_the_header_has_the_sort_order_and_a_link_to_reverse(get, days):
    head = re.search(r"<thead.*?</thead>", get("/table/?metric=mos&tick=hour"), re.DOTALL)[0]

    (sorted_by,) = re.findall(r'<th scope="col" aria-sort="(.*?)"><a href="(.*?)">worst</a>', head)
    assert sorted_by[0] == "ascending"
    assert "sort=-worst" in unescape(sorted_by[1])


def test_low_throughput_and_mos_are_the_worst(get, paths):
    measured(paths["slac", "cern"], 0, 0.05)
    measured(paths["cern", "slac"], 0, 0.0)
    merge_hours(NOW)

    assert [row[0] for row in rows(get("/table/?metric=mos&tick=hour"))] == ["slac", "cern"]


def test_a_table_by_region_is_the_median_over_its_paths(get, paths):
    losses = {pair: 0.01 * number for number, pair in enumerate(paths, 1)}
    for pair, path in paths.items():
        measured(path, 0, losses[pair])
    merge_hours(NOW)

    (row,) = rows(get("/table/?by=region"))

    assert row[:2] == ("North America", "North America")
    assert row[2][1] == f"{median(losses.values()) * 100:.1f}%"
    assert row[4][1] == row[2][1] + "<sup>6</sup>"


def test_a_source_and_a_destination_filter_the_table(get, days):
    assert [row[:2] for row in rows(get("/table/?to=cern"))] == [("uct", "cern"), ("slac", "cern")]
    (row,) = rows(get("/table/?from=cern&to=uct"), every=True)
    assert row[:2] == ("cern", "uct")
    assert ("no-data", "no data") in row
    assert "No measurements for this selection" in get("/table/?from=cern&to=mars")


def test_every_metric_can_be_requested(get, days):
    matches = re.findall(r'<option value="([a-z][a-z_0-9]+)"', get("/table/"))

    assert len(matches) > 25
    for metric in matches:
        get(f"/table/?metric={metric}")


def test_the_file_has_the_figures_in_full_precision(get, days):
    lines = list(csv.reader(get("/table.tsv").splitlines(), dialect="excel-tab"))

    assert lines[0] == ["source", "destination", "loss_ratio 2026-11-20T00:00Z", "loss_ratio 2026-11-21T00:00Z"]
    assert lines[1] == ["uct", "cern", "0.3", ""]
    assert lines[2] == ["slac", "cern", "0.06", "0.02"]


def test_a_table_that_is_too_large_is_refused_with_a_fix(get, paths):
    """120 sites in both directions for 30 days are 14,280 paths and 440,000 cells."""
    crowd(120)

    page = get("/table/?by=site", 422)

    assert lacks(page, "are the most", "shorter time", "longer tick", "by country") == []
    assert get("/table.tsv?by=site", 422).startswith("that may be")
    get("/table/?by=country")


def test_of_many_pairs_the_first_are_shown_and_all_in_the_file(get, paths):
    """There are 600 pairs of 25 sites."""
    for path in crowd(25):
        hour(path, sent=100, received=99, rtt_ms=9.0)
    merge_hours(NOW)

    page = get("/table/?tick=year&by=node")

    assert len(rows(page)) == 500
    assert lacks(page, "first 500 pairs", " 100 more", "in the file") == []
    assert len(get("/table.tsv?tick=year&by=node").splitlines()) == 601


def crowd(sites):
    """More sites, so many, all measuring each other with pings. PostgreSQL gets statistics of the new rows: planned by
    those of the few rows before, a query took a minute at times."""
    test = Measurement.objects.filter(test__name="pinger")[0].test
    new_sites = Site.objects.bulk_create(
        Site(name=f"s{n}", title=f"S{n}", latitude_deg=0.0, longitude_deg=n, country="US", region="R", has_agent=True)
        for n in range(sites)
    )
    hosts = Host.objects.bulk_create(
        Host(site=site, name=site.name, address=f"198.18.0.{number}", family=4) for number, site in enumerate(new_sites)
    )
    created = Path.objects.bulk_create(
        Path(source=here, destination=there, family=4) for here in hosts for there in hosts if here is not there
    )
    Measurement.objects.bulk_create(Measurement(path=path, test=test, started_at=NOW) for path in created)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE site, host, path, measurement")
    return created


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("by=town", ["node, site, country, region, group"]),
        ("metric=speed", ["choose", "loss_ratio,"]),
        ("tick=week", ["hour, day, month, year"]),
        ("family=5", ["4 or 6"]),
        ("size=64", ["no packets of that size"]),
        ("size=x", ["whole number"]),
    ],
)
def test_an_invalid_choice_is_named(get, days, query, facts):
    assert lacks(unescape(get(f"/table/?{query}", 404)), f"{query}: ", *facts) == []


def test_before_any_data_it_says_where_to_look(get):
    assert lacks(get("/table/"), "Write a mesh.toml", "manage.py mesh apply mesh.toml") == []


def test_without_recent_data_it_says_where_to_look(get, paths):
    burst(paths["slac", "cern"], NOW - timedelta(days=60), 10.0)

    assert "No measurements in this period." in get("/table/")


def test_it_has_a_fixed_query_count(get, days, django_assert_num_queries):
    get("/table/")
    with django_assert_num_queries(QUERIES):
        get("/table/")
