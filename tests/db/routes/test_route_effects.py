"""Which route changes have an effect, by bursts and traces in the archive."""

from datetime import timedelta

import numpy as np
import pytest
from django.db import transaction

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.ingest.traces import store_traces
from monitor.archive.models import Burst
from monitor.archive.queries.routes.effects import measured_changes
from monitor.overview.route_changes import route_effects
from tests.db.copied_rows import copy_rows
from tests.db.mesh_of_three import HOUR, NOW, make_mesh
from tests.db.trace_rows import delivered, trace

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def mesh():
    return make_mesh()


def plant_traces(path, before, after, **fields):
    """Every ten minutes for six hours; the route changes 31 minutes before the hour."""
    runs = [
        trace(before if minute <= -31 else after, at=HOUR + minute * MINUTE, flow=flow)
        for minute in range(-301, 60, 10)
        for flow in fields.get("flows", (1,))
    ]
    with transaction.atomic():
        store_traces([delivered(path, run) for run in runs], NOW)


def plant_pings(path, shift_ms=0.0, lost=0):
    """A burst a minute for six hours; RTT and loss change 25 minutes before the hour, between two traces."""
    noise = np.random.default_rng(path.pk).exponential(0.3, (360, 10))
    copy_rows(
        Burst(
            path_id=path.pk,
            packet_bytes=100,
            measured_at=HOUR + minute * MINUTE,
            outcome="measured",
            sent=10,
            received=10 - (lost if minute >= -25 else 0),
            duplicates=0,
            reordered=0,
            during_test=False,
            rtts_ms=[
                None if minute >= -25 and number < lost else 20.0 + rest + (shift_ms if minute >= -25 else 0.0)
                for number, rest in enumerate(noise[minute + 300])
            ],
        )
        for minute in range(-300, 60)
    )


def test_a_longer_route_has_its_step_as_effect(mesh):
    plant_traces(mesh.slac_cern, "ABD", "ACD")
    plant_pings(mesh.slac_cern, shift_ms=60.0)

    (measured,) = measured_changes(HOUR - DAY, HOUR + DAY)

    assert measured.measured_path_id == mesh.slac_cern.pk
    assert measured.rtt_shift_ms == pytest.approx(60.0, abs=1.0)
    assert measured.effect.loss is None
    assert (measured.change.last_before_at, measured.change.at) == (HOUR - 31 * MINUTE, HOUR - 21 * MINUTE)


def test_a_change_on_the_way_back_shows_in_rtts_there(mesh):
    plant_traces(mesh.cern_slac, "ABD", "ACD")
    plant_pings(mesh.slac_cern, shift_ms=60.0)

    (measured,) = measured_changes(HOUR - DAY, HOUR + DAY)

    assert (measured.path_id, measured.measured_path_id) == (mesh.cern_slac.pk, mesh.slac_cern.pk)
    assert measured.rtt_shift_ms == pytest.approx(60.0, abs=1.0)


def test_a_change_and_the_way_back_have_a_step_each(mesh):
    """RTTs are 60 ms higher from minute -25 to minute -1 only; the traces see the other route from -21 to 0."""
    plant_traces(mesh.slac_cern, "ABD", "ACD")
    plant_pings(mesh.slac_cern, shift_ms=60.0)
    for burst in Burst.objects.filter(measured_at__gte=HOUR - MINUTE):
        Burst.objects.filter(pk=burst.pk).update(rtts_ms=[rtt - 60.0 for rtt in burst.rtts_ms])
    with transaction.atomic():
        store_traces([delivered(mesh.slac_cern, trace("ABD", at=HOUR, flow=1))], NOW)

    there, back = measured_changes(HOUR - DAY, HOUR + MINUTE)

    assert (there.rtt_shift_ms, back.rtt_shift_ms) == (pytest.approx(60.0, abs=1.0), pytest.approx(-60.0, abs=1.0))
    assert (there.change.before_since, there.change.after_until) == (None, back.change.at)
    assert back.change.before_since == there.change.at


def test_a_change_without_effect_is_counted_once(mesh):
    plant_traces(mesh.slac_cern, "ABD", "ACD", flows=(1, 2))
    plant_pings(mesh.slac_cern)

    effects = route_effects(HOUR - DAY, HOUR + DAY)

    assert (len(effects.changes), effects.with_effect, effects.steps) == (1, (), 0)


def test_loss_on_the_new_route_is_an_effect(mesh):
    plant_traces(mesh.slac_cern, "ABD", "ACD")
    plant_pings(mesh.slac_cern, lost=3)

    (measured,) = route_effects(HOUR - DAY, HOUR + DAY).with_effect

    loss = measured.effect.loss
    assert (loss.lost_before, loss.lost_after / loss.sent_after) == (0, pytest.approx(0.3))
    assert measured.rtt_shift_ms is None


def test_steps_are_explained_by_changes_at_their_time(mesh):
    plant_traces(mesh.slac_cern, "ABD", "ACD")
    plant_pings(mesh.slac_cern, shift_ms=60.0)
    incident = Incident.objects.create(rule="rtt", cause="cern ↔ slac", opened_at=HOUR, summary="RTT")
    for path in (mesh.slac_cern, mesh.cern_slac, mesh.slac_anl):
        since = HOUR - 25 * MINUTE
        times = {"since": since.isoformat(), "not_before": (since - MINUTE).isoformat()}
        figures = {"before_ms": 20.0, "after_ms": 80.0, **times}
        IncidentPath.objects.create(
            incident=incident, path=path, added_at=HOUR, rule="rtt", sentence="", since=since, figures=figures
        )

    effects = route_effects(HOUR - DAY, HOUR + DAY)

    assert (effects.steps, effects.explained) == (3, 2)
    effects = route_effects(HOUR - DAY, HOUR + DAY, [mesh.cern_slac.pk])
    assert effects.explained == effects.steps > 0
