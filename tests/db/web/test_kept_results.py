"""What the pages of many sites keep: until the mesh changes, or for some seconds or minutes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.archive.models import BurstHour
from monitor.mesh.models import Measurement, Site
from monitor.overview.wide.mesh_results import MeshResult
from monitor.overview.wide.shared import SharedResults
from monitor.web import trends
from monitor.web.pages.table import load as table
from monitor.web.pages.table.load import TableQuery, load_table
from tests.db.incident_rows import NOW, watched

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
RUNNING = NOW.replace(minute=0, second=0, microsecond=0)
MANY, FEW = 1000, 3


@pytest.fixture
def paths():
    return list(watched().values())


@pytest.fixture
def sites(paths):
    return set(Site.objects.values_list("pk", flat=True))


@pytest.fixture
def hours():
    """The hours of all readers are forgotten before and after the test."""
    for kept in (trends._earlier, trends._newest):
        kept.clear()
    yield
    for kept in (trends._earlier, trends._newest):
        kept.clear()


def summary(path, hours_ago, received, now=RUNNING):
    BurstHour.objects.create(
        path_id=path.pk, packet_bytes=100, hour=now - hours_ago * HOUR, bursts=10, bursts_all_lost=0, sent=100,
        bursts_none_lost=0, bursts_during_test=0, bursts_not_measured=0, received=received, duplicates=0, reordered=0,
    )  # fmt: skip


def test_a_large_result_is_kept_until_the_mesh_changes(paths, django_assert_num_queries):
    loads = []

    def load():
        loads.append(1)
        return Measurement.objects.filter(retired_at=None).count()

    measurements = MeshResult(load, is_large=lambda count: count >= 5)
    assert [measurements.get() for _ in range(4)] == [6] * 4
    assert len(loads) == 2, "the first tells that it is large"

    Measurement.objects.filter(path=paths[0]).update(retired_at=NOW)
    assert [measurements.get() for _ in range(4)] == [5] * 4
    assert len(loads) == 3

    Measurement.objects.filter(path=paths[1]).update(retired_at=NOW)
    measurements.get()
    with django_assert_num_queries(2):  # small, so that nothing is looked up before it is loaded
        assert [measurements.get() for _ in range(2)] == [4, 4]


def test_a_result_of_a_large_mesh_that_is_loaded_early_is_not_loaded_for_a_reader(paths):
    loads = []
    measurements = MeshResult(lambda: loads.append(1) or 6, is_large=lambda count: count >= 5)

    measurements.load_early()

    assert [measurements.get() for _ in range(3)] == [6] * 3
    assert len(loads) == 1


def test_trends_of_many_sites_are_those_of_few(paths, sites, hours):
    for path in paths:
        for hours_ago in range(30):
            summary(path, hours_ago, 100 - (7 * path.pk + hours_ago) % 5)
    of_few = trends.of_sites(NOW, sites, FEW)

    assert len(of_few) == 3
    assert trends.of_sites(NOW, sites, MANY) == of_few
    one = sites.pop()
    assert trends.of_sites(NOW, {one}, MANY) == {one: of_few[one]}


def test_a_new_hour_of_many_sites_is_shown_while_earlier_ones_are_kept(paths, sites, hours):
    for hours_ago in (0, 5, 23):
        summary(paths[0], hours_ago, 90)
    now = RUNNING + 59 * timedelta(minutes=1)
    trends.of_sites(now, sites, MANY)
    later = now + timedelta(minutes=5)
    summary(paths[0], 0, 70, now=RUNNING + HOUR)

    (shown,) = trends.of_sites(later, sites, MANY).values()

    assert (shown.newest, shown.at) == ("30%", RUNNING + HOUR)
    assert trends.of_sites(later, sites, FEW) == trends.of_sites(later, sites, MANY)


def test_trends_of_many_sites_are_read_once_in_half_a_minute(paths, sites, hours, django_assert_num_queries):
    summary(paths[0], 0, 90)
    first = trends.of_sites(NOW, sites, MANY)

    with django_assert_num_queries(0):
        assert trends.of_sites(NOW + timedelta(seconds=29), sites, MANY) == first


def test_a_table_of_many_paths_is_shared_and_says_as_of_when(paths, monkeypatch):
    minutes = timedelta(minutes=5)
    shared = SharedResults(new_for=minutes, shown_for=minutes, is_large=lambda figures: len(figures.cells) >= 2)
    monkeypatch.setattr(table, "_shared", shared)
    summary(paths[0], 0, 90)
    summary(paths[1], 0, 80)
    first = load_table(TableQuery(), NOW)
    BurstHour.objects.update(received=50)

    soon = load_table(TableQuery(sort="source"), NOW + timedelta(minutes=1))
    later = load_table(TableQuery(), NOW + timedelta(minutes=2))
    afresh = load_table(TableQuery(), NOW + timedelta(minutes=5))

    assert sorted(row.worst.text for row in first.rows if row.worst.paths or row.cells[0].paths) == ["10%", "20%"]
    assert {row.source: row for row in soon.rows}.keys() == {row.source: row for row in first.rows}.keys()
    assert later.rows == first.rows
    assert afresh.rows != first.rows
    assert [view.lacks_since for view in (first, soon, later, afresh)] == [None, None, NOW, None]


def test_a_table_of_few_paths_is_that_of_now(paths):
    summary(paths[0], 0, 90)
    first = load_table(TableQuery(), NOW)
    BurstHour.objects.update(received=50)

    assert load_table(TableQuery(), NOW).rows != first.rows
