"""The longest intervals declared by rules: up to them the rules fire on stored bursts, above them they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
NEWEST = NOW - timedelta(seconds=20)
DAY = timedelta(days=1)

BURSTS = {
    "rtt": [120.0] * 14 + [20.0] * 16,
    "jitter": [(20.0, 90.0)] * 14 + [(20.0, 20.1)] * 16,
    "rtt_median": [120.0] * 30,
    "unreachable": [None] * 5 + [20.0] * 5,
}
"""RTTs of the bursts, the newest first."""
LIMIT = {"rtt_median": {"above_ms": 50.0}}


def fires(rule, every_s):
    path = make_mesh(["slac", "cern"], NOW - 60 * DAY, **{rule: LIMIT.get(rule, {})})["slac → cern"]
    MeshTest.objects.update(every_s=every_s)
    MeasurementPeriod.objects.update(every_s=every_s)
    for number, rtts_ms in enumerate(BURSTS[rule]):
        of_burst = list(rtts_ms) * 5 if isinstance(rtts_ms, tuple) else [rtts_ms] * 10
        Burst.objects.create(
            path_id=path.pk,
            packet_bytes=100,
            measured_at=NEWEST - number * timedelta(seconds=every_s),
            outcome="measured",
            sent=10,
            received=10 - of_burst.count(None),
            duplicates=0,
            reordered=0,
            during_test=False,
            rtts_ms=of_burst,
        )
    evaluate(NOW)
    return Incident.objects.filter(paths__path=path, paths__rule=rule).exists()


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.mark.parametrize("rule", BURSTS)
@pytest.mark.parametrize(("share", "can"), [(0.99, True), (1.01, False)])
def test_a_rule_fires_up_to_the_interval_that_it_declares(rule, share, can):
    every_s = int(share * RULES[rule].settings.schedule.longest_every_s(sizes=1))

    assert fires(rule, every_s) is can


@pytest.mark.parametrize(("every_s", "can"), [(28_500, True), (29_100, False)])
def test_missing_data_is_reported_up_to_three_cycles_a_day(every_s, can):
    make_mesh(["slac", "cern"], NOW - 60 * DAY, no_data={})
    MeshTest.objects.update(every_s=every_s)

    evaluate(NOW)

    assert Incident.objects.filter(rule="no_data").exists() is can
