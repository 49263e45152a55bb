"""Groups × groups of a mesh of many sites: other metrics, the map, the wall screen; the grid's API in sheets."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection

from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.summaries import grouped_weighted_medians
from monitor.archive.models import BurstHour
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.tables import grid as figures_of_paths
from monitor.mesh.models import Measurement, Path, Test
from monitor.overview.wide.losses import load_place_grid
from monitor.overview.wide.places import load_places
from tests.db.pages_mesh import HOUR, NOW, throughput
from tests.db.web.test_pages_wide import cells, fetch, mesh, name_of
from tests.facts import lacks

__all__ = ["fetch", "mesh"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
OF_PACKETS = (
    Metric.RTT_MEDIAN, Metric.RTT_MIN, Metric.IPDV, Metric.UNREACHABILITY, Metric.ESTIMATE, Metric.MOS,
)  # fmt: skip


EARLIER_HOUR = """
INSERT INTO burst_hour (
    path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test, bursts_not_measured,
    sent, received, duplicates, reordered
)
SELECT
    path_id, packet_bytes, hour - interval '1 hour', bursts, bursts_all_lost, bursts_none_lost, 0, 0, sent, received,
    0, 0
FROM burst_hour
"""
DELAYS = """
UPDATE burst_hour SET
    received = received - number % 3, rtt_min_ms = 0.9 * rtt_ms, rtt_median_ms = rtt_ms, rtt_avg_ms = 1.1 * rtt_ms,
    ipdv_ms = number % 89 / 10.0
FROM (
    SELECT path_id AS its_path, hour AS its_hour, number, 1 + number % 1999 / 10.0 AS rtt_ms
    FROM (
        SELECT *, (path_id * 7919::bigint + extract(epoch FROM hour)::bigint / 3600 * 104729) % 1000003 AS number
        FROM burst_hour
    ) AS numbered
) AS made
WHERE path_id = its_path AND hour = its_hour AND received > 0
"""


@pytest.fixture
def delayed(mesh):
    """Two hours of round trips that differ by path and hour, with unlike numbers of packets; the silent path has
    none."""
    with connection.cursor() as cursor:
        cursor.execute(EARLIER_HOUR)
        cursor.execute(DELAYS)
    return mesh


def raise_incident(path: Path) -> Incident:
    incident = Incident.objects.create(rule="loss", cause="x", opened_at=HOUR, summary="loss")
    fields = {"rule": "loss", "sentence": "loss 50%", "figures": {}}
    IncidentPath.objects.create(incident=incident, path=path, added_at=HOUR, since=HOUR, **fields)
    return incident


@pytest.mark.parametrize("metric", OF_PACKETS)
def test_each_pair_has_the_worst_figure_of_its_paths(delayed, metric):
    shown = load_place_grid(load_places(), None, NOW, metric)

    place_of = {name_of(number): (*"abc", "none")[number % 4] for number in range(60)}
    ends = {path.pk: tuple(place_of[end] for end in names) for names, path in delayed.items()}
    values: dict[tuple[str, ...], list[float]] = {}
    for cell in figures_of_paths(metric, NOW - timedelta(hours=1), NOW, packet_bytes=100):
        if cell.value is not None and cell.received:
            values.setdefault(ends[cell.path_id], []).append(cell.value)
    worst_of = min if metric.lower_is_worse else max
    names = {"alps": "a", "baltic": "b", "coast": "c", "(none)": "none"}
    for (source, to), cell in shown.cells.items():
        pair = names[shown.places.names[source]], names[shown.places.names[to]]
        if pair == ("c", "c"):
            assert cell.worst.path_id == delayed[name_of(2), name_of(6)].pk, "all its packets are lost"
        else:
            assert cell.worst.value == pytest.approx(worst_of(values[pair])), pair


def test_a_median_over_hours_is_weighted_by_their_packets(mesh):
    path = mesh[name_of(1), name_of(0)]
    hours = [(40.0, 100), (30.0, 300)]
    BurstHour.objects.filter(path_id=path.pk).delete()
    for number, (rtt_ms, received) in enumerate(hours):
        fields = dict.fromkeys(("bursts_all_lost", "bursts_during_test", "bursts_not_measured", "duplicates"), 0)
        BurstHour.objects.create(
            path_id=path.pk, packet_bytes=100, hour=HOUR - timedelta(hours=number), bursts=30, bursts_none_lost=0,
            sent=300, received=received, rtt_median_ms=rtt_ms, reordered=0, **fields,
        )  # fmt: skip

    shown = load_place_grid(load_places(), None, NOW, Metric.RTT_MEDIAN)

    [expected] = grouped_weighted_medians([0, 0], *map(list, zip(*hours, strict=True)), 1)
    worst = max(shown.cells.values(), key=lambda cell: cell.worst.value or 0.0 if cell.worst.sent else 0.0).worst
    assert (worst.path_id, worst.value) == (path.pk, expected)


def test_groups_are_shown_in_the_metric_of_the_address(fetch, delayed):
    html = fetch("/?metric=rtt")

    style, text, said, address = cells(html)["alps", "baltic"]
    assert re.fullmatch(r"[\d.]+ ms 225", text)
    assert style.startswith("step-")
    assert lacks(said, "225 paths; the worst", "median RTT") == []
    assert "lose" not in said
    assert "metric=rtt" in address
    assert "Median RTT between groups" in html
    assert re.findall(r'<th scope="row"[^>]*><a href="/sites/([^/]*)/">', fetch(f"/?{address}"))


def test_bad_paths_are_counted_by_the_bound_of_the_metric(fetch, delayed):
    lost = delayed[name_of(1), name_of(0)]
    BurstHour.objects.filter(path_id=lost.pk, hour=HOUR).update(bursts_all_lost=6)

    _, text, said, _ = cells(fetch("/?metric=unreachability"))["baltic", "alps"]

    assert text.endswith("1 of 225")
    assert "1 of 225 paths was unreachable for 1% of the time or more" in said


def test_throughput_between_groups_is_that_of_their_tests(fetch, mesh):
    tcp = Test.objects.create(name="tcp", kind="throughput", every_s=3600, parameters={"duration_s": 10})
    for ends, rate_bps in (((0, 1), 90e6), ((4, 1), 20e6)):
        path = mesh[name_of(ends[0]), name_of(ends[1])]
        Measurement.objects.create(path=path, test=tcp, started_at=NOW)
        throughput(path, NOW - timedelta(hours=3), rate_bps)

    html = fetch("/?metric=throughput")

    shown = cells(html)
    assert set(shown) == {("alps", "baltic")}
    assert shown["alps", "baltic"][1] == "△ 20 Mbit/s 2"
    assert "period=day" in shown["alps", "baltic"][3]


def test_the_map_of_many_sites_has_a_line_for_each_two_groups(fetch, mesh):
    raise_incident(mesh[name_of(1), name_of(4)])

    html = unescape(fetch("/map/"))

    lines = dict(re.findall(r'<a href="\?(from=[^"]*)" aria-label="([^"]*)"', html))
    assert len(lines) == 2, "alps and baltic, and coast, where a path is down"
    [address] = [address for address in lines if "alps" in address and "baltic" in address]
    told = ("alps to baltic: 2 of 225 paths are in trouble", "site-004 to site-001: loses about 5% since 12:00:00 UTC")
    assert lacks(lines[address], *told, "baltic to alps: 0 of 225", "1 with an open incident") == []
    assert re.findall(r'class="map-sign[^>]*>(.)<', html) == ["△", "▲"]
    assert "loss now, packets of 100 bytes; counted 2026-11-21 12:30" in re.sub(r"<[^>]*>", "", html)
    drill = fetch(f"/map/?{address}")
    opened = {int(path_id) for path_id in re.findall(r'<a href="/paths/(\d+)/', drill)}
    assert opened == {mesh[name_of(a), name_of(b)].pk for a in range(0, 60, 4) for b in range(1, 60, 4)}


def test_the_wall_of_many_sites_has_groups(fetch, mesh):
    raise_incident(mesh[name_of(1), name_of(0)])

    html = fetch("/?wall=1")

    figures = re.findall(r'<text class="([^"]*)"[^>]*text-anchor="middle">([^<]*)</text>', html)
    assert ("loss-4", "△~5%") in figures
    assert ("none-lost", "▲0") in figures
    assert html.count('class="has-incident"') == 1
    assert {"alps", "baltic", "coast", "(none)"} <= set(re.findall(r'class="name"[^>]*>([^<]*)<', html))
    text = re.sub(r"<[^>]*>", "", html)
    assert "Loss of the worst path between groups, counted 2026-11-21 12:30" in text


def test_the_wall_of_two_groups_has_their_sites(fetch, mesh):
    html = fetch("/?wall=1&from=alps&to=baltic&period=hour")

    assert name_of(0) in html
    assert ">alps<" not in html


@pytest.mark.parametrize("period", ["hour", "now"])
def test_the_grid_can_be_read_in_sheets(client, mesh, period):
    def read(**choices):
        return client.get("/api/v1/grid", {"period": period, **choices}, headers={"host": "localhost"})

    whole = read().json()
    sheets = [read(limit=2000, offset=offset).json() for offset in (0, 2000, 4000)]

    assert whole["paths_in_all"] == 3540
    assert [len(sheet["cells"]) for sheet in sheets] == [2000, 1540, 0]
    assert [cell for sheet in sheets for cell in sheet["cells"]] == sorted(
        whole["cells"], key=lambda cell: cell["path_id"]
    )
    assert read(limit=10_001).status_code == 422
    of_group = read(group="alps", limit=3).json()
    assert (of_group["paths_in_all"], len(of_group["cells"])) == (210, 3)
    assert read(group="nowhere").status_code == 422
