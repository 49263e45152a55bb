"""The pages of a mesh of many sites: groups × groups, the grid of two groups, and the list of paths."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.utils import timezone

from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.archive.models import Burst, BurstHour
from monitor.mesh.models import Group, Mesh, Path, Site, Test
from monitor.overview.wide import losses
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack
from tests.db.module_rows import module_rows
from tests.db.pages_mesh import HOUR, NOW
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
NEWEST = NOW - timedelta(minutes=1)
GROUPS = ("alps", "baltic", "coast")
ROWS = (
    """
    INSERT INTO site (name, title, latitude_deg, longitude_deg, country, region, has_agent)
    SELECT 'site-' || lpad(n::text, 3, '0'), '', 0, 0, 'CH', 'Europe', TRUE FROM generate_series(0, %(sites)s - 1) AS n
    """,
    "INSERT INTO host (site_id, name, address, family, for_ping, for_throughput)"
    " SELECT id, name, '192.0.2.1', 4, TRUE, TRUE FROM site",
    """
    INSERT INTO path (source_id, destination_id, family)
    SELECT source.id, destination.id, 4 FROM host AS source, host AS destination WHERE source.id <> destination.id
    """,
    "INSERT INTO measurement (path_id, test_id, started_at) SELECT id, %(test)s, %(now)s FROM path",
    """
    INSERT INTO burst_hour (
        path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, sent, received, duplicates, reordered
    )
    SELECT id, 100, %(hour)s, 30, 0, 30, 0, 0, 300, 300, 0, 0 FROM path
    """,
    """
    INSERT INTO burst (
        path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms
    )
    SELECT id, %(newest)s, 100, 'measured', 10, 10, 0, 0, FALSE, array_fill(20::real, ARRAY[10]) FROM path
    """,
    """
    INSERT INTO path_track (path_id, signal, way, packet_bytes, condition, newest_at, segments, outages)
    SELECT id, 0, '', 0, 0, %(newest)s, jsonb_build_array(jsonb_build_array(0, since, NULL, since, 300, 0, 1.0)), '[]'
    FROM path, (SELECT extract(epoch FROM %(hour)s::timestamptz) AS since) AS begin
    """,
)


def name_of(number: int) -> str:
    return f"site-{number:03}"


def make_wide(sites: int) -> dict[tuple[str, str], Path]:
    """A full mesh of so many sites, pinged each minute, every fourth without a group and the others in three; an hour
    without loss on each path, which is normal."""
    Mesh.objects.create(name="Wide", applied_at=NOW)
    ping = Test.objects.create(
        name="pinger", kind="ping", every_s=60, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0}
    )
    with connection.cursor() as cursor:
        for statement in ROWS:
            cursor.execute(statement, {"sites": sites, "test": ping.pk, "now": NOW, "hour": HOUR, "newest": NEWEST})
        # As autovacuum does: without statistics the planner expects a row of each table, and loops for minutes.
        cursor.execute("ANALYZE site, host, path, measurement, burst, burst_hour, path_track")
    made = list(Site.objects.order_by("name"))
    for number, group in enumerate(GROUPS):
        Group.objects.create(name=group, shape="mesh").sites.set(made[number::4])
    Group.objects.create(name="all", shape="mesh").sites.set([site for n, site in enumerate(made) if n % 4 < 3])
    return {(path.source.name, path.destination.name): path for path in Path.objects.with_hosts()}


@pytest.fixture(scope="module")
def mesh(django_db_setup, django_db_blocker):
    """Sixty sites with planted trouble: from alps (0, 4, …) to baltic (1, 5, …) three paths lose 2%, 5% and 0.9%;
    within coast (2, 6, …) one is down and two have no data."""
    with module_rows(django_db_blocker):
        paths = make_wide(60)
        lose(paths[name_of(0), name_of(1)], 6)
        lose(paths[name_of(4), name_of(1)], 15)
        lose(paths[name_of(8), name_of(5)], 2)
        lose(paths[name_of(2), name_of(6)], 300)
        for to in (10, 14):
            for model in (BurstHour, Burst, PathTrack):
                model.objects.filter(path_id=paths[name_of(2), name_of(to)].pk).delete()
        yield paths


def lose(path: Path, packets: int) -> None:
    """Of 300, since the hour: from 1% on the path is bad, and dead without any reply."""
    all_lost = 30 if packets == 300 else 0
    BurstHour.objects.filter(path_id=path.pk).update(received=300 - packets, bursts_all_lost=all_lost)
    condition = Condition.DEAD if all_lost else Condition.BAD if packets >= 3 else Condition.NORMAL
    since_s = HOUR.timestamp()
    state = {Condition.DEAD: DEAD, Condition.BAD: LOSSY}.get(condition, CLEAN)
    segments = [[state, since_s, since_s, since_s, 300, packets, 1.0]]
    PathTrack.objects.filter(path=path).update(condition=condition, segments=segments)


@pytest.fixture
def fetch(client):
    def get(address="/", status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return get


def cells(html: str) -> dict[tuple[str, str], tuple[str, str, str, str]]:
    """Class, text, sentence and address of each cell by the groups of its ends."""
    pattern = r'<td class="([^"]*)"><a href="\?([^"]*)" aria-label="(([^" ]+) to ([^":]+): [^"]*)">(.*?)</a></td>'
    return {
        (source, to): (style, " ".join(re.sub(r"<[^>]*>", " ", content).split()), unescape(said), unescape(address))
        for style, address, said, source, to, content in re.findall(pattern, html)
    }


def names(html: str) -> list[str]:
    """The paths of a list, in its order."""
    return re.findall(r">(site-\d+ → site-\d+)</a>", html)


def test_many_sites_are_shown_as_groups(fetch, mesh):
    html = fetch()

    shown = cells(html)
    assert set(shown) == {(source, to) for source in (*GROUPS, "(none)") for to in (*GROUPS, "(none)")}
    style, text, said, _ = shown["alps", "baltic"]
    assert (style, text) == ("loss-4", "△ ~5% 2 of 225")
    told = ("2 of 225 paths are in trouble", "site-004 to site-001: loses about 5% since 12:00:00 UTC")
    assert lacks(said, *told, "0 of 10, so below") == []
    assert shown["baltic", "alps"][:2] == ("none-lost", "0 0 of 225")


def test_a_cell_tells_a_path_that_is_down_and_those_not_measured(fetch, mesh):
    style, text, said, _ = cells(fetch())["coast", "coast"]

    assert (style, text) == ("total-loss", "△ all lost 1 of 210, 2 –")
    told = ("1 of 210 paths is in trouble", "2 not measured", "site-002 to site-006: dead since 12:00:00 UTC")
    assert lacks(said, *told) == []


def test_sites_without_a_group_are_a_row_of_their_own(fetch, mesh):
    lose(mesh[name_of(3), name_of(7)], 30)

    assert cells(fetch())["(none)", "(none)"][1] == "△ 10% 1 of 210"


def test_the_page_counts_all_paths_of_the_mesh(fetch, mesh):
    text = re.sub(r"<[^>]*>", "", fetch())

    assert lacks(text, "3,540 paths, 60 sites", "3 are in trouble", "2 not measured", "counted 2026-11-21 12:30") == []


def test_a_path_with_an_open_incident_marks_its_cell(fetch, mesh):
    path = mesh[name_of(1), name_of(0)]
    incident = Incident.objects.create(rule="loss", cause="x", opened_at=HOUR, summary="loss")
    fields = {"rule": "loss", "sentence": "loss 50%", "figures": {}}
    IncidentPath.objects.create(incident=incident, path=path, added_at=HOUR, since=HOUR, **fields)

    style, text, said, _ = cells(fetch())["baltic", "alps"]

    assert (style, text) == ("none-lost incident", "▲ 0 0 of 225")
    assert "1 with an open incident" in said


def test_a_cell_leads_to_the_grid_of_its_sites(fetch, mesh):
    html = fetch("/?" + cells(fetch())["alps", "baltic"][3])

    rows = re.findall(r'<th scope="row"[^>]*><a href="/sites/([^/]*)/">', html)
    assert rows == [name_of(number) for number in range(0, 60, 4)]
    assert f'id="p{mesh[name_of(4), name_of(1)].pk}"' in html
    assert f'id="p{mesh[name_of(1), name_of(4)].pk}"' not in html


def test_groups_with_too_many_paths_lead_to_their_list(client, mesh, monkeypatch):
    monkeypatch.setattr("monitor.web.pages.grid.places.MOST_CELLS", 200)

    answer = client.get("/?from=alps&to=baltic", headers={"host": "localhost"})

    assert (answer.status_code, answer.url) == (302, "/paths/?from=alps&to=baltic")


def test_an_unknown_group_is_refused_with_those_there_are(fetch, mesh):
    assert lacks(fetch("/?from=alps&to=nowhere", 404), "nowhere", "alps, baltic, coast") == []
    assert lacks(fetch("/paths/?from=nowhere", 404), "nowhere", "alps, baltic, coast") == []


def test_the_list_has_the_worst_path_first_and_pages(fetch, mesh):
    first, second = fetch("/paths/"), fetch("/paths/?page=2")

    assert names(first)[:4] == [f"{name_of(source)} → {name_of(to)}" for source, to in ((2, 6), (4, 1), (0, 1), (8, 5))]
    assert "1 to 25 of 3540" in first
    assert len(names(second)) == 25
    assert not set(names(first)) & set(names(second))


def test_the_list_can_be_of_two_groups_of_a_site_and_of_bad_paths(fetch, mesh):
    assert names(fetch("/paths/?from=alps&to=baltic&paths=bad")) == ["site-004 → site-001", "site-000 → site-001"]
    assert "1 to 25 of 118" in fetch("/paths/?name=SITE-007")
    assert "No such path with “nowhere”" in fetch("/paths/?name=nowhere")


def test_the_list_ends_with_paths_without_data(fetch, mesh):
    last = fetch("/paths/?page=142")

    assert set(names(last)[-2:]) == {"site-002 → site-010", "site-002 → site-014"}
    assert last.count("no data") >= 2


def test_a_wide_mesh_of_one_group_has_a_grid_of_sites_or_a_list(client, fetch, mesh, monkeypatch):
    Group.objects.exclude(name="all").delete()
    Group.objects.get().sites.set(Site.objects.all())

    assert 'id="drawn"' in fetch() or 'id="matrix"' in fetch()
    monkeypatch.setattr("monitor.web.pages.grid.places.MOST_CELLS", 200)
    assert client.get("/", headers={"host": "localhost"}).url.startswith("/paths/")


def test_a_shared_result_is_loaded_again_beside_its_readers(monkeypatch):
    loads: list[int] = []
    results = losses.SharedResults(
        new_for=timedelta(seconds=10), shown_for=timedelta(minutes=5), is_large=lambda number: number > 0
    )
    now = timezone.now()

    def load() -> int:
        loads.append(1)
        return len(loads)

    monkeypatch.setattr(results, "_load_beside", results._loaded)
    assert results.get("a", now, load) == 1
    assert results.get("a", now + timedelta(seconds=9), load) == 1
    assert results.get("a", now + timedelta(seconds=20), load) == 1
    assert results.get("a", now + timedelta(seconds=21), load) == 2
    assert results.get("a", now + timedelta(minutes=6), load) == 3


def test_the_table_of_many_sites_is_by_group(fetch, mesh):
    html = fetch("/table/")

    assert "alps" in html
    assert name_of(0) not in html
