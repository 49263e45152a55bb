"""Since when nothing was lost, of an incident that names the direction of another path than its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.mesh.models import KindName, Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.stamp_rows import store_cycles

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
END = NOW + 5 * MINUTE
"""Of the cycles of the incident's path with lost pings."""
SPACING = timedelta(seconds=1)
LAST_LOST = END - MINUTE + SPACING
"""The second of two lost pings of the last such cycle."""


@pytest.fixture
def paths(monkeypatch):
    """The pings of cern → slac lose 20% for 25 minutes, on their way back as the incident says."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=2), loss={"above_ratio": 0.01, "window_s": 1800})
    test = MeshTest.objects.create(name="oneway", kind=KindName.STAMP, every_s=60, parameters={"count": 10})
    for path in paths.values():
        Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=2))
        store_cycles(path, NOW - 120 * MINUTE, NOW, sent=10, received=10, undecided=0, forward_lost=0, reverse_lost=0)
    make_bursts(paths["cern → slac"], [0] * 60 + [2] * 25 + [0] * 60, END - 85 * MINUTE)
    evaluate(NOW)
    Incident.objects.update(toward="slac → cern", toward_by="STAMP")
    return paths


def since_text(at):
    evaluate(at)
    (incident,) = queries.open_incidents()
    clock = re.search(r"no loss since (\d\d:\d\d:\d\d) UTC", headline(incident))
    assert clock, headline(incident)
    return datetime.combine(NOW.date(), time.fromisoformat(clock[1]), UTC)


@pytest.mark.parametrize("kind", ["pings", "stamp"])
def test_a_packet_lost_in_the_named_direction_counts(paths, kind):
    """The first ping of its burst; of a STAMP cycle any of ten packets, so the last."""
    lost_at = END + 3 * MINUTE
    if kind == "pings":
        make_bursts(paths["slac → cern"], [0] * 68 + [1] + [0] * 60, END - 65 * MINUTE)
    else:
        make_bursts(paths["slac → cern"], [0] * 130, END - 65 * MINUTE)
        store_cycles(
            paths["slac → cern"],
            lost_at,
            lost_at + MINUTE,
            sent=10,
            received=9,
            undecided=0,
            forward_lost=1,
            reverse_lost=0,
        )

    assert since_text(END + 8 * MINUTE) == lost_at + (9 * SPACING if kind == "stamp" else 0 * SPACING)


def test_the_time_does_not_move_on_while_nothing_is_lost(paths):
    make_bursts(paths["slac → cern"], [0] * 130, END - 65 * MINUTE)

    assert {since_text(END + number * MINUTE) for number in range(8, 28, 4)} == {LAST_LOST}
