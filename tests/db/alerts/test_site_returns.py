"""An incident whose paths return one after another keeps its name: normal paths then tell of its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.incidents import lasting_state, queries
from monitor.alerts.models import Incident
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.present.conditions import Condition
from monitor.present.models import copy_of
from monitor.present.track import Signal, Track
from tests.db.alert_rows import make_mesh
from tests.db.track_rows import segment

pytestmark = pytest.mark.django_db
FOUND = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)


def level_of(path, states):
    """The stored track of a finding, of segments a minute apart."""
    begun_s, dead = FOUND.timestamp() - 120.0, 60 * (states[-1] == DEAD)
    segments = tuple(segment(state, begun_s + 60.0 * number, 60, dead) for number, state in enumerate(states))
    condition = Condition.DEAD if dead else Condition.AWAITED
    return copy_of(Track(path.pk, Signal.LOSS, "", 0, condition, FOUND.timestamp(), segments))


@pytest.fixture
def incident(paths):
    incident = Incident.objects.create(
        cause="cern", rule="loss", opened_at=FOUND, is_pending=False, severity="critical", summary="", shares=[]
    )
    figures = {"sent": 60, "lost": 60, "threshold_ratio": 0.01}
    of_all = {"rule": "loss", "sentence": "", "since": FOUND, "added_at": FOUND, "figures": figures}
    for path in paths:
        incident.paths.create(path=path, level=level_of(path, (CLEAN, DEAD)), **of_all)
    return incident


def may_be_narrower(incident):
    return lasting_state.of_incident(
        queries.incident_with_paths(incident.pk), FOUND + timedelta(minutes=1)
    ).may_be_narrower


@pytest.fixture
def paths():
    mesh = make_mesh(["cern", "slac", "desy"], FOUND - timedelta(days=1), loss={"above_ratio": 0.01})
    return [path for name, path in mesh.items() if "cern" in name]


def test_a_young_incident_without_an_end_may_be_narrower(incident):
    assert may_be_narrower(incident)


def test_an_incident_of_which_a_path_is_over_is_not_narrowed(incident, paths):
    incident.paths.filter(path=paths[0]).update(is_over=True, ended_at=FOUND)

    assert not may_be_narrower(incident)


def test_an_incident_of_which_a_path_answers_again_is_not_narrowed(incident, paths):
    incident.paths.filter(path=paths[0]).update(level=level_of(paths[0], (CLEAN, DEAD, CLEAN)))

    assert not may_be_narrower(incident)
