"""The grid, the worst paths and PingER's tables, computed by hand; and raw bursts between two times."""

from dataclasses import astuple
from datetime import timedelta

import pytest
from django.db import connection

from monitor.archive.queries import recent, tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import path_series, path_summaries, raw_bursts
from monitor.archive.queries.tables import Grouping, Tick
from monitor.archive.queries.throughput.series import newest_throughput
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Group, Host, Path, Site
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
DAY = HOUR.replace(hour=0)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh():
    mesh = make_mesh()
    for name, country, region in (
        ("slac", "US", "North America"),
        ("cern", "CH", "Europe"),
        ("anl", "US", "North America"),
    ):
        Site.objects.filter(name=name).update(country=country, region=region)
    return mesh


@pytest.fixture
def deliver(mesh):
    """Store these (path, result) from the agent of slac and compute all summaries."""

    def do(*results):
        sent_results = [delivered(path, result, number) for number, (path, result) in enumerate(results, 1)]
        assert not store(mesh.slac.pk, batch(*sent_results), NOW).refused
        roll_up(NOW)
        merge_all(NOW)

    return do


def from_slac(mesh, site, number, family=4):
    """An additional path from slac to this site."""
    source = mesh.slac_cern.source
    if family == 6:
        source = Host.objects.create(site=mesh.slac, name=f"slac-{number}", address=f"2001:db8:1::{number}", family=6)
    address = f"2001:db8::{number}" if family == 6 else f"192.0.2.{number}"
    host = Host.objects.create(site=site, name=f"host-{number}", address=address, family=family)
    return Path.objects.create(source=source, destination=host, family=family)


def test_a_grid_pools_each_path_over_the_period(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, 10.0, 10.0, None)),
        (mesh.slac_cern, burst(20.0, 20.0, at=HOUR - timedelta(hours=1))),
        (mesh.slac_cern, burst(5.0, packet_bytes=1000)),
        (mesh.slac_anl, burst(None, None)),
        (mesh.slac_anl, burst(at=HOUR + MINUTE)),
    )
    since = HOUR - timedelta(hours=1)

    loss = tables.grid(Metric.LOSS, since, NOW, packet_bytes=100)
    rtt = tables.grid(Metric.RTT_MEDIAN, since, NOW)

    assert [astuple(cell) for cell in loss] == [
        (mesh.slac_cern.pk, 100, pytest.approx(1 / 6), 2, 0, 0, 0, 6, 5),
        (mesh.slac_anl.pk, 100, 1.0, 1, 1, 0, 1, 2, 0),
    ]
    assert [(cell.path_id, cell.packet_bytes, cell.value) for cell in rtt] == [
        (mesh.slac_cern.pk, 100, 10.0),
        (mesh.slac_cern.pk, 1000, 5.0),
        (mesh.slac_anl.pk, 100, None),
    ]


def test_a_grid_beyond_two_days_has_the_days_that_it_overlaps(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(1.0, at=DAY)),
        (mesh.slac_cern, burst(1.0, at=DAY - timedelta(minutes=1))),
        (mesh.slac_cern, burst(1.0, at=DAY - timedelta(days=9))),
        (mesh.slac_cern, burst(1.0, at=DAY - timedelta(days=9, minutes=1))),
    )

    [cell] = tables.grid(Metric.LOSS, DAY - timedelta(days=9) + timedelta(hours=5), NOW)

    assert cell.bursts == 3


@pytest.mark.parametrize("length", [timedelta(days=1), timedelta(days=7), timedelta(days=400)])
def test_the_running_day_is_as_current_as_its_hours(mesh, deliver, length):
    deliver((mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=1))))
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(None, at=HOUR), 2), number=2), NOW)
    roll_up(NOW)

    [cell] = tables.grid(Metric.LOSS, NOW - length, NOW)

    assert (cell.sent, cell.received) == (2, 1)


def test_a_grid_of_a_year_uses_months_and_days_at_its_edges(mesh, deliver):
    first = DAY - timedelta(days=365)
    times = [first - timedelta(minutes=1), first, DAY.replace(month=1, day=31), DAY.replace(day=1), DAY]
    deliver(*((mesh.slac_cern, burst(1.0, at=at)) for at in times))

    [cell] = tables.grid(Metric.LOSS, first, NOW)
    [summary] = path_summaries(first, NOW)

    assert (cell.bursts, summary.bursts) == (4, 4)


def test_throughput_has_no_packet_size_and_no_grid(mesh):
    with pytest.raises(ValueError, match="use throughput_summaries"):
        tables.grid(Metric.THROUGHPUT, HOUR, NOW)


def test_the_worst_are_first_and_undefined_values_left_out(mesh, deliver):
    back = from_slac(mesh, mesh.cern, 77)
    deliver(
        (mesh.slac_cern, burst(10.0, None)),
        (back, burst(30.0, *[10.0] * 9)),
        (mesh.slac_anl, burst()),
    )

    def worst(metric, **options):
        return [cell.path_id for cell in tables.worst(metric, HOUR, NOW, **options)]

    assert worst(Metric.LOSS) == [mesh.slac_cern.pk, back.pk]
    assert worst(Metric.RTT_MAX) == [back.pk, mesh.slac_cern.pk]
    assert worst(Metric.ZERO_LOSS) == [mesh.slac_cern.pk, back.pk]
    assert worst(Metric.LOSS, limit=1) == [mesh.slac_cern.pk]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (Grouping.NODE, {("slac", "cern"): (10.0, 1), ("slac", "host-70"): (40.0, 1), ("slac", "anl"): (5.0, 1)}),
        (Grouping.SITE, {("slac", "cern"): (25.0, 2), ("slac", "anl"): (5.0, 1)}),
        (Grouping.COUNTRY, {("US", "CH"): (25.0, 2), ("US", "US"): (5.0, 1)}),
        (Grouping.REGION, {("North America", "Europe"): (25.0, 2), ("North America", "North America"): (5.0, 1)}),
        (
            Grouping.GROUP,
            {
                ("hep", "hep"): (25.0, 2),
                ("hep", "all"): (10.0, 3),
                ("all", "hep"): (25.0, 2),
                ("all", "all"): (10.0, 3),
            },
        ),
    ],
)
def test_a_table_has_medians_over_paths_with_their_number(mesh, deliver, by, expected):
    anl = Site.objects.get(name="anl")
    for name, sites in (("hep", [mesh.slac, mesh.cern]), ("all", [mesh.slac, mesh.cern, anl])):
        Group.objects.create(name=name, shape="mesh").sites.set(sites)
    Group.objects.create(name="former", shape="mesh", retired_at=NOW).sites.set([mesh.slac, mesh.cern])
    other = from_slac(mesh, mesh.cern, 70)
    dead = from_slac(mesh, mesh.cern, 71)
    deliver(
        (mesh.slac_cern, burst(10.0)),
        (other, burst(40.0)),
        (mesh.slac_anl, burst(5.0)),
        (dead, burst(None)),
    )

    cells = tables.table(by, Metric.RTT_MEDIAN, Tick.HOUR, HOUR, NOW, 100)

    assert {(cell.source, cell.destination): (cell.value, cell.paths) for cell in cells} == expected
    assert {cell.at for cell in cells} == {HOUR}


def test_a_table_has_a_column_per_tick_and_separate_sizes(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, None, at=DAY - timedelta(days=1))),
        (mesh.slac_cern, burst(10.0, 10.0, at=DAY)),
        (mesh.slac_cern, burst(None, at=DAY, packet_bytes=1000)),
        (mesh.slac_cern, burst(10.0, at=DAY - timedelta(days=33))),
    )

    def cells_of(tick, since, packet_bytes=100):
        cells = tables.table(Grouping.SITE, Metric.LOSS, tick, since, NOW, packet_bytes)
        return [(cell.at, cell.value) for cell in cells]

    assert cells_of(Tick.DAY, DAY - timedelta(days=1)) == [(DAY - timedelta(days=1), 0.5), (DAY, 0.0)]
    assert cells_of(Tick.DAY, DAY, 1000) == [(DAY, 1.0)]
    assert cells_of(Tick.MONTH, NOW) == [(DAY.replace(day=1), 0.25)]
    assert cells_of(Tick.YEAR, NOW) == [(DAY.replace(day=1, month=1), pytest.approx(0.2))]


def test_a_table_can_be_of_one_family(mesh, deliver):
    over_ipv6 = from_slac(mesh, mesh.cern, 6, family=6)
    deliver((mesh.slac_cern, burst(10.0)), (over_ipv6, burst(30.0, family=6, address="2001:db8::6")))

    def cells_of(family):
        return [
            (cell.value, cell.paths)
            for cell in tables.table(Grouping.SITE, Metric.RTT_AVG, Tick.HOUR, HOUR, NOW, 100, family=family)
        ]

    assert (cells_of(4), cells_of(6), cells_of(None)) == ([(10.0, 1)], [(30.0, 1)], [(20.0, 2)])


def test_a_table_of_measured_throughput(mesh, deliver):
    deliver((mesh.slac_cern, throughput(50e6)), (mesh.slac_cern, throughput(90e6, at=HOUR + MINUTE)))

    [cell] = tables.table(Grouping.COUNTRY, Metric.THROUGHPUT, Tick.HOUR, HOUR, NOW, 100)

    assert astuple(cell) == ("US", "CH", HOUR, 70e6, 1, None, False)


def test_pooled_views_combine_sizes_and_families_by_name(mesh, deliver):
    over_ipv6 = from_slac(mesh, mesh.cern, 6, family=6)
    deliver(
        (mesh.slac_cern, burst(10.0, 12.0)),
        (mesh.slac_cern, burst(20.0, None, packet_bytes=1000)),
        (over_ipv6, burst(40.0, family=6, address="2001:db8::6")),
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT path_id, sent, received, rtt_min_ms, rtt_avg_ms FROM sizes_pooled_by_day ORDER BY path_id"
        )
        sizes = cursor.fetchall()
        cursor.execute(
            "SELECT source_site_id, destination_site_id, packet_bytes, paths, sent, rtt_avg_ms"
            " FROM families_pooled_by_day ORDER BY packet_bytes"
        )
        families = cursor.fetchall()

    assert sizes == [(mesh.slac_cern.pk, 4, 3, 10.0, pytest.approx(14.0)), (over_ipv6.pk, 1, 1, 40.0, 40.0)]
    assert families == [
        (mesh.slac.pk, mesh.cern.pk, 100, 2, 3, pytest.approx(62 / 3)),
        (mesh.slac.pk, mesh.cern.pk, 1000, 1, 2, 20.0),
    ]


def test_raw_bursts_are_returned_as_measured(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, None, late=1, flow=4711)),
        (mesh.slac_cern, burst(packet_bytes=1000)),
        (mesh.slac_cern, burst(1.0, at=HOUR + MINUTE)),
        (mesh.slac_anl, burst(1.0)),
    )

    first, second = raw_bursts(mesh.slac_cern.pk, HOUR, HOUR + MINUTE)

    assert (first.at, first.packet_bytes, first.outcome, first.rtts_ms) == (HOUR, 100, "measured", [10.0, None])
    assert (first.late, first.flow, second.flow) == (1, 4711, None)
    assert (second.packet_bytes, second.outcome, second.rtts_ms) == (1000, "no_route", [])
    assert raw_bursts(mesh.slac_cern.pk, HOUR, HOUR + MINUTE, packet_bytes=1000) == [second]
    with pytest.raises(ValueError, match="more than a day"):
        raw_bursts(mesh.slac_cern.pk, NOW - timedelta(days=2), NOW)


@pytest.mark.parametrize(
    ("length", "step_s", "points"),
    [
        (timedelta(days=83), 3600, 5),
        (timedelta(days=84), 86_400, 3),
        (timedelta(days=1999), 86_400, 4),
        (timedelta(days=2001), 31 * 86_400, 3),
    ],
)
def test_a_series_of_any_length_stays_below_2000_points(mesh, deliver, length, step_s, points):
    times = [
        HOUR,
        HOUR - timedelta(hours=3),
        DAY,
        DAY - timedelta(days=1),
        DAY - timedelta(days=80),
        DAY - timedelta(days=200),
    ]
    deliver(*((mesh.slac_cern, burst(1.0, at=at)) for at in times))

    series = path_series(mesh.slac_cern.pk, 100, NOW - length, NOW)

    assert (series.step_s, len(series.points)) == (step_s, points)
    assert length / timedelta(seconds=step_s) < 2000


def test_a_year_has_the_worst_hour_and_the_band_of_its_days(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(*range(1, 11), at=DAY)),
        (mesh.slac_cern, burst(None, None, 50.0, at=DAY + timedelta(hours=1))),
        (mesh.slac_cern, burst(*[5.0] * 87, at=DAY + timedelta(hours=2))),
    )

    [point] = path_series(mesh.slac_cern.pk, 100, NOW - timedelta(days=365), NOW).points

    assert (point.sent, point.received, point.loss_max_ratio) == (100, 98, pytest.approx(2 / 3))
    assert (point.rtt_min_ms, point.rtt_median_ms, point.rtt_max_ms) == (1.0, pytest.approx(5.0, rel=0.01), 50.0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tables.grid(Metric.RTT_MEDIAN, NOW - timedelta(days=400), NOW),
        lambda: tables.grid(Metric.ALPHA, HOUR, NOW, packet_bytes=100),
        lambda: tables.worst(Metric.LOSS, HOUR, NOW),
        lambda: recent.grid(Metric.LOSS, {1: HOUR}, NOW, 100),
        lambda: tables.table(Grouping.SITE, Metric.LOSS, Tick.YEAR, HOUR, NOW, 100, now=NOW),
        lambda: tables.table(Grouping.SITE, Metric.THROUGHPUT, Tick.DAY, HOUR, NOW, 100, now=NOW),
        lambda: tables.planned_pairs(Grouping.GROUP, ["ping"]),
        lambda: newest_throughput({1: HOUR}, NOW),
        lambda: tables.table(Grouping.GROUP, Metric.MOS, Tick.MONTH, HOUR, NOW, 100),
        lambda: raw_bursts(1, HOUR, NOW),
        lambda: path_summaries(NOW - timedelta(days=400), NOW),
    ],
)
def test_each_query_is_a_single_statement(mesh, django_assert_num_queries, ask):
    with django_assert_num_queries(1):
        ask()
