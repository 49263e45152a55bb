"""Cells of the grid and of the site pages say now: a loss that is checked, an end, figures that are not of now."""

from __future__ import annotations

import pytest
from django.utils import timezone

from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh
from tests.db.web.test_mesh_state_now import at, plant
from tests.db.web.test_pages_grid import cell
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "ornl", "fnal"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120}, rtt={})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    return paths


@pytest.fixture
def get(client, monkeypatch):
    """A page as of so many seconds after `NOW`."""

    def fetch(address, seconds=0):
        freshness.note(RecurringWork.EVALUATION, at(seconds))
        monkeypatch.setattr(timezone, "now", lambda: at(seconds))
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return fetch


def test_an_rtt_of_an_ended_incident_is_not_the_peak_of_an_outage(get, paths):
    """190.8 ms until 4 minutes ago; the path is down since a minute, in another incident."""
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, 0, lambda s, other=other: 10 if other == path and s >= -60 else 0)
    ended = Incident.objects.create(
        rule="rtt", cause="slac → ornl", opened_at=at(-500), closed_at=at(-200), ended_at=at(-240), severity="warning"
    )
    figures = {"figure": "median", "before_ms": 20.0, "after_ms": 190.8}
    fields = {"path": path, "sentence": "", "added_at": at(-500), "since": at(-520)}
    ended.paths.create(**fields, rule="rtt", figures=figures, is_over=True, ended_at=at(-240))
    outage = Incident.objects.create(rule="unreachable", cause="slac → ornl", opened_at=at(-30), severity="critical")
    outage.paths.create(**{**fields, "since": at(-60), "added_at": at(-30)}, rule="unreachable", figures={})

    sentence = cell(get("/?metric=rtt"), path)[2]

    assert lacks(sentence, "all lost", "incident open", ", was 190.8 ms") == []
    assert "peak" not in sentence
