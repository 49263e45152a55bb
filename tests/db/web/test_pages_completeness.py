"""The completeness page in text and class, and the banner on all pages while nothing can be stored."""

import re
from datetime import timedelta

import pytest
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from monitor.agents.models import AgentHealth
from monitor.archive.models import DeliveredDay, RefusedResult
from monitor.archive.upkeep import trouble
from monitor.mesh.models import Measurement, MeasurementPeriod, Site
from tests.db.merging import merge_hours
from tests.db.pages_mesh import HOUR, NOW, hour
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
TODAY = NOW.date()
QUERIES = 7
"""The mesh, its sites, deliveries, coverage, refused and dropped results; freshness."""


@pytest.fixture(autouse=True)
def data(settings, tmp_path):
    settings.DATA_DIR = tmp_path


@pytest.fixture
def page(client):
    def get(address="/completeness/", status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return get


def plan(path, days):
    """A burst of 100 bytes each minute, since so many days ago."""
    MeasurementPeriod.objects.create(
        measurement=Measurement.objects.get(path=path, test__name="pinger"),
        packet_bytes=[100],
        every_s=60,
        started_at=HOUR.replace(hour=0) - timedelta(days=days),
    )


def measured_day(path, days_ago, bursts):
    hour(
        path,
        sent=10 * bursts,
        received=10 * bursts,
        bursts=bursts,
        hour=HOUR.replace(hour=0) - timedelta(days=days_ago),
    )
    merge_hours(NOW)


def delivered(name, days_ago, *ranges):
    DeliveredDay.objects.create(
        site=Site.objects.get(name=name),
        spool="a",
        day=TODAY - timedelta(days=days_ago),
        sequences=Multirange([Range(*numbers) for numbers in ranges]),
    )


def cells(html, site):
    """Class and text of each day's cell of a site, newest first."""
    row = re.search(rf'<th scope="row"[^>]*>{site}</th>(.*?)</tr>', html, re.DOTALL)[1]
    return [
        (style, re.sub(r"<[^>]*>", " ", text).split())
        for style, text in re.findall(r'<td class="([^"]*)">(.*?)</td>', row)
    ]


def test_a_day_has_its_coverage_counts_and_missing_results(page, paths):
    plan(paths["slac", "cern"], days=3)
    measured_day(paths["slac", "cern"], 1, 1440)
    measured_day(paths["slac", "cern"], 2, 1200)
    delivered("slac", 2, (1, 1201))
    delivered("slac", 1, (1241, 2681))

    cells_shown = cells(page(), "slac")

    assert cells_shown[1] == ("none-lost", ["100%", "1,440", "of", "1,440", "▼", "40", "missing"])
    assert cells_shown[2] == ("loss-4", ["83.3%", "1,200", "of", "1,440"])
    assert cells_shown[3] == ("no-data", ["none", "0", "of", "1,440"])
    assert cells_shown[4] == ("unplanned", ["·"])


def test_the_running_day_counts_to_its_last_full_hour(page, paths):
    plan(paths["slac", "cern"], days=1)
    hour(paths["slac", "cern"], sent=600, received=600, bursts=60, hour=HOUR - timedelta(hours=1))
    hour(paths["slac", "cern"], sent=300, received=300, bursts=30)

    assert cells(page(), "slac")[0] == ("loss-5", ["8.3%", "60", "of", "720"])


def test_a_day_that_has_just_begun_is_not_called_unplanned(page, paths, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: HOUR.replace(hour=0, minute=20))
    plan(paths["slac", "cern"], days=0)
    delivered("slac", 0, (1, 20))

    answer = page()
    assert cells(answer, "slac")[0] == ("unplanned", ["pending", "19", "received"])
    legend = re.search(r'<ul class="legend".*?</ul>', str(answer), re.DOTALL)
    assert legend is not None
    assert "pending" in legend.group()


def test_results_without_a_plan_say_so(page, paths):
    delivered("slac", 1, (1, 11))

    assert cells(page(), "slac")[1] == ("not-measured", ["no", "plan", "10", "received"])


def test_the_overview_sums_all_sites(page, paths):
    plan(paths["slac", "cern"], days=1)
    plan(paths["cern", "slac"], days=1)
    measured_day(paths["slac", "cern"], 1, 1440)
    delivered("cern", 1, (8, 9))

    overview = re.sub(r"<[^>]*>", "", re.search(r'<ul class="counts">(.*?)</ul>', page(), re.DOTALL)[1])

    # of two days of 1,440 and twice the 720 of the running day
    assert lacks(overview, "33.3%", "bursts measured") == []
    assert "7 results missing" in overview


def test_refused_results_are_listed_newest_first_with_a_limit(page, paths):
    slac = Site.objects.get(name="slac")
    RefusedResult.objects.bulk_create(
        RefusedResult(
            site=slac,
            spool="a",
            sequence=n,
            refused_at=NOW + timedelta(seconds=n),
            reason=f"path {n} is unknown",
            result={},
        )
        for n in range(120)
    )

    listed = re.findall(r"path (\d+) is unknown", page())

    assert listed == [str(n) for n in range(119, 19, -1)]


def test_the_page_goes_back_as_far_as_requested(page, paths):
    assert len(cells(page("/completeness/?days=30"), "slac")) == 30
    assert lacks(page("/completeness/?days=8", 404), "days=8", " 7, 14, 30") == []


def test_its_queries_are_the_same_for_any_number_of_sites(page, paths, django_assert_num_queries):
    measured_day(paths["slac", "cern"], 3, 5)
    with django_assert_num_queries(QUERIES):
        page()
    for path in paths.values():
        plan(path, days=2)
        measured_day(path, 1, 5)
    with django_assert_num_queries(QUERIES):
        page()


@pytest.mark.parametrize("address", ["/", "/completeness/"])
def test_every_page_says_why_nothing_can_be_stored(page, paths, address):
    assert "Nothing can be stored" not in page(address)

    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    assert lacks(page(address), "Nothing can be stored", "database is full", "last seen") == []
    trouble.clear_trouble()
    assert "Nothing can be stored" not in page(address)


def test_the_login_page_does_not_mention_problems(page):
    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    assert "Nothing can be stored" not in page("/login/")


def test_results_that_agents_dropped_are_counted(page, paths):
    plan(paths["slac", "cern"], 1)
    AgentHealth.objects.create(
        site=Site.objects.get(name="slac"), accepted_at=NOW, agent_version="1", queued=0, dropped=1234
    )

    html = page()
    assert lacks(html, "<b>1,234</b> dropped by agents") == []
    assert "no missing results" not in html
