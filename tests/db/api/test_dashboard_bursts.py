"""The path dashboard shows periods of up to two days burst by burst: delivered bursts, through the archive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from dashboards.reader import grant
from monitor.archive.models import Burst
from monitor.archive.queries.ttl_changes import ttl_changes
from monitor.archive.rollup.recompute import roll_up
from tests.db.grafana import of_dashboard, run
from tests.db.mesh_of_three import HOUR, NOW, MeshOfThree, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
RTTS_MS = tuple(float(rtt_ms) for rtt_ms in range(10, 20))
SILENT = range(15, 20)
LOST_AT, ROUTE_CHANGED_AT = 10, 20
RTT, LOSS = "RTT{} (ms)/A", "Packet loss{} (% of packets sent)/A"
REVERSE = ", reverse path"


@pytest.fixture
def half_hour() -> MeshOfThree:
    """A burst each minute of half an hour, except five; one of the bursts loses three of ten packets, later bursts have
    another route. The reverse path has a single burst."""
    mesh = make_mesh()
    results = []
    for number in range(30):
        if number in SILENT:
            continue
        rtts_ms = (*RTTS_MS[:7], None, None, None) if number == LOST_AT else RTTS_MS
        sent = burst(*rtts_ms, at=HOUR + number * MINUTE, ttl=57 if number < ROUTE_CHANGED_AT else 55)
        results.append(delivered(mesh.slac_cern, sent, len(results) + 1))
    store(mesh.slac.pk, batch(*results), NOW)
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(30.0, None, at=HOUR), 1)), NOW)
    while roll_up(NOW):
        continue
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
    return mesh


def rows(mesh: MeshOfThree, where: str, length: timedelta = timedelta(hours=1)) -> list[dict[str, Any]]:
    chosen = {"path": str(mesh.slac_cern.pk), "packet_bytes": "100"}
    return run(of_dashboard("paths")[where], chosen, HOUR + timedelta(hours=1) - length, HOUR + timedelta(hours=1))


def minutes(answer: list[dict[str, Any]]) -> list[int]:
    return [(row["time"] - HOUR) // MINUTE for row in answer]


def test_the_rtt_of_each_burst_is_shown_with_gaps(half_hour: MeshOfThree) -> None:
    answer = rows(half_hour, RTT.format(""))
    first, gap = answer[0], answer[15]

    assert minutes(answer) == [*range(16), *range(20, 30)]
    figures = {"Minimum": 10, "25%": 12.25, "Median": 14.5, "75%": 16.75, "95%": None, "Maximum": 19}
    assert {name: first[name] for name in figures} == figures
    assert {value for name, value in gap.items() if name != "time"} == {None}


def losses(mesh: MeshOfThree, interval_ms: int) -> list[tuple[int, float]]:
    """Minute and loss of each row, in a panel with this interval."""
    sql = of_dashboard("paths")[LOSS.format("")].replace("$__interval_ms", str(interval_ms))
    chosen = {"path": str(mesh.slac_cern.pk), "packet_bytes": "100"}
    return [((row["time"] - HOUR) // MINUTE, row["Lost"]) for row in run(sql, chosen, HOUR, HOUR + timedelta(hours=1))]


def test_the_loss_of_each_interval_of_the_panel_is_shown(half_hour: MeshOfThree) -> None:
    """Zero too, since Grafana draws a bar as wide as the least distance between rows."""
    measured = [*range(15), *range(20, 30)]

    assert losses(half_hour, 600_000) == [(0, 0), (10, 3 / 50), (20, 0)]
    assert losses(half_hour, 60_000) == [(minute, 0.3 if minute == LOST_AT else 0) for minute in measured]
    assert losses(half_hour, 2_000) == losses(half_hour, 60_000), "a minute at least: a burst may be a single packet"


def test_bursts_during_a_test_are_not_in_the_loss(half_hour: MeshOfThree) -> None:
    Burst.objects.filter(measured_at=HOUR + LOST_AT * MINUTE).update(during_test=True)

    assert (LOST_AT, None) in losses(half_hour, 60_000)


def test_the_reverse_path_is_between_the_same_hosts(half_hour: MeshOfThree) -> None:
    [rtt] = rows(half_hour, RTT.format(REVERSE))

    assert (rtt["time"], rtt["Median"]) == (HOUR, 30)
    assert rows(half_hour, LOSS.format(REVERSE)) == [{"time": HOUR, "Lost": 0.5}]


def test_a_route_change_is_annotated_as_in_the_archive(half_hour: MeshOfThree) -> None:
    [change] = ttl_changes(half_hour.slac_cern.pk, 100, HOUR, HOUR + timedelta(hours=1))
    [annotation] = rows(half_hour, "@Reply TTL")

    assert annotation["time"] == change.at == HOUR + ROUTE_CHANGED_AT * MINUTE
    assert f"{change.before} → {change.after}" in annotation["text"]
    assert annotation["tags"] == "route"


def test_longer_periods_are_shown_by_the_hour(half_hour: MeshOfThree) -> None:
    length = timedelta(days=2, minutes=1)

    drawn = [row["time"] for row in rows(half_hour, RTT.format(""), length) if row["Median"] is not None]
    assert drawn == [HOUR, HOUR + timedelta(hours=1)], "the line goes on to the end of the period"
    assert [row for row in rows(half_hour, LOSS.format(""), length) if row["Lost"] is not None] == [
        {"time": HOUR, "Lost": 3 / 250}
    ]
    assert rows(half_hour, "@Reply TTL", length) == []


def test_where_bursts_were_deleted_hours_are_shown(half_hour: MeshOfThree) -> None:
    Burst.objects.all().delete()

    assert [row["time"] for row in rows(half_hour, LOSS.format(""))] == [HOUR]
    assert [row["Maximum"] for row in rows(half_hour, RTT.format(""))] == [19, 19]
