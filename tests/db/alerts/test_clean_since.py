"""Since when nothing was lost, of an incident that names the direction of another path than its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
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


def test_the_end_does_not_move_on_while_nothing_is_lost(paths):
    make_bursts(paths["slac → cern"], [0] * 130, END - 65 * MINUTE)
    seen = set()
    for number in range(8, 28, 4):
        evaluate(END + number * MINUTE)
        (incident,) = queries.open_incidents()
        seen.add(incident.over_since)
        assert f"since {incident.over_since:%H:%M:%S} UTC" in incident.title

    (over_since,) = seen
    assert LAST_LOST < over_since <= END + MINUTE
