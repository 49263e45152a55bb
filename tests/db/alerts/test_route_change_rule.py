"""Route changes with an effect are findings; those without one, or beside the incident of the effect, open none."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.words import headline, until
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.queries.routes.periods import changes_between
from tests.db.alert_rows import make_mesh
from tests.db.alerts.test_incident_routes import BEGAN, COGENT, GEANT, MINUTE, NOW, plant_pings, plant_trace
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def opens_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


def plant_change(path):
    """The route changes between the traces of 30 and 19 minutes ago."""
    for minute in range(-300, -20, 10):
        plant_trace(path, NOW + minute * MINUTE, [GEANT + "1", GEANT + "2", path.destination.address])
    for minute in (-19, -9):
        plant_trace(path, NOW + minute * MINUTE, [GEANT + "1", COGENT + "1", path.destination.address])


def mesh_with(**rules):
    return make_mesh(["slac", "cern"], NOW - timedelta(days=30), **rules)["slac → cern"]


def test_a_step_with_a_route_change_is_a_notice():
    path = mesh_with(route_change={})
    plant_change(path)
    plant_pings(path, shift_ms=4.0)

    evaluate(NOW)

    (incident,) = Incident.objects.all()
    (row,) = incident.paths.all()
    assert (incident.rule, incident.severity, row.since) == ("route_change", "notice", BEGAN)
    assert row.figures["after_ms"] - row.figures["before_ms"] == pytest.approx(4.0, abs=0.3)
    assert "+4.0 ms" in row.sentence or "+3.9 ms" in row.sentence


def test_a_route_change_without_an_effect_alarms_nobody():
    path = mesh_with(route_change={}, rtt={})
    plant_change(path)
    plant_pings(path)

    evaluate(NOW)

    assert len(changes_between(NOW - timedelta(days=1), NOW)) == 1
    assert not Incident.objects.exists()


def test_a_route_change_joins_the_incident_of_its_step():
    path = mesh_with(route_change={}, rtt={})
    plant_change(path)
    plant_pings(path, shift_ms=60.0)

    for minute in range(-8, 1):
        evaluate(NOW + minute * MINUTE)

    (incident,) = Incident.objects.all()
    assert (incident.rule, incident.severity) == ("rtt", "warning")
    assert {row.rule for row in incident.paths.all()} == {"rtt", "route_change"}
    assert incident.notifications.count() <= 1


def test_loss_on_a_new_route_is_a_finding():
    path = mesh_with(route_change={})
    plant_change(path)
    plant_pings(path, lost=2)

    evaluate(NOW)

    (row,) = Incident.objects.get().paths.all()
    assert (row.rule, row.figures["loss_before_ratio"]) == ("route_change", 0.0)
    assert row.figures["loss_after_ratio"] == pytest.approx(0.2)


def test_the_smallest_rise_is_set_in_mesh_toml():
    path = mesh_with(route_change={"least_rise_ms": 10.0})
    plant_change(path)
    plant_pings(path, shift_ms=4.0)

    evaluate(NOW)

    assert not Incident.objects.exists()


def plant_return(path, after_minutes):
    """The path goes back to its first route and RTT so many minutes after NOW; traced a minute and a half later."""
    noise = np.random.default_rng(1).exponential(0.2, (20, 10))
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=100, measured_at=NOW + minute * MINUTE, outcome="measured", sent=10,
            received=10, duplicates=0, reordered=0, during_test=False, ttl=60,
            rtts_ms=[20.0 + (60.0 if minute < after_minutes else 0.0) + wait for wait in rest],
        )
        for minute, rest in enumerate(noise)
    )  # fmt: skip
    first = [GEANT + "1", GEANT + "2", path.destination.address]
    plant_trace(path, NOW + (after_minutes + 1.5) * MINUTE, first)


def test_a_route_change_says_that_its_route_is_back():
    path = mesh_with(route_change={})
    plant_change(path)
    plant_pings(path, shift_ms=60.0)
    plant_return(path, 4)
    for minute in range(5):
        evaluate(NOW + minute * MINUTE)
    assert lacks(headline(queries.open_incidents()[0]), "80", "ms", "(was 20") == []

    back_at = NOW + 4 * MINUTE
    for minute in range(5, 9):
        evaluate(NOW + minute * MINUTE)
    (incident,) = queries.open_incidents()
    assert incident.over_since is not None, incident.title
    assert abs(incident.over_since - back_at) <= MINUTE
    assert lacks(headline(incident), "RTT normal again (20", f"since {incident.over_since:%H:%M:%S} UTC") == []

    for minute in range(9, 20):
        evaluate(NOW + minute * MINUTE)
        if not queries.open_incidents():
            break
    incident = queries.incident_with_paths(incident.pk)
    assert incident.closed_at is not None
    assert abs(until(incident) - back_at) <= MINUTE
    gather.store_facts(incident, NOW + 20 * MINUTE)
    assert abs(until(queries.incident_with_paths(incident.pk)) - back_at) <= MINUTE
