"""The first requests of a path, and of an agent that was away, open no incident of an outage before their time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.site_outage_rows import burst_of

FIRST = datetime(2026, 11, 28, 14, 33, 40, tzinfo=UTC)
MINUTE, ALL, NONE = timedelta(minutes=1), 10, 0

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def path():
    return make_mesh(["slac", "cern"], FIRST - timedelta(seconds=7), unreachable={})["slac → cern"]


def evaluated(path, lost, since):
    """The incident after bursts with so many lost packets, evaluated after each; the time of its first finding."""
    for number, packets in enumerate(lost):
        at = since + number * MINUTE
        make_bursts(path, [packets], at)
        evaluate(at + timedelta(seconds=20))
        found = Incident.objects.first()
        if found is not None:
            return found, at
    return None, None


def test_a_new_path_that_never_answers_alarms_in_time(path):
    incident, found_at = evaluated(path, [ALL] * 6, FIRST)

    assert found_at == FIRST + 3 * MINUTE
    (row,) = incident.paths.all()
    assert row.since == FIRST
    later = found_at + timedelta(seconds=30)
    gather.gather_due(later)
    incident = queries.incident_with_paths(incident.pk)
    text = ticket_text(incident, evidence(incident, later))
    assert "0 of 0" not in text
    assert "no reply since 2026-11-28 14:33:40" in text


def test_a_new_path_with_a_lost_burst_does_not_alarm(path):
    assert evaluated(path, [ALL, NONE, NONE, ALL, ALL, NONE], FIRST) == (None, None)


def test_an_agent_that_returns_with_lost_bursts_does_not_alarm(path):
    make_bursts(path, [NONE] * 20, FIRST - 40 * MINUTE)

    assert evaluated(path, [ALL, ALL, ALL, NONE], FIRST) == (None, None)


def test_an_outage_after_an_agents_return_begins_then(path):
    make_bursts(path, [NONE] * 20, FIRST - 40 * MINUTE)

    incident, found_at = evaluated(path, [ALL] * 6, FIRST)

    assert (incident.paths.get().since, found_at) == (FIRST, FIRST + 3 * MINUTE)


@pytest.mark.usefixtures("as_worker")
def test_an_incident_of_the_first_burst_begins_with_its_first_request():
    """Before it nothing was measured, so nothing bounds the onset; its detection is after its end."""
    path = make_mesh(["slac", "cern"], FIRST - timedelta(seconds=7), loss={"above_ratio": 0.01})["slac → cern"]
    MeshTest.objects.create(name="loss", kind="ping", every_s=10)
    MeshTest.objects.update(every_s=10, parameters={"count": 10, "packet_bytes": [100, 1000], "spacing_s": 1.0})
    MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100, 1000])
    for cycle in range(8):
        begin = FIRST + cycle * timedelta(seconds=10)
        sent_at = [begin + timedelta(seconds=number) for number in range(10)]
        rtts_ms = [20.0 if begin + number * timedelta(seconds=1) > FIRST + timedelta(seconds=10) else None
                   for number in range(10)]  # fmt: skip
        copy_rows([burst_of(path, size, sent_at, rtts_ms, [False] * 10) for size in (100, 1000)])
        evaluate(begin + timedelta(seconds=12))

    incident = Incident.objects.get()
    assert (incident.began_at, incident.began_within_s) == (FIRST, None)
    assert incident.over_since == FIRST + timedelta(seconds=11)
