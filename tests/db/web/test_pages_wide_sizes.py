"""The pages of meshes of other sizes: what grows with the sites, and what does not."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstDay, BurstHour
from monitor.mesh.models import Measurement, MeasurementPeriod, Path
from monitor.web.pages.status import view as status
from tests.db.pages_mesh import HOUR, NOW
from tests.db.web.test_pages_wide import cells, fetch, make_wide, name_of

__all__ = ["fetch"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
MIDNIGHT = NOW.replace(hour=0, minute=0)


def test_a_small_mesh_has_its_grid_of_sites(fetch):
    make_wide(12)

    html = fetch()

    assert cells(html) == {}
    assert "/sites/site-000/" in html


def cost(client, address: str) -> tuple[int, int]:
    """Queries and bytes of a page."""
    client.get(address, headers={"host": "localhost"})
    with CaptureQueriesContext(connection) as captured:
        body = client.get(address, headers={"host": "localhost"}).content
    return len(captured), len(body)


@pytest.mark.parametrize("address", ["/", "/paths/"])
def test_size_and_queries_do_not_grow_with_the_sites(client, address):
    with transaction.atomic():
        make_wide(48)
        before_queries, before_bytes = cost(client, address)
        transaction.set_rollback(True)

    make_wide(68)

    queries, size_bytes = cost(client, address)
    assert queries == before_queries
    assert size_bytes == pytest.approx(before_bytes, rel=0.02)


def test_sites_are_divided_into_sheets(fetch):
    make_wide(102)

    first, last = fetch("/sites/"), fetch("/sites/?page=5")

    assert (first.count('class="panel card"'), last.count('class="panel card"')) == (25, 2)
    assert "1 to 25 of 102" in first


def make_incident(path, at):
    incident = Incident.objects.create(rule="loss", cause="x", opened_at=at, summary="loss")
    fields = {"rule": "loss", "sentence": "loss 50%", "figures": {}}
    IncidentPath.objects.create(incident=incident, path=path, added_at=at, since=at, **fields)


def test_the_status_has_the_worst_sites_of_many(fetch):
    paths = make_wide(102)
    make_incident(paths[name_of(101), name_of(100)], HOUR)
    status.forget()

    html = fetch("/status/")

    listed = re.findall(r"<h3>(site-\d+) ", html)
    assert len(listed) == 100
    assert set(listed[:2]) == {name_of(100), name_of(101)}
    assert "2 more" in html
    status.forget()


@pytest.fixture
def kept_status(monkeypatch):
    """The status page of many sites, whose bars are counted in the reader's own thread where they would be beside."""
    for module in (status, status.shares):
        monkeypatch.setattr(module, "SHARED_FROM_SITES", 20)
    monkeypatch.setattr(status.shares._earlier, "_load_beside", lambda key, now, load: None)
    monkeypatch.setattr(status.shares._counted, "_load_beside", status.shares._counted._loaded)
    status.forget()
    yield
    status.forget()


def test_older_bars_of_many_sites_say_as_of_when_beside_the_state_of_now(kept_status):
    make_wide(24)
    began, until = NOW, NOW + timedelta(minutes=4, seconds=59)

    counted = [status.load_status(at).counted_at for at in (began, began + timedelta(seconds=29), until, until)]
    make_incident(Path.objects.order_by("id")[0], until)
    shown = status.load_status(until + timedelta(seconds=1))

    assert counted == [began, began, began, until]
    assert (shown.counted_at, len(shown.open)) == (until, 1)
    assert status.load_status(until + timedelta(minutes=5)).counted_at == until + timedelta(minutes=5)


def test_a_status_with_kept_earlier_bars_is_that_of_counting_all(kept_status, monkeypatch):
    make_wide(24)
    began_at = NOW - timedelta(days=5)
    Measurement.objects.update(started_at=began_at)
    MeasurementPeriod.objects.bulk_create(
        MeasurementPeriod(measurement=measurement, every_s=60, packet_bytes=[100], started_at=began_at)
        for measurement in Measurement.objects.all()
    )
    path = Path.objects.order_by("id")[0]
    for hours, bursts in ((1, 30), (2, 10), (7, 60)):
        BurstHour.objects.create(**summary(path, HOUR - timedelta(hours=hours), bursts))
    for days, bursts in ((1, 1440), (2, 700), (4, 200)):
        BurstDay.objects.create(**summary(path, MIDNIGHT - timedelta(days=days), bursts, "day"))

    status.load_status(NOW - timedelta(minutes=70))
    kept = status.load_status(NOW)
    monkeypatch.setattr(status.shares, "SHARED_FROM_SITES", 1000)
    counted = status.load_status(NOW)

    assert (kept.counted_at, kept.earlier_at) == (NOW, NOW - timedelta(minutes=70))
    assert (counted.counted_at, counted.earlier_at) == (None, None)
    assert kept.sites == counted.sites
    assert "of data received" in counted.sites[0].hours.sentence


def summary(path, at, bursts, step="hour"):
    fields = ("bursts_all_lost", "bursts_during_test", "bursts_not_measured", "duplicates", "reordered")
    packets = {"sent": 10 * bursts, "received": 10 * bursts, "bursts": bursts, "bursts_none_lost": bursts}
    return {"path_id": path.pk, "packet_bytes": 100, step: at, **dict.fromkeys(fields, 0), **packets}


@pytest.mark.parametrize("address", ["/map/", "/?wall=1", "/?metric=rtt"])
def test_no_page_of_places_reads_the_figures_of_all_paths(client, address):
    make_wide(44)

    with CaptureQueriesContext(connection) as captured:
        client.get(address, headers={"host": "localhost"})

    assert not [query["sql"] for query in captured if "FROM path WHERE" in query["sql"] and "LIMIT" in query["sql"]]
    of_ids = [query["sql"] for query in captured if query["sql"].startswith('SELECT "path"."id"')]
    assert all('"path"."id" IN (' in sql for sql in of_ids)
