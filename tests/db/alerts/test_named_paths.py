"""The paths that an incident is named after are those that it is about: its name narrows with the evidence, and both
paths of a pair have it on their pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import listing, queries
from monitor.alerts.incidents.listing import IncidentFilter
from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh

pytestmark = pytest.mark.django_db
ONSET = datetime(2026, 11, 21, 10, 0, 10, tzinfo=UTC)
CYCLE = timedelta(seconds=10)
LOSS = {"above_ratio": 0.01, "window_s": 600}


def mesh(*names):
    paths = make_mesh(names, ONSET - timedelta(hours=2), loss=LOSS)
    MeshTest.objects.update(every_s=10)
    return paths


def plant(paths, lost_of):
    for name, path in paths.items():
        make_bursts(path, [0] * 60 + [lost_of(name)] * 12, ONSET - 60 * CYCLE, every_s=10)


def test_an_incident_named_after_too_many_paths_is_named_after_those_that_are_bad():
    paths = mesh("cern", "desy", "ornl", "slac")
    plant(paths, lambda name: 10 if "slac" in name else 0)
    evaluate(ONSET + 4 * CYCLE)
    # As after evidence of an outage of other paths, and with a finding that is not part of it.
    Incident.objects.update(cause="all 12 paths", summary="everywhere: 5 of 12 paths, 7 more likely")
    stray = IncidentPath.objects.first()
    stray.pk, stray.path, stray.figures = None, paths["cern → desy"], {"since": ONSET.isoformat()}
    stray.rule = "rtt"
    stray.save(force_insert=True)

    evaluate(ONSET + 5 * CYCLE)

    named = {incident.cause: {str(row.path) for row in incident.paths.all()} for incident in lasting()}
    assert named == {"slac": {name for name in paths if "slac" in name}, "cern ↔ desy": {"cern → desy"}}
    slac = next(incident for incident in lasting() if incident.cause == "slac")
    assert slac.summary.startswith("slac: 6 of 6 paths")


def lasting():
    return queries.lasting_incidents()


def test_both_paths_of_a_pair_have_its_incident(monkeypatch):
    paths = mesh("slac", "ornl", "cern")
    plant(paths, lambda name: 2 if name == "ornl → slac" else 0)
    now = ONSET + 11 * CYCLE
    evaluate(now - 3 * CYCLE)
    evaluate(now)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    (incident,) = queries.open_incidents()
    reverse, other = paths["slac → ornl"], paths["cern → ornl"]

    def of(path):
        return [incident.pk for incident in queries.incidents_of_path(path.pk, ONSET, now)]

    assert (incident.cause, [str(row.path) for row in incident.paths.all()]) == ("ornl ↔ slac", ["ornl → slac"])
    assert (of(paths["ornl → slac"]), of(reverse), of(other)) == ([incident.pk], [incident.pk], [])
    assert listing.count(IncidentFilter(path_id=reverse.pk)).open == 1
    assert listing.count(IncidentFilter(path_id=other.pk)).open == 0
    page = Client(headers={"host": "localhost"}).get(f"/paths/{reverse.pk}/").content.decode()
    assert f'<a href="/incidents/{incident.pk}/">' in page.partition('id="alarm"')[2].partition("</div>")[0]
