"""The path dashboard shows loss and delay by direction: delivered STAMP cycles, through the archive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from dashboards.reader import grant
from monitor.archive.models import DirectionBurst
from monitor.archive.rollup.recompute import roll_up
from tests.db.grafana import about, of_dashboard, run
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, MeshOfThree, batch, make_mesh
from tests.db.stamp_rows import delivered_stamp, stamp_burst
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
LOSS, DELAY = "Loss by direction, STAMP (% of packets sent)/A", "One-way delay, STAMP (ms)/A"


@pytest.fixture
def mesh() -> MeshOfThree:
    """A cycle of 60 packets each minute of twenty, except three, in a mesh that Grafana may read."""
    mesh = make_mesh()
    results = [
        stamp_burst(at=HOUR, sent=60, forward_lost=6, reverse_lost=0),
        *(stamp_burst(at=HOUR + minute * MINUTE, sent=60) for minute in (1, 2, 3, 7, 8, 9, 10, 11)),
        stamp_burst(at=HOUR + 12 * MINUTE, sent=60, forward_lost=0, reverse_lost=3),
        stamp_burst(at=HOUR + 13 * MINUTE, sent=60, forward_ms=2.0, reverse_ms=38.0),
        stamp_burst(at=HOUR + 14 * MINUTE, sent=60, forward_lost=None, reverse_lost=None, offset_ms=None),
        stamp_burst(at=HOUR + 15 * MINUTE, sent=60, undecided=60),
    ]
    rows = [delivered_stamp(mesh.slac_cern, result, number) for number, result in enumerate(results, 1)]
    assert store(mesh.slac.pk, batch(*rows), NOW).refused == ()
    while roll_up(NOW):
        continue
    merge_all(NOW)
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
    return mesh


def rows(mesh: MeshOfThree, where: str, length: timedelta = timedelta(hours=1)) -> list[dict[str, Any]]:
    chosen = {"path": str(mesh.slac_cern.pk), "packet_bytes": "100"}
    return run(of_dashboard("paths")[where], chosen, HOUR + timedelta(hours=1) - length, HOUR + timedelta(hours=1))


def test_each_direction_has_the_loss_of_its_own_packets(mesh: MeshOfThree) -> None:
    answer = rows(mesh, LOSS)

    assert {"time": HOUR, "Forward": 0.1, "Reverse": 0.0} in answer
    assert {"time": HOUR + 12 * MINUTE, "Forward": 0.0, "Reverse": 0.05} in answer
    # Not the cycle without a counter, nor that of which every packet is undecided.
    assert [(row["time"] - HOUR) // MINUTE for row in answer] == [0, 1, 2, 3, *range(7, 14)]


def test_a_delay_has_its_bounds_and_a_gap_is_seen(mesh: MeshOfThree) -> None:
    answer = {(row["time"] - HOUR) // MINUTE: row for row in rows(mesh, DELAY)}

    first = answer[1]
    # A median of 22 ms there and 20 back; the far clock is between 1 ms behind and 3 ms ahead.
    assert (first["Forward, lower bound"], first["Forward"], first["Forward, upper bound"]) == (19, 21, 23)
    assert (first["Reverse, lower bound"], first["Reverse"], first["Reverse, upper bound"]) == (19, 21, 23)
    assert (answer[13]["Forward, lower bound"], answer[13]["Forward, upper bound"]) == (0, 4)
    assert {answer[4][name] for name in first if name != "time"} == {None}
    assert (5 in answer, 6 in answer) == (False, False)
    assert [
        value for row in answer.values() for name, value in row.items() if name != "time" and (value or 0) < 0
    ] == []


def test_bounds_wider_than_a_quarter_of_the_rtt_have_no_middle(mesh: MeshOfThree) -> None:
    """An RTT of 42 ms, and a clock that is between 5 ms behind and 6 ms ahead."""
    DirectionBurst.objects.update(offset_lo_ms=-5.0, offset_hi_ms=6.0)

    first = rows(mesh, DELAY)[1]
    assert (first["Forward, lower bound"], first["Forward, upper bound"]) == (16, 27)
    assert (first["Forward"], first["Reverse"]) == (None, None)
    DirectionBurst.objects.update(offset_hi_ms=5.0)
    assert rows(mesh, DELAY)[1]["Forward"] == 22


def test_longer_periods_and_deleted_cycles_are_shown_by_the_hour(mesh: MeshOfThree) -> None:
    by_hour = {"time": HOUR, "Forward": about(6 / 660), "Reverse": about(3 / 654)}

    assert rows(mesh, LOSS, timedelta(days=2, minutes=1)) == [by_hour]
    drawn = [row["time"] for row in rows(mesh, DELAY, timedelta(days=3)) if row["Forward"] is not None]
    assert drawn == [HOUR, HOUR + timedelta(hours=1)], "the line goes on to the end of the period"
    DirectionBurst.objects.all().delete()
    assert rows(mesh, LOSS) == [by_hour]


def test_a_path_without_stamp_has_no_rows(mesh: MeshOfThree) -> None:
    other = {"path": str(mesh.cern_slac.pk), "packet_bytes": "100"}
    for where in (LOSS, DELAY):
        assert run(of_dashboard("paths")[where], other, HOUR, HOUR + timedelta(hours=1)) == []
