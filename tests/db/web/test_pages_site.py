"""A site's page: its contact, its paths in both directions with the worst first, its days and its incidents."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Host, Path, Site
from tests.db.merging import roll_up_raw
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, throughput
from tests.db.web.test_pages_grid import cell
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
QUERIES = 22


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return fetch


def rows(html):
    """The other site and the texts of the cells of each row."""
    body = re.search(r'<tbody id="ways".*?</tbody>', html, re.DOTALL)[0]
    return [
        [
            unescape(" ".join(re.sub(r"<[^>]*>", " ", cell).split()))
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]


def test_both_directions_are_side_by_side(get, paths):
    hour(paths["cern", "slac"], sent=1000, received=979, rtt_ms=150.0, estimate_bps=9e5, estimate_is_floor=False)
    hour(paths["slac", "cern"], sent=1000, received=1000, rtt_ms=151.0, estimate_bps=2e6, estimate_is_floor=True)
    throughput(paths["slac", "cern"], HOUR + MINUTE, 90e6)
    for minutes, rate in ((1, 28.9e6), (2, 1.05e6)):
        throughput(paths["cern", "slac"], HOUR + minutes * MINUTE, rate)

    (slac, uct) = rows(get("/sites/cern/"))

    assert slac[0] == "slac"
    assert slac[1:3] == ["2.1%", "150.0 ms"]
    assert slac[5:7] == ["< 0.3%", "151.0 ms"]
    assert slac[7].startswith("≥ ")
    assert (slac[4], slac[8]) == ("1.05 Mbit/s to 28.9 Mbit/s", "90 Mbit/s")
    assert uct == ["uct", "no data", "–", "–", "–", "no data", "–", "–", "–"]


def test_incidents_are_sorted_before_total_loss_and_loss(get, paths):
    hour(paths["uct", "slac"], sent=1000, received=999, rtt_ms=1.0)
    hour(paths["uct", "cern"], sent=1000, received=0, bursts_all_lost=100)
    assert [row[0] for row in rows(get("/sites/uct/"))] == ["cern", "slac"]

    incident = Incident.objects.create(rule="loss", cause="uct", opened_at=HOUR, summary="loss", title="uct loses 4%")
    IncidentPath.objects.create(
        incident=incident,
        path=paths["uct", "slac"],
        added_at=HOUR,
        rule="loss",
        sentence="loss",
        since=HOUR,
        figures={},
    )
    html = get("/sites/uct/")

    assert [(row[0], row[1]) for row in rows(html)] == [("slac", "▲ now no data"), ("cern", "all lost")]
    assert incident.title in html


@pytest.mark.parametrize(("lost", "shown"), [(10, "all lost"), (3, "~30%")])
def test_a_path_under_an_incident_has_the_loss_of_now(get, paths, monkeypatch, lost, shown):
    """Of each 10 packets of the newest 8 minutes of the hour so many are lost; the 52 before are clean: by 3 each,
    30% since then, 24 of the 600 of the day, 4%."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    path = paths["slac", "cern"]
    for minute in range(60, 0, -1):
        for other in paths.values():
            few = lost if other == path and minute <= 8 else 0
            burst(other, NOW - minute * MINUTE, *[10.0] * (10 - few), *[None] * few)
    roll_up_raw(NOW)
    evaluate(NOW)

    way = rows(get("/sites/cern/?period=day"))[0]

    assert {row.path_id for row in Incident.objects.get(closed_at=None).paths.all()} == {path.pk}
    assert way[0] == "slac"
    assert way[5] == f"▲ now {shown}" == f"▲ now {cell(get('/'), path)[1].removeprefix('▲')}"
    assert way[1].startswith("< ")


def test_of_several_paths_between_sites_the_worst_is_shown(get, paths):
    second = Host.objects.create(site=Site.objects.get(name="slac"), name="slac-2", address="192.0.2.99", family=4)
    other = Path.objects.create(source=paths["cern", "slac"].source, destination=second, family=4)
    hour(paths["cern", "slac"], sent=1000, received=999, rtt_ms=1.0)
    hour(other, sent=1000, received=900, rtt_ms=1.0)

    html = get("/sites/cern/")

    assert rows(html)[0][1] == "10%"
    assert f"/paths/{other.pk}/" in html


def test_it_shows_the_contact_or_that_there_is_none(get, paths):
    assert "No contact configured" in get("/sites/cern/")
    Site.objects.filter(name="cern").update(contact="noc@cern.example <b>")
    assert "Contact: <b>noc@cern.example &lt;b&gt;</b>" in get("/sites/cern/")


def test_a_site_without_an_agent_has_no_days(get, paths):
    Site.objects.filter(name="uct").update(has_agent=False)
    html = get("/sites/uct/")

    assert "This site has no agent" in html
    assert "day-cells" not in html


def test_an_agent_that_never_delivered_has_a_cell_per_day(get, paths):
    html = get("/sites/cern/")

    assert "its agent never reported" in html
    assert len(re.findall(r"<li class=.*?<time", re.search(r'<ul class="day-cells".*?</ul>', html, re.DOTALL)[0])) == 7


def test_an_unknown_site_is_reported(get, paths):
    assert lacks(get("/sites/mars/", 404), "no site mars", "/sites/") == []


def test_the_grid_links_to_it(get, paths):
    assert get("/").count('<a href="/sites/cern/">cern</a>') == 2


def test_it_has_a_fixed_query_count_for_any_paths(get, paths, django_assert_num_queries):
    hour(paths["uct", "slac"], sent=1000, received=999, rtt_ms=1.0)
    get("/sites/uct/")
    with django_assert_num_queries(QUERIES):
        get("/sites/uct/")
    for path in paths.values():
        hour(path, sent=1000, received=999, rtt_ms=1.0, hour=HOUR - timedelta(hours=1))
    with django_assert_num_queries(QUERIES):
        get("/sites/uct/")
