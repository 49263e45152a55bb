"""The counts of paths in the state of the mesh add up, with paths in every state at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Measurement, MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh
from tests.db.planted_cycles import NOW, at
from tests.db.web.test_mesh_state_now import plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
STATES = (
    "with_problems", "back_to_normal", "in_maintenance", "being_checked", "in_own_tests", "overdue",
    "normal", "awaited", "without_data",
)  # fmt: skip


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    paths = make_mesh(["slac", "ornl", "fnal", "kek"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    freshness.note(RecurringWork.EVALUATION, NOW)
    return paths


def find_loss(path, *, is_open):
    """An incident of loss on this path."""
    figures = {"sent": 60, "lost": 6, "threshold_ratio": 0.01, "window_s": 120.0}
    lifecycle.add_findings(str(path), [RuleFinding("loss", path.pk, str(path), "loss", at(-120), figures)], at(-60))
    incident = Incident.objects.latest("pk")
    if is_open:
        lifecycle.open_if_confirmed(incident.pk, at(-60))
    else:
        Incident.objects.filter(pk=incident.pk).update(opened_at=NOW)


def test_paths_in_every_state_add_up(client, paths, monkeypatch):
    """Of twelve paths: an incident that goes on, one whose loss is over, a pending one, a loss that is being checked, a
    path without replies, one without newer data, one under an own test, one in maintenance, one that waits for results,
    one without data, and two that are normal."""
    lost = {
        "slac → ornl": lambda s: int(s >= -120),
        "slac → fnal": lambda s: 4 * (-220 <= s < -100),
        "slac → kek": lambda s: 4 * (s >= -60),
        "fnal → ornl": lambda s: int(s >= -120),
        "kek → ornl": lambda s: 10 * (s >= -60),
    }
    last_s = {"ornl → fnal": -50, "fnal → kek": None, "kek → fnal": None}
    for name, path in paths.items():
        if (until_s := last_s.get(name, 0)) is not None:
            plant(path, -600, until_s, lost.get(name, lambda _: 0))
    Burst.objects.filter(path_id=paths["ornl → kek"].pk, measured_at__gt=at(-60)).update(during_test=True)
    find_loss(paths["slac → ornl"], is_open=True)
    find_loss(paths["slac → fnal"], is_open=True)
    find_loss(paths["slac → kek"], is_open=False)
    actions.maintain(
        actions.QuietScope(path=paths["fnal → slac"]), at(-60), at(60), "new router", "ann", NOW - timedelta(minutes=2)
    )
    Measurement.objects.filter(path=paths["kek → fnal"]).update(started_at=at(-20))
    monkeypatch.setattr("monitor.alerts.evaluate.findings", lambda *_: [])
    evaluate(NOW)

    got = client.get("/api/v1/state", headers={"host": "localhost"}).json()

    assert {name: got[name] for name in STATES} == {
        "with_problems": 1,
        "back_to_normal": 1,
        "in_maintenance": 1,
        "being_checked": 3,
        "in_own_tests": 1,
        "overdue": 1,
        "normal": 2,
        "awaited": 1,
        "without_data": 1,
    }
    assert sum(got[name] for name in STATES) == got["paths"] == 12


def test_each_field_of_the_state_has_a_meaning(client):
    schemas = client.get("/api/v1/openapi.json", headers={"host": "localhost"}).json()["components"]["schemas"]
    fields = schemas["MeshStateOut"]["properties"]

    assert [name for name, of in fields.items() if not of.get("description")] == []
    assert len(fields) >= 15
