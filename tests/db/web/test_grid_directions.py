"""The grid's cells of paths that are not only pinged: loss by direction from STAMP, and the words for other packets."""

import re

import pytest

from monitor.archive.models import DirectionBurst
from monitor.mesh.models import Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.merging import roll_up_raw
from tests.db.mesh_of_three import batch
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst
from tests.db.stamp_rows import delivered_stamp, stamp_burst
from tests.db.web.test_pages_grid import GRID_QUERIES, cell
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def page(client):
    def get(query=""):
        answer = client.get(f"/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def oneway():
    return MeshTest.objects.create(name="oneway", kind="stamp", every_s=60, parameters={"packet_bytes": 200})


def measure(path, test):
    Measurement.objects.create(path=path, test=test, started_at=HOUR)


def ping(path, minutes=8):
    for minute in range(minutes):
        burst(path, NOW - (minute + 1) * MINUTE, *[10.0] * 10)


def lose_forward(path, minutes=range(1, 6), lost=2, number=1):
    """Cycles of 60 packets before now, each with packets lost forward."""
    results = [stamp_burst(at=NOW - minute * MINUTE, sent=60, forward_lost=lost, reverse_lost=0) for minute in minutes]
    rows = [delivered_stamp(path, result, 100 * number + place) for place, result in enumerate(results)]
    assert store(path.source.site_id, batch(*rows, number=number), NOW).refused == ()


@pytest.mark.parametrize("query", ["", "?period=hour", "?period=day"])
def test_a_cell_tells_the_loss_of_each_direction(page, paths, oneway, query):
    path = paths["slac", "cern"]
    measure(path, oneway)
    ping(path)
    lose_forward(path)
    roll_up_raw(NOW)

    sentence = cell(page(query), path)[2]

    # 10 of 300 lost on the way there; 3 / 290 is 1.03%.
    assert sentence.endswith(" · forward 10 of 300 lost, reverse 0 of 290, so below 1.1% (95%), by STAMP")
    assert "STAMP" not in cell(page(query), paths["cern", "slac"])[2]
    assert "STAMP" not in cell(page(f"{query or '?'}&metric=rtt"), path)[2]


def test_a_cell_without_lost_pings_names_no_loss_beside_lost_stamp_packets(page, paths, oneway):
    path, other = paths["slac", "cern"], paths["cern", "slac"]
    for each in (path, other):
        measure(each, oneway)
        ping(each)
    lose_forward(path, lost=1)
    lose_forward(other, lost=0, number=2)

    html = page()

    sentence = cell(html, path)[2]
    assert lacks(sentence, "no round trip lost", "0 of 80", "forward 5 of 300 lost") == []
    assert "no loss" not in sentence
    assert lacks(cell(html, other)[2], "no loss", "0 of 80", "forward 0 of 300") == []


@pytest.mark.parametrize("query", ["", "?period=hour", "?period=day"])
def test_lost_packets_of_unknown_direction_are_told_instead_of_a_bound(page, paths, oneway, query):
    """Two of eight cycles were lost as a whole: nobody knows how far their packets came."""
    path = paths["slac", "cern"]
    measure(path, oneway)
    ping(path)
    results = [
        stamp_burst(at=NOW - minute * MINUTE, sent=60, undecided=60 if minute in (3, 4) else 0)
        for minute in range(1, 9)
    ]
    rows = [delivered_stamp(path, result, 100 + place) for place, result in enumerate(results)]
    assert store(path.source.site_id, batch(*rows, number=1), NOW).refused == ()
    roll_up_raw(NOW)

    sentence = cell(page(query), path)[2]

    told = " · forward 0 of 360 lost, reverse 0 of 360 lost, the direction of 120 more lost is not known, by STAMP"
    assert sentence.endswith(told)


def test_the_api_has_the_counts_of_each_direction(client, paths, oneway):
    path = paths["slac", "cern"]
    measure(path, oneway)
    ping(path)
    lose_forward(path)

    answer = client.get("/api/v1/grid?period=now", headers={"host": "localhost"}).json()

    counts = {row["path_id"]: row["directions"] for row in answer["cells"]}
    assert counts[path.pk] == {
        "sent": 300,
        "forward_lost": 10,
        "reverse_lost": 0,
        "bursts": 5,
        "forward_lossy": 5,
        "reverse_lossy": 0,
        "undecided": 0,
    }
    assert counts[paths["cern", "slac"].pk] is None


def test_a_refresh_by_changes_has_the_directions(page, client, paths, oneway):
    path = paths["slac", "cern"]
    measure(path, oneway)
    ping(path)
    version = re.search(r'data-version="([^"]+)"', page())[1]
    lose_forward(path)

    changes = client.get(f"/grid/changes?since={version}", headers={"host": "localhost"}).json()

    assert len(changes["cells"]) == 1
    assert lacks(*changes["cells"].values(), "forward 10 of 300 lost", "by STAMP") == []


def test_a_path_that_is_down_tells_no_direction(page, paths, oneway):
    """Nobody knows how far its packets come; those that were counted before do not tell."""
    path = paths["slac", "cern"]
    measure(path, oneway)
    for minute in range(1, 6):
        burst(path, NOW - minute * MINUTE, *[None] * 10)
    lose_forward(path, minutes=range(6, 9))

    sentence = cell(page(), path)[2]
    assert "all lost" in sentence
    assert "STAMP" not in sentence


def test_a_cell_names_packets_that_are_no_pings(page, paths):
    path, pinged = paths["slac", "cern"], paths["cern", "slac"]
    https = MeshTest.objects.create(
        name="https", kind="tcp-ping", every_s=60, parameters={"port": 443, "packet_bytes": [100]}
    )
    Measurement.objects.filter(path=path, test__kind="ping").delete()
    measure(path, https)
    ping(path)
    ping(pinged)

    html = page()

    assert cell(html, path)[2].count(", by TCP handshake to port 443")
    assert " by " not in cell(html, pinged)[2]
    assert "TCP handshake" not in page("?metric=throughput")


def test_directions_take_one_query_for_any_number_of_paths(page, paths, oneway, django_assert_num_queries):
    for number, path in enumerate(paths.values(), 1):
        measure(path, oneway)
        ping(path, minutes=1)
        lose_forward(path, number=number)
        with django_assert_num_queries(GRID_QUERIES + 1):
            page("?period=hour")
    assert DirectionBurst.objects.count() == 5 * len(paths)
    with django_assert_num_queries(GRID_QUERIES + 1):
        page()
