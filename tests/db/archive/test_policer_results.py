"""Policer tests from delivery to the API and the path's page."""

import pytest

from monitor.archive.kinds.policer import find_contradiction
from monitor.archive.models import PolicerResult
from monitor.archive.queries.kind_series import kind_series
from probes.contract import Outcome
from probes.policer.spec import PolicerVerdict
from tests.db.any_batch import policer
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh
from tests.deliveries import store

pytestmark = pytest.mark.django_db
AT = HOUR


@pytest.fixture
def mesh():
    return make_mesh()


def test_policer_test_is_stored_once_with_its_sentence(mesh):
    result = delivered(mesh.slac_anl, policer(AT), 1)
    store(mesh.slac.pk, batch(result), NOW)
    store(mesh.slac.pk, batch(result), NOW)

    (row,) = PolicerResult.objects.all()
    assert (row.path_id, row.verdict, row.sustained_bps, row.burst_bytes) == (mesh.slac_anl.pk, "policer", 1e7, 5e4)
    assert row.sentence == "policer: drops packets above 10 Mbit/s, burst 50 kB"


def test_test_that_was_refused_has_no_verdict(mesh):
    none = dict.fromkeys(
        ("verdict", "sustained_bps", "sustained_low_bps", "sustained_high_bps", "burst_bytes", "burst_low_bytes")
    )
    run = policer(AT, outcome=Outcome.REFUSED, **none, burst_high_bytes=None)
    store(mesh.slac.pk, batch(delivered(mesh.slac_anl, run, 1)), NOW)

    (point,) = kind_series("policer", mesh.slac_anl.pk, HOUR, NOW)
    assert (point.outcome, point.verdict, point.sentence) == ("refused", None, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"verdict": None}, "verdict None"),
        ({"verdict": PolicerVerdict.NO_LIMIT}, "sustained_bps 10000000.0"),
        ({"sustained_bps": None}, "sustained_bps None"),
        ({"received": 5001}, "more than sent"),
    ],
)
def test_contradicting_fields_are_refused(fields, reason):
    said = find_contradiction(policer(AT, **fields))
    assert (said is None) if reason is None else reason in said


def test_page_and_api_show_the_result(mesh, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    store(mesh.slac.pk, batch(delivered(mesh.slac_anl, policer(AT), 1)), NOW)
    between = f"since={HOUR:%Y-%m-%dT%H:%M:%SZ}&until={NOW:%Y-%m-%dT%H:%M:%SZ}"

    page = client.get(f"/paths/{mesh.slac_anl.pk}/?{between}&tab=tests", headers={"host": "localhost"})
    (listed,) = client.get(f"/api/v1/paths/{mesh.slac_anl.pk}/policer?{between}", headers={"host": "localhost"}).json()

    assert "policer: drops packets above 10 Mbit/s, burst 50 kB" in page.content.decode()
    assert (listed["verdict"], listed["sustained_bps"], listed["burst_bytes"]) == ("policer", 1e7, 5e4)
