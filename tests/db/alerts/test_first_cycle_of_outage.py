"""An outage with one whole cycle of results, while newer ones are overdue, is called an outage, not a loss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import queries
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, 10, tzinfo=UTC)
CYCLE = timedelta(seconds=10)
PAIR = ("slac → cern", "cern → slac")
LAST_REPLY = "2026-11-21 10:00:09 UTC"
"""Of the large packets, half a second after the small ones, ten a second apart."""


def plant(lost):
    """Cycles of two sizes; between two sites so many of ten packets are lost from the onset on. Of these paths one
    cycle since then has arrived, and the small packets of the next."""
    rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}}
    paths = make_mesh(["slac", "cern", "nersc"], ONSET - timedelta(hours=2), **rules)
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    for name, path in paths.items():
        for number, size in enumerate((100, 1000)):
            since = [lost] * (2 - number) if name in PAIR else [0] * 12
            first_at = ONSET - 60 * CYCLE + number * timedelta(seconds=0.5)
            make_bursts(path, [0] * 60 + since, first_at, every_s=10, packet_bytes=size)


@pytest.mark.parametrize(("lost", "fault"), [(10, Fault.INTERRUPTED), (9, Fault.LOSS)])
def test_a_single_cycle_without_replies_is_an_outage(lost, fault):
    plant(lost)
    told = []

    for at_s in range(30, 90, 10):
        now = ONSET + timedelta(seconds=at_s)
        evaluate(now)
        gather.gather_due(now)
        told += [evidence(incident, now) for incident in queries.open_incidents()]

    assert told
    for facts in told:
        since = [side.after for path in facts.paths for side in (path.there, path.back)]
        assert facts.cause.fault is fault, facts.likely
        if fault is Fault.INTERRUPTED:
            assert [(figures.bursts, figures.sent, figures.lost) for figures in since] == [(3, 30, 30)] * 2
            assert lacks(facts.likely, "cern and slac", f"last reply {LAST_REPLY}", "100%") == [], facts.likely
            assert "policer" not in facts.likely
            assert "throughput" not in facts.likely + facts.cause.next_step
