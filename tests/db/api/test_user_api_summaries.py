"""The users' API for many paths and sites at once: the worst paths, PingER's tables, completeness, refused results."""

from datetime import timedelta

import pytest
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from monitor.archive.models import DeliveredDay, RefusedResult
from monitor.mesh.models import Group, Measurement, MeasurementPeriod, Site
from tests.db.merging import merge_hours
from tests.db.pages_mesh import HOUR, MINUTE, NOW, hour, throughput

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def ask(client):
    def get(address, status=200, **query):
        answer = client.get(f"/api/v1/{address}", query, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.json()

    return get


def test_a_grid_of_any_metric_marks_undefined_values(ask, paths):
    hour(paths["slac", "cern"], sent=1000, received=979, rtt_ms=150.0, losses_followed=20, losses_paired=5)
    hour(paths["cern", "slac"], sent=1000, received=1000, rtt_ms=150.0)

    grid = ask("grid", metric="conditional_loss_ratio", period="hour")

    states = {(cell["source"], cell["destination"]): (cell["state"], cell["value"]) for cell in grid["cells"]}
    assert (grid["metric"], states["slac", "cern"]) == ("conditional_loss_ratio", ("value", 0.25))
    assert (states["cern", "slac"], states["slac", "uct"]) == (("undefined", None), ("no_data", None))


def test_the_worst_paths_are_first_with_their_ends(ask, paths):
    hour(paths["slac", "cern"], sent=1000, received=990, rtt_ms=150.0)
    hour(paths["cern", "slac"], sent=1000, received=900, rtt_ms=20.0)
    hour(paths["slac", "uct"], sent=1000, received=1000, rtt_ms=300.0)

    answer = ask("worst", limit=2)
    slowest = ask("worst", metric="rtt_median_ms", limit=1)

    assert [(path["source"], path["destination"], path["value"], path["sent"]) for path in answer["paths"]] == [
        ("cern", "slac", 0.1, 1000),
        ("slac", "cern", 0.01, 1000),
    ]
    assert (answer["metric"], answer["packet_bytes"]) == ("loss_ratio", 100)
    assert [path["path_id"] for path in slowest["paths"]] == [paths["slac", "uct"].pk]
    assert [path["loss_evidence"] for path in answer["paths"]] == ["100 of 1,000 lost", "10 of 1,000 lost"]
    assert slowest["paths"][0]["loss_evidence"] == "0 of 1,000, so below 0.3% (95%)"


def test_throughput_has_no_worst_paths_by_packet_size(ask, paths):
    assert "of no packet size" in ask("worst", 422, metric="throughput_median_bps")["detail"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("site", {("slac", "cern"): (10.0, 1), ("slac", "uct"): (40.0, 1)}),
        ("country", {("US", "US"): (25.0, 2)}),
        (
            "group",
            {
                ("west", "west"): (10.0, 1),
                ("west", "all"): (25.0, 2),
                ("all", "west"): (10.0, 1),
                ("all", "all"): (25.0, 2),
            },
        ),
    ],
)
def test_a_table_has_medians_over_paths_with_their_number(ask, paths, by, expected):
    Group.objects.create(name="west", shape="mesh").sites.set(Site.objects.filter(name__in=["slac", "cern"]))
    hour(paths["slac", "cern"], sent=10, received=10, rtt_ms=10.0)
    hour(paths["slac", "uct"], sent=10, received=10, rtt_ms=40.0)
    merge_hours(NOW)

    table = ask("table", by=by, metric="rtt_avg_ms", tick="day")

    assert {
        (cell["source"], cell["destination"]): (cell["value"], cell["paths"]) for cell in table["cells"]
    } == expected
    assert {cell["at"] for cell in table["cells"]} == {"2026-11-21T00:00:00Z"}


def test_a_table_of_throughput_has_no_packet_size(ask, paths):
    throughput(paths["slac", "cern"], HOUR, 94e6)

    table = ask("table", metric="throughput_median_bps", tick="hour")

    assert (table["packet_bytes"], table["tick"], table["cells"]) == (None, "hour", [])


def test_a_table_that_is_too_large_is_refused(ask, paths):
    since = (NOW - timedelta(days=1800)).isoformat()

    refused = ask("table", 422, by="site", tick="hour", since=since)

    # six paths in 1,800 days of 24 hours and the running hour
    assert "259,206 cells" in refused["detail"]
    assert ask("table", by="country", tick="hour", since=since)["cells"] == []


@pytest.mark.parametrize("query", [{"by": "planet"}, {"tick": "week"}, {"family": 5}, {"metric": "loss"}, {"size": 1}])
def test_an_invalid_table_is_answered_with_422(ask, paths, query):
    hour(paths["slac", "cern"], sent=10, received=10, rtt_ms=10.0)

    assert ask("table", 422, **query)["detail"]


def test_completeness_counts_planned_delivered_and_missing(ask, paths):
    slac, today = Site.objects.get(name="slac"), NOW.date()
    MeasurementPeriod.objects.create(
        measurement=Measurement.objects.get(path=paths["slac", "cern"], test__name="pinger"),
        packet_bytes=[100, 1000],
        every_s=600,
        started_at=HOUR - timedelta(days=1),
    )
    hour(paths["slac", "cern"], sent=60, received=60, rtt_ms=1.0, bursts=6, hour=HOUR - timedelta(hours=1))
    hour(paths["slac", "cern"], sent=60, received=60, rtt_ms=1.0, bursts=5, bursts_during_test=1)
    numbers = Multirange([Range(1, 11), Range(31, 41)])
    DeliveredDay.objects.create(site=slac, spool="a", day=today, sequences=numbers)

    by_day = {(row["site"], row["day"]): row for row in ask("completeness")}

    # yesterday from 12:00 on and today to 12:00: twelve hours of six cycles and two sizes each
    assert by_day["slac", "2026-11-20"] == {
        "site": "slac", "day": "2026-11-20", "delivered": 0, "missing": 0, "completeness_ratio": None,
        "bursts_planned": 144, "bursts_measured": 0, "bursts_during_test": 0, "coverage_ratio": 0.0,
    }  # fmt: skip
    assert by_day["slac", "2026-11-21"] == {
        "site": "slac", "day": "2026-11-21", "delivered": 20, "missing": 20, "completeness_ratio": 0.5,
        "bursts_planned": 144, "bursts_measured": 6, "bursts_during_test": 0, "coverage_ratio": 6 / 144,
    }  # fmt: skip
    assert len(by_day) == 2


@pytest.mark.parametrize(
    "query", [{"since": "2026-11-21", "until": "2026-11-21"}, {"since": "2020-01-01"}, {"since": "monday"}]
)
def test_an_invalid_time_of_completeness_is_answered_with_422(ask, query):
    assert ask("completeness", 422, **query)["detail"]


def test_refused_results_are_newest_first_and_limited(ask, paths):
    slac = Site.objects.get(name="slac")
    for number in range(3):
        RefusedResult.objects.create(
            site=slac,
            spool="a",
            sequence=number,
            refused_at=NOW + number * MINUTE,
            reason="path 99 is unknown",
            result={},
        )

    answer = ask("refused", limit=2)

    assert [(row["site"], row["sequence"], row["reason"]) for row in answer] == [
        ("slac", 2, "path 99 is unknown"),
        ("slac", 1, "path 99 is unknown"),
    ]
    assert ask("refused", 422, limit=0)["detail"]
