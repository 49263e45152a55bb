"""Tests of slow start after idle from mesh.toml and delivery to the API and the path's page."""

import pytest

from monitor.agents.models import AgentToken, issue_token
from monitor.archive.kinds.idle_restart import find_contradiction
from monitor.archive.models import IdleRestartResult
from monitor.archive.queries.kind_series import kind_series
from monitor.mesh.apply import apply
from monitor.mesh.document.entries import HostEntry, MeshDocument, MeshGroup, SiteEntry
from monitor.mesh.kinds.idle_restart import IdleRestartEntry
from monitor.mesh.models import Site
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.slots import plan_slots
from probes.contract import Outcome
from probes.idle_restart.spec import IdleRestartRun
from tests.db.any_batch import idle_restart
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh
from tests.deliveries import store

pytestmark = pytest.mark.django_db


@pytest.fixture
def mesh():
    return make_mesh()


def test_a_result_is_stored_once_with_its_sentence(mesh):
    result = delivered(mesh.slac_anl, idle_restart(HOUR), 1)
    store(mesh.slac.pk, batch(result), NOW)
    store(mesh.slac.pk, batch(result), NOW)

    (row,) = IdleRestartResult.objects.all()
    assert (row.path_id, row.restarted, row.cwnd_after, row.back_s) == (mesh.slac_anl.pk, True, 10, 0.48)
    assert "Slow start after idle" in row.sentence
    assert "267 segments" in row.sentence


@pytest.mark.parametrize(
    ("fields", "restarted"),
    [({}, True), ({"cwnd_after": 267}, False), ({"is_steady": False}, None), ({"timeout_s": 5.0}, None)],
)
def test_what_cannot_be_told_is_stored_as_unknown(mesh, fields, restarted):
    store(mesh.slac.pk, batch(delivered(mesh.slac_anl, idle_restart(HOUR, **fields), 1)), NOW)

    (point,) = kind_series("idle-restart", mesh.slac_anl.pk, HOUR, NOW)
    assert point.restarted is restarted
    assert point.sentence.startswith("Cannot tell") == (restarted is None)


def test_a_test_that_was_refused_has_no_figures(mesh):
    run = IdleRestartRun(target="anl", address=None, family=4, started_at=HOUR, outcome=Outcome.REFUSED, detail="busy")
    store(mesh.slac.pk, batch(delivered(mesh.slac_anl, run, 1)), NOW)

    (point,) = kind_series("idle-restart", mesh.slac_anl.pk, HOUR, NOW)
    assert (point.outcome, point.before_bps, point.sentence, point.detail) == ("refused", None, None, "busy")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({}, None), ({"rtt_ms": None}, "without rtt_ms"), ({"outcome": Outcome.REFUSED}, "with figures")],
)
def test_contradicting_fields_are_refused(fields, reason):
    said = find_contradiction(idle_restart(HOUR, **fields))
    assert (said is None) if reason is None else reason in said


def test_page_and_api_show_the_result(mesh, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    store(mesh.slac.pk, batch(delivered(mesh.slac_anl, idle_restart(HOUR), 1)), NOW)
    between = f"since={HOUR:%Y-%m-%dT%H:%M:%SZ}&until={NOW:%Y-%m-%dT%H:%M:%SZ}"
    address = f"/api/v1/paths/{mesh.slac_anl.pk}/idle-restart?{between}"

    page = client.get(f"/paths/{mesh.slac_anl.pk}/?{between}&tab=tests", headers={"host": "localhost"})
    (listed,) = client.get(address, headers={"host": "localhost"}).json()

    assert "267, 10 segments" in page.content.decode()
    assert (listed["restarted"], listed["back_s"], listed["cwnd_before"]) == (True, 0.48, 267)


def test_both_agents_get_the_slot_with_one_key(db):
    sites = tuple(
        SiteEntry(
            name=name, latitude_deg=0.0, longitude_deg=0.0, country="CH",
            hosts=(HostEntry(name=name, address=f"192.0.2.{number}"),),
        )
        for number, name in enumerate(("bern", "rome"), 1)
    )  # fmt: skip
    group = MeshGroup(name="all", sites=("bern", "rome"), tests=("idle",))
    apply(MeshDocument("Mesh", None, sites, (IdleRestartEntry("idle"),), (group,), {}), NOW)
    for site in Site.objects.all():
        issue_token(site.pk, NOW)
    AgentToken.objects.update(held_since=NOW)

    plan_slots(NOW)

    plans = [plan_for(site, NOW).idle_restart for site in Site.objects.order_by("name")]
    assert sorted(slot.role for slot in plans[0]) == sorted(slot.role for slot in plans[1])
    first = min((slot for slot in plans[0]), key=lambda slot: slot.slot_id)
    (same,) = (slot for slot in plans[1] if slot.slot_id == first.slot_id)
    assert {first.role, same.role} == {"client", "server"}
    assert first.spec.one_time_key == same.spec.one_time_key is not None
    assert (first.ends_at - first.starts_at).total_seconds() == 35
