"""The dashboards' figures are of the period chosen: the expectations are added up here from the planted bursts.

A fault from 11:40 to 12:20 costs half of the packets of slac to cern and adds 50 ms; anl is down since 12:26, and
it is 12:30.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isnan
from typing import Any

import pytest
from django.db import connection

from dashboards.reader import grant
from monitor.archive.models import Burst, BurstHour, DirtyHour
from monitor.archive.queries.paths import path_series, path_summaries
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Path
from tests.db.grafana import about, of_dashboard, run
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, MeshOfThree, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
BEGIN, END, DOWN_SINCE = HOUR - 20 * MINUTE, HOUR + 20 * MINUTE, HOUR + 26 * MINUTE
FIVE_MINUTES, AN_HOUR, A_WEEK = timedelta(minutes=5), timedelta(hours=1), timedelta(days=7)


def rtts_ms(path: Path, at: datetime) -> tuple[float | None, ...]:
    """The round trips of the burst of this minute, null where lost."""
    if path.destination.name == "anl":
        return (None,) * 10 if at >= DOWN_SINCE else (20.0,) * 10
    if path.destination.name == "cern" and BEGIN <= at < END:
        return (60.0,) * 5 + (None,) * 5
    return (10.0,) * 10


@pytest.fixture
def mesh() -> MeshOfThree:
    """A burst each minute of two and a half hours on each path; those of slac to cern at 12:28 are during a test."""
    three = make_mesh()
    number = 0
    for site, paths in ((three.slac, (three.slac_cern, three.slac_anl)), (three.cern, (three.cern_slac,))):
        results = []
        for path in paths:
            for minute in range(150):
                at = HOUR - timedelta(hours=2) + minute * MINUTE
                number += 1
                results.append(delivered(path, burst(*rtts_ms(path, at), at=at), number))
        assert store(site.pk, batch(*results), NOW).refused == ()
    Burst.objects.filter(path_id=three.slac_cern.pk, measured_at=NOW - 2 * MINUTE).update(during_test=True)
    while roll_up(NOW):
        continue
    merge_all(NOW)
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
    return three


def answer(dashboard: str, where: str, length: timedelta, **changed: str) -> list[dict[str, Any]]:
    variables = {"group": "*", "family": "4", "packet_bytes": "100", "site": "slac", "path": "", **changed}
    return run(of_dashboard(dashboard)[where], variables, NOW - length, NOW)


def planted(path: Path, length: timedelta) -> tuple[int, list[float]]:
    """Packets sent on a path in the period, without those during a test, and their round trips."""
    bursts = Burst.objects.filter(path_id=path.pk, measured_at__gte=NOW - length, during_test=False)
    rows = [rtts_ms(path, at) for at in bursts.values_list("measured_at", flat=True)]
    return 10 * len(rows), [rtt_ms for row in rows for rtt_ms in row if rtt_ms is not None]


def loss_ratio(path: Path, length: timedelta) -> float:
    sent, received = planted(path, length)
    return (sent - len(received)) / sent


def cell(rows: list[dict[str, Any]], source: str, destination: str, column: str) -> Any:
    [value] = [row[column] for row in rows if (row["From"], row["To"]) == (source, destination)]
    return value


def test_a_fault_that_is_over_is_not_in_the_last_five_minutes(mesh: MeshOfThree) -> None:
    losses = answer("mesh", "Packet loss matrix (% of packets sent)/A", FIVE_MINUTES)
    rtts = answer("mesh", "Mean RTT matrix (ms)/A", FIVE_MINUTES)

    assert (cell(losses, "slac", "cern", "Loss"), cell(rtts, "slac", "cern", "RTT")) == (0, 10)
    assert cell(losses, "slac", "slac", "Loss") == -1
    assert isnan(cell(losses, "cern", "anl", "Loss"))


def test_a_site_that_is_down_has_lost_all_packets(mesh: MeshOfThree) -> None:
    length = timedelta(minutes=4)
    [worst] = answer("mesh", "Paths with the highest loss/A", length)

    assert (worst["To"], worst["Loss"], worst["RTT mean"], worst["Bursts"]) == ("anl", 1, None, 4)


@pytest.mark.parametrize("length", [FIVE_MINUTES, AN_HOUR, timedelta(hours=2)])
def test_a_short_period_has_the_figures_of_its_own_bursts(length: timedelta, mesh: MeshOfThree) -> None:
    paths = {("slac", "cern"): mesh.slac_cern, ("slac", "anl"): mesh.slac_anl, ("cern", "slac"): mesh.cern_slac}
    sent = {ends: planted(path, length)[0] for ends, path in paths.items()}
    received = {ends: planted(path, length)[1] for ends, path in paths.items()}
    [overview] = answer("mesh", "Overview/A", length)
    losses = answer("mesh", "Packet loss matrix (% of packets sent)/A", length)
    rtts = answer("mesh", "Mean RTT matrix (ms)/A", length)
    [statistics] = answer("paths", "Statistics by packet size/A", length, path=str(mesh.slac_cern.pk))
    of_site = answer("site", "Paths, outgoing and incoming/A", length)
    [anl] = [row["Loss"] for row in answer("mesh", "Sites/A", length) if row["Site"] == "anl"]

    total = sum(sent.values())
    assert overview["Packets lost"] == about((total - sum(map(len, received.values()))) / total)
    for (source, destination), path in paths.items():
        mean_ms = sum(received[source, destination]) / len(received[source, destination])
        assert cell(losses, source, destination, "Loss") == about(loss_ratio(path, length))
        assert cell(rtts, source, destination, "RTT") == about(mean_ms)
        assert (cell(of_site, source, destination, "Loss") or 0) == about(loss_ratio(path, length))
    assert anl == about(loss_ratio(mesh.slac_anl, length))
    counts = {"Bursts": sent["slac", "cern"] / 10, "Packets sent": sent["slac", "cern"]}
    assert {name: statistics[name] for name in counts} == counts
    assert statistics["RTT maximum"] == max(received["slac", "cern"])


@pytest.mark.parametrize("length", [FIVE_MINUTES, AN_HOUR])
def test_a_short_period_has_the_figures_of_the_page(length: timedelta, mesh: MeshOfThree) -> None:
    page = path_series(mesh.slac_cern.pk, 100, NOW - length, NOW).points
    [statistics] = answer("paths", "Statistics by packet size/A", length, path=str(mesh.slac_cern.pk))

    lost = sum(point.sent - point.received for point in page)
    assert (statistics["Packets sent"], statistics["Packets lost"]) == (sum(point.sent for point in page), lost)
    assert statistics["RTT maximum"] == max(point.rtt_max_ms or 0 for point in page)


def test_a_week_has_the_figures_of_the_pages(mesh: MeshOfThree) -> None:
    [page] = path_summaries(NOW - A_WEEK, NOW, packet_bytes=100, path_ids=[mesh.slac_cern.pk])
    losses = answer("mesh", "Packet loss matrix (% of packets sent)/A", A_WEEK)

    assert cell(losses, "slac", "cern", "Loss") == about(page.loss_ratio)
    assert page.loss_ratio == about(loss_ratio(mesh.slac_cern, A_WEEK))


def test_the_loss_of_a_site_is_by_the_minute_in_a_short_period(mesh: MeshOfThree) -> None:
    Burst.objects.filter(measured_at=HOUR + 25 * MINUTE).delete()
    Burst.objects.filter(measured_at=HOUR + 24 * MINUTE).delete()
    where = "Packet loss, all paths (% of packets sent)/A"
    sql = of_dashboard("site")[where].replace("$__interval_ms", "15000")
    rows = run(sql, {"packet_bytes": "100", "site": "slac"}, NOW - timedelta(minutes=15), NOW)

    by_minute = {(row["time"] - HOUR) // MINUTE: (row["Out"], row["In"]) for row in rows}
    assert by_minute[15] == (0.25, 0)
    assert by_minute[23] == (0, 0)
    assert by_minute[24] == (None, None), "a gap"
    assert by_minute[27] == (0.5, 0)


@pytest.mark.parametrize(
    ("length", "covers"),
    [
        (FIVE_MINUTES, "exactly the period"),
        (timedelta(hours=3), "exactly the period"),
        (timedelta(hours=4), "whole hours since 2026-03-14 08:00 UTC"),
        (A_WEEK, "whole days since 2026-03-07 00:00 UTC"),
        (timedelta(days=120), "whole months since 2025-11-01 00:00 UTC"),
    ],
)
@pytest.mark.parametrize("dashboard", ["mesh", "site", "paths", "throughput"])
def test_the_titles_say_which_results_are_shown(
    dashboard: str, length: timedelta, covers: str, mesh: MeshOfThree
) -> None:
    assert answer(dashboard, "$covers", length) == [{"__value": covers}]


def test_where_bursts_were_deleted_a_short_period_has_whole_hours(mesh: MeshOfThree) -> None:
    Burst.objects.all().delete()
    DirtyHour.objects.all().delete()
    hour = BurstHour.objects.get(path_id=mesh.slac_cern.pk, hour=HOUR)

    assert answer("mesh", "$covers", FIVE_MINUTES) == [{"__value": "whole hours since 2026-03-14 12:00 UTC"}]
    losses = answer("mesh", "Packet loss matrix (% of packets sent)/A", FIVE_MINUTES)
    assert cell(losses, "slac", "cern", "Loss") == about((hour.sent - hour.received) / hour.sent)
